"""A run on disk: one directory with everything a model needs, in open formats, without pickle."""

import hashlib
import json
from collections.abc import Set
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from slatewise.data.columns import Columns
from slatewise.data.dataset import SlateDataset
from slatewise.errors import InputError, SlatewiseError
from slatewise.features.item_features import ItemEncoder
from slatewise.files import atomic_directory, atomic_file, write_json
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.model.pool import SlatePool
from slatewise.model.posterior import Posterior
from slatewise.model.ranking_weights import RankingWeights
from slatewise.model.terms import FittedTerms
from slatewise.training.unused import as_if_given
from slatewise.version import __version__

FORMAT: Final = "slatewise-run"
VERSION: Final = 1
RUN, POSTERIOR, TERMS, ITEMS, GROUPS, CHECKPOINT, LOG = (
    "run.json",
    "posterior.safetensors",
    "terms.safetensors",
    "items.parquet",
    "groups.parquet",
    "checkpoint.safetensors",
    "log.jsonl",
)
PREDICTIONS: Final = "closed form"
"""What the calibration of a run is of. Earlier runs predicted by the posterior mean: theirs is not
taken over, and fitted anew where it is needed."""
_HASHED: Final = (POSTERIOR, ITEMS, GROUPS)
"""The files of every model, whose digests are in its description; so is that of TERMS, if any."""


def require_room(run: Path, *, resume: bool) -> None:
    """Refuse a directory that has something in it, or to resume where there is no checkpoint."""
    if resume and not (run / CHECKPOINT).exists():
        raise SlatewiseError(f"{run} has no checkpoint to resume from.", "Leave out --resume.")
    if not resume and run.exists() and any(run.iterdir()):
        raise SlatewiseError(
            f"{run} exists already.", "Resume it with --resume, or choose another directory."
        )


