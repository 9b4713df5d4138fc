"""The items of a model as a table to rank over, kept beside its run."""

import logging
import shutil
from pathlib import Path

import numpy as np
import numpy.typing as npt

from slatewise.errors import InputError
from slatewise.model.fitted import SlateModel
from slatewise.ranking import ItemTable
from slatewise.training import runs

logger = logging.getLogger(__name__)


def columns(
    model: SlateModel,
) -> tuple[
    npt.NDArray[np.float32],
    npt.NDArray[np.float32],
    npt.NDArray[np.float32],
    npt.NDArray[np.int32],
]:
    """Return means [I, D], scales [I, D], biases [I] and groups [I] of the items of a model."""
    groups = model.posterior.item_groups.cpu().numpy().astype(np.int32)
    return model.item_vectors, model.item_scales, model.item_biases, groups


def table_of(model: SlateModel, path: Path | None = None) -> ItemTable:
    """Lay out the items of a model, with the scales of their biases, in memory or at a path."""
    return ItemTable.create(*columns(model), path=path, bias_scales=model.bias_scales)


def table_of_run(model: SlateModel, run: Path) -> ItemTable:
    """Open the table of a run, making it first if it is missing, damaged or of other parameters.

    Where it cannot be written, the table is made in memory: it works, but is not shared.
    """
    path = run / f"table-{runs.fingerprint(run)}"
    try:
        return ItemTable.open(path)
    except InputError:
        pass
    try:
        for old in runs.tables_of(run):
            shutil.rmtree(old, ignore_errors=True)  # whoever has it mapped keeps it
        return table_of(model, path)
    except OSError as error:
        logger.warning("The table of items is not kept in %s (%s).", run, error)
        return table_of(model)
