"""`slatewise rollback`: serve the previous version of a model again."""

from typing import Annotated

import typer

from slatewise.cli.service import (
    ServiceDirectory,
    ServiceSettings,
    StoreUrl,
    opened_store,
    read_settings,
)
from slatewise.cli.show import console
from slatewise.errors import SlatewiseError


def rollback(
    directory: ServiceDirectory,
    model: Annotated[str | None, typer.Option(help="Which model, where there are several.")] = None,
    config: ServiceSettings = None,
    store: StoreUrl = None,
) -> None:
    """Return to the previous version of a model; running servers switch by themselves."""
    from slatewise.service.serving.models import Models  # noqa: PLC0415 (torch is slow to load)

    folder = directory / "models"
    names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    if not names:
        raise SlatewiseError(f"{directory} has no model.", "Check the directory.")
    if (model is None and len(names) > 1) or (model is not None and model not in names):
        problem = (
            "the service has several models" if model is None else f"there is no model '{model}'"
        )
        raise SlatewiseError(f"{problem}.", f"Give --model with one of {', '.join(names)}.")
    settings, name = read_settings(config, store), model or names[0]
    before = Models.of(directory, name).current()
    if settings.store.url is None:
        if before is not None and before.serial:
            raise SlatewiseError(
                "Hosts share this model by their store.", "Name the store by --config or --store."
            )
        now = Models.of(directory, name).rollback()
    else:
        with opened_store(directory, settings) as shared:
            models = Models.of(directory, name, shared)
            models.follow()
            before, now = models.current(), models.rollback()
    left = "" if before is None else f" instead of {before.version}"
    console.print(f"{name}: {now.version} serves again{left}.")
