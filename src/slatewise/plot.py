"""The report's figures of objects at hand, as Plotly figures for a notebook or a file.

    slatewise.plot.training_curves({"GRU": gru, "linear": linear}).show()

Needs plotly: pip install '.[report]' in the folder of slatewise's source.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from slatewise.errors import SlatewiseError, install_remedy
from slatewise.evaluation.evaluate import Evaluation
from slatewise.evaluation.panel import ALL
from slatewise.experiments.posterior import FIGURES, group_distances, scales, view_edges
from slatewise.experiments.store import StudyResult
from slatewise.model.fitted import SlateModel
from slatewise.report import figures
from slatewise.report.sections.online_models import daily
from slatewise.slates.recommender import Events, Recommender

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = [
    "daily_rates",
    "paired",
    "posterior_by_views",
    "relevance",
    "reliability",
    "training_curves",
]

ROWS: Final = 40
"""Rows of a histogram."""
GRID: Final = 60
"""Points of a contour in each direction."""
LEAST: Final = 20
"""Slates of a point of a reliability curve; fewer tell nothing."""
MOST_ITEMS: Final = 2_000
"""Items drawn beside a contour, the most seen ones."""


def __dir__() -> list[str]:
    return __all__


def posterior_by_views(model: SlateModel, measure: str = "scale") -> "Figure":
    """Draw how many items have how many views and what posterior (Figures 4 and 5).

    Args:
        model: a fitted model.
        measure: `scale`, the standard deviation of an item, or `distance`, to its group's mean.

    """
    if measure not in FIGURES:
        raise SlatewiseError(f"there is no measure '{measure}'.", "Choose scale or distance.")
    views = model.views.numpy()
    seen = views > 0
    values = (scales(model) if measure == "scale" else group_distances(model))[seen]
    x_edges = view_edges(int(views.max(initial=1)))
    y_edges = np.linspace(0, max(float(values.max(initial=0.0)), 1e-6), ROWS + 1)
    cells, _, _ = np.histogram2d(values, views[seen], bins=(y_edges, x_edges))
    data = figures.counts(x_edges, y_edges.tolist(), cells.astype(np.int64).tolist())
    log = {"type": "log", "dtick": 1}
    return _figure(data, figures.layout("views in training", FIGURES[measure][0], xaxis=log))


def relevance(recommender: Recommender, clicks: Events = ()) -> "Figure":
    """Draw the relevance of every point around a user, with items on it, in two dimensions.

    The plane holds the user and the two directions in which items differ most; items are
    projected onto it. The relevance is that of distance or dot product alone, without terms.
    """
    model = recommender.model
    slate = recommender.recommend(clicks, 1, strategy="greedy", seed=0)
    user = recommender.ranker.mean_profile(slate.history).astype(np.float64)
    vectors = model.item_vectors.astype(np.float64)
    _, _, directions = np.linalg.svd(vectors - vectors.mean(0), full_matrices=False)
    plane = directions[:2]  # [2, D]
    most = np.argsort(-model.views.numpy(), kind="stable")[:MOST_ITEMS]
    shown = (vectors[most] - user) @ plane.T  # [items, 2]
    reach = 1.1 * max(float(np.abs(shown).max(initial=0.0)), 1e-6)
    axis = np.linspace(-reach, reach, GRID)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1)  # [GRID, GRID, 2]
    points = (user + grid @ plane).astype(np.float32)
    part = model.posterior.parts.relevance
    heights = np.exp(part.of_arrays(user.astype(np.float32), points))
    marks = {"type": "scatter", "mode": "markers"}
    data: list[dict[str, Any]] = [
        {
            "type": "contour",
            **{"x": axis.tolist(), "y": axis.tolist(), "z": heights.tolist()},
            "colorscale": [list(stop) for stop in figures.SHADES],
            "colorbar": {"title": {"text": "relevance"}, "thickness": 12},
            "hovertemplate": "%{z:.3f}<extra></extra>",
        },
        marks
        | {
            "name": "items",
            **{"x": shown[:, 0].tolist(), "y": shown[:, 1].tolist()},
            "text": [figures.plain(str(model.item_ids[item])) for item in most],
            "marker": {"size": 5, "color": figures.COLOURS[1]},
            "hovertemplate": "%{text}<extra></extra>",
        },
        marks
        | {
            "name": "the user",
            **{"x": [0.0], "y": [0.0]},
            "marker": {"size": 13, "symbol": "star", "color": figures.COLOURS[4]},
            "hoverinfo": "name",
        },
    ]
    return _figure(data, figures.layout("first direction", "second direction", height=520))


def daily_rates(study: StudyResult) -> "Figure":
    """Draw the click rate of every arm by day, of an online study (Figures 2 and 3)."""
    if "daily" not in study.tables:
        raise SlatewiseError(
            f"the study {study.name} has no days.", "Give one of the online studies."
        )
    drawn = daily(study.tables["daily"], "", "daily")
    return _figure(list(drawn.data), drawn.layout)


def reliability(evaluation: Evaluation) -> "Figure":
    """Draw how often slates were clicked by the predicted P(click), by source."""
    if not evaluation.reliability:
        raise SlatewiseError(
            "this recommender only ranks: it predicts no clicks.", "Evaluate one with `predict`."
        )
    versions = {"as it is": evaluation, "calibrated": evaluation.calibrated}
    drawn = [
        figures.Line(
            f"{source}, {name}",
            [row["predicted"] for row in curve if row["count"] >= LEAST],
            [row["observed"] for row in curve if row["count"] >= LEAST],
            hover="predicted %{x:.3f}, observed %{y:.3f}",
        )
        for name, version in versions.items()
        if version is not None
        for source, curve in version.reliability.items()
        if source != ALL
    ]
    layout = figures.layout("predicted click rate", "observed click rate")
    return _figure([figures.diagonal("equal"), *figures.lines(drawn)], layout)


def paired(
    evaluations: Mapping[str, Evaluation], reference: str, metric: str = "log_likelihood"
) -> "Figure":
    """Draw how far recommenders are ahead of one of them on the same users.

    Args:
        evaluations: by name, of the same part of the same dataset.
        reference: the name of the one that the others are compared with.
        metric: what is compared.

    """
    if reference not in evaluations:
        raise SlatewiseError(
            f"there is no evaluation '{reference}'.", f"Choose one of {', '.join(evaluations)}."
        )
    base = evaluations[reference][metric]
    found = {
        name: one[metric] - base
        for name, one in evaluations.items()
        if name != reference and metric in one.estimates
    }
    bars = [figures.Bar(name, one.value, one.low, one.high) for name, one in found.items()]
    data, layout = figures.intervals(bars, f"{metric.replace('_', '-')}, minus {reference}'s")
    return _figure(data[1:], layout)  # without the marks of seeds: there is one


def training_curves(models: SlateModel | Mapping[str, SlateModel]) -> "Figure":
    """Draw the validation likelihood of every epoch, less the best of its stage.

    Of one model, or of several by name.
    """
    if isinstance(models, SlateModel):
        models = {models.config.name: models}
    drawn = [figures.training_curve(name, model.history) for name, model in models.items()]
    if not any(line.x for line in drawn):
        raise SlatewiseError(
            "the models have no record of their training.",
            "Load the run that `slatewise train` made, or keep what `fit` returned.",
        )
    layout = figures.layout("epoch", "validation log-likelihood less its best")
    return _figure(figures.lines(drawn), layout)


def _figure(data: list[dict[str, Any]], layout: dict[str, Any]) -> "Figure":
    try:
        from plotly.graph_objects import Figure  # noqa: PLC0415 (optional)
    except ImportError as error:
        raise SlatewiseError(
            "figures are drawn with plotly, which is not installed.",
            install_remedy("report"),
        ) from error
    return Figure({"data": data, "layout": layout})
