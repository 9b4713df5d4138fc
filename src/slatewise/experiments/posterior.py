"""`posterior`: what views do to the posterior of an item (Figures 4 and 5).

Of every item that was seen in training: how far its mean is from the mean of its group, and how
wide its posterior is, beside the number of its views. Items without a view are left out: they have
the predictive of their group, by construction.
"""

from pathlib import Path
from typing import Final, Self

import numpy as np
import numpy.typing as npt
from pydantic import PositiveInt, model_validator

from slatewise.data.ragged import Int64Array
from slatewise.errors import SlatewiseError
from slatewise.experiments.example_user import example_tables
from slatewise.experiments.findings import Direction, Finding
from slatewise.experiments.pooling import PooledEstimate, pool
from slatewise.experiments.store import Row, Tables
from slatewise.experiments.study import Bench, Study, StudyConfig, Summary, Unit
from slatewise.experiments.variants import fit_variant, variant_config
from slatewise.experiments.worlds import dataset_of, dataset_row
from slatewise.model.fitted import SlateModel
from slatewise.model.priors.hierarchical import HierarchicalPrior
from slatewise.training import load

Floats = npt.NDArray[np.float64]

VARIANT: Final = "slate-gru-hier"
MOST_ITEMS: Final = 20_000
"""Items whose ranks are resampled; with more, as many drawn at random."""
MOST_ROWS: Final = 40
"""Rows of a histogram."""

FIGURES: Final = {
    "distance": ("distance to the group mean", "Do items move away from their group with views?"),
    "scale": ("posterior standard deviation", "Do views narrow the posterior of an item?"),
}
PAPER: Final[dict[str, tuple[Direction, str]]] = {
    "distance": ("above", "Figure 4"),
    "scale": ("below", "Figure 5"),
}


class PosteriorConfig(StudyConfig):
    """Settings of the posterior study."""

    run: Path | None = None
    """A run to look at instead of training one for each seed."""
    resamples: PositiveInt = 400
    """Resamples of groups behind every interval."""

    @model_validator(mode="after")
    def _one_model(self) -> Self:
        if self.run is not None and self.dataset is not None:
            raise ValueError("a run is looked at as it is: leave the dataset out")
        return self


def units(config: PosteriorConfig) -> list[Unit]:
    """One unit a seed; a run has only one."""
    return [Unit(seed) for seed in config.seeds[: 1 if config.run is not None else None]]


def run(config: PosteriorConfig, unit: Unit, bench: Bench) -> Tables:
    """Look at a run, or train the paper's model and look at it."""
    tables: Tables = {}
    if config.run is not None:
        model = load(config.run)
    else:
        dataset = dataset_of(config, unit.seed, bench)
        tables["dataset"] = [dataset_row(dataset, unit.seed)]
        chosen = variant_config(VARIANT, config.model)
        model = fit_variant(VARIANT, chosen, config, dataset, unit.seed, bench)
        if unit.seed == config.seeds[0]:
            tables |= example_tables(model, dataset, unit.seed)
    views = model.views.numpy().astype(np.int64)
    seen = views > 0
    groups = model.posterior.item_groups.numpy()[seen]
    measured = {"distance": group_distances(model)[seen], "scale": scales(model)[seen]}
    # Worlds are independent, and so must be their resamples; one dataset has one set of groups.
    rng = np.random.default_rng(unit.seed if config.dataset is None else 0)
    items = {"seed": unit.seed, "model": model.config.name}
    tables["items"] = [items | {"seen": int(seen.sum()), "unseen": int((~seen).sum())}]
    tables["histogram"], tables["correlation"] = [], []
    for name, values in measured.items():
        head = {"seed": unit.seed, "measure": name}
        tables["histogram"] += [head | cell for cell in histogram(views[seen], values)]
        resampled = resample_correlation(views[seen], values, groups, config.resamples, rng)
        correlation = rank_correlation(views[seen], values)
        tables["correlation"].append(head | {"value": correlation, "values": resampled.tolist()})
    return tables


def group_distances(model: SlateModel) -> Floats:
    """Return ‖E v_i − E μ_g(i)‖ of each item: [I]."""
    prior = model.posterior.prior
    if not isinstance(prior, HierarchicalPrior):
        raise SlatewiseError(
            f"{model.config.name} has no group means.", "Give a run with a hierarchical prior."
        )
    means = prior.means.mean.detach().numpy()[model.posterior.item_groups.numpy()]
    means = means[:, : model.config.dimensions]  # behind them, the mean bias of the group
    out: Floats = np.linalg.norm(model.item_vectors - means, axis=1).astype(np.float64)
    return out


