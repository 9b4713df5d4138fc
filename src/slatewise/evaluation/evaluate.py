"""Judge a recommender on a part of a dataset, batch by batch of users."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from slatewise.data import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.data.ragged import Int64Array, offsets_of
from slatewise.errors import SlatewiseError
from slatewise.evaluation.bootstrap import RESAMPLES, Estimate, Resampler
from slatewise.evaluation.calibration import Calibration
from slatewise.evaluation.metrics import (
    MRR,
    HitRate,
    Metric,
    Recall,
    RecommendedLists,
    TargetRanks,
    slate_metrics,
)
from slatewise.evaluation.panel import ALL, Panel
from slatewise.evaluation.parts import Part, part_bounds, scored_interactions
from slatewise.evaluation.predictions import Predictions, Slates
from slatewise.evaluation.recommender import Predictor, Ranker, SlateRanker
from slatewise.evaluation.reliability import ExpectedCalibrationError
from slatewise.notebook import html_table
from slatewise.words import counted

if TYPE_CHECKING:
    import polars as pl

    from slatewise.model.fitted import SlateModel

Progress = Callable[[str, int, int], None]
"""Called with a stage, how much of it is done, and how much there is."""

BATCH_USERS: Final = 1_024


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Every metric of one recommender, with intervals over users."""

    about: dict[str, Any]
    """Part, counts, k, seed and the dataset's digest."""
    estimates: dict[str, dict[str, Estimate]]
    """Metric -> source, or "all sources", -> estimate."""
    reliability: dict[str, list[dict[str, Any]]]
    """Source, or "all sources", -> reliability curve of P(click)."""
    higher_is_better: dict[str, bool | None]
    """Metric -> direction; None for what merely describes."""
    calibrated: "Evaluation | None" = None
    """The same after calibration, for the metrics that predictions have."""
    calibration: Calibration | None = None

    def __getitem__(self, metric: str) -> Estimate:
        """Return the estimate of a metric over all sources."""
        return self.estimates[metric][ALL]

    def table(self) -> "pl.DataFrame":
        """Return every number: a row for each metric and source, before and after calibration."""
        import polars as pl  # noqa: PLC0415 (evaluating works without it)

        versions = {False: self, True: self.calibrated}
        rows = [
            {"metric": metric, "source": source, "calibrated": calibrated, **found.to_json()}
            for calibrated, version in versions.items()
            if version is not None
            for metric, sources in version.estimates.items()
            for source, found in sources.items()
        ]
        names = {"metric": pl.String(), "source": pl.String(), "calibrated": pl.Boolean()}
        numbers = dict.fromkeys(("value", "low", "high"), pl.Float64())
        schema = pl.Schema({**names, **numbers, "count": pl.Int64()})
        return pl.DataFrame(rows, schema=schema)

    def __repr__(self) -> str:
        """Return on what it was judged, and the first metrics."""
        shown = [f"{name} {_shown(rows[ALL])}" for name, rows in self.estimates.items()][:3]
        about = f"{self.about['part']}, {counted(self.about['interactions'], 'interaction')}"
        return f"Evaluation({about}; {'; '.join(shown)})"

    def _repr_html_(self) -> str:
        rows = [(name, _shown(found[ALL])) for name, found in self.estimates.items()]
        after = self.calibrated.estimates if self.calibrated is not None else {}
        rows += [(f"{name}, calibrated", _shown(found[ALL])) for name, found in after.items()]
        return html_table(f"Evaluation on {self.about['part']}", ("metric", "value"), rows)

    def with_ranking_of(self, other: "Evaluation") -> "Evaluation":
        """Return the same with what only the other was judged on: how it ranks the catalogue."""
        return replace(
            self,
            estimates=self.estimates | _others(other.estimates, self.estimates),
            higher_is_better=self.higher_is_better
            | _others(other.higher_is_better, self.higher_is_better),
        )

    def to_json(self) -> dict[str, Any]:
        """Return a nested plain dictionary."""
        out: dict[str, Any] = dict(self.about)
        out["metrics"] = {
            name: {
                **sources[ALL].to_json(),
                "higher_is_better": self.higher_is_better[name],
                "sources": {
                    source: found.to_json() for source, found in sources.items() if source != ALL
                },
            }
            for name, sources in self.estimates.items()
        }
        out["reliability"] = self.reliability
        if self.calibrated is not None and self.calibration is not None:
            after = self.calibrated.to_json()
            out["calibrated"] = {key: after[key] for key in ("metrics", "reliability")}
            out["calibration"] = self.calibration.to_json()
        return out


def _others(all_of: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in all_of.items() if name not in known}


def scored_users(dataset: SlateDataset, part: Part) -> Int64Array:
    """Return the users with an interaction in the part, ascending."""
    first, end = part_bounds(dataset, part)
    users = np.flatnonzero((end > first).numpy())
    if not len(users):
        raise SlatewiseError(
            f"the dataset has no {part} interactions.", "Prepare it with another split."
        )
    return users


