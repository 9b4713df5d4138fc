"""`slatewise expire`: let old slates leave the store."""

import time

from slatewise.cli.load import SECONDS_BETWEEN_LINES
from slatewise.cli.service import (
    ServiceDirectory,
    ServiceSettings,
    StoreUrl,
    opened_store,
    read_settings,
)
from slatewise.cli.show import console, progress


def expire(
    directory: ServiceDirectory, config: ServiceSettings = None, store: StoreUrl = None
) -> None:
    """Move slates older than the settings keep out of the store, while it serves."""
    from slatewise.service.upkeep.retention import expire as expire_slates  # noqa: PLC0415 (torch)

    settings = read_settings(config, store)
    with (
        opened_store(directory, settings) as opened,
        progress(SECONDS_BETWEEN_LINES) as bars,
    ):
        now = time.time_ns() // 1_000
        report = expire_slates(directory, settings.retention, opened, now, bars)
    console.print(report.words())
