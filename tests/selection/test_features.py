"""Features of items as a candidate, in a world where quality can be read off a column."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from slatewise.data import SlateDataset
from slatewise.data.formats import LogFormat
from slatewise.data.preparation import prepare
from slatewise.data.split import SplitConfig
from slatewise.model.config import ModelConfig
from slatewise.model.item_features import ItemFeatures
from slatewise.selection import (
    ModelChoice,
    Selection,
    SelectionConfig,
    leave_out,
    read_choice,
    select,
)
from slatewise.training import TrainingConfig

MODEL = ModelConfig(dimensions=2, dynamics="linear", prior="flat", evidence=("feed",))
QUICK = SelectionConfig(epochs=6, least_gain=0.02)
TRAINING = TrainingConfig(learning_rate=0.05)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
    """Every item is on offer for a while only: what is judged has mostly never been seen."""
    folder = tmp_path_factory.mktemp("described")
    rng = np.random.default_rng(0)
    items, rows = 240, 2_400
    good = rng.standard_normal(items)
    log = []
    for number in range(rows):
        slate = number // 10 - rng.permutation(20)[:4]
        slate = slate[slate >= 0]
        utility = np.append(1.5 * good[slate], 0.5) + rng.gumbel(size=len(slate) + 1)
        position = int(utility.argmax())
        click = int(slate[position]) if position < len(slate) else None
        row = {"user_id": number % 150, "time": 1_700_000_000 + 60 * number, "source": "feed"}
        log.append(row | {"slate": slate.tolist(), "click": click})
    pl.DataFrame([row for row in log if row["slate"]]).write_parquet(folder / "log.parquet")
    table = pl.DataFrame({"item_id": range(items), "group": ["one"] * items, "good": good})
    table.write_parquet(folder / "items.parquet")
    return prepare(
        folder / "log.parquet",
        folder / "items.parquet",
        folder / "set",
        log_format=LogFormat(time_unit="s"),
        division=SplitConfig(method="time", valid_share=0.1, test_share=0.1),
    )


@pytest.fixture(scope="module")
def features(dataset: SlateDataset) -> ItemFeatures:
    return ItemFeatures.read(dataset, dataset.path / "items.parquet", {"good": "number"})


@pytest.fixture(scope="module")
def found(dataset: SlateDataset, features: ItemFeatures) -> Selection:
    return select(dataset, MODEL, QUICK, training=TRAINING, item_features=features)


def test_features_that_tell_of_new_items_are_kept_with_a_bias(
    found: Selection, tmp_path: Path
) -> None:
    gains = {one.name: one for one in found.results}
    assert gains["features"].kept
    assert gains["features"].low > 0.03
    assert found.described
    assert "bias" in found.model.terms
    found.write(tmp_path)
    assert read_choice(tmp_path, MODEL) == ModelChoice(found.model, described=True)
    assert found.to_json()["name"].endswith("+features")


def test_features_of_nothing_are_not_kept(dataset: SlateDataset, features: ItemFeatures) -> None:
    shuffled = features.matrix[np.random.default_rng(1).permutation(len(features.matrix))]
    noise = ItemFeatures(shuffled, features.encoder)
    terms = ("bias", "history", "propensity", "position")
    found = select(
        dataset,
        MODEL.model_copy(update={"terms": terms}),
        SelectionConfig(epochs=3, least_gain=0.02),
        training=TRAINING,
        item_features=noise,
    )
    assert not found.described
    assert "features" in {one.name for one in found.results}


def test_a_selection_that_was_stopped_goes_on_after_its_last_trial(
    dataset: SlateDataset,
    features: ItemFeatures,
    found: Selection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory, fit, fits = tmp_path / "memory", leave_out.fit, [0]

    def stopping(*arguments: object, **options: object) -> object:
        fits[0] += 1
        if fits[0] == 4:
            raise KeyboardInterrupt
        return fit(*arguments, **options)  # type: ignore[arg-type]

    def again(**changes: object) -> Selection:
        options = {"training": TRAINING, "item_features": features, "memory": memory} | changes
        return select(dataset, MODEL, QUICK, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(leave_out, "fit", stopping)
    with pytest.raises(KeyboardInterrupt):
        again()
    memory.write_text(memory.read_text() + '["cut o')
    assert again().to_json() == found.to_json()
    made = fits[0]
    assert again().to_json() == found.to_json()
    assert fits[0] == made
    fits[0] = 2
    with pytest.raises(KeyboardInterrupt):
        again(seed=1)  # another selection finds nothing here
