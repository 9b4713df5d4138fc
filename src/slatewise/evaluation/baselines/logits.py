"""Baselines that are a softmax of a few features: what a user did before, what is clicked now.

The utility of an item is Σ w x over the features of the item, that of no click
`offset[source] + growth · log(scroll length)`, plus w x where the user's click propensity is looked
at. Features are those of the model's terms, from the strict past; all the weights maximise the
likelihood of the users held out, as with the baselines that count.

A logit predicts what happens to a slate. It does not rank the catalogue: a position is no property
of an item, and popularity is one of a moment.

Shapes: N interactions, F items seen, P features of an item, Q of no click.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
from torch import Tensor

from slatewise.data import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.evaluation.baselines.counting import Choice, SmoothedCTR
from slatewise.evaluation.baselines.held_out import HeldOut
from slatewise.evaluation.counts import Counts
from slatewise.evaluation.predictions import Predictions, Slates
from slatewise.evaluation.rows import Floats
from slatewise.features import positions
from slatewise.features.linear_choice import LinearChoice
from slatewise.features.threads import in_threads

if TYPE_CHECKING:
    from slatewise.model.terms import Describer, FeatureTerm, FittedTerms

LOGITS: Final[Mapping[str, Sequence[str]]] = {
    "decayed popularity": ("popularity",),
    "history only": ("history",),
    "position only": ("position",),
    "all features": ("click rate", "history", "popularity", "propensity", "position"),
}
"""The features of each: terms of a model, `position` as one number log(position), and `click rate`,
the logarithm of the smoothed CTR."""


@dataclass(frozen=True)
class LogitFeatures:
    """The features that a logit looks at."""

    terms: "FittedTerms"
    """how features of the strict past are computed"""
    describer: "Describer"
    """computes them, in the log that is predicted"""
    positions: bool
    """whether log(position) is one"""
    item_scores: Floats | None
    """[I] a feature that an item always has"""
    num_sources: int

    def of(self, interactions: Interactions, scored: Tensor) -> tuple[Floats, Floats]:
        """Describe the interactions that `scored` [N] marks: items [F, P] and no click [n, Q]."""
        described = self.describer.describe(interactions)
        items, steps = described.cell_features, described.step_features
        seen = interactions.choices(scored)
        slates = Slates.of(interactions, scored)
        of_items = [np.zeros((len(slates.items), 0))]
        of_items += [] if items is None else [items[seen].numpy()]
        if self.positions:
            of_items.append(np.log1p(positions(interactions)[seen].numpy())[:, None])
        if self.item_scores is not None:
            of_items.append(self.item_scores[slates.items][:, None])
        of_none = [np.log(np.maximum(slates.scroll_lengths, 1))[:, None]]
        of_none.append(np.eye(self.num_sources)[slates.sources.astype(np.int64)])
        of_none += [] if steps is None else [steps[scored].numpy()]
        return np.concatenate(of_items, axis=1), np.concatenate(of_none, axis=1)


@dataclass(frozen=True)
class Logit:
    """A multinomial logit: a `Predictor`."""

    columns: LogitFeatures
    item_weights: Floats
    """[P]"""
    no_click_weights: Floats
    """[Q]"""

    @classmethod
    def fit(cls, columns: LogitFeatures, held: HeldOut) -> "Logit":
        """Find the weights of greatest likelihood, with a wide prior around 0."""
        of_items, of_no_click = columns.of(held.batch, held.everything)
        p, q = of_items.shape[1], of_no_click.shape[1]
        weights = LinearChoice.with_no_click(
            held.slates.offsets,
            held.slates.clicks,
            np.pad(of_items, ((0, 0), (0, q))),
            np.pad(of_no_click, ((0, 0), (p, 0))),
        ).fit()
        return cls(columns, weights[:p], weights[p:])

    def predict(self, interactions: Interactions, scored: Tensor) -> Predictions:
        """Predict the scored interactions; see `Predictor`."""
        of_items, of_no_click = self.columns.of(interactions, scored)
        return Predictions.from_utilities(
            Slates.of(interactions, scored),
            of_items @ self.item_weights,
            of_no_click @ self.no_click_weights,
        )


def fit_logits(
    dataset: SlateDataset, held: HeldOut, names: Sequence[str] = tuple(LOGITS)
) -> dict[str, Logit]:
    """Fit those of `names` that make sense for a log: name -> baseline.

    Popularity needs clock times, and a position a slate with more than one.
    """
    if not names:
        return {}
    from slatewise.features.popularity_index import TickCounts  # noqa: PLC0415 (needs pydantic)

    # Half-lives, sizes and features share what is counted in the log as long as this is held.
    counted = TickCounts.of(dataset) if dataset.meta["clock_times"] else None
    terms = _terms(dataset)
    there = {"click rate", *terms}
    if (np.diff(dataset.slate_offsets) > 1).any():
        there.add("position")
    named = {name: [one for one in LOGITS[name] if one in there] for name in names}
    columns = {
        name: _columns(used, terms, dataset, held.others) for name, used in named.items() if used
    }
    del counted
    drafts = in_threads(lambda one: Logit.fit(one, held), columns.values())
    # Click rates are counted anew from everybody, as the other baselines do.
    return {
        name: replace(
            draft,
            columns=replace(
                draft.columns,
                item_scores=_click_rates(named[name], held.everybody, draft.columns.num_sources),
            ),
        )
        for name, draft in zip(columns, drafts, strict=True)
    }


def _terms(dataset: SlateDataset) -> dict[str, "FeatureTerm"]:
    """Fit every term with features that a log allows."""
    # Configurations need pydantic, which judging any other recommender does without.
    from slatewise.features import half_lives_of  # noqa: PLC0415
    from slatewise.model.config import ModelConfig  # noqa: PLC0415
    from slatewise.model.terms import FittedTerms  # noqa: PLC0415

    clock = ["popularity"] if dataset.meta["clock_times"] else []
    values = {"terms": ["history", "propensity", *clock], "half_lives": half_lives_of(dataset)}
    return FittedTerms.fit(ModelConfig.build(values, "baselines"), dataset).by_name


def _columns(
    names: Sequence[str],
    terms: Mapping[str, "FeatureTerm"],
    dataset: SlateDataset,
    counts: Counts,
) -> LogitFeatures:
    from slatewise.model.terms import FittedTerms  # noqa: PLC0415

    used = FittedTerms({name: term for name, term in terms.items() if name in names})
    sources = len(dataset.source_names)
    scores = _click_rates(names, counts, sources)
    return LogitFeatures(used, used.in_log(dataset), "position" in names, scores, sources)


def _click_rates(names: Sequence[str], counts: Counts, num_sources: int) -> Floats | None:
    """Return the logarithm of the smoothed click rate of every item [I], if it is asked for."""
    if "click rate" not in names:
        return None
    out: Floats = np.log(SmoothedCTR(counts, Choice(1.0, 0.0, np.zeros(num_sources))).scores)
    return out
