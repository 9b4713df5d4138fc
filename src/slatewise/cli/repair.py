"""`slatewise repair`: repair the store of a service after a wrong clock."""

from slatewise.cli.service import (
    ServiceDirectory,
    ServiceSettings,
    StoreUrl,
    opened_store,
    read_settings,
)
from slatewise.cli.show import console


def repair(
    directory: ServiceDirectory, config: ServiceSettings = None, store: StoreUrl = None
) -> None:
    """Repair a stopped service: times in the future, and traces of erased people."""
    from slatewise.service.upkeep.repair import repair as repair_service  # noqa: PLC0415 (torch)

    with opened_store(directory, read_settings(config, store)) as opened:
        done = repair_service(directory, opened)
    console.print(f"Slates dated later than now: {done.slates:,} moved")
    console.print(f"Changes of items that later ones made void: {done.changes:,} deleted")
    if done.scrubbed:
        console.print("The store was written anew, without traces of people who were erased.")