def batches(
    dataset: SlateDataset, users: Int64Array, part: Part, batch_users: int
) -> Iterator[tuple[Int64Array, Interactions]]:
    """Yield users [B] and what they did up to the end of the part, batch by batch."""
    everything = dataset.interactions()
    _, ends = part_bounds(dataset, part)
    for start in range(0, len(users), batch_users):
        here = users[start : start + batch_users]
        numbers = torch.from_numpy(here)
        yield here, everything.of_users(numbers, ends[numbers])


def _judged(
    recommender: "Predictor | Ranker | SlateModel", dataset: SlateDataset
) -> Predictor | Ranker:
    """Return what predicts or ranks: of a model, its recommender with the past of this log."""
    if isinstance(recommender, Predictor | Ranker):
        return recommender
    from slatewise.evaluation.model import ModelRecommender  # noqa: PLC0415 (slow, rarely needed)
    from slatewise.model.fitted import SlateModel  # noqa: PLC0415

    if isinstance(recommender, SlateModel):
        return ModelRecommender(recommender, log=dataset)
    raise SlatewiseError(
        f"a {type(recommender).__name__} neither predicts nor ranks.",
        "Give it a method `predict`, or `rank` and `target_ranks`.",
    )


def evaluate(
    recommender: "Predictor | Ranker | SlateModel",
    dataset: SlateDataset,
    *,
    part: Part = "test",
    k: int = 20,
    seed: int = 0,
    resamples: int = RESAMPLES,
    batch_users: int = BATCH_USERS,
    calibration: Calibration | None = None,
    ranked_users: int | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> Evaluation:
    """Return every metric that the recommender supports, on one part of the dataset.

    A `Predictor` gets likelihood, in-slate metrics and calibration, a `Ranker` next-click metrics
    and the hitrate, by `ranked_users` drawn at random, or by all. Memory holds one batch of users
    and the resampled sums. A model is judged as a `ModelRecommender` with the past of this log.
    """
    users = scored_users(dataset, part)
    by_rank = np.zeros(dataset.num_users, dtype=bool)
    by_rank[np.random.default_rng(seed).permutation(users)[:ranked_users]] = True
    names = dataset.source_names
    k = min(k, dataset.num_items)

    drawn = "" if by_rank.sum() == len(users) else f" {ranked_users}"

    def panel(metrics: Sequence[Metric[Any]], *, by_source: bool = True, of: str = "") -> Panel:
        resampler = Resampler(seed, resamples, about=f"{dataset.content_hash} {part}{of}")
        return Panel(metrics, names if by_source else (), resampler)

    several = dataset.further_clicks is not None
    metrics = [*slate_metrics(several_clicks=several), ExpectedCalibrationError()]
    predicted, adjusted = panel(metrics), panel(metrics)
    ranked = panel([Recall(k), MRR(k)], of=drawn)
    recommended = panel([HitRate(k)], by_source=False, of=drawn)
    recommender = _judged(recommender, dataset)
    predicts, ranks = isinstance(recommender, Predictor), isinstance(recommender, Ranker)
    ranker = recommender if isinstance(recommender, Ranker) else None
    if isinstance(recommender, SlateRanker):
        ranker = recommender.for_slates_of(k)
    interactions = clicks = done = 0
    for here, batch in batches(dataset, users, part, batch_users):
        scored = scored_interactions(batch, part)
        interactions += int(scored.sum())
        clicks += int((batch.clicks[scored] >= 0).sum())
        if isinstance(recommender, Predictor):
            predictions = checked(recommender.predict(batch, scored), Slates.of(batch, scored))
            predicted.add(here, predictions)
            if calibration is not None:
                adjusted.add(here, calibration.apply(predictions, names))
        rows = np.flatnonzero(by_rank[here])
        if ranker is not None and len(rows):
            some = batch.of_users(torch.from_numpy(rows))
            ranked.add(here[rows], _target_ranks(ranker, some, part))
            recommended.add(here[rows], _recommended(ranker, some, part, k))
        done += len(here)
        progress("evaluating", done, len(users))
    about = {
        "part": part,
        "users": len(users),
        "ranked_users": int(by_rank.sum()),
        "interactions": interactions,
        "clicks": clicks,
        "k": k,
        "seed": seed,
        "resamples": resamples,
        "dataset": dataset.content_hash,
    }
    panels = ([predicted] if predicts else []) + ([ranked, recommended] if ranks else [])
    estimates = {name: row for one in panels for name, row in one.estimates().items()}
    directions = {metric.name: metric.higher_is_better for one in panels for metric in one.metrics}
    after = None
    if predicts and calibration is not None:
        after = Evaluation(about, adjusted.estimates(), adjusted.curves(), directions)
    curves = predicted.curves() if predicts else {}
    return Evaluation(about, estimates, curves, directions, after, calibration if after else None)


def checked(predictions: Predictions, slates: Slates) -> Predictions:
    """Refuse predictions of anything but what was to be scored."""
    same = len(predictions) == len(slates) and all(
        np.array_equal(getattr(predictions, name), getattr(slates, name))
        for name in ("users", "sources", "clicks", "offsets", "items")
    )
    if not same:
        raise SlatewiseError(
            "the predictions are not of the interactions that were to be scored.",
            "Return one prediction per scored interaction, in their order.",
        )
    return predictions


def calibrate(
    recommender: Predictor,
    dataset: SlateDataset,
    *,
    part: Part = "validation",
    most: int = 200_000,
    seed: int = 0,
    batch_users: int = BATCH_USERS,
) -> Calibration:
    """Fit a calibration on validation users, 1,024 by 1,024 until `most` interactions are reached.

    How many are predicted at once changes nothing.
    """
    predictions = sample_predictions(recommender, dataset, part, most, seed, batch_users)
    return Calibration.fit(predictions, dataset.source_names)


def sample_predictions(
    recommender: Predictor,
    dataset: SlateDataset,
    part: Part = "validation",
    most: int = 200_000,
    seed: int = 0,
    batch_users: int = BATCH_USERS,
) -> Predictions:
    """Predict users of a part, 1,024 by 1,024 until `most` interactions are reached."""
    users = np.random.default_rng(seed).permutation(scored_users(dataset, part))
    first, end = (bound.numpy()[users] for bound in part_bounds(dataset, part))
    enough = int(np.searchsorted(np.cumsum(end - first), most))  # the last user who is needed
    users = users[: BATCH_USERS * (1 + enough // BATCH_USERS)]
    return Predictions.concatenate(list(_predict(recommender, dataset, users, part, batch_users)))


def predict_part(recommender: Predictor, dataset: SlateDataset, part: Part) -> Predictions:
    """Predict every interaction of a part, one step ahead; users are those of the dataset."""
    users = scored_users(dataset, part)
    return Predictions.concatenate(list(_predict(recommender, dataset, users, part, BATCH_USERS)))


def _predict(
    recommender: Predictor, dataset: SlateDataset, users: Int64Array, part: Part, batch_users: int
) -> Iterator[Predictions]:
    for here, batch in batches(dataset, users, part, batch_users):
        scored = scored_interactions(batch, part)
        predictions = checked(recommender.predict(batch, scored), Slates.of(batch, scored))
        yield predictions.of_users(here)


def _target_ranks(recommender: Ranker, batch: Interactions, part: Part) -> TargetRanks:
    scored = scored_interactions(batch, part)
    slates = Slates.of(batch, scored & (batch.clicks >= 0))
    ranks = recommender.target_ranks(batch, scored).cpu().numpy().astype(np.int64)
    if len(ranks) != len(slates) or (len(ranks) and ranks.min() < 1):
        raise SlatewiseError(
            "the ranks are not those of the scored clicks.",
            "Return one rank, from 1, per scored interaction with a click.",
        )
    return TargetRanks(slates.users, slates.sources, ranks)


def _recommended(recommender: Ranker, batch: Interactions, part: Part, k: int) -> RecommendedLists:
    """Recommend once, from what came before the part, and look at the clicks in it."""
    first, _ = part_bounds(batch, part)
    before = batch.of_users(torch.arange(batch.num_users), first)
    asked = batch.times[batch.user_offsets[:-1] + first]  # of the first interaction of the part
    items = recommender.rank(before, k, times=asked).cpu().numpy().astype(np.int64)
    later = scored_interactions(batch, part) & (batch.clicks >= 0)
    slates = Slates.of(batch, later)
    return RecommendedLists(
        users=np.arange(batch.num_users),
        items=items,
        clicked=batch.clicked_items[later].numpy().astype(np.int64),
        offsets=offsets_of(np.bincount(slates.users, minlength=batch.num_users)),
    )


def table(
    evaluations: Mapping[str, Evaluation], metrics: Sequence[str] | None = None
) -> list[dict[str, str]]:
    """Return one row per recommender, for display: its name, then value and interval by metric.

    A calibrated evaluation adds a row for the metrics that calibration changes.
    """
    rows = {}
    for name, evaluation in evaluations.items():
        rows[name] = evaluation.estimates
        if evaluation.calibrated is not None:
            rows[f"{name}, calibrated"] = evaluation.calibrated.estimates
    columns = metrics or list(dict.fromkeys(m for row in rows.values() for m in row))
    return [
        {"recommender": name}
        | {metric: _shown(row[metric][ALL]) if metric in row else "" for metric in columns}
        for name, row in rows.items()
    ]


def _shown(found: Estimate) -> str:
    if not np.isfinite(found.value):
        return "–"
    digits = 0 if abs(found.value) >= 100 else 3
    value, low, high = (f"{number:,.{digits}f}" for number in (found.value, found.low, found.high))
    return f"{value} [{low}, {high}]".replace("-", "−")
