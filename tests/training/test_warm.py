"""A start from an earlier model, on logs small enough to compare every number."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from slatewise.data.dataset import SlateDataset
from slatewise.data.preparation import prepare
from slatewise.data.split import SplitConfig
from slatewise.errors import SlatewiseError
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.training import TrainingConfig, fit

MODEL = ModelConfig(dimensions=3)
SHORT = TrainingConfig(max_epochs=2, batch_users=16)


def dataset(
    folder: Path,
    items: list[int],
    *,
    hidden: list[int] | None = None,
    longest: int = 5,
    seed: int = 0,
) -> SlateDataset:
    """Make a log of 40 users who meet slates of these items; hidden ones are in the table only."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(40 * 8):
        size = longest if number == 0 else int(rng.integers(2, longest + 1))
        slate = rng.choice(items, size=size, replace=False).tolist()
        click = slate[0] if rng.random() < 0.5 else None
        row = {"user_id": number % 40, "time": number, "source": "search"}
        rows.append(row | {"slate": slate, "click": click})
    folder.mkdir()
    pl.DataFrame(rows).write_parquet(folder / "log.parquet")
    items = [*items, *(hidden or [])]
    groups = [f"g{item % 3}" for item in items]
    pl.DataFrame({"item_id": items, "group": groups}).write_parquet(folder / "items.parquet")
    division = SplitConfig(valid_share=0.2, test_share=0.0, prefix=5)
    return prepare(
        folder / "log.parquet", folder / "items.parquet", folder / "dataset", division=division
    )


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> SlateModel:
    data = dataset(tmp_path_factory.mktemp("earlier") / "log", list(range(10, 22)))
    return fit(data, MODEL, SHORT)


def started(data: SlateDataset, earlier: SlateModel, model: ModelConfig = MODEL) -> SlateModel:
    """Fit without ever improving: what comes back is where training set out."""
    never = TrainingConfig(max_epochs=1, learning_rate=1e3)
    return fit(data, model, never, start=earlier)


def test_a_start_takes_items_by_their_ids(earlier: SlateModel, tmp_path: Path) -> None:
    ids = [*range(21, 9, -1)]  # the same items, the other way round
    later = started(dataset(tmp_path / "log", ids, seed=1), earlier)
    for item in ids:
        old, new = earlier.number_of(item), later.number_of(item)
        assert np.array_equal(later.item_vectors[new], earlier.item_vectors[old])
        assert later.item_scales[new] == pytest.approx(earlier.item_scales[old])


def test_a_start_takes_the_means_of_everything_that_is_shared(
    earlier: SlateModel, tmp_path: Path
) -> None:
    later = started(dataset(tmp_path / "log", list(range(10, 22)), longest=7, seed=1), earlier)
    for name, part in earlier.posterior.shared.items():
        mean = later.posterior.shared[name].mean
        assert torch.equal(mean[: len(part.mean)], part.mean), name
    assert len(later.posterior.shared["no_click"].mean) == 7


def test_a_new_item_starts_from_the_predictive_of_its_group(
    earlier: SlateModel, tmp_path: Path
) -> None:
    later = started(dataset(tmp_path / "log", [*range(10, 22), 33], seed=1), earlier)
    group = earlier.group_names.index("g0")
    mean, scale = earlier.posterior.prior.predictive(torch.tensor([group]))
    number = later.number_of(33)
    assert later.item_vectors[number] == pytest.approx(mean[0].detach().numpy())
    assert later.item_scales[number] == pytest.approx(scale[0].detach().numpy(), rel=1e-3)


def test_an_item_that_is_not_shown_any_more_keeps_what_was_learned_of_it(
    earlier: SlateModel, tmp_path: Path
) -> None:
    """Night after night; one that nobody ever saw goes on with its group."""
    data = dataset(tmp_path / "log", list(range(10, 19)), hidden=[19, 20, 33], seed=1)
    gentle = TrainingConfig(max_epochs=4, batch_users=16)
    first = fit(data, MODEL, gentle, start=earlier)
    assert first.metrics["validation_log_likelihood"] > validation_before(data, earlier)
    second = fit(data, MODEL, gentle, start=first)
    for later in (first, second):
        for item in (19, 20):
            old, new = earlier.number_of(item), later.number_of(item)
            assert np.array_equal(later.item_vectors[new], earlier.item_vectors[old])
            assert later.views[new] == earlier.views[old] > 0
        group = torch.tensor([later.group_names.index("g0")])
        mean, _ = later.posterior.prior.predictive(group)
        assert later.item_vectors[later.number_of(33)] == pytest.approx(mean[0].detach().numpy())
        assert later.views[later.number_of(33)] == 0


def validation_before(data: SlateDataset, earlier: SlateModel) -> float:
    return float(started(data, earlier).metrics["validation_log_likelihood"])


def test_training_from_a_start_never_ends_with_a_worse_validation(
    earlier: SlateModel, tmp_path: Path
) -> None:
    data = dataset(tmp_path / "log", list(range(10, 22)), seed=1)
    begun = validation_before(data, earlier)
    wild = TrainingConfig(max_epochs=3, learning_rate=3.0)
    assert fit(data, MODEL, wild, start=earlier).metrics["validation_log_likelihood"] >= begun
    gentle = TrainingConfig(max_epochs=20, batch_users=16)
    assert fit(data, MODEL, gentle, start=earlier).metrics["validation_log_likelihood"] > begun


def test_a_start_leaves_out_the_first_of_two_steps(earlier: SlateModel, tmp_path: Path) -> None:
    data = dataset(tmp_path / "log", list(range(10, 22)), seed=1)
    two_step = SHORT.model_copy(update={"optimisation": "two-step"})
    seen: list[int] = []
    fit(data, MODEL, two_step, start=earlier, observer=lambda at: seen.append(at.stage))
    assert set(seen) == {0, 1}  # one stage, and past it


def test_a_model_of_other_dimensions_is_refused_as_a_start(
    earlier: SlateModel, tmp_path: Path
) -> None:
    data = dataset(tmp_path / "log", list(range(10, 22)), seed=1)
    with pytest.raises(SlatewiseError, match="other dimensions"):
        fit(data, ModelConfig(dimensions=4), SHORT, start=earlier)
