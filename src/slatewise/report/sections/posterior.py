"""Figures 4 and 5: views against the distance to the group mean and the posterior scale."""

import math
from collections.abc import Iterator

import numpy as np
import polars as pl

from slatewise.experiments.posterior import FIGURES, view_edges
from slatewise.experiments.store import StudyResult
from slatewise.report import figures
from slatewise.report.section import Figure, Section, Table, text_of

_CAPTIONS = {
    "distance": "Figure 4 of the paper. Items with few views stay near the mean of their group; "
    "where the cloud rises to the right, views have carried items away from it.",
    "scale": "Figure 5 of the paper. Where the cloud falls to the right, items with many views "
    "have a narrower posterior.",
}


def section(result: StudyResult) -> Section:
    """Show the posterior study."""
    items = result.tables["items"]
    seen, unseen = int(items["seen"].sum()), int(items["unseen"].sum())
    names = ", ".join(items["model"].unique(maintain_order=True))
    return Section(
        str(result.about["title"]),
        [
            f"Items that were seen in training ({text_of(seen)} over all seeds), as {names} has "
            f"them. Items without a view ({text_of(unseen)}) have the predictive of their group "
            "by construction and are left out. Intervals of correlations resample whole groups.",
        ],
        [
            Table.of(
                result.tables["correlations"],
                "What goes with views",
                caption="Rank correlation over items, with its 95 % interval.",
                file="correlation",
                paper=("paper",),
            ),
            *_example(result),
        ],
        list(_figures(result)),
    )


def _example(result: StudyResult) -> Iterator[Table]:
    """Show a test user, and what each strategy would show her next."""
    if "example_slates" not in result.tables:  # of a run alone, or of an earlier release
        return
    yield Table.of(
        result.tables["example_past"],
        "A user: her last slates",
        caption="A test user with as many clicks as the median one. First seed.",
        file="example_past",
    )
    slates = result.tables["example_slates"]
    sizes = pl.struct("relevance", "uncertainty").map_elements(_with_uncertainty, pl.String)
    cell = pl.format("{} ({}) {}", "item", "group", sizes)
    shown = slates.with_columns(cell.alias("shown")).pivot(
        "strategy", index="position", values="shown"
    )
    yield Table.of(
        shown,
        "What she would be shown next",
        caption="Item (group), expected relevance exp(utility) ± its posterior standard "
        "deviation. Greedy takes the highest utility, without a draw; Thompson sampling draws one "
        "posterior sample for the slate; in-slate Thompson sampling draws one for every position, "
        "so that items of which little is known get a place.",
        file="example_slates",
    )


def _with_uncertainty(row: dict[str, float]) -> str:
    """Return a relevance and its uncertainty, both to two digits of the uncertainty."""
    uncertainty = row["uncertainty"]
    decimals = max(0, 1 - math.floor(math.log10(uncertainty))) if uncertainty > 0 else 3
    return f"{row['relevance']:.{decimals}f} ± {uncertainty:.{decimals}f}"


def _figures(result: StudyResult) -> Iterator[Figure]:
    for measure, (title, _) in FIGURES.items():
        cells = result.tables["figures"].filter(measure=measure)
        step = cells["step"][0]
        x_edges = view_edges(math.ceil(max(cells["views_from"])))
        columns = np.searchsorted(x_edges, cells["views_from"].to_numpy(), side="right") - 1
        rows = np.rint(cells["from"].to_numpy() / step).astype(int)
        table = np.zeros((rows.max() + 1, len(x_edges) - 1), dtype=np.int64)
        table[rows, columns] = cells["items"].to_numpy()
        y_edges = [step * row for row in range(table.shape[0] + 1)]
        data = figures.counts(x_edges, y_edges, table.tolist())
        layout = figures.layout(
            "views in training", title, height=420, xaxis={"type": "log", "dtick": 1}
        )
        yield Figure(f"Views and {title}", data, layout, _CAPTIONS[measure], "figures")
