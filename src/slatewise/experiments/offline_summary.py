"""What follows from the numbers of `offline`: Table 1 beside the paper's, and what is compared."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from slatewise.evaluation import Estimate
from slatewise.evaluation.panel import ALL
from slatewise.experiments.findings import Direction, Finding, shown_interval
from slatewise.experiments.pooling import PooledEstimate, pool
from slatewise.experiments.store import Row, Tables
from slatewise.experiments.study import Summary

if TYPE_CHECKING:
    from slatewise.experiments.offline import OfflineConfig

PAPER: Final = {
    "slate-gru-hier": ("−4.96e7", "0.105"),
    "slate-linear-hier": ("−4.98e7", "0.149"),
    "slate-gru-flat": ("−4.97e7", "0.0988"),
    "all-item-gru-hier": ("−2.81e7", "0.125"),
}
"""Test log-likelihood and hitrate@20 of Table 1."""


class Key(NamedTuple):
    """What was measured of what."""

    recommender: str
    metric: str
    calibrated: bool = False


class Scores:
    """The values and resamples of all seeds, to be pooled and compared."""

    def __init__(self, tables: Tables, *, same_users: bool) -> None:
        self._same_users = same_users
        self._values: dict[Key, dict[int, float]] = {}
        self._resamples: dict[Key, dict[int, Any]] = {}
        for row in tables["scores"]:
            if row["source"] == ALL and row["value"] is not None:
                self._values.setdefault(_key(row), {})[row["seed"]] = row["value"]
        for row in tables["replicates"]:
            resamples = [float("nan") if value is None else value for value in row["values"]]
            self._resamples.setdefault(_key(row), {})[row["seed"]] = resamples

    @property
    def keys(self) -> list[Key]:
        """Everything that has a value."""
        return list(self._values)

    def pooled(self, key: Key) -> PooledEstimate:
        """Pool one measure over the seeds that have it."""
        seeds = self._values[key]
        resamples = [self._resamples[key][seed] for seed in seeds]
        return pool(list(seeds.values()), resamples, same_users=self._same_users)

    def difference(self, first: Key, second: Key) -> PooledEstimate | None:
        """Pool the paired differences of the seeds that have both; None if none has."""
        estimates = [
            self._estimate(first, seed) - self._estimate(second, seed)
            for seed in self._values.get(first, {})
            if seed in self._values.get(second, {})
        ]
        if not estimates:
            return None
        values, resamples = [e.value for e in estimates], [e.replicates for e in estimates]
        return pool(values, resamples, same_users=self._same_users)

    def _estimate(self, key: Key, seed: int) -> Estimate:
        resamples = np.asarray(self._resamples[key][seed], dtype=np.float64)
        return Estimate.of(self._values[key][seed], resamples, 0, f"seed {seed}")


def _key(row: Row) -> Key:
    return Key(row["recommender"], row["metric"], row["calibrated"])


def summarise(config: "OfflineConfig", tables: Tables) -> Summary:
    """Pool over seeds, set Table 1 beside the paper's, and compare."""
    scores = Scores(tables, same_users=config.dataset is not None)
    pooled = {key: scores.pooled(key) for key in scores.keys}
    rows = [
        {**key._asdict(), "value": p.value, "low": p.low, "high": p.high, "by_seed": p.by_seed}
        for key, p in pooled.items()
    ]
    findings = list(_findings(scores, config.k))
    usable = {key: found for key, found in pooled.items() if not _misleads(key, config)}
    order = sorted(
        dict.fromkeys(key.recommender for key in pooled), key=lambda name: name not in config.names
    )
    compared = _differences(scores, order, config)
    shown = {
        "differences": compared,
        "table1": [_table1(name, usable, config.k) for name in order],
        "headline": [_headline(name, usable, config.k) for name in order],
    }
    return Summary({"pooled": rows, **shown}, findings, headline="headline")


def _differences(scores: Scores, order: Sequence[str], config: "OfflineConfig") -> list[Row]:
    """Compare everything with the first model on the same users: likelihood and next clicks."""
    reference = config.names[0]
    return [
        {"metric": metric, "recommender": name, "reference": reference}
        | {"value": found.value, "low": found.low, "high": found.high, "by_seed": found.by_seed}
        for metric, calibrated in (("log_likelihood", True), (f"recall@{config.k}", False))
        for name in order
        if name != reference
        and (
            found := scores.difference(
                Key(name, metric, calibrated), Key(reference, metric, calibrated)
            )
        )
    ]


def _misleads(key: Key, config: "OfflineConfig") -> bool:
    """Whether a number says nothing: all-item has no P(click) of a slate before calibration."""
    if key.recommender not in config.names or key.calibrated:
        return False
    all_item = config.variant(key.recommender).likelihood == "all-item"
    return all_item and key.metric in ("log_likelihood", "ece")


