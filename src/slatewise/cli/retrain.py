"""`slatewise retrain`: retrain the models of a service once."""

import json
import time
from datetime import UTC, datetime
from typing import Annotated

import typer

from slatewise.cli.service import ServiceDirectory, ServiceSettings, opened_store
from slatewise.cli.show import console, progress
from slatewise.errors import SlatewiseError


def retrain(
    directory: ServiceDirectory,
    config: ServiceSettings = None,
    model: Annotated[list[str] | None, typer.Option(help="Only this model; repeatable.")] = None,
    now: Annotated[
        str | None, typer.Option(help="Where the window ends, such as 2026-11-16T03:00.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start from scratch; with auto, choose terms again.")
    ] = False,
    seed: Annotated[int, typer.Option(help="The same seed gives the same model.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Train on the latest weeks, evaluate on the newest day, and serve the model if no worse."""
    from slatewise.service.nights import retrain as retrain_service  # noqa: PLC0415
    from slatewise.service.settings import ServiceConfig  # noqa: PLC0415 (torch is slow to load)
    from slatewise.service.upkeep.repair import compact_items  # noqa: PLC0415

    settings = ServiceConfig.read(config)
    end = time.time_ns() // 1_000 if now is None else _moment(now)
    with opened_store(directory, settings) as store, progress() as bars:
        nights = retrain_service(
            directory,
            settings,
            store,
            now=end,
            names=model,
            seed=seed,
            fresh=fresh,
            progress=bars,
        )
        compact_items(directory, store)  # as a night of `serve` does
    if as_json:
        typer.echo(json.dumps([night.to_json() for night in nights], indent=2))
    else:
        console.print("\n".join(line for night in nights for line in night.words()))
    if any(night.outcome == "failed" for night in nights):
        raise typer.Exit(2)


def _moment(text: str) -> int:
    """Return a time as microseconds since 1970; without a zone, it is UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise SlatewiseError(f"'{text}' is not a time.", "Write it as 2026-11-16T03:00.") from error
    found = found if found.tzinfo else found.replace(tzinfo=UTC)
    return round(found.timestamp() * 1_000_000)
