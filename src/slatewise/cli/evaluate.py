"""`slatewise evaluate`: how good a model is, one step ahead, beside the baselines."""

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.table import Table

from slatewise.cli.show import console, progress, table
from slatewise.data.dataset import SlateDataset
from slatewise.simulation.processes import available_cores

if TYPE_CHECKING:
    from slatewise.evaluation import BaselineVerdict, Calibration, Evaluation, Predictor


_WIDE = 130
_METRICS = 3
"""that stand beside each other on a narrower terminal"""
_ON_GPU = 8_192
"""Users judged at once where a GPU predicts."""
_RANKED = 10_000
"""Users by whom rankings are judged, at most, where each next click takes milliseconds: recall then
lies within .005."""
_SOURCES = 20
"""Sources of the table by source, at most: those seen most."""
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
            help="Models to add, separated by commas: gru4rec, sasrec, bpr, lightgbm, or one "
            "of your own as package.module:Name; or built-in baselines to keep, by name."
        ),
    ] = None,
    trials: Annotated[
        int,
        typer.Option(
            help="Settings, up to 8, to try gru4rec, sasrec, bpr and lightgbm with; the validation "
            "part chooses.",
        ),
    ] = 1,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Evaluate a model on held-out interactions, each predicted from the ones before it."""
    # Torch takes a second to load: only commands that need it pay.
    from slatewise import evaluation  # noqa: PLC0415
    from slatewise.evaluation.baselines.registry import require_baselines  # noqa: PLC0415
    from slatewise.evaluation.evaluate import BATCH_USERS  # noqa: PLC0415
    from slatewise.training import runs  # noqa: PLC0415

    model, opened = runs.load(run), SlateDataset.open(dataset)
    evaluation.require_same_items(model, opened)
    name = model.config.name
    by_mean = evaluation.ModelRecommender(model, log=opened, device=device)
    by_draws = evaluation.ModelRecommender(
        model, samples=samples, seed=seed, log=opened, device=device
    )
    by_mean_title, by_draws_title = name, f"{name}, {samples} draws"
    asked = [name.strip() for given in against or () for name in given.split(",")]
    require_baselines(asked)
    batch_users = BATCH_USERS if device == "cpu" else _ON_GPU
    stored, calibrate = model.calibration, partial(evaluation.calibrate, batch_users=batch_users)
    # Each has errors of its own: averages over draws correct part of what the mean gets wrong.
    calibrations: dict[str, Callable[[], Calibration]] = {
        by_mean_title: partial(evaluation.Calibration.from_json, stored)
        if stored is not None
        else partial(calibrate, by_mean, opened),
        by_draws_title: partial(calibrate, by_draws, opened),
    }
    with progress() as bars:

        def judged(title: str, recommender: "Predictor") -> "Evaluation":
            return evaluation.evaluate(
                recommender,
                opened,
                part=part,
                k=k,
                seed=seed,
                batch_users=batch_users,
                ranked_users=_RANKED if by_mean.ranks_again else None,
                calibration=calibrations[title]() if title in calibrations else None,
                progress=partial(_renamed, bars, title),
            )

        fit = partial(
            evaluation.fit_baselines, seed=seed, trials=trials, device=device, progress=bars
        )
        # The catalogue is ranked in closed form, whatever predictions average over.
        own: dict[str, Predictor] = {
            by_mean_title: by_mean,
            by_draws_title: evaluation.OnlyPredicts(by_draws),
        }
        found = _all_judged(own, partial(fit, opened, asked), judged, device)
    baselines = [title for title in found if title not in own]
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
    console.print(f"Model: {name}", soft_wrap=True)
    for scores in _scores(name, evaluation.table(found, [*shown, f"recall@{k}", f"hitrate@{k}"])):
        console.print(scores)
    console.print(_rates(found[name]))
    others = [one for one in baselines if one in evaluation.COMPARATORS]
    several = opened.further_clicks is not None
    for note in _notes(found[name], others, trials, all_item=all_item, several=several):
        console.print(note, style="dim")
    if model.posterior.ranking is None and not all_item:
        recall = _on_recall(name, found[name], {b: found[b] for b in baselines}, f"recall@{k}")
        if recall:
            console.print(recall, style="dim")
    if verdict is None:
        words = f"No verdict: {metric} decides, and {', '.join(baselines)} cannot rank all items."
        console.print(f"\n{words} Name another baseline with --against.", soft_wrap=True)
    else:
        console.print(f"\n{_in_words(verdict)}", soft_wrap=True)
    console.print(f"\nRun: {run}, {part} part of {dataset}")


def _all_judged(
    own: "Mapping[str, Predictor]",
    fit: "Callable[[], Mapping[str, Predictor]]",
    judge: "Callable[[str, Predictor], Evaluation]",
    device: str,
) -> "dict[str, Evaluation]":
    """Judge a model and the baselines, once these are fitted: title -> evaluation.

    A GPU that judges the model leaves the cores idle: baselines are fitted and judged there.
    """
    with ThreadPoolExecutor(1 if device == "cpu" else available_cores()) as threads:

        def begin(some: "Mapping[str, Predictor]") -> "dict[str, Future[Evaluation]]":
            return {title: threads.submit(judge, title, one) for title, one in some.items()}

        at_once = {} if device == "cpu" else begin(own)
        baselines = fit()
        jobs = (at_once or begin(own)) | begin(baselines)
        return {title: job.result() for title, job in jobs.items()}


def _notes(
    found: "Evaluation", others: list[str], trials: int, *, all_item: bool, several: bool
) -> Iterator[str]:
    """Say what to know of the numbers; `others` are the models of others, each tuned alike."""
    ranked, users = found.about["ranked_users"], found.about["users"]
    if ranked < users:
        yield f"Rankings are judged by {ranked:,} of the {users:,} users, drawn at random."
    if others and trials == 1:
        yield f"{', '.join(others)}: usual settings; --trials 8 tunes each by the validation part."
    elif others:
        yield f"{', '.join(others)}: each the best of {trials} settings by the validation part."
    if all_item:
        yield (
            "The all-item likelihood has no usable P(click) before calibration: compare its "
            "calibrated log-likelihood and click rates only."
        )
    if several:
        yield (
            "Some slates have several clicks: after the first, each is judged as a choice among "
            "the items left."
        )


def _in_words(verdict: "BaselineVerdict") -> str:
    found, name = verdict.difference, verdict.metric.replace("_", "-")
    numbers = f"{found.value:+.3f} [{found.low:+.3f}, {found.high:+.3f}]".replace("-", "−")
    named = replace(verdict, model="the model", baseline=f"the baseline '{verdict.baseline}'")
    return f"Verdict: {named.sentence} Difference in {name}: {numbers}, paired by user."


def _on_recall(
    name: str, own: "Evaluation", baselines: dict[str, "Evaluation"], metric: str
) -> str | None:
    """Say why a baseline may find more of the next clicks than a model that ranks for clicks."""
    from slatewise import evaluation  # noqa: PLC0415

    if metric not in own.estimates or not any(metric in b.estimates for b in baselines.values()):
        return None
    compared = evaluation.judge(name, own, baselines, metric)
    if not compared.difference.high < 0:
        return None
    return (
        f"{compared.baseline} has a better {metric}. Next clicks are on what the site chose to "
        "show; this model ranks for the click rate of what is shown. To rank for recall, train "
        'with ranking = "next-click" in [model].'
    )


def _renamed(
    bars: Callable[[str, int, int | None], None], title: str, stage: str, done: int, total: int
) -> None:
    bars(title, done, total)


def _scores(model: str, rows: list[dict[str, str]]) -> Iterator[Table]:
    """Show one recommender a row, with 95 % intervals over users.

    On a narrow terminal by three metrics at a time, each interval below its value.
    """
    first, *metrics = rows[0]
    wide, title = console.width >= _WIDE, "One step ahead, with 95 % intervals over users"
    beside = len(metrics) if wide else _METRICS
    for start in range(0, len(metrics), beside):
        some = metrics[start : start + beside]
        result = table(title, first, *(metric.replace("_", " ") for metric in some))
        result.columns[0].overflow, title = "fold", ""
        for row in rows:
            values = [row[metric] for metric in some]
            if not any(values):
                continue
            shown = values if wide else [value.replace(" [", "\n[") for value in values]
            result.add_row(row[first].replace(model, "the model", 1), *shown)
        yield result


def _rates(judged: "Evaluation") -> Table:
    """Show by source what was predicted and what happened."""
    result = table(
        "P(click) by source", "source", "observed", "predicted", "ECE", "after calibration"
    )
    after = judged.calibrated or judged
    rates = judged.estimates["click_rate"]
    # The row of all comes first and has the greatest count.
    shown = sorted(rates, key=lambda source: -rates[source].count)[: _SOURCES + 1]
    for source, observed in rates.items():
        if source not in shown:
            continue
        result.add_row(
            source,
            f"{observed.value:.3f}",
            f"{judged.estimates['predicted_click_rate'][source].value:.3f}",
            f"{judged.estimates['ece'][source].value:.3f}",
            f"{after.estimates['ece'][source].value:.3f}",
        )
    if len(rates) > len(shown):
        result.add_row(f"{len(rates) - len(shown):,} rarer sources: --json")
    return result
