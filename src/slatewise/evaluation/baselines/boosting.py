"""Boosted trees (LightGBM) that choose in slates, by the features of the strict past.

Trees add up to the utility of an item relative to that of no click, and the loss is the softmax
over both. They begin at the one utility of all items that gives as many clicks as there were: from
zero no split gains enough to be made where clicks are rare. Their columns are what the network of a
model has: the `PastFeatures` of item and slate, the item's group and position, columns of the items
table and ages by its dates, and, where items stay, `ItemRates`; and, for trees do not see the
slate, how far what changes with time is below the best of its slate.
Trees are grown on the training part until the validation part gains no more; that part also chooses
among the settings in `TRIALS`.

Shapes: N interactions, F items seen, I items, P columns.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
from torch import Tensor

from slatewise.data import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.data.ragged import offsets_of
from slatewise.errors import SlatewiseError, install_remedy
from slatewise.evaluation.evaluate import batches, scored_users
from slatewise.evaluation.parts import Part, scored_interactions
from slatewise.evaluation.predictions import Predictions, Slates
from slatewise.evaluation.rows import Floats, max_rows
from slatewise.features.cells import positions
from slatewise.features.item_rates import ItemRates

if TYPE_CHECKING:
    from slatewise.features.past import PastTable

ROUNDS: Final = 1_000
PATIENCE: Final = 30
"""Trees without a gain on the validation part after which no more are grown."""
SETTINGS: Final = {
    "learning_rate": 0.06,
    "num_leaves": 31,
    "min_data_in_leaf": 50,
    "feature_fraction": 0.8,
    "lambda_l2": 1.0,
}
TRIALS: Final[tuple[dict[str, float], ...]] = (
    {},
    {"num_leaves": 15, "min_data_in_leaf": 100},
    {"num_leaves": 63, "learning_rate": 0.03},
    {"num_leaves": 15, "learning_rate": 0.03, "min_data_in_leaf": 200},
    {"num_leaves": 63, "min_data_in_leaf": 200, "feature_fraction": 0.5},
    {"num_leaves": 7},
    {"num_leaves": 127, "learning_rate": 0.03, "min_data_in_leaf": 100, "feature_fraction": 0.5},
    {"lambda_l2": 10.0, "feature_fraction": 0.5},
)
"""What replaces which of these settings, in the order in which they are tried."""
GROUP: Final = 0
"""The column that is a category."""
OPTIONS: Final = 1_000_000
"""Items seen that trees are grown on, at most: users are drawn until there are as many."""
_BATCH: Final = 1_024

Rows = npt.NDArray[np.float32]


def require_lightgbm() -> Any:
    """Return LightGBM, or raise an error with how to install it."""
    try:
        import lightgbm  # noqa: PLC0415 (optional)
    except ImportError as error:
        raise SlatewiseError(
            "the comparator 'lightgbm' needs a library that is not installed.",
            install_remedy("compare"),
        ) from error
    return lightgbm


@dataclass(frozen=True)
class Options:
    """The items of slates, whose utilities are relative to that of no click."""

    slates: Slates
    columns: Rows
    """[F, P]"""

    @classmethod
    def joined(cls, parts: "Sequence[Options]") -> "Options":
        """Put slates one after the other."""
        taken = [one.slates for one in parts]
        names = ("users", "sources", "clicks", "items")
        flat = {name: np.concatenate([getattr(one, name) for one in taken]) for name in names}
        offsets = offsets_of(np.concatenate([one.scroll_lengths for one in taken]))
        return cls(Slates(**flat, offsets=offsets), np.concatenate([one.columns for one in parts]))

    def derivatives(self, utilities: Floats) -> tuple[Floats, Floats]:
        """Return gradient and curvature [F] of the negative log-likelihood."""
        gradient = np.exp(self.predictions(utilities).log_probabilities)
        curvature = np.maximum(gradient * (1 - gradient), 1e-6)
        gradient[self.slates.clicked_cells[1]] -= 1
        return gradient, curvature

    def log_likelihood(self, utilities: Floats) -> float:
        """Return the mean log-probability of what happened."""
        return float(self.predictions(utilities).log_likelihood().mean())

    def level(self) -> float:
        """Return the utility, of all items, that expects as many clicks as there were."""
        from scipy.optimize import brentq  # noqa: PLC0415 (takes time to load)

        lengths = self.slates.scroll_lengths[self.slates.scroll_lengths > 0]
        # One more of each, where there is no click or nothing else.
        rate = (1 + int((self.slates.clicks >= 0).sum())) / (2 + len(self.slates))

        def excess(utility: float) -> float:
            odds = lengths * np.exp(utility)
            return float((odds / (1 + odds)).mean()) - rate

        return float(brentq(excess, -30.0, 30.0)) if len(lengths) else 0.0

    def predictions(self, utilities: Floats) -> Predictions:
        """Turn the utilities [F] of items into predictions."""
        return Predictions.from_utilities(self.slates, utilities, np.zeros(len(self.slates)))


class BoostedTrees:
    """A `Predictor`: no ranking of the catalogue, which is no slate."""

    def __init__(self, dataset: SlateDataset, seed: int) -> None:
        self._past, self._columns = _known(dataset)
        self._groups = dataset.item_groups
        self._rates = ItemRates.fit(dataset, seed)
        self._seed = seed
        self._trees: Any = None
        self._start = 0.0
        self.settings: dict[str, float] = {}
        """those that the validation part chose"""

    @classmethod
    def fit(
        cls,
        dataset: SlateDataset,
        *,
        seed: int = 0,
        trials: int = 1,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> "BoostedTrees":
        """Grow trees on the training part, as many as the validation part asks for.

        The first `trials` settings in `TRIALS` are tried, and the best on that part are kept.
        """
        library, model = require_lightgbm(), cls(dataset, seed)
        train = model._options(dataset, "training", OPTIONS)
        valid = model._options(dataset, "validation", OPTIONS // 5)
        fixed = {
            "objective": lambda scores, _: train.derivatives(scores),
            "metric": "none",
            "seed": seed,
            "deterministic": True,
            "force_row_wise": True,
            "verbosity": -1,
        }
        model._start = train.level()
        best, tried = -np.inf, TRIALS[:trials]
        for number, changed in enumerate(tried):
            done, total = number * ROUNDS, len(tried) * ROUNDS
            # A table remembers the settings that it was first used with, so each fit has its own.
            table = library.Dataset(
                train.columns,
                np.zeros(len(train.columns)),
                init_score=np.full(len(train.columns), model._start),
                categorical_feature=[GROUP],
            )
            trees = library.train(
                {**SETTINGS, **changed, **fixed},
                table,
                ROUNDS,
                valid_sets=[
                    library.Dataset(
                        valid.columns,
                        np.zeros(len(valid.columns)),
                        init_score=np.full(len(valid.columns), model._start),
                        reference=table,
                    )
                ],
                feval=lambda scores, _: ("log-likelihood", valid.log_likelihood(scores), True),
                callbacks=[
                    library.early_stopping(PATIENCE, verbose=False),
                    partial(_grown, progress, done, total),
                ],
            )
            reached = trees.best_score["valid_0"]["log-likelihood"]
            if reached > best:
                best, model._trees, model.settings = reached, trees, {**SETTINGS, **changed}
        progress(len(tried) * ROUNDS, len(tried) * ROUNDS)
        return model

    def predict(self, interactions: Interactions, scored: Tensor) -> Predictions:
        """Predict the scored interactions; see `Predictor`."""
        rates = None if self._rates is None else self._rates.rates[interactions.slate_items]
        options = self._described(interactions, scored, rates)
        grown = self._trees.predict(options.columns) if len(options.columns) else np.empty(0)
        return options.predictions(self._start + grown)

    def _options(self, dataset: SlateDataset, part: Part, most: int) -> Options:
        """Describe the slates of a part, of users drawn at random until there are enough."""
        rng, parts = np.random.default_rng(self._seed), list[Options]()
        for users, batch in batches(
            dataset, rng.permutation(scored_users(dataset, part)), part, _BATCH
        ):
            scored = scored_interactions(batch, part) & batch.first_choices
            rates = None if self._rates is None else self._rates.in_training(batch, users)
            parts.append(self._described(batch, scored, rates))
            if sum(len(one.columns) for one in parts) >= most:
                break
        return Options.joined(parts)

    def _described(self, interactions: Interactions, scored: Tensor, rates: Rows | None) -> Options:
        """Describe the scored slates; `rates` are of all items seen [F], if known."""
        slates = Slates.of(interactions, scored)
        past, seen = self._past(interactions), interactions.choices(scored)
        known = [] if rates is None else [rates[seen.numpy()]]
        own = np.column_stack([past.items[seen].numpy(), *known])
        best = np.repeat(max_rows(own, slates.offsets), slates.scroll_lengths, axis=0)
        steps = np.repeat(past.slates[scored].numpy(), slates.scroll_lengths, axis=0)
        position = positions(interactions)[seen].numpy()
        fixed = self._columns[slates.items]
        columns = [self._groups[slates.items], own, own - best, fixed, position, steps]
        return Options(slates, np.column_stack(columns).astype(np.float32))


def _known(dataset: SlateDataset) -> tuple[Callable[[Interactions], "PastTable"], Rows]:
    """Return what computes what the network of a model reads, and the columns of items [I, C]."""
    from slatewise.features.past import PastFeatures  # noqa: PLC0415 (needs pydantic)
    from slatewise.model.network import inputs  # noqa: PLC0415
    from slatewise.model.network.item_columns import ItemMatrix  # noqa: PLC0415

    past, matrix = PastFeatures.fit(dataset), ItemMatrix.of(dataset)
    of_past, clock = past.in_log(dataset), past.popularity is not None
    some = inputs.log_to_fit(dataset, OPTIONS)[0]
    dates = inputs.usable_dates(matrix.dates, some, clock_times=clock)[0]

    def describe(interactions: Interactions) -> "PastTable":
        items, times = interactions.slate_items, inputs.cell_times(interactions)
        return inputs.with_ages(dates, of_past(interactions), items, times, past)

    return describe, matrix.values.numpy()


def _grown(progress: Callable[[int, int], None], done: int, total: int, state: Any) -> None:
    progress(done + state.iteration + 1, total)
