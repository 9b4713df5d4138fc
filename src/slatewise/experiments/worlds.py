"""The dataset a unit works on: a prepared one, or a simulated log, made once and shared."""

import hashlib
import json
import tempfile
from pathlib import Path

from slatewise.data.dataset import SlateDataset
from slatewise.data.description import describe
from slatewise.data.preparation import prepare
from slatewise.experiments.store import Row
from slatewise.experiments.study import Bench, StudyConfig
from slatewise.simulation import write_log


def dataset_of(config: StudyConfig, seed: int, bench: Bench) -> SlateDataset:
    """Open the dataset of a seed: the prepared one for all seeds, or a world of its own each."""
    if config.dataset is not None:
        return SlateDataset.open(config.dataset)
    world = config.simulated(seed)
    asked = [world.model_dump(mode="json"), config.split.model_dump(mode="json")]
    digest = hashlib.blake2b(json.dumps(asked).encode(), digest_size=8).hexdigest()
    path = bench.shared / f"{config.preset}-{seed}-{digest}"
    if not path.exists():
        bench.shared.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".world-", dir=bench.shared) as folder:
            _make(config, seed, Path(folder), path, bench)
    return SlateDataset.open(path)


def _make(config: StudyConfig, seed: int, folder: Path, path: Path, bench: Bench) -> None:
    log, dataset = folder / "log", folder / "dataset"
    write_log(config.simulated(seed), log, progress=bench.progress)
    prepare(
        log / "log.parquet",
        log / "items.parquet",
        dataset,
        division=config.split,
        progress=bench.progress,
    )
    try:
        dataset.rename(path)
    except OSError:
        if not path.exists():
            raise  # otherwise another unit was quicker, with the same result


def dataset_row(dataset: SlateDataset, seed: int) -> Row:
    """Describe a dataset in one row of a table, for the report."""
    facts = describe(dataset)
    row = {
        "seed": seed,
        **{name: facts[name] for name in ("users", "items", "items_seen", "groups")},
        **{name: facts[name] for name in ("interactions", "clicks")},
        "items_a_slate": facts["views"] / facts["interactions"],
        "training": facts["split"]["training"]["interactions"],
        "validation": facts["split"]["validation"]["interactions"],
        "test": facts["split"]["test"]["interactions"],
        "content_hash": facts["content_hash"],
    }
    for name, source in facts["sources"].items():
        row[f"share of {name}"] = source["interactions"] / facts["interactions"]
        row[f"click rate of {name}"] = source["click_rate"]
    return row
