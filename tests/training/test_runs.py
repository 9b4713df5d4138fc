"""Runs: stopped, killed and resumed to the same bits; saved, loaded, and refused when damaged."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from slatewise.data import SlateDataset
from slatewise.data.preparation import prepare
from slatewise.data.split import SplitConfig
from slatewise.errors import InputError, SlatewiseError
from slatewise.model.config import ModelConfig
from slatewise.simulation import load_config, write_log
from slatewise.training import StoppedError, TrainingConfig, fit, load, save, trainer
from slatewise.training.loop import Progress
from slatewise.training.steps import SparseSteps, StepResult

MODEL = ModelConfig(dimensions=3)
TRAINING = TrainingConfig(batch_users=64, max_epochs=4)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
    folder = tmp_path_factory.mktemp("training")
    write_log(load_config("tiny"), folder / "log")
    return prepare(folder / "log", folder / "log", folder / "set")


@pytest.fixture(scope="module")
def finished(dataset: SlateDataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "run"
    fit(dataset, MODEL, TRAINING, run=run)
    return run


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "copy"))


def same_bits(one: Path, other: Path) -> bool:
    first, second = (load_file(run / "posterior.safetensors") for run in (one, other))
    return first.keys() == second.keys() and all(
        torch.equal(first[name], second[name]) for name in first
    )


def test_a_run_loads_as_it_was_saved(dataset: SlateDataset, finished: Path) -> None:
    model = load(finished)
    again = fit(dataset, MODEL, TRAINING)
    assert model.config == MODEL
    assert np.array_equal(model.item_vectors, again.item_vectors)
    assert np.array_equal(model.item_scales, again.item_scales)
    assert model.item_ids == dataset.item_ids.to_list()
    assert model.metrics == again.metrics
    items = dict(dataset.items.select("item_id", "group").rows())
    assert {item: model.group_of(item) for item in model.item_ids} == items
    assert model.views.sum() > 0


def test_the_description_says_where_it_came_from(dataset: SlateDataset, finished: Path) -> None:
    run = json.loads((finished / "run.json").read_text())
    assert run["dataset"]["content_hash"] == dataset.content_hash
    assert run["model"] == MODEL.model_dump(mode="json")
    assert run["training"] == TRAINING.model_dump(mode="json") | {"learning_rate": 0.02}
    assert run["seed"] == 0
    log = [json.loads(line) for line in (finished / "log.jsonl").read_text().splitlines()]
    assert [record["epoch"] for record in log] == list(range(len(log)))
    assert run["metrics"]["validation_log_likelihood"] == max(r["validation"] for r in log)


def test_another_seed_gives_another_model(dataset: SlateDataset, finished: Path) -> None:
    other = fit(dataset, MODEL, TRAINING, seed=1)
    assert not np.array_equal(load(finished).item_vectors, other.item_vectors)


@pytest.mark.parametrize(
    ("optimisation", "stops"),
    [
        ("joint", [1]),
        ("joint", [5, 6, 11, 14]),
        ("two-step", [3, 7]),
        ("two-step", [5, 6, 11, 14]),
        ("terms-last", [3, 17]),
    ],
)
def test_stopped_and_resumed_a_run_ends_the_same(
    stops: list[int], optimisation: str, dataset: SlateDataset, tmp_path: Path
) -> None:
    """Interrupted between any two steps, in the middle of epochs and at their ends."""
    training = TRAINING.model_copy(update={"optimisation": optimisation, "max_epochs": 3})
    model = MODEL.changed(terms=("position",) if optimisation == "terms-last" else ())
    fit(dataset, model, training, run=tmp_path / "whole")
    steps = 0

    def observer(progress: Progress) -> None:
        nonlocal steps
        steps += 1
        if steps in stops:
            os.kill(os.getpid(), signal.SIGINT)

    run, resume = tmp_path / "pieces", False
    for _ in stops:
        with pytest.raises(StoppedError, match="saved"):
            fit(dataset, model, training, run=run, resume=resume, observer=observer)
        resume = True
    fit(dataset, model, training, run=run, resume=True)
    assert same_bits(tmp_path / "whole", run)
    assert (tmp_path / "whole/log.jsonl").read_text() == (run / "log.jsonl").read_text()


def test_terms_that_come_last_leave_the_vectors_as_they_are_without_them(
    dataset: SlateDataset, finished: Path
) -> None:
    model = MODEL.changed(terms=("history", "position", "propensity", "source"))
    training = TRAINING.model_copy(update={"optimisation": "terms-last"})
    with_terms, without = fit(dataset, model, training), load(finished)
    moved = with_terms.posterior.shared
    for name, stays in without.posterior.shared.items():
        assert torch.equal(moved[name].mean, stays.mean) == (name != "no_click")
    assert np.array_equal(with_terms.item_vectors, without.item_vectors)
    assert all(moved[name].mean.abs().max() > 0.01 for name in model.terms)
    scores = [one.metrics["validation_log_likelihood"] for one in (with_terms, without)]
    assert scores[0] > scores[1]
    warm = fit(dataset, model, training, start=with_terms)
    assert warm.metrics["validation_log_likelihood"] >= scores[0] - 0.01


def test_killed_at_any_moment_a_run_ends_the_same(
    dataset: SlateDataset, finished: Path, tmp_path: Path
) -> None:
    run = tmp_path / "killed"
    script = (
        "import sys\n"
        "from slatewise.data import SlateDataset\n"
        "from slatewise.model.config import ModelConfig\n"
        "from slatewise.training import TrainingConfig, fit, trainer\n"
        "trainer.CHECKPOINT_SECONDS = 0.0\n"
        f"fit(SlateDataset.open({str(dataset.path)!r}), ModelConfig(dimensions=3), "
        f"TrainingConfig(batch_users=64, max_epochs=4), run={str(run)!r}, "
        "resume=len(sys.argv) > 1, observer=lambda at: print('step', flush=True))\n"
    )
    rng = np.random.default_rng(0)
    for attempt in range(3):
        command = [sys.executable, "-c", script, *(["resume"] if attempt else [])]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(int(rng.integers(1, 6))):
                process.stdout.readline()
            time.sleep(rng.uniform(0, 0.01))
            process.kill()
    fit(dataset, MODEL, TRAINING, run=run, resume=True)
    assert same_bits(finished, run)


def test_a_run_goes_on_only_as_it_began(dataset: SlateDataset, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(SlatewiseError, match="no checkpoint"):
        fit(dataset, MODEL, TRAINING, run=run, resume=True)
    fit(dataset, MODEL, TRAINING.model_copy(update={"max_epochs": 1}), run=run)
    with pytest.raises(SlatewiseError, match="exists already"):
        fit(dataset, MODEL, TRAINING, run=run)
    with pytest.raises(SlatewiseError, match="another training"):
        fit(dataset, MODEL, TRAINING, run=run, resume=True)
    with pytest.raises(SlatewiseError, match="another seed"):
        fit(
            dataset,
            MODEL,
            TRAINING.model_copy(update={"max_epochs": 1}),
            run=run,
            resume=True,
            seed=4,
        )


def test_a_finished_run_may_be_resumed_and_stays(
    dataset: SlateDataset, copy: Path, finished: Path
) -> None:
    fit(dataset, MODEL, TRAINING, run=copy, resume=True)
    assert same_bits(finished, copy)


def test_damaged_runs_are_refused(copy: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a run"):
        load(tmp_path)
    run = json.loads((copy / "run.json").read_text())
    for change, message in (
        ({"version": 9}, "format version 9"),
        ({"format": "other"}, "does not describe"),
        ({"model": {"dimensions": -1}}, "dimensions"),
        ({"model": {"dimensions": 5}}, "not those of this model"),
    ):
        (copy / "run.json").write_text(json.dumps(run | change))
        with pytest.raises(SlatewiseError, match=message):
            load(copy)
    (copy / "run.json").write_text(json.dumps({k: v for k, v in run.items() if k != "sources"}))
    with pytest.raises(InputError, match="lacks 'sources'"):
        load(copy)
    (copy / "run.json").unlink()
    with pytest.raises(InputError, match="--resume"):
        load(copy)


@pytest.mark.parametrize("name", ["posterior.safetensors", "items.parquet", "groups.parquet"])
def test_a_file_that_is_not_the_one_saved_is_refused(name: str, copy: Path) -> None:
    file = copy / name
    whole = file.read_bytes()
    for index in (0, len(whole) // 2, len(whole) - 1):
        flipped = bytearray(whole)
        flipped[index] ^= 1
        file.write_bytes(flipped)
        with pytest.raises(InputError, match="damaged") as error:
            load(copy)
        assert error.value.file == file
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="damaged"):
        load(copy)
    file.unlink()
    with pytest.raises(InputError, match="missing") as error:
        load(copy)
    assert error.value.file == file


def test_saving_a_loaded_model_again(copy: Path, tmp_path: Path) -> None:
    model = load(copy)
    save(model, tmp_path / "again")
    assert same_bits(copy, tmp_path / "again")
    assert load(tmp_path / "again").similar_items(model.item_ids[0], 3) == model.similar_items(
        model.item_ids[0], 3
    )


def test_saving_replaces_only_a_saved_model_and_only_when_told(
    dataset: SlateDataset, copy: Path, tmp_path: Path
) -> None:
    other = fit(dataset, MODEL, TRAINING.model_copy(update={"max_epochs": 1}))
    saved = tmp_path / "saved"
    save(load(copy), saved)
    with pytest.raises(SlatewiseError, match="exists already"):
        save(other, saved)
    assert same_bits(copy, saved)
    save(other, saved, overwrite=True)
    assert np.array_equal(load(saved).item_vectors, other.item_vectors)
    with pytest.raises(SlatewiseError, match=r"holds checkpoint.safetensors"):
        save(other, copy, overwrite=True)


def test_no_pickle_is_written(finished: Path) -> None:
    assert {file.suffix for file in finished.iterdir()} == {
        ".json",
        ".jsonl",
        ".parquet",
        ".safetensors",
    }


def test_similar_items_and_unknown_ids(finished: Path) -> None:
    model = load(finished)
    found = model.similar_items(7, 5)
    distances = np.linalg.norm(model.item_vectors - model.item_vectors[model.number_of(7)], axis=1)
    wanted = [n for n in np.argsort(distances, kind="stable") if model.item_ids[n] != 7][:5]
    assert [-r for _, r in found] == pytest.approx(sorted(distances[wanted]), abs=1e-5)
    assert 7 not in [item for item, _ in found]
    with pytest.raises(SlatewiseError, match="knows no item 'x'"):
        model.group_of("x")


def test_a_dataset_without_validation_is_refused(dataset: SlateDataset, tmp_path: Path) -> None:
    log = dataset.path.parent / "log"
    bare = prepare(log, log, tmp_path / "set", division=SplitConfig(valid_share=0))
    with pytest.raises(SlatewiseError, match="no validation interactions"):
        fit(bare, MODEL, TRAINING)


def test_training_uses_one_thread_and_gives_them_back(dataset: SlateDataset) -> None:
    before = torch.get_num_threads()
    seen: set[int] = set()
    fit(
        dataset,
        MODEL,
        TRAINING.model_copy(update={"max_epochs": 1}),
        observer=lambda at: seen.add(torch.get_num_threads()),
    )
    assert seen == {1}
    assert torch.get_num_threads() == before
    assert trainer.CHECKPOINT_SECONDS > 1


def test_training_that_goes_nowhere_is_given_up_with_advice(
    dataset: SlateDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(*arguments: object) -> StepResult:
        return StepResult(loss=float("nan"), log_likelihood=float("nan"), finite=False)

    monkeypatch.setattr(SparseSteps, "step", step)
    with pytest.raises(SlatewiseError, match="20 steps in a row") as error:
        fit(dataset, MODEL, TRAINING)
    assert "learning_rate" in error.value.remedy


def test_a_source_aware_model_needs_a_source_of_the_log(dataset: SlateDataset) -> None:
    model = ModelConfig(dimensions=3, likelihood="source-aware", exposure={"serch": 0.3})
    with pytest.raises(SlatewiseError, match="names 'serch', which is not a source") as error:
        fit(dataset, model, TRAINING)
    assert "search" in error.value.remedy
