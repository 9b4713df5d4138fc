"""Settings that follow the size and kind of a log, where the configuration leaves them open.

They are looked up once, when training begins, and stored with the run. What is given stays.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from slatewise.data.dataset import SlateDataset
from slatewise.features.half_lives import hours_of, usual_half_lives
from slatewise.features.turnover import items_stay
from slatewise.model.config import ModelConfig
from slatewise.model.likelihood import SEARCH
from slatewise.model.registry import DYNAMICS, TERMS
from slatewise.model.terms.typical_sizes import training_sample
from slatewise.training.config import TrainingConfig

EXACT: Final = 2_048
"""Items up to which the sum over the catalogue is exact: it costs as much as a good estimate."""
NEGATIVES: Final = 1_024
"""Candidates that stand for a larger catalogue; fewer mislead the score that ends training."""
SIGMA_MAX: Final = 3.0
"""Where the prior counts nearly in full. To find one item among thousands, distances span ten nats
and scales are as large. At 1, τ = 1 and 32 dimensions the bound held most of them, and more
dimensions made a model worse. Where the prior counts for little, scales beyond 1 change less than
a seed does."""
_NEARLY_IN_FULL: Final = 0.5
_MANY: Final = 20_000
"""Training interactions from which 32 dimensions are worth having."""
CLICK_TERMS: Final = ("bias", "history", "co_clicks")
"""What ranks beside the vectors in a log of clicks alone, and popularity where it has clock times:
recall@20 of shop sessions .596 to .687, of grocery baskets .095 to .133."""
SLATE_TERMS: Final = (
    *("history", "item_network", "network", "popularity", "position", "propensity", "source"),
)
"""What predicts choices within slates beside the vectors, where a log can teach it; of these
`item_network` only finds what slates are made of. A bias gains nothing beside them, and takes from
what the vectors learn."""
_REPEATING: Final = 0.01
"""Share of clicks on items clicked before, below which nothing is clicked twice."""


@dataclass(frozen=True)
class LogSize:
    """What the defaults depend on."""

    users: int
    """with training interactions"""
    interactions: int
    """of the training part"""
    items: int
    clicks_only: bool
    """whether every slate is one item that was clicked, so that nothing was declined"""
    hours: float = 0.0
    """from the first event to the last, 0 where times are only an order"""
    repeats: bool = True
    """whether users click items again, as in a shop; they rate a film once"""
    searched: bool = False
    """whether there are slates of what people searched for: a source called search"""

    @classmethod
    def of(cls, dataset: SlateDataset) -> "LogSize":
        """Measure a dataset."""
        single = dataset.slate_offsets[-1] == len(dataset.clicks)
        clicks_only = bool(single and np.all(dataset.clicks >= 0))
        return cls(
            users=int((dataset.train_end > 0).sum()),
            interactions=int(dataset.train_end.sum()),
            items=dataset.num_items,
            clicks_only=clicks_only,
            hours=hours_of(dataset),
            repeats=not clicks_only or share_repeated(dataset) >= _REPEATING,
            searched=SEARCH in dataset.source_names and not clicks_only,
        )


def with_likelihood(model: ModelConfig, size: LogSize) -> ModelConfig:
    """Return the model with the likelihood that suits a log, if none was given.

    The choice within slates says nothing where nothing was declined: there it is all-item. What
    people searched for also says where items are among all others: there it is source-aware.
    """
    if model.is_given("likelihood") or not (size.clicks_only or size.searched):
        return model
    return model.changed(likelihood="all-item" if size.clicks_only else "source-aware")


def with_terms(
    model: ModelConfig, dataset: SlateDataset, device: str = "cpu"
) -> tuple[ModelConfig, dict[str, str]]:
    """Return the model with the terms that suit a log with slates, and why some are missing.

    Only if no terms were given, and not for the all-item likelihood, which is chosen for the sake
    of rankings: these terms predict.
    """
    if model.is_given("terms") or model.likelihood == "all-item":
        return model, {}
    obstacles = {name: _obstacle(name, model, dataset, device) for name in SLATE_TERMS}
    missing = {name: why for name, why in obstacles.items() if why is not None}
    model = model.changed(terms=tuple(n for n in SLATE_TERMS if n not in missing))
    for term in model.terms:
        model = model.changed(**TERMS[term].usual_settings(model, dataset))
    return model, missing


def _obstacle(term: str, model: ModelConfig, dataset: SlateDataset, device: str) -> str | None:
    """Return why a term is not for a log, None if it is.

    Some are left out by default for the sake of rankings, unless the next click weighs them.
    """
    part = TERMS[term]
    if device not in part.devices:
        return "it is trained on the CPU"
    weighed = model.ranking == "next-click" and part.ranks == "all items"
    why: str | None = part.obstacle(dataset) if weighed else part.default_obstacle(dataset)
    return why


def with_optimisation(
    training: TrainingConfig, model: ModelConfig, dataset: SlateDataset
) -> TrainingConfig:
    """Return how a model with terms is trained, if that was not given: terms last, if items stay.

    Terms explain much of what vectors would learn, and vectors rank: fitted together, greedy slates
    were clicked .26 of the time with positions and .32 without, for the same likelihood.
    """
    given = "optimisation" in training.model_fields_set
    if given or not model.terms or model.likelihood == "all-item" or not items_stay(dataset):
        return training
    return training.model_copy(update={"optimisation": "terms-last"})


def share_repeated(dataset: SlateDataset) -> float:
    """Return how many of the training clicks of some users were on an item clicked before."""
    interactions = training_sample(dataset)
    users = torch.repeat_interleave(interactions.user_offsets.diff()).numpy()
    clicked = interactions.clicked_items.numpy().astype(np.int64)
    pairs = (users * dataset.num_items + clicked)[clicked >= 0]
    return 1 - len(np.unique(pairs)) / max(1, len(pairs))


def settled(
    model: ModelConfig,
    training: TrainingConfig,
    size: LogSize,
    start: ModelConfig | None = None,
    device: str = "cpu",
) -> tuple[ModelConfig, TrainingConfig]:
    """Return both configurations with nothing left open.

    A model that starts from another has the settings of that one, whatever the log has grown to.
    """
    if size.clicks_only:  # the slate likelihood has nothing to learn there
        model = with_likelihood(model, size)
    usual = _usual(model, size)
    if size.clicks_only and model.likelihood == "all-item":
        usual["terms"] = (*CLICK_TERMS, *["popularity"] * (size.hours > 0))
        terms = model.terms if model.is_given("terms") else usual["terms"]
        if "popularity" in terms:
            usual["half_lives"] = usual_half_lives(size.hours)
        usual["repeats"] = size.repeats or not any(TERMS[t].keeps_out_clicked for t in terms)
    if start is not None:
        usual = {name: getattr(start, name) for name in usual}
    model = model.changed(**{k: v for k, v in usual.items() if not model.is_given(k)})
    return model, training.model_copy(
        update={
            "batch_users": training.batch(size.users, model.likelihood, device),
            "learning_rate": training.rate,
        }
    )


def _usual(model: ModelConfig, size: LogSize) -> dict[str, Any]:
    """Return the settings of a model with this likelihood and temperature."""
    if model.likelihood == "slate":
        return {}
    # After a first stage at .1 the prior in full finds as many next clicks or more: shop sessions
    # .693 for .683, ratings .300 and .310 for .285 and .301.
    temperature = model.temperature
    dimensions = 32 if size.interactions >= _MANY else 16
    dimensions = model.dimensions if model.is_given("dimensions") else dimensions
    usual = {
        "dimensions": dimensions,
        "temperature": temperature,
        "sigma_max": model.sigma_max,
        "negatives": EXACT if size.items <= EXACT else NEGATIVES,
    }
    if temperature >= _NEARLY_IN_FULL:
        usual["sigma_max"] = SIGMA_MAX
        usual |= DYNAMICS[model.dynamics].usual_settings(model.hidden or dimensions)
    return usual
