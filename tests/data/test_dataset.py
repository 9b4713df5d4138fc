"""The dataset on disk: what is read back, refused, batched and moved."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from slatewise.data import SlateDataset
from slatewise.data.description import count_views, describe, views_histogram
from slatewise.data.preparation import prepare
from slatewise.data.split import SplitConfig
from slatewise.errors import InputError, SlatewiseError


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("dataset")
    rng = np.random.default_rng(5)
    rows = []
    for user in range(50):
        for time in range(int(rng.integers(1, 15))):
            slate = rng.choice(30, size=rng.integers(1, 9), replace=False).tolist()
            click = slate[rng.integers(len(slate))] if rng.random() < 0.5 else None
            source = ["search", "recommendation"][time % 2]
            rows.append((user, time, slate, click, source))
    columns = ["user_id", "time", "slate", "click", "source"]
    pl.DataFrame(rows, schema=columns, orient="row").write_parquet(directory / "log.parquet")
    items = pl.DataFrame({"item_id": range(31), "group": [f"g{n % 4}" for n in range(31)]})
    items.write_parquet(directory / "items.parquet")
    prepare(directory / "log.parquet", directory / "items.parquet", directory / "set")
    return directory / "set"


@pytest.fixture
def copy(path: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(path, tmp_path / "copy"))


def test_batches_hold_what_the_arrays_hold(path: Path) -> None:
    dataset = SlateDataset.open(path)
    everything = dataset.interactions()
    users = torch.tensor([7, 0, 49, 7])
    batch = everything.of_users(users)
    assert batch.num_users == 4
    for index, user in enumerate(users.tolist()):
        rows = range(dataset.user_offsets[user], dataset.user_offsets[user + 1])
        assert batch.train_end[index] == dataset.train_end[user]
        assert batch.valid_end[index] == dataset.valid_end[user]
        start, stop = batch.user_offsets[index : index + 2].tolist()
        assert stop - start == len(rows)
        for here, there in zip(range(start, stop), rows, strict=True):
            assert batch.times[here] == dataset.times[there]
            assert batch.sources[here] == dataset.sources[there]
            assert batch.clicks[here] == dataset.clicks[there]
            slate = batch.slate_items[batch.slate_offsets[here] : batch.slate_offsets[here + 1]]
            span = slice(dataset.slate_offsets[there], dataset.slate_offsets[there + 1])
            assert slate.tolist() == dataset.slate_items[span].tolist()
            assert batch.scroll_lengths[here] == len(slate)
            click = int(dataset.clicks[there])
            assert batch.clicked_items[here] == (slate[click] if click >= 0 else -1)


def test_a_batch_may_be_empty(path: Path) -> None:
    batch = SlateDataset.open(path).interactions().of_users(torch.tensor([], dtype=torch.int64))
    assert (batch.num_users, len(batch.times), len(batch.slate_items)) == (0, 0, 0)


def test_tensors_share_memory_with_the_files(path: Path) -> None:
    dataset = SlateDataset.open(path)
    tensor = dataset.interactions().slate_items
    assert tensor.data_ptr() == dataset.slate_items.ctypes.data


def test_interactions_move_whole(path: Path) -> None:
    dataset = SlateDataset.open(path)
    moved = dataset.interactions("meta")
    assert moved.slate_items.device.type == "meta"
    assert moved.slate_items.shape == dataset.slate_items.shape


def test_types_are_narrow_and_pads_are_nowhere(path: Path) -> None:
    dataset = SlateDataset.open(path)
    assert dataset.slate_items.dtype == np.int32
    assert dataset.slate_items.min() >= 0
    assert dataset.slate_items.max() < dataset.num_items
    assert dataset.clicks.min() == -1
    assert len(dataset.slate_items) == dataset.slate_offsets[-1]


def test_opening_and_batching_need_neither_polars_nor_pydantic(path: Path) -> None:
    script = (
        "import sys\n"
        "for name in ('polars', 'pyarrow', 'pydantic'): sys.modules[name] = None\n"
        "from slatewise.data import SlateDataset\n"
        f"dataset = SlateDataset.open({str(path)!r})\n"
        "assert 'torch' not in sys.modules\n"
        "import torch\n"
        "print(dataset.interactions().of_users(torch.arange(dataset.num_users)).num_users)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "50"


def test_verify_finds_a_changed_byte(copy: Path) -> None:
    SlateDataset.open(copy).verify()
    file = copy / "slate_items.npy"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(InputError, match="changed since"):
        SlateDataset.open(copy).verify()


def test_damaged_or_foreign_directories_are_refused(copy: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a dataset"):
        SlateDataset.open(tmp_path)
    with pytest.raises(InputError, match="this is a file"):
        SlateDataset.open(copy / "dataset.json")
    file = copy / "times.npy"
    whole = file.read_bytes()
    file.write_bytes(whole[:-8])
    with pytest.raises(InputError, match="missing or damaged"):
        SlateDataset.open(copy)
    file.unlink()
    with pytest.raises(InputError, match="missing or damaged"):
        SlateDataset.open(copy)
    np.save(file, np.zeros(3, dtype=np.int64))
    with pytest.raises(InputError, match="not \\("):
        SlateDataset.open(copy)
    file.write_bytes(whole)
    description = copy / "dataset.json"
    meta = json.loads(description.read_text())
    for change, message in (
        ({"version": 99}, "format version 99"),
        ({"format": "other"}, "does not describe"),
        ({"arrays": {}}, "description is damaged"),
        ({"arrays": {name: {} for name in meta["arrays"]}}, "description is damaged"),
    ):
        description.write_text(json.dumps(meta | change))
        with pytest.raises(InputError, match=message):
            SlateDataset.open(copy)
    for other in ([], "text", None):
        description.write_text(json.dumps(other))
        with pytest.raises(InputError, match="does not describe"):
            SlateDataset.open(copy)
    for key in ("content_hash", "counts", "sources", "clock_times", "report"):
        description.write_text(json.dumps({k: v for k, v in meta.items() if k != key}))
        with pytest.raises(InputError, match="description is damaged"):
            SlateDataset.open(copy)
    description.write_text("{")
    with pytest.raises(InputError, match="damaged"):
        SlateDataset.open(copy)
    description.write_text(json.dumps(meta | {"content_hash": "0"}))
    with pytest.raises(SlatewiseError, match="names or description"):
        SlateDataset.open(copy).verify()
    description.write_text(json.dumps(meta))
    (copy / "items.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"items.parquet: the table is missing or damaged"):
        _ = SlateDataset.open(copy).item_ids


def test_other_names_make_another_dataset(path: Path, tmp_path: Path) -> None:
    log = pl.read_parquet(path.parent / "log.parquet")
    other = log.with_columns(pl.col("slate").list.eval(pl.element() + 100), pl.col("click") + 100)
    other.write_parquet(tmp_path / "log.parquet")
    items = pl.read_parquet(path.parent / "items.parquet").with_columns(pl.col("item_id") + 100)
    items.write_parquet(tmp_path / "items.parquet")
    renamed = prepare(tmp_path / "log.parquet", tmp_path / "items.parquet", tmp_path / "set")
    first = SlateDataset.open(path)
    assert renamed.slate_items.tolist() == first.slate_items.tolist()
    assert renamed.content_hash != first.content_hash


def test_the_same_log_gives_the_same_dataset(path: Path, tmp_path: Path) -> None:
    log = path.parent
    again = prepare(log / "log.parquet", log / "items.parquet", tmp_path / "again")
    first = SlateDataset.open(path)
    assert again.content_hash == first.content_hash
    other = prepare(
        log / "log.parquet", log / "items.parquet", tmp_path / "other", division=SplitConfig(seed=1)
    )
    assert other.content_hash != first.content_hash


def test_another_split_of_the_same_data(path: Path, tmp_path: Path) -> None:
    dataset = SlateDataset.open(path)
    config = SplitConfig(seed=3, prefix=1, valid_share=0.2)
    log = path.parent
    written = prepare(log / "log.parquet", log / "items.parquet", tmp_path / "set", division=config)
    drawn = dataset.split(config)
    assert drawn.train_end.tolist() == written.train_end.tolist()
    assert drawn.valid_end.tolist() == written.valid_end.tolist()


def test_description_counts_what_is_there(path: Path) -> None:
    dataset = SlateDataset.open(path)
    facts = describe(dataset)
    log = pl.read_parquet(path.parent / "log.parquet")
    assert facts["users"] == 50
    assert facts["items"] == 31
    assert facts["items_seen"] == 30
    assert facts["groups"] == 4
    assert facts["interactions"] == log.height
    assert facts["clicks"] == log["click"].count()
    assert facts["views"] == log["slate"].list.len().sum()
    for (name,), rows in log.group_by("source"):
        assert facts["sources"][name]["interactions"] == rows.height
        assert facts["sources"][name]["click_rate"] == rows["click"].count() / rows.height
    lengths = log["slate"].list.len().value_counts()
    assert facts["slate_lengths"] == {str(n): c for n, c in sorted(lengths.rows())}
    assert sum(part["interactions"] for part in facts["split"].values()) == log.height
    assert (facts["first_time"], facts["last_time"]) == (0, int(log["time"].max()))  # type: ignore[arg-type]
    views = log["slate"].explode().value_counts()
    assert count_views(dataset)[:30].tolist() == views.sort("slate")["count"].to_list()


def test_views_are_binned_in_powers_of_two() -> None:
    views = np.array([0, 0, 1, 2, 3, 4, 7, 8, 1023, 1024])
    histogram = {span: count for span, count in views_histogram(views).items() if count}
    assert histogram == {
        "0": 2,
        "1": 1,
        "2-3": 2,
        "4-7": 2,
        "8-15": 1,
        "512-1023": 1,
        "1024-2047": 1,
    }
