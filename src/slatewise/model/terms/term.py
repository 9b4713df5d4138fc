"""What every term with features has, and how its features are brought to one size.

A term adds Σ w_p x_p to a utility: of the items seen, or of clicking nothing. Its weights w have a
Gaussian posterior and the prior N(0, σ_w²), one σ_w for all of them: so features are divided by
their typical size, the root mean square of those that are not 0. A zero stays zero, and serving
touches only what has a feature at all.
"""

from collections.abc import Callable, Mapping, Sequence
from inspect import getattr_static
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from slatewise.config import Config
from slatewise.data.dataset import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.data.ragged import Int64Array
from slatewise.errors import SlatewiseError
from slatewise.features.popularity_state import CountedEvents
from slatewise.features.user_history import NO_HISTORY, UserHistory
from slatewise.model.part import Device, NoSettings, Parameter
from slatewise.model.terms.known import (
    NO_FACTS,
    NOBODY,
    Facts,
    ItemColumn,
    ItemState,
    ListFeatures,
    ListMoment,
)

if TYPE_CHECKING:
    import polars as pl

    from slatewise.model.config import ModelConfig

Floats = npt.NDArray[np.float32]
Describe = Callable[[Interactions], Tensor]
"""Computes features of any users' interactions: [F, P] of the items seen, or [N, Q]."""

Ranks = Literal["all items", "items met", "never"]
"""How a term ranks: by features that all items have at a time, by features of the few items that a
user's history leads to, such as those that she met (0 for all others), or not at all."""
Lookup = Callable[[Int64Array, Int64Array], Floats]
"""Returns the features of items [K] at times [K], from what was known before: [K, P]."""

_VERBS: Final[Mapping[Ranks, tuple[str, ...]]] = {
    "all items": ("item_state", "at_times", "refresh"),
    "items met": ("met",),
    "never": ("describe_in",),
}
"""What a term defines, by how it ranks."""
_IN_LISTS: Final = ("in_list", "item_state", "at_times", "refresh")
"""What a term defines that acts in lists."""


class Term(Config):
    """A term of the utility."""

    name: ClassVar[str]
    """what configurations call it"""
    Settings: ClassVar[type[Config]] = NoSettings
    devices: ClassVar[frozenset[Device]] = frozenset(["cpu", "cuda"])
    """where it can be trained"""
    needs: ClassVar[frozenset[str]] = frozenset(["name", "ranks"])
    """attributes without which a class is no term"""
    restates: ClassVar[Mapping[str, frozenset[str]]] = {}
    """as that of `slatewise.model.part.Part`"""
    acts_on: ClassVar[Literal["items", "no click"]] = "items"
    """whose utility it is a part of"""
    ranks: ClassVar[Ranks]
    has_features: ClassVar[bool] = False
    """whether it is a sum over features of the strict past"""
    by_source: ClassVar[bool] = False
    """whether it has numbers for each source of the log, which then must be those of the model"""
    automatic: ClassVar[bool] = False
    """whether models have it wherever the log can teach it, named or not"""
    in_lists: ClassVar[bool] = False
    """whether it sees whole slates: it acts where a given list is ranked, although not where all
    items are"""
    pooled: ClassVar[bool] = True
    """whether a term that acts in lists comes in once all else is fitted: see
    `slatewise.model.pool`"""
    first_stage: ClassVar[bool] = False
    """whether it only ranks all items, by weights of the next click that are fitted once all else
    is: within slates, and where the best are ranked again, it says nothing"""
    waits: ClassVar[bool] = False
    """whether training goes without its features: its weights are fitted once all else is"""
    keeps_out_clicked: ClassVar[bool] = False
    """whether it can keep items clicked before out of rankings (`repeats = false`)"""
    seed_setting: ClassVar[str | None] = None
    """the setting that has the seed of a run where it is not given"""
    without_past: ClassVar[str | None] = None
    """what to note where the term ranks by the past of users and none is known"""

    @classmethod
    def check(cls, config: "ModelConfig") -> None:
        """Raise ValueError where this term does not go with the rest of a configuration."""

    @classmethod
    def unused(cls, config: "ModelConfig") -> Mapping[str, str]:
        """Return its settings that change nothing in a model, each with what it is for."""
        return {}

    @classmethod
    def obstacle(cls, dataset: SlateDataset) -> str | None:
        """Return why the term cannot be learned from a log, None if it can."""
        return None

    @classmethod
    def default_obstacle(cls, dataset: SlateDataset) -> str | None:
        """Return why models of the log's slates should not have it unasked, None if they may."""
        return cls.obstacle(dataset)

    @classmethod
    def usual_settings(cls, config: "ModelConfig", dataset: SlateDataset) -> dict[str, Any]:
        """Return settings that are not given and that the log decides, none by default."""
        return {}

    @classmethod
    def parameters(
        cls, config: "ModelConfig", longest_slate: int, sources: Sequence[str] = ()
    ) -> dict[str, Parameter]:
        """Return the parameters of the term by name, none by default."""
        return {}

    @classmethod
    def item_columns(cls, config: "ModelConfig") -> tuple[ItemColumn, ...]:
        """Return the numbers that the term adds to every item, none by default."""
        return ()


