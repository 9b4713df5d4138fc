"""`slatewise advise`: which strategy pays on the site of a log."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from slatewise.cli.show import console, progress, table
from slatewise.data.dataset import SlateDataset

if TYPE_CHECKING:
    from slatewise.evaluation.advice import StrategyAdvice


def advise(
    run: Annotated[Path, typer.Argument(help="A run that slatewise train made.")],
    dataset: Annotated[Path, typer.Argument(help="The dataset that it was trained on.")],
    strategy: Annotated[
        list[str] | None,
        typer.Option(
            help="Strategies to compare with the first; repeatable. By default greedy, thompson "
            "and in-slate-thompson."
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(help="Source of recommendations; without it, the first that is not search."),
    ] = None,
    days: Annotated[int, typer.Option(min=1, help="Days that each strategy serves.")] = 7,
    slates: Annotated[int, typer.Option(min=1, help="Most slates of a day.")] = 300,
    repetitions: Annotated[
        int, typer.Option(min=2, help="Draws of the site from the posterior.")
    ] = 8,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of all draws.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Simulate strategies from what a model believes of its site, and say which one pays."""
    # Torch takes a second to load: only commands that need it pay.
    from slatewise.evaluation.advice import AdviceConfig  # noqa: PLC0415
    from slatewise.evaluation.advice import advise as simulate  # noqa: PLC0415
    from slatewise.training import runs  # noqa: PLC0415

    given = {"days": days, "slates": slates, "repetitions": repetitions, "seed": seed}
    config = AdviceConfig.build(given | ({"strategies": strategy} if strategy else {}), "advise")
    model = runs.load(run)
    with progress() as bars:
        found = simulate(model, SlateDataset.open(dataset), config, source=source, progress=bars)
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2))
        return
    site = found.site
    console.print(
        f"A site of {site.items:,} items, of which {site.leaving:.1%} leave in a day, with "
        f"{site.slates_a_day:,.0f} slates a day from '{site.source}'. An item on offer was seen "
        f"{site.views:,.0f} times; its posterior scale is {site.scale:.2f}.",
        soft_wrap=True,
    )
    console.print(found.quality_note, soft_wrap=True)
    console.print(_forecasts(found))
    console.print(f"\nAdvice: {found.sentence}", soft_wrap=True)
    if model.exploration_note is not None:
        console.print(model.exploration_note, style="dim", soft_wrap=True)


def _forecasts(found: "StrategyAdvice") -> Table:
    """Show one strategy a row."""
    from slatewise.evaluation.advice import in_points  # noqa: PLC0415

    first = found.forecasts[0].strategy
    columns = "strategy", "click rate", f"over {first}", "on the last day"
    result = table(
        "If the site is as the model believes, with 95 % intervals for this site", *columns
    )
    for one in found.forecasts:
        gains = (
            (in_points(one.gain), in_points(one.last_day)) if one.strategy != first else ("", "")
        )
        result.add_row(one.strategy, f"{one.click_rate.value:.4f}", *gains)
    return result
