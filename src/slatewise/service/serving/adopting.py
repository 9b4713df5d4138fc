"""A run that was trained elsewhere, as the first version of a model."""

from pathlib import Path
from typing import Final

from slatewise.model.fitted import SlateModel
from slatewise.service.models import Models
from slatewise.service.records import ItemState
from slatewise.service.store import Store
from slatewise.training import runs

_BATCH: Final = 10_000


def adopt(directory: Path, store: Store, run: Path, name: str = "main") -> str | None:
    """Let a run serve as the first version of a model; return it, None if there was one already.

    Its items are put into the store if that has none yet, shown.
    """
    models = Models.of(directory, name)
    if models.current() is not None:
        return None
    if not store.items(None, 1):
        _put_items(store, runs.load(run))
    version = models.add(run)
    models.promote(version, f"the run {run.name}")
    return version


def _put_items(store: Store, model: SlateModel) -> None:
    groups = model.posterior.item_groups.tolist()
    for start in range(0, len(groups), _BATCH):
        part = slice(start, start + _BATCH)
        pairs = zip(model.item_ids[part], groups[part], strict=True)
        store.put_items(
            [(str(item), model.group_names[group], ItemState.SHOWN) for item, group in pairs]
        )
