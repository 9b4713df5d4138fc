"""`slatewise evaluate`: how good a model is, one step ahead, beside the baselines."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.table import Table

from slatewise.cli.show import console, progress, table
from slatewise.data.dataset import SlateDataset
from slatewise.simulation.processes import available_cores

if TYPE_CHECKING:
    from slatewise.evaluation import BaselineVerdict, Evaluation, Predictor


_WIDE = 130
_ON_GPU = 8_192
"""Users judged at once where a GPU predicts."""
_SHOWN = ("log_likelihood", "log_likelihood_per_slate", "in_slate_mrr", "in_slate_auc")


def evaluate(
    run: Annotated[Path, typer.Argument(help="A run that slatewise train made.")],
    dataset: Annotated[Path, typer.Argument(help="A prepared dataset with the same items.")],
    part: Annotated[
        Literal["test", "validation"], typer.Option(help="Which part to evaluate on.")
    ] = "test",
    k: Annotated[int, typer.Option("--k", min=1, help="Length of recommended lists.")] = 20,
    samples: Annotated[
        int, typer.Option(min=1, help="Posterior draws that predictions average over.")
    ] = 20,
    seed: Annotated[int, typer.Option(help="Random seed of draws, intervals and baselines.")] = 0,
    against: Annotated[
        list[str] | None,
        typer.Option(
            help="What to add, with commas between: gru4rec, sasrec, bpr, lightgbm, or a baseline "
            "of your own as package.module:Name; or built-in baselines to keep, by name."
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Evaluate a model on held-out interactions, each predicted from the ones before it."""
    # Torch takes a second to load: only commands that need it pay.
    from slatewise import evaluation  # noqa: PLC0415
    from slatewise.evaluation.evaluate import BATCH_USERS  # noqa: PLC0415
    from slatewise.training import runs  # noqa: PLC0415

    model, opened = runs.load(run), SlateDataset.open(dataset)
    evaluation.require_same_items(model, opened)
    name = model.config.name
    by_mean = evaluation.ModelRecommender(model, log=opened, device=device)
    by_draws = evaluation.ModelRecommender(
        model, samples=samples, seed=seed, log=opened, device=device
    )
    titles = {name: by_mean, f"{name}, {samples} draws": by_draws}
    # Each has errors of its own: averaging over draws corrects part of what the mean gets wrong.
    calibrations = {
        title: evaluation.Calibration.from_json(model.calibration)
        if recommender is by_mean and model.calibration is not None
        else evaluation.calibrate(recommender, opened)
        for title, recommender in titles.items()
    }
    asked = [name.strip() for given in against or () for name in given.split(",")]
    by_mean_title, by_draws_title = titles
    with progress() as bars:
        baselines = evaluation.fit_baselines(opened, asked, seed=seed, progress=bars)
        recommenders: dict[str, Predictor] = {**titles, **baselines}
        # The catalogue is ranked in closed form, whatever predictions average over.
        recommenders[by_draws_title] = evaluation.OnlyPredicts(by_draws)

        def judged(title: str) -> "Evaluation":
            return evaluation.evaluate(
                recommenders[title],
                opened,
                part=part,
                k=k,
                seed=seed,
                batch_users=BATCH_USERS if device == "cpu" else _ON_GPU,
                calibration=calibrations.get(title),
                progress=partial(_renamed, bars, title),
            )

        # Beside a GPU, the baselines are judged on the cores that it leaves idle.
        with ThreadPoolExecutor(1 if device == "cpu" else available_cores()) as threads:
            found = dict(zip(recommenders, threads.map(judged, recommenders), strict=True))
    found[by_draws_title] = found[by_draws_title].with_ranking_of(found[by_mean_title])
    # An all-item likelihood has no P(click) of a slate: such a model is judged by what it ranks.
    all_item = model.config.likelihood == "all-item"
    metric = f"recall@{found[name].about['k']}" if all_item else "log_likelihood"
    rivals = {one: found[one] for one in baselines if metric in found[one].estimates}
    verdict = evaluation.judge(name, found[name], rivals, metric) if rivals else None
    if as_json:
        results = {title: one.to_json() for title, one in found.items()}
        in_json = {"verdict": None if verdict is None else verdict.to_json()}
        typer.echo(json.dumps(results | in_json, indent=2))
        return
    shown = [metric for metric in _SHOWN if metric in found[name].estimates]
    console.print(_scores(evaluation.table(found, [*shown, f"recall@{k}", f"hitrate@{k}"])))
    console.print(_rates(found[name]))
    if all_item:
        console.print(
            "The all-item likelihood has no usable P(click): read its log-likelihood and "
            "calibration after calibration only.",
            style="dim",
        )
    if opened.further_clicks is not None:
        console.print(
            "Slates have several clicks: a further click is judged by which of the items left it "
            "was, given that there was one.",
            style="dim",
        )
    if verdict is None:
        words = f"No verdict: {metric} decides, and {', '.join(baselines)} cannot rank all items."
        console.print(f"\n{words} Name another baseline with --against.", soft_wrap=True)
    else:
        console.print(f"\n{_in_words(verdict)}", soft_wrap=True)
    console.print(f"\nRun: {run}, {part} part of {dataset}")


def _in_words(verdict: "BaselineVerdict") -> str:
    found, name = verdict.difference, verdict.metric.replace("_", "-")
    numbers = f"{found.value:+.3f} [{found.low:+.3f}, {found.high:+.3f}]".replace("-", "−")
    return f"Verdict: {verdict.sentence} Difference in {name}: {numbers}, paired by user."


def _renamed(
    bars: Callable[[str, int, int | None], None], title: str, stage: str, done: int, total: int
) -> None:
    bars(title, done, total)


def _scores(rows: list[dict[str, str]]) -> Table:
    """Show one recommender a row, with 95 % intervals over users."""
    names = (name.replace("_", " ") for name in rows[0])
    result = table("One step ahead, with 95 % intervals over users", *names)
    result.columns[0].overflow = "fold"
    if console.width < _WIDE:
        for column in result.columns[1:]:
            column.max_width = 10  # an interval goes below its value, and the names stay readable
    for row in rows:
        result.add_row(*(value for value in row.values()))
    return result


def _rates(judged: "Evaluation") -> Table:
    """Show by source what was predicted and what happened."""
    result = table(
        "P(click) by source", "source", "observed", "predicted", "ECE", "after calibration"
    )
    after = judged.calibrated or judged
    for source, observed in judged.estimates["click_rate"].items():
        result.add_row(
            source,
            f"{observed.value:.3f}",
            f"{judged.estimates['predicted_click_rate'][source].value:.3f}",
            f"{judged.estimates['ece'][source].value:.3f}",
            f"{after.estimates['ece'][source].value:.3f}",
        )
    return result