class FeatureTerm(Term):
    """A term that knows the log it was fitted to; a frozen configuration, saved as it is.

    What a subclass has to define depends on how it ranks; what is missing is named when the class
    is made. All features are returned as the model has them: divided by their typical size.
    """

    acts_on: ClassVar[Literal["items", "no click"]]
    has_features: ClassVar[bool] = True
    restates: ClassVar[Mapping[str, frozenset[str]]] = {
        "describe_in": frozenset(["met", "at_times"]),
        "describe_training": frozenset(["met", "at_times", "describe_in"]),
        "at_times": frozenset(["item_state", "of_rows"]),
        "item_state": frozenset(["at_times"]),
        "state_after": frozenset(["item_state"]),
        "before_slate": frozenset(["describe_in"]),
        "in_list": frozenset(["describe_in"]),
    }

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Refuse a term that some consumer would have to leave out."""
        choices = {"acts_on": ("items", "no click"), "ranks": tuple(_VERBS)}
        for name, allowed in choices.items():
            if getattr(cls, name, None) not in allowed:
                raise SlatewiseError(
                    f"the term {cls.__name__} does not define `{name}`.",
                    f"Set it to one of {', '.join(map(repr, allowed))}.",
                )
        if cls.acts_on == "no click" and cls.ranks != "never":
            raise SlatewiseError(
                f"the term {cls.__name__} acts on clicking nothing and cannot rank items.",
                "Set `ranks` to 'never'.",
            )
        if _defines(cls, "arrays") and not _defines(cls, "on_items"):
            raise SlatewiseError(
                f"the term {cls.__name__} has arrays and no `on_items`.",
                f"Define {cls.__name__}.on_items: a night judges it on items of other numbers.",
            )
        read_off = [name for name, field in cls.model_fields.items() if field.is_required()]
        in_lists = _IN_LISTS if cls.in_lists else ()
        for verb in (*_VERBS[cls.ranks], *in_lists, *(["fit"] if read_off else [])):
            if not _defines(cls, verb):
                acts = "acts in lists" if verb in in_lists else f"ranks '{cls.ranks}'"
                raise SlatewiseError(
                    f"the term {cls.__name__} {acts} and has no `{verb}`.",
                    f"Define {cls.__name__}.{verb}, as FeatureTerm.{verb} describes it.",
                )

    @classmethod
    def columns(cls, config: "ModelConfig") -> tuple[str, ...]:
        """Name the features, of which each has a weight; one by default, called as the term."""
        return (cls.name,)

    @classmethod
    def parameters(
        cls, config: "ModelConfig", longest_slate: int, sources: Sequence[str] = ()
    ) -> dict[str, Parameter]:
        """Return the weights, one for each feature."""
        columns = cls.columns(config)
        return {cls.name: Parameter(torch.zeros(len(columns)), config.sigma_weights, columns)}

    @classmethod
    def fit(cls, config: "ModelConfig", dataset: SlateDataset) -> Self:
        """Read off the training part what the features are computed with; nothing by default."""
        return cls()

    @classmethod
    def fit_on(cls, config: "ModelConfig", dataset: SlateDataset, device: str) -> Self:
        """Fit the term with the help of a device; by default, as on the host."""
        return cls.fit(config, dataset)

    def describe_in(self, log: SlateDataset | None) -> Describe:
        """Return the function that computes the features of interactions of a log.

        By default from what ranks, so that one definition serves training and rankings: `at_times`,
        or `met` for one slate after the other, which is slow.
        """
        if self.ranks == "items met":
            return self._replayed
        lookup = self.at_times(log)

        def describe(interactions: Interactions) -> Tensor:
            times = torch.repeat_interleave(interactions.times, interactions.scroll_lengths)
            items = interactions.slate_items.cpu().numpy().astype(np.int64)
            found = torch.from_numpy(lookup(items, times.cpu().numpy()))
            return found.to(interactions.clicks.device)

        return describe

    def describe_training(self, log: SlateDataset) -> Describe:
        """Return the function that computes the features by which training learns the weights.

        Another one than `describe_in` for a term that knows the clicks it is trained on.
        """
        return self.describe_in(log)

    def met(
        self, history: UserHistory, items: Int64Array | None = None
    ) -> tuple[Int64Array, Floats]:
        """Return items [m], each once, and their features [m, P] after a user's history.

        Of the items given, or without any, of all with a feature other than 0. For terms that rank
        the items met.
        """
        raise NotImplementedError

    @property
    def known_before_slate(self) -> bool:
        """Whether serving can tell its features of a slate that is about to be shown."""
        if self.acts_on == "items":
            return self.ranks != "never" or self.in_lists
        return _defines(type(self), "before_slate")

    def before_slate(self, history: UserHistory) -> Floats:
        """Return the features [Q] of the next slate that a user with a history is shown.

        For terms on clicking nothing; a model learns between nights only where they have it.
        """
        raise NotImplementedError

    def weights_expected(self, config: "ModelConfig") -> Sequence[float]:
        """Return the prior means of the weights of the next click: 0 each."""
        return [0.0] * len(self.columns(config))

    def item_state(self, num_items: int) -> ItemState:
        """Return the state before any event. For terms that rank all items, or in lists."""
        raise NotImplementedError

    def of_rows(self, known: Floats, rows: Int64Array, times: Int64Array) -> Floats:
        """Return the features [R, P] at times [R] of items in rows [R] of the model.

        `known` [R, S] is what a state says of them then, 0 for those it has not met; by default, it
        is the features. For terms that rank all items.
        """
        return known

    def in_list(
        self,
        history: UserHistory,
        items: Int64Array,
        source: int,
        moment: ListMoment,
        length: int,
    ) -> ListFeatures:
        """Return what computes the features of candidates [K] for a slate that a user is to see.

        The slate comes from a source, and shows `length` of them. For terms that act in lists.
        """
        raise NotImplementedError

    @property
    def candidates(self) -> int:
        """How many of the best items a term that acts in lists ranks again; 0 for none."""
        return 0

    def with_candidates(self, count: int, recalls: Mapping[int, float]) -> Self:
        """Return the same that ranks `count` items again, for a term that does.

        `recalls` are those of held-out clicks that led to it, by the numbers tried.
        """
        raise NotImplementedError

    def state_after(self, dataset: SlateDataset) -> ItemState:
        """Return the state after everything in a dataset, whatever its split."""
        state = self.item_state(dataset.num_items)
        state.count(CountedEvents.of(dataset.interactions()))
        return state

    def counts_like(self, other: "FeatureTerm") -> bool:
        """Return whether the state of another term may go on as that of this one."""
        return self == other

    def require_own(self, state: ItemState) -> None:
        """Refuse a state that was not made by this term."""

    def at_times(self, log: SlateDataset | None) -> Lookup:
        """Return what looks up, at any time of a log, the features that a state would have then.

        For terms that rank all items, or in lists.
        """
        raise NotImplementedError

    @property
    def refresh(self) -> float:
        """Seconds for which features stay. For terms that rank all items, or in lists."""
        raise NotImplementedError

    @property
    def arrays(self) -> Mapping[str, npt.NDArray[Any]]:
        """What is too large for the description of a run, by name; nothing by default."""
        return {}

    @classmethod
    def restore(
        cls, values: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], where: str
    ) -> Self:
        """Take over a saved term: its plain values, and its `arrays`."""
        return cls.build(values, where)

    def on_items(
        self,
        known: Int64Array,
        groups: npt.NDArray[np.integer],
        described: Int64Array = NOBODY,
        facts: Facts = NO_FACTS,
    ) -> Self:
        """Return the term for other items [J], of which item j was `known[j]`, or is new if −1.

        New ones are of `groups` [J], as numbers of the model; of those at `described` [R],
        `facts_of` says more. For terms with arrays of items; by default, there are none.
        """
        return self

    def facts_of(self, items: Sequence[Mapping[str, object]]) -> tuple[Facts, int]:
        """Read features of items [R] by column, and count the values that do not fit."""
        return NO_FACTS, 0

    def with_items(self, groups: npt.NDArray[np.integer], facts: Facts) -> Self:
        """Return the term with more items behind those it knows: their groups, what is read."""
        return self

    def reads_otherwise(self, items: Int64Array, facts: Facts) -> npt.NDArray[np.bool_]:
        """Return for which items [R] of its fit facts say other than it knows from there."""
        return np.zeros(len(items), np.bool_)

    def refuse_misfits(self, values: Mapping[str, object], *, row: int | None = None) -> None:
        """Refuse features of an item that are of another kind than the term reads."""

    @property
    def reads_items(self) -> tuple[str, ...]:
        """The columns of items that it reads."""
        return ()

    @property
    def columns_read(self) -> "pl.DataFrame | None":
        """What it knows of these for the items that it was fitted to: I rows."""
        return None

    @property
    def notes(self) -> list[str]:
        """What a user should know of how the term was fitted, a sentence each."""
        return []

    def words(self, column: str) -> str:
        """Return the meaning of a feature in a few words, to explain a slate."""
        return column.replace("_", " ")

    def _replayed(self, interactions: Interactions) -> Tensor:
        """Compute features from the history before each slate: [F, P]."""
        found = []
        for user in range(interactions.num_users):
            whole = UserHistory.of_log(interactions, user)
            for number, showing in enumerate(whole.showings()):
                rows = self.met(whole.until(number), np.array(showing.items))[1]
                found += [rows] * max(1, len(showing.clicks))
        empty = self.met(NO_HISTORY, np.empty(0, np.int64))[1]
        return torch.from_numpy(np.concatenate([empty, *found])).to(interactions.clicks.device)


def _defines(term: type[FeatureTerm], name: str) -> bool:
    """Return whether a term has something else than all terms."""
    return getattr_static(term, name) is not getattr_static(FeatureTerm, name)