def scales(model: SlateModel) -> Floats:
    """Return the posterior standard deviation of each item, averaged over dimensions: [I]."""
    out: Floats = model.item_scales.mean(axis=1).astype(np.float64)
    return out


def histogram(views: Int64Array, values: Floats) -> list[Row]:
    """Count items by views, in half powers of two, and by value, in steps that are a power of two.

    Steps of that kind let histograms of several seeds be added up.
    """
    step = 2.0 ** np.ceil(np.log2(max(values.max(initial=0.0), 1e-6) / MOST_ROWS))
    edges = view_edges(int(views.max(initial=1)))
    across = np.searchsorted(edges, views, side="right") - 1
    cells, counts = np.unique(
        np.stack([across, np.floor(values / step).astype(np.int64)]), axis=1, return_counts=True
    )
    return [
        {
            "views_from": edges[column],
            "views_to": edges[column + 1],
            "from": row * step,
            "step": step,
            "items": int(count),
        }
        for column, row, count in zip(*cells.tolist(), counts.tolist(), strict=True)
    ]


def view_edges(most: int) -> list[float]:
    """Return 1, 2, 2√2, 4, 4√2, … beyond `most`; between 1 and 2 there is no number of views."""
    last = int(np.floor(2 * np.log2(most))) + 1
    return [1.0, *(2 ** (half / 2) for half in range(2, max(last, 2) + 1))]


def rank_correlation(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Return Spearman's ρ; nan where one side does not vary."""
    ranks = [_ranks(np.asarray(values)) for values in (first, second)]
    if min(np.ptp(side) for side in ranks) == 0:
        return float("nan")
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _ranks(values: npt.NDArray[np.generic]) -> Floats:
    """Return ranks, the mean of them where values are equal: [N]."""
    _, index, counts = np.unique(values, return_inverse=True, return_counts=True)
    out: Floats = (np.cumsum(counts) - (counts - 1) / 2)[index]
    return out


def resample_correlation(
    views: Int64Array,
    values: Floats,
    groups: Int64Array,
    resamples: int,
    rng: np.random.Generator,
) -> Floats:
    """Return ρ of as many resamples: [R]. Whole groups are drawn, as items share their group's."""
    if len(views) > MOST_ITEMS:
        some = np.sort(rng.choice(len(views), MOST_ITEMS, replace=False))
        views, values, groups = views[some], values[some], groups[some]
    order = np.argsort(groups, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)
    out = np.empty(resamples)
    for number in range(resamples):
        drawn = rng.integers(len(members), size=len(members))
        items = np.concatenate([members[group] for group in drawn])
        out[number] = rank_correlation(views[items], values[items])
    return out


def summarise(config: PosteriorConfig, tables: Tables) -> Summary:
    """Pool the correlations and add the histograms up."""
    findings, shown = [], []
    for measure, (title, question) in FIGURES.items():
        rows = [row for row in tables["correlation"] if row["measure"] == measure]
        found = _pooled(rows, same_groups=config.dataset is not None)
        paper, figure = PAPER[measure]
        finding = Finding(
            question,
            f"rank correlation of views and {title}",
            *(found.value, found.low, found.high),
            paper=paper,
            paper_numbers=figure,
            note=found.note(),
        )
        findings.append(finding)
        shown.append(
            {
                "views and": title,
                "paper": {"above": "grows", "below": "falls"}[paper] + f" ({figure})",
                "rank correlation": finding.interval(),
            }
        )
    added = _added(tables["histogram"])
    return Summary({"figures": added, "correlations": shown}, findings, headline="correlations")


def _pooled(rows: list[Row], *, same_groups: bool) -> PooledEstimate:
    resamples = [[np.nan if v is None else v for v in row["values"]] for row in rows]
    values = [np.nan if row["value"] is None else row["value"] for row in rows]
    return pool(values, resamples, same_users=same_groups)


def _added(rows: list[Row]) -> list[Row]:
    """Add the histograms of all seeds, in the widest step of any."""
    out = []
    for measure in FIGURES:
        own = [row for row in rows if row["measure"] == measure]
        step = max(row["step"] for row in own)
        cells: dict[tuple[float, float, float], int] = {}
        for row in own:
            key = (row["views_from"], row["views_to"], step * np.floor(row["from"] / step))
            cells[key] = cells.get(key, 0) + row["items"]
        names = ("views_from", "views_to", "from")
        for key, count in sorted(cells.items()):
            cell = dict(zip(names, key, strict=True))
            out.append({"measure": measure, **cell, "step": step, "items": count})
    return out


STUDY: Final = Study(
    "posterior",
    "Posterior: what views do to the items",
    PosteriorConfig,
    units,
    run,
    summarise,
)
