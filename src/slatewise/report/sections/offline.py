"""Table 1, left, beside ours; every metric with its interval; whether P(click) comes true."""

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from slatewise.experiments.store import StudyResult
from slatewise.report import figures
from slatewise.report.section import Figure, Section, Table
from slatewise.report.takeaway import PairedDifference, Takeaway

REFERENCE = "slate-gru-hier"
"""The model whose predicted click rates are drawn."""


def section(result: StudyResult) -> Section:
    """Show the offline study."""
    k = int(result.about["settings"]["k"])
    hitrate, recall = f"hitrate@{k}", f"recall@{k}"
    drawn = [
        *_paired(
            result,
            "log_likelihood",
            "Who predicts choices best",
            "log-likelihood per interaction (nats)",
            "Right of 0 is better than the reference, left of it worse. Differences are on the "
            "same users, after calibration by source.",
        ),
        *_paired(
            result,
            recall,
            "Who finds the next click in the whole catalogue",
            recall,
            "How much more often the next click was among the best of all items just before it "
            "happened, on the same users.",
        ),
        *_curves(result),
        _intervals(
            result,
            (hitrate, False),
            "The paper's hitrate",
            hitrate,
            "For comparison with the paper only: it rewards naming what the platform will show "
            "anyway. See where popularity stands.",
        ),
        *_reliability(result),
    ]
    return Section(
        str(result.about["title"]),
        _paragraphs(result),
        [*_tables(result), *_left_out(result)],
        drawn,
        _takeaway(result),
    )


def _takeaway(result: StudyResult) -> Takeaway | None:
    if "differences" not in result.tables:  # a study of an earlier release
        return None
    rows = result.tables["differences"].filter(metric="log_likelihood").to_dicts()
    names = result.tables["table1"].height
    on = "a log" if result.about["dataset"] else "simulated logs"
    tried = f"{names} models and baselines predict held-out choices on {on}"
    return Takeaway.of_differences(tried, list(map(_difference, rows)), "nats")


def _difference(row: dict[str, Any]) -> PairedDifference:
    names = ("recommender", "reference", "value", "low", "high")
    return PairedDifference(*(row[name] for name in names))


def _paragraphs(result: StudyResult) -> list[str]:
    seeds = len(result.about["seeds"])
    fixed = result.about["dataset"] is not None
    several = "starts of training on one dataset" if fixed else "simulated worlds"
    return [
        "Each model predicts every held-out interaction from what the same user did before it. "
        "Models are judged by a closed form that knows how uncertain items are, before and after "
        "a calibration by source that is fitted on validation users.",
        f"Numbers are means over {seeds} {several if seeds > 1 else several.replace('s ', ' ', 1)} "
        "with 95 % intervals: users are resampled within each seed, and the interval is widened "
        "by what the seeds differ beyond that.",
    ]


def _tables(result: StudyResult) -> Iterator[Table]:
    """Show Table 1 in two parts, so that it fits a screen: what the paper has too, and the rest."""
    whole = result.tables["table1"]
    first = [name for name in whole.columns if "log-likelihood" in name or "hitrate" in name]
    yield Table.of(
        whole.select("recommender", *first),
        "Table 1, left: the paper's numbers and ours",
        caption="The paper's log-likelihood is the sum over its test users, scaled to all users, "
        "about −1.9 per interaction; ours is the mean per interaction. The levels come from "
        "different data: compare the order of the models. The all-item likelihood weighs no click "
        "against the whole catalogue and has no usable P(click) of a slate before calibration. The "
        "hitrate measures what the platform shows as much as what users prefer.",
        file="pooled",
        paper=("paper: log-likelihood", "paper: hitrate@20"),
    )
    yield Table.of(
        whole.select(name for name in whole.columns if name not in first),
        "Next clicks, order within slates, and calibration",
        caption="Recall and MRR are of the next click among all items, in-slate MRR and AUC of "
        "the click among the items shown. ECE is how far predicted click rates are from observed "
        "ones: lower is better.",
        file="pooled",
    )