def save(model: SlateModel, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a model to a directory of its own; with `overwrite`, replace another saved one."""
    # Recommenders lay the items out beside the model; that goes with the model it was made from.
    more = [*tables_of(Path(path)), *Path(path).glob(TERMS)]
    contents = {RUN, *_HASHED, *(file.name for file in more)}
    with atomic_directory(path, overwrite=overwrite, contents=contents) as directory:
        write_model(model, directory, {})


def write_model(model: SlateModel, path: Path, about: dict[str, Any]) -> None:
    """Write the files of a model; `run.json` comes last, so a directory that has it is whole."""
    groups = [model.group_names[g] for g in model.posterior.item_groups.tolist()]
    items = pl.DataFrame({Columns.ITEM: model.item_ids, Columns.GROUP: groups})
    _write_table(path / ITEMS, items)
    _write_table(path / GROUPS, pl.DataFrame({Columns.GROUP: model.group_names}))
    tensors = model.posterior.tensors() | {"views": model.views}
    if model.posterior.item_features is not None:
        tensors["item_features"] = model.posterior.item_features
    if model.posterior.ranking is not None:
        tensors |= model.posterior.ranking.tensors()
    if model.posterior.pool is not None:
        tensors |= model.posterior.pool.tensors()
    write_tensors(path / POSTERIOR, tensors, {"format": FORMAT})
    written = list(_HASHED)
    if model.terms.tensors:
        write_tensors(path / TERMS, model.terms.tensors, {"format": FORMAT})
        written.append(TERMS)
    description = {
        "format": FORMAT,
        "version": VERSION,
        "slatewise": __version__,
        "model": model.config.model_dump(mode="json"),
        "longest_slate": len(model.posterior.shared["no_click"].mean),
        "sources": model.source_names,
        "usual_source": model.terms.usual_source,
        "calibration": model.calibration,
        "predictions": PREDICTIONS,
        "metrics": model.metrics,
        "terms": model.terms.to_json(),
        "ranking": model.posterior.ranking is not None,
        "ranking_again": bool(model.posterior.ranking and model.posterior.ranking.again),
        "pool": model.posterior.pool is not None,
        "item_encoder": model.item_encoder and model.item_encoder.model_dump(mode="json"),
        "digests": {name: _digest(path / name) for name in written},
    }
    write_json(path / RUN, about | description)


def load(path: str | Path) -> SlateModel:
    """Read a model that `save` wrote, refusing what is damaged or does not belong together."""
    path = Path(path)
    run = read_run(path)
    missing = {
        "model",
        "longest_slate",
        "sources",
        "calibration",
        "metrics",
        "digests",
    } - run.keys()
    if missing:
        raise InputError(
            f"the description lacks '{min(missing)}'.", "Train again.", file=path / RUN
        )
    has_arrays = TERMS in run["digests"]
    for name in (*_HASHED, *([TERMS] if has_arrays else [])):
        if _digest(path / name) != run["digests"].get(name):
            raise InputError(
                "the file is damaged, or of another run.",
                "The files of a run belong together: copy the whole directory again, or train "
                "again.",
                file=path / name,
            )
    items, groups = _read_table(path / ITEMS), _read_table(path / GROUPS)
    names = groups[Columns.GROUP]
    numbers = items[Columns.GROUP].replace_strict(names, range(len(names)), return_dtype=pl.Int64)
    encoder = None
    if run.get("item_encoder") is not None:
        encoder = ItemEncoder.build(run["item_encoder"], str(path / RUN))
    posterior = Posterior(
        _config(run, path, described=encoder is not None),
        torch.from_numpy(numbers.to_numpy().copy()),
        names.to_list(),
        int(run["longest_slate"]),
        sources=list(run["sources"]),
        item_features=None if encoder is None else torch.empty(len(items), len(encoder.names)),
    )
    expected = {name: tensor.shape for name, tensor in posterior.tensors().items()}
    expected["views"] = torch.Size([len(items)])
    if posterior.item_features is not None:
        expected["item_features"] = posterior.item_features.shape
    if run.get("ranking"):
        columns = sum(len(posterior.shared[name].mean) for name in posterior.parts.ranking_names)
        for prefix in ("", *["again."] * bool(run.get("ranking_again"))):
            expected[f"{prefix}ranking.mean"] = torch.Size([columns])
            expected[f"{prefix}ranking.root"] = torch.Size([columns, columns])
    if run.get("pool"):
        expected["pool"] = torch.Size([2])
    tensors = read_tensors(path / POSTERIOR, expected, posterior.added)
    posterior.item_features = tensors.get("item_features")
    posterior.ranking = RankingWeights.of_tensors(tensors)
    posterior.pool = SlatePool.of_tensors(tensors)
    posterior.load(tensors)
    return SlateModel(
        posterior,
        items[Columns.ITEM].to_list(),
        names.to_list(),
        list(run["sources"]),
        tensors["views"],
        run["calibration"] if run.get("predictions") == PREDICTIONS else None,
        run["metrics"],
        FittedTerms.from_json(
            run.get("terms", {}),
            posterior.config,
            str(path / RUN),
            read_tensors(path / TERMS) if has_arrays else {},
            int(run.get("usual_source", 0)),
        ),
        encoder,
        read_log(path),
    )


def _config(run: dict[str, Any], path: Path, *, described: bool) -> ModelConfig:
    """Return what a run was fitted with; it may be fitted again."""
    config = ModelConfig.build(run["model"], str(path / RUN))
    return as_if_given(config, item_features=described)


def dataset_of(run: Path) -> SlateDataset:
    """Open the dataset that a run was trained on; raise an error if it is missing or changed."""
    about = read_run(run).get("dataset")
    if about is None:
        raise InputError("the run does not name its dataset.", "Name a log yourself.", file=run)
    path = Path(about["path"])
    # A path that is not absolute began where training was started: here, or beside the run.
    there = next((p for p in (path, run.parent / path) if (p / "dataset.json").is_file()), None)
    if there is None:
        raise InputError(f"its dataset {path} is not there.", "Name a log yourself.", file=run)
    dataset = SlateDataset.open(there)
    if dataset.content_hash != about["content_hash"]:
        raise InputError("it has changed since training.", "Name a log yourself.", file=there)
    return dataset


def read_log(path: Path) -> list[dict[str, Any]]:
    """Read the epochs of a run: one record each; none where the model was saved without its log."""
    file = path / LOG
    if not file.exists():
        return []
    try:
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    except ValueError as error:
        raise InputError("the log of training is damaged.", "Delete it.", file=file) from error


def update(path: str | Path, **changes: Any) -> None:
    """Change some fields of a run's description."""
    path = Path(path)
    write_json(path / RUN, read_run(path) | changes)


def read_run(path: Path) -> dict[str, Any]:
    """Read the description of a run."""
    file = path / RUN
    try:
        run = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        remedy = "Make one with: slatewise train DATASET RUN"
        if (path / CHECKPOINT).exists():
            remedy = "Its training was interrupted: resume it with slatewise train … --resume"
        raise InputError("this is not a run: it has no run.json.", remedy, file=path) from error
    except (OSError, ValueError) as error:
        raise InputError("the description is damaged.", "Train again.", file=file) from error
    if not isinstance(run, dict) or run.get("format") != FORMAT:
        raise InputError("this does not describe a slatewise run.", "Train again.", file=file)
    if run.get("version") != VERSION:
        raise InputError(
            f"the run has format version {run.get('version')}, this release reads {VERSION}.",
            "Train again with this release.",
            file=file,
        )
    return run


def tables_of(path: Path) -> list[Path]:
    """Return the item tables for ranking, of this posterior or of an earlier one."""
    return sorted(path.glob("table-*"))


def fingerprint(path: Path) -> str:
    """Return an identifier of the posterior of a run, from its digest, which `load` has checked."""
    return str(read_run(path)["digests"][POSTERIOR])[:16]


def content_digest(path: Path) -> str:
    """Return an identifier of all that a run is: its description names the digests of its files."""
    return _digest(path / RUN)[:16]


def write_tensors(file: Path, tensors: dict[str, Tensor], about: dict[str, str]) -> None:
    """Write tensors with metadata, whole or not at all."""
    whole = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    with atomic_file(file) as partial:
        save_file(whole, partial, about)
        partial.chmod(0o644)  # as the other files of a run: a service may be another user


def read_tensors(
    file: Path,
    expected: dict[str, torch.Size] | None = None,
    optional: Set[str] = frozenset(),
) -> dict[str, Tensor]:
    """Read tensors, refusing a damaged file or one of another model.

    Of those expected, the `optional` ones may be missing.
    """
    try:
        tensors = load_file(file)
    except (SafetensorError, OSError) as error:
        raise InputError(
            "the file is missing or damaged.", "Copy it again, or train again.", file=file
        ) from error
    found = {name: tensor.shape for name, tensor in tensors.items()}
    if expected is not None:
        expected = {n: shape for n, shape in expected.items() if n in found or n not in optional}
    if expected is not None and found != expected:
        odd = min(name for name, _ in set(found.items()) ^ set(expected.items()))
        raise InputError(
            f"the tensors are not those of this model ('{odd}').",
            "The files of a run belong together: copy the whole directory.",
            file=file,
        )
    return tensors


def read_views(path: Path) -> npt.NDArray[np.int64]:
    """Read how often training saw the items of a run, [I], and nothing else of its posterior."""
    try:
        with safe_open(path / POSTERIOR, "pt") as stored:
            views: npt.NDArray[np.int64] = stored.get_tensor("views").numpy().astype(np.int64)
            return views
    except (SafetensorError, OSError) as error:
        raise InputError(
            "the file is missing or damaged.", "Train again.", file=path / POSTERIOR
        ) from error


def read_about(file: Path) -> dict[str, str]:
    """Read the metadata that were written with tensors."""
    try:
        with safe_open(file, "pt") as stored:
            return dict(stored.metadata())
    except (SafetensorError, OSError) as error:
        raise InputError("the file is missing or damaged.", "Train again.", file=file) from error


def _digest(file: Path) -> str:
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise InputError(
            "the file is missing or cannot be read.",
            "Copy the whole run again, or train again.",
            file=file,
        ) from error


def _write_table(file: Path, table: pl.DataFrame) -> None:
    with atomic_file(file) as partial:
        table.write_parquet(partial)


def _read_table(file: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(file, glob=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(
            "the table is missing or damaged.", "Copy the whole run, or train again.", file=file
        ) from error
