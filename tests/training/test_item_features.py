"""Features of items: learned from what was seen, told to what was not, kept with the run."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

import slatewise
from slatewise.data import SlateDataset
from slatewise.data.preparation import prepare
from slatewise.data.split import SplitConfig
from slatewise.errors import SlatewiseError
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.model.item_features import ItemFeatures
from slatewise.model.utility import ranking_utilities
from slatewise.training import TrainingConfig, fit

ITEMS, USERS, SEEN = 60, 300, 45
KINDS = {"good": "number", "colour": "category"}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[SlateDataset, ItemFeatures]:
    """Items are as good as a column of theirs says; a quarter of them nobody has seen."""
    folder = tmp_path_factory.mktemp("features")
    rng = np.random.default_rng(0)
    good = rng.standard_normal(ITEMS)
    rows = []
    for number in range(USERS * 10):
        slate = rng.permutation(SEEN)[:5]
        utility = np.append(1.5 * good[slate], 0.0) + rng.gumbel(size=6)
        position = int(utility.argmax())
        row = {"user_id": number % USERS, "time": number, "source": "feed", "slate": slate.tolist()}
        rows.append(row | {"click": int(slate[position]) if position < 5 else None})
    pl.DataFrame(rows).write_parquet(folder / "log.parquet")
    colours = rng.choice(["red", "blue"], ITEMS)
    items = pl.DataFrame({"item_id": range(ITEMS), "group": ["one"] * ITEMS})
    items = items.with_columns(good=pl.Series(good), colour=pl.Series(colours))
    items.write_parquet(folder / "items.parquet")
    dataset = prepare(
        folder / "log.parquet",
        folder / "items.parquet",
        folder / "set",
        division=SplitConfig(valid_share=0.1, test_share=0.1),
    )
    return dataset, ItemFeatures.read(dataset, folder / "items.parquet", KINDS)


@pytest.fixture(scope="module")
def fitted(world: tuple[SlateDataset, ItemFeatures]) -> SlateModel:
    dataset, features = world
    config = ModelConfig(dynamics="linear", dimensions=2, terms=("bias",))
    training = TrainingConfig(batch_users=30, max_epochs=20)
    return fit(dataset, config, training, item_features=features)


def test_items_nobody_has_seen_start_where_their_features_say(
    world: tuple[SlateDataset, ItemFeatures], fitted: SlateModel
) -> None:
    """The bias alone tells good from bad; 15 cold items follow the 45 seen ones."""
    cold = fitted.views.numpy() == 0
    assert cold.sum() == ITEMS - SEEN
    good = world[1].matrix[:, 0].numpy()
    mean = fitted.posterior.mean()
    found = ranking_utilities(mean, mean.initial_state[None], 0.0)[0].detach().numpy()
    assert np.corrcoef(found[cold], good[cold])[0, 1] > 0.9
    assert fitted.item_biases[cold].std() > 0.2
    assert fitted.bias_scales[cold].min() > fitted.bias_scales[~cold].mean()


def test_a_run_keeps_features_and_encoder(fitted: SlateModel, tmp_path: Path) -> None:
    slatewise.save(fitted, tmp_path / "run")
    loaded = slatewise.load(tmp_path / "run")
    assert loaded.item_encoder == fitted.item_encoder
    assert torch.equal(loaded.posterior.item_features, fitted.posterior.item_features)
    for name, tensor in fitted.posterior.tensors().items():
        assert torch.equal(loaded.posterior.tensors()[name], tensor), name


def test_a_run_goes_on_only_with_the_features_it_began_with(
    world: tuple[SlateDataset, ItemFeatures], tmp_path: Path
) -> None:
    dataset, features = world
    short = TrainingConfig(max_epochs=1)
    run = tmp_path / "run"
    fit(dataset, ModelConfig(dimensions=2), short, item_features=features, run=run)
    with pytest.raises(SlatewiseError, match="another item_features"):
        fit(dataset, ModelConfig(dimensions=2), short, run=run, resume=True)


def test_a_start_without_features_leaves_those_of_the_new_model(
    world: tuple[SlateDataset, ItemFeatures], fitted: SlateModel
) -> None:
    dataset, features = world
    short, config = TrainingConfig(max_epochs=1), fitted.config
    bare = fit(dataset, config, short, start=fitted)
    assert "feature_weights" not in bare.posterior.shared
    again = fit(dataset, config, short, start=bare, item_features=features)
    assert "feature_weights" in again.posterior.shared