def _left_out(result: StudyResult) -> Iterator[Table]:
    if "left_out" in result.tables:
        yield Table.of(result.tables["left_out"], "Left out", file="left_out")


def _paired(
    result: StudyResult, metric: str, title: str, axis: str, caption: str
) -> Iterator[Figure]:
    if "differences" not in result.tables:  # a study of an earlier release
        return
    rows = result.tables["differences"].filter(metric=metric)
    if rows.is_empty():
        return
    bars = [
        figures.Bar(row["recommender"], row["value"], row["low"], row["high"], row["by_seed"])
        for row in rows.sort("value", descending=True).to_dicts()
    ]
    data, layout = figures.intervals(bars, f"{axis}, minus {rows['reference'][0]}'s")
    yield Figure(title, data, layout, caption, "differences")


def _curves(result: StudyResult) -> Iterator[Figure]:
    if "curves" not in result.tables:  # a study of an earlier release
        return
    curves = result.tables["curves"]
    first = curves.filter(pl.col("seed") == curves["seed"].min())
    drawn = [
        figures.training_curve(str(name), part.to_dicts())
        for (name,), part in first.group_by("recommender", maintain_order=True)
    ]
    yield Figure(
        "How training went",
        figures.lines(drawn),
        figures.layout("epoch", "validation log-likelihood less its best"),
        "Each curve ends where training stopped, 0 is its best epoch; the model of that epoch is "
        "kept. The likelihoods of slate and all-item models are not of the same choices, so "
        "only shapes compare. First seed.",
        "curves",
    )


def _intervals(
    result: StudyResult, key: tuple[str, bool], title: str, axis: str, caption: str
) -> Figure:
    metric, calibrated = key
    rows = result.tables["pooled"].filter(metric=metric, calibrated=calibrated).to_dicts()
    order = result.tables["table1"]["recommender"].to_list()
    rows.sort(key=lambda row: order.index(row["recommender"]))
    bars = [
        figures.Bar(row["recommender"], row["value"], row["low"], row["high"], row["by_seed"])
        for row in rows
        if row["low"] is not None
    ]
    data, layout = figures.intervals(bars, axis)
    return Figure(title, data, layout, caption, "pooled")


def _reliability(result: StudyResult) -> Iterator[Figure]:
    rows = result.tables["reliability"].filter(recommender=REFERENCE)
    if rows.is_empty():
        return
    drawn = []
    for (source, calibrated), curve in rows.group_by("source", "calibrated", maintain_order=True):
        if source == "all sources":
            continue
        points = _bins(curve)
        drawn.append(
            figures.Line(
                f"{source}, {'calibrated' if calibrated else 'as it is'}",
                [row["predicted"] for row in points],
                [row["observed"] for row in points],
                hover="predicted %{x:.3f}, observed %{y:.3f}",
            )
        )
    layout = figures.layout(
        "predicted click rate", "observed click rate", xaxis={"rangemode": "tozero"}
    )
    caption = (
        f"P(click) of {REFERENCE} by source, all seeds together. On the dashed line predictions "
        "come true; below it clicks are expected that do not happen."
    )
    title = "Do predicted click rates come true?"
    data = [figures.diagonal("equal"), *figures.lines(drawn)]
    yield Figure(title, data, layout, caption, "reliability")


def _bins(curve: pl.DataFrame) -> Sequence[dict[str, Any]]:
    """Put the bins of all seeds together, leaving out those with too few slates to tell."""
    weighted = [
        (pl.col(name) * pl.col("count")).sum() / pl.col("count").sum()
        for name in ("predicted", "observed")
    ]
    together = curve.group_by("from", maintain_order=True).agg(*weighted, pl.col("count").sum())
    return together.filter(pl.col("count") >= 20).sort("from").to_dicts()
