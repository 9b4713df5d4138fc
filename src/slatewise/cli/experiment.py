"""`slatewise experiment`: run a study, which can be interrupted and resumed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from slatewise.cli.cluster import units_on_ray
from slatewise.cli.show import bars, console, table
from slatewise.errors import SlatewiseError
from slatewise.plugins import is_import_path

if TYPE_CHECKING:
    from slatewise.experiments.store import StudyResult
    from slatewise.experiments.study import Progress as Report

_NARROW, _COLUMN, _FEW = 60, 16, 4


def experiment(
    name: Annotated[
        str,
        typer.Argument(
            help="offline, posterior, online-models, missing-search, online-strategies, claims, "
            "terms, exposure, tune, or a study of yours as package.module:Name."
        ),
    ],
    out: Annotated[
        Path, typer.Argument(help="Directory of all studies; this one goes to OUT/NAME.")
    ],
    seeds: Annotated[
        str | None, typer.Option(help="Repetitions, such as 0,1,2; more may be added later.")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="Simulated world, such as demo.")] = None,
    truth: Annotated[
        str | None, typer.Option(help="How simulated users choose: paper or outside.")
    ] = None,
    dataset: Annotated[
        Path | None, typer.Option(help="A prepared dataset instead of the simulator.")
    ] = None,
    run: Annotated[Path | None, typer.Option(help="A trained run to look at (posterior).")] = None,
    variant: Annotated[
        list[str] | None,
        typer.Option(
            help="A model of the study; one of yours as NAME=file.toml, or as package.module:NAME "
            "of a ModelConfig (offline). Repeatable."
        ),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            help="A baseline to add, as package.module:Name, or a built-in one to keep, by name "
            "(offline). Repeatable."
        ),
    ] = None,
    trials: Annotated[int | None, typer.Option(help="Trials of a search (tune).")] = None,
    objective: Annotated[
        str | None, typer.Option(help="What tune looks for: validation-likelihood or hitrate.")
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, help="Units that run at once: one, or all that a cluster has room for."
        ),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(help="Run units on a Ray cluster: its address, auto, or local."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file of further settings; options win over it.")
    ] = None,
) -> None:
    """Run a study; stop it with Ctrl-C and resume it with the same command."""
    # Torch takes a second to load: only commands that need it pay.
    from slatewise.experiments.study import (  # noqa: PLC0415
        find_study,
        in_turn,
        run_study,
        study_config,
    )

    study = find_study(name)
    settings = study_config(
        study,
        config,
        seeds=_numbers(seeds) if seeds is not None else None,
        preset=preset,
        truth=truth,
        dataset=dataset,
        run=run,
        **_variants(variant),
        against=against,
        trials=trials,
        objective=objective,
    )
    folder = out / study.name
    with _stopping_cleanly(folder), _bars(study.name) as progress, units_on_ray(ray) as cluster:
        result = run_study(
            study,
            settings,
            # Processes of a cluster stand elsewhere.
            out if ray is None else out.resolve(),
            jobs=jobs or cluster.jobs,
            side_by_side=cluster.side_by_side,
            each=cluster.each or in_turn,
            progress=progress,
            notice=console.print,
        )
    if result.about["headline"]:
        console.print(_shown(study.title, result))
        console.print()
    for finding in result.findings:
        console.print(f"{finding.question}\n  {finding.sentence()}", soft_wrap=True)
    console.print(f"\nStudy: {folder}")


def _variants(given: list[str] | None) -> dict[str, object]:
    """Return the names of models, and where the user's own models are defined."""
    if given is None:
        return {}
    models, names = {}, []
    for text in given:
        name, own, source = text.partition("=")
        if not own and is_import_path(text):
            name, source = text.rpartition(":")[2], text
        names.append(name)
        if source:
            models[name] = source
    return {"variants": names, "models": models or None}


def _numbers(text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise SlatewiseError(
            f"--seeds {text}: these are not whole numbers.", "Give them as 0,1,2."
        ) from None


@contextmanager
def _stopping_cleanly(folder: Path) -> Iterator[None]:
    """Turn an interrupt into the exit code of Ctrl-C, and print how to resume."""
    try:
        yield
    except KeyboardInterrupt:
        kept = len(list((folder / "units").glob("*.json")))
        # An unfinished unit keeps its intermediate results too, such as the trials of a search.
        begun = " and the intermediate results of the next" * any(
            (folder / "unfinished").glob("*/*")
        )
        console.print(
            f"Stopped; finished units are kept ({kept}){begun}. Resume with the same command."
        )
        console.print(f"Study: {folder}")
        raise typer.Exit(130) from None


@contextmanager
def _bars(name: str) -> Iterator["Report"]:
    """Show the study and its current stage as two bars on a terminal, removed at the end."""
    with bars() as shown:
        study, stage_now = shown.add_task(f"{name}, units"), shown.add_task("")

        def report(stage: str, done: int, total: int | None) -> None:
            if stage == name:
                shown.update(study, completed=done, total=total)
            else:
                shown.update(stage_now, description=stage, completed=done, total=total)

        yield report


def _shown(title: str, result: "StudyResult") -> Table:
    rows = result.tables[result.about["headline"]]
    shown = table(title, *rows.columns)
    shown.columns[0].overflow = "fold"
    shown.columns[0].no_wrap = console.width >= _NARROW  # the numbers wrap first
    if len(rows.columns) > _FEW:
        for column in shown.columns[1:]:
            column.max_width = _COLUMN
    for row in rows.iter_rows():
        shown.add_row(*("" if value is None else str(value) for value in row))
    return shown