def _table1(name: str, pooled: dict[Key, PooledEstimate], k: int) -> Row:
    """Return the row of a recommender, for display: the paper's two columns, then ours."""
    likelihood, hitrate = PAPER.get(name, ("", ""))
    columns: dict[str, str | tuple[str, bool]] = {
        "paper: log-likelihood": likelihood,
        "log-likelihood": ("log_likelihood", False),
        "log-likelihood, calibrated": ("log_likelihood", True),
        "paper: hitrate@20": hitrate,
        f"hitrate@{k}": (f"hitrate@{k}", False),
        f"recall@{k}": (f"recall@{k}", False),
        f"MRR@{k}": (f"mrr@{k}", False),
        "in-slate MRR": ("in_slate_mrr", False),
        "in-slate AUC": ("in_slate_auc", False),
        "ECE": ("ece", False),
        "ECE, calibrated": ("ece", True),
    }
    return {"recommender": name} | {
        column: key if isinstance(key, str) else _shown(pooled, Key(name, *key))
        for column, key in columns.items()
    }


def _headline(name: str, pooled: dict[Key, PooledEstimate], k: int) -> Row:
    """Return what fits a terminal: the paper's two metrics and next clicks, without intervals."""
    likelihood, hitrate = PAPER.get(name, ("", ""))
    columns = {
        "log-lik.": ("log_likelihood", False),
        "calibr. log-lik.": ("log_likelihood", True),
        "hitrate": (f"hitrate@{k}", False),
        "recall": (f"recall@{k}", False),
    }
    paper = {"paper: log-lik.": likelihood, "paper: hitrate": hitrate}
    return {"recommender": name, **paper} | {
        column: _shown(pooled, Key(name, *key), interval=False) for column, key in columns.items()
    }


def _shown(pooled: dict[Key, PooledEstimate], key: Key, *, interval: bool = True) -> str:
    found = pooled.get(key)
    if found is None:
        return "–"
    if interval:
        return shown_interval(found.value, found.low, found.high, decimals=3)
    return f"{found.value:.3f}".replace("-", "−")


class ModelQuestion(NamedTuple):
    """A comparison that is made wherever both sides are there."""

    text: str
    metric: str
    first: str
    second: str
    paper: Direction | None = None
    numbers: str = ""
    calibrated: bool = False


def _questions(k: int) -> Sequence[ModelQuestion]:
    slate, linear, flat, all_item = PAPER
    aware = "source-aware-gru-hier"
    likelihood, hitrate, recall = "log_likelihood", f"hitrate@{k}", f"recall@{k}"
    return (
        ModelQuestion(
            "Do GRU dynamics predict choices better than linear ones?",
            *(likelihood, slate, linear, "above", "−4.96e7 against −4.98e7"),
        ),
        ModelQuestion(
            "Do hierarchical priors predict choices better than a flat one?",
            *(likelihood, slate, flat, "above", "−4.96e7 against −4.97e7"),
        ),
        ModelQuestion(
            "Do linear dynamics have the higher hitrate?",
            *(hitrate, linear, slate, "above", "0.149 against 0.105"),
        ),
        ModelQuestion(
            "Does the all-item likelihood have a higher hitrate than the slate likelihood?",
            *(hitrate, all_item, slate, "above", "0.125 against 0.105"),
        ),
        ModelQuestion(
            "Do linear dynamics have a higher hitrate than the all-item likelihood?",
            *(hitrate, linear, all_item, "above", "0.149 against 0.125"),
        ),
        ModelQuestion(
            "Do hierarchical priors have a higher hitrate than a flat one?",
            *(hitrate, slate, flat, "above", "0.105 against 0.0988"),
        ),
        ModelQuestion(
            "Does the model predict choices better than click-through rates per item?",
            *(likelihood, slate, "smoothed CTR"),
        ),
        ModelQuestion(
            "After calibration, does the slate likelihood predict choices better than all-item?",
            *(likelihood, slate, all_item),
            calibrated=True,
        ),
        ModelQuestion(
            "After calibration, does source-aware predict choices better than slate?",
            *(likelihood, aware, slate),
            calibrated=True,
        ),
        ModelQuestion(
            "Does the all-item likelihood find more next clicks in the whole catalogue than slate?",
            *(recall, all_item, slate),
        ),
        ModelQuestion(
            "Does the source-aware likelihood find more next clicks than slate?",
            *(recall, aware, slate),
        ),
        ModelQuestion(
            "Does the all-item likelihood find more next clicks than counting co-clicks?",
            *(recall, all_item, "co-click"),
        ),
    )


def _findings(scores: Scores, k: int) -> Iterator[Finding]:
    for question in _questions(k):
        first = Key(question.first, question.metric, question.calibrated)
        second = Key(question.second, question.metric, question.calibrated)
        found = scores.difference(first, second)
        if found is not None:
            what = question.metric.replace("_", "-")
            yield Finding(
                question.text,
                f"{what}, {question.first} minus {question.second}",
                *(found.value, found.low, found.high),
                paper=question.paper,
                paper_numbers=question.numbers,
                note=found.note(),
            )
