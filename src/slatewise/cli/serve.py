"""`slatewise serve`: the service over HTTP, with as many workers as there are cores to spare."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slatewise.cli.load import SECONDS_BETWEEN_LINES, show_load
from slatewise.cli.show import console, progress
from slatewise.errors import SlatewiseError

if TYPE_CHECKING:
    from slatewise.service.http.security import Tokens
    from slatewise.service.settings import ServiceConfig


def serve(
    directory: Annotated[
        Path, typer.Argument(help="Directory of the service; created if missing.")
    ],
    config: Annotated[
        Path | None, typer.Option(help="TOML file with settings: arms, models, limits, nights.")
    ] = None,
    run: Annotated[
        Path | None, typer.Option(help="A run of slatewise train to serve first.")
    ] = None,
    no_log: Annotated[
        bool, typer.Option("--no-log", help="Do not load the log that the run was trained on.")
    ] = False,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0 takes any free port.")] = 8_000,
    workers: Annotated[int, typer.Option(min=1, max=256, help="Number of processes.")] = 1,
    tokens: Annotated[
        Path | None, typer.Option(help="File with role:token lines; else SLATEWISE_TOKENS.")
    ] = None,
    open_: Annotated[
        bool,
        typer.Option("--open", help="Require no tokens; only where no other machine can connect."),
    ] = False,
    retrain_at: Annotated[
        str | None, typer.Option(help="Time of day to retrain at, such as 03:00.")
    ] = None,
    store: Annotated[
        str | None, typer.Option(help="postgresql://… or sqlite:///…; else a file in DIRECTORY.")
    ] = None,
) -> None:
    """Serve slates over HTTP, record feedback, and retrain at night."""
    # Torch and the web framework take seconds to load: only commands that need them pay.
    from slatewise.service.http.startup import prepare  # noqa: PLC0415
    from slatewise.service.http.supervisor import listen, supervise  # noqa: PLC0415
    from slatewise.service.settings import ServiceConfig  # noqa: PLC0415

    known = _tokens(tokens, open_, host)
    settings = _settings(ServiceConfig.read(config), retrain_at, store)
    with progress(SECONDS_BETWEEN_LINES) as bars:
        report = prepare(directory, settings, run, log=not no_log, progress=bars)
    if report is not None:
        show_load(report)
    listening = listen(host, port)
    console.print(f"Service: {directory} at http://{host}:{listening.getsockname()[1]}")

    def reread() -> "tuple[ServiceConfig, Tokens | None]":
        # The environment of a process does not change: only tokens of a file can be others now.
        now = known if tokens is None else _tokens(tokens, open_, host)
        return _settings(ServiceConfig.read(config), retrain_at, store), now

    supervise(directory, settings, known, listening, workers, reread)


def _tokens(file: Path | None, open_: bool, host: str) -> "Tokens | None":
    """Read the tokens, or return None if `--open` allows requests without them."""
    from slatewise.service.http.security import check_open, read_tokens  # noqa: PLC0415

    found = read_tokens(file)
    if open_:
        if found is not None:
            raise SlatewiseError(
                "--open and tokens contradict each other.", "Leave one of them out."
            )
        check_open(host)
    elif found is None:
        raise SlatewiseError(
            "there are no tokens, and every request would be refused.",
            "Set SLATEWISE_TOKENS=role:token,… or give --tokens FILE; to try it on this machine "
            "alone, --open.",
        )
    return found


def _settings(config: "ServiceConfig", at: str | None, store: str | None) -> "ServiceConfig":
    """Return the settings with the options of the command line."""
    changes: dict[str, object] = {}
    if at is not None:
        changes["retraining"] = config.retraining.model_dump() | {"at": at}
    if store is not None:
        changes["store"] = {"url": store}
    return config.changed(**changes) if changes else config
