"""`slatewise retrain`: a night of the live service."""

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from slatewise.cli.show import console, progress
from slatewise.errors import SlatewiseError


def retrain(
    directory: Annotated[Path, typer.Argument(help="The directory of the service.")],
    config: Annotated[
        Path | None, typer.Option(help="The TOML file that the service runs with.")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="Only this model; may be given again.")
    ] = None,
    now: Annotated[
        str | None, typer.Option(help="Where the window ends, such as 2026-11-16T03:00.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start from nothing; with auto, choose terms anew.")
    ] = False,
    seed: Annotated[int, typer.Option(help="The same seed gives the same model.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Train on the latest weeks, judge on the newest day, and serve it if it is no worse."""
    from slatewise.service.config import ServiceConfig  # noqa: PLC0415 (torch is slow to load)
    from slatewise.service.nights import retrain as retrain_service  # noqa: PLC0415
    from slatewise.service.store import Store  # noqa: PLC0415

    settings = ServiceConfig.read(config)
    end = time.time_ns() // 1_000 if now is None else _moment(now)
    if not directory.is_dir() or (
        settings.store.url is None and not (directory / "store.sqlite").exists()
    ):
        raise SlatewiseError(
            f"{directory} is not the directory of a service.", "Make one with: slatewise serve DIR"
        )
    store = Store.open(settings.store_url(directory))
    try:
        with progress() as bars:
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
    finally:
        store.close()
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
