"""New items start where group and features say, as unsure as both."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from slatewise.errors import SlatewiseError
from slatewise.features.item_columns import Kind
from slatewise.features.item_features import ItemEncoder
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.model.posterior import Posterior
from slatewise.slates import Recommender
from slatewise.slates.predictive import Floats, _product
from slatewise.training import save
from tests.contract.world import ITEMS, model_of, small_log

GROUPS, D = ["red", "green"], 3
TABLE = pl.DataFrame(
    {
        "price": [10.0, 20.0, None, 30.0, 40.0, 50.0],
        "brand": ["x", "y", "x", "x", "y", "z"],
        "text": [[1.0, 0.0], [3.0, 4.0], [0.0, 1.0], [5.0, 8.0], [2.0, 2.0], [0.0, 0.0]],
    }
)
KINDS: dict[str, Kind] = {"price": "number", "brand": "category", "text": "embedding"}
NEW: dict[str, list[Any]] = {
    "price": [45.0, None],
    "brand": ["z", "never seen"],
    "text": [[1.0, 5.0], [2.0, 2.0]],
}


def described(seed: int = 3) -> SlateModel:
    """A model of six items with features, its posterior drawn and not trained."""
    config = ModelConfig(dimensions=D, sigma_max=2.0, terms=("bias",))
    encoder = ItemEncoder.fit(TABLE, KINDS)
    features = torch.from_numpy(encoder.encode(TABLE))
    seeded = torch.Generator().manual_seed(seed)
    groups = torch.arange(TABLE.height) % 2
    posterior = Posterior(config, groups, range(2), 5, seeded, ["search"], features)
    with torch.no_grad():
        for part in (posterior.items, *posterior.shared.values()):
            part.mean.add_(0.5 * torch.randn(part.mean.shape, generator=seeded))
            part.raw.copy_(torch.randn(part.raw.shape, generator=seeded) - 2)
    ids = [f"a{number}" for number in range(TABLE.height)]
    views = torch.ones(TABLE.height)
    return SlateModel(posterior, list(ids), GROUPS, ["search"], views, item_encoder=encoder)


def row_of(recommender: Recommender, item: str) -> tuple[Floats, Floats]:
    """Return means and scales of an item's vector and bias, as it is ranked: [C], [C]."""
    numbers, table = recommender.items.numbers([item]), recommender.ranker.table
    return (
        np.append(table.means_of(numbers)[0], table.biases_of(numbers)),
        np.append(table.scales_of(numbers)[0], table.bias_scales_of(numbers)),
    )


def test_a_new_item_is_where_group_and_features_say(tmp_path: Path) -> None:
    """By hand: μ_g + W x, with x written out from the columns of TABLE."""
    model = described()
    save(model, tmp_path / "run")  # the encoder comes with the run
    recommender = Recommender.load(tmp_path / "run")
    recommender.add_items(["new", "other"], ["green", "red"], NEW)
    text = np.array(TABLE["text"].to_list())
    scale = np.sqrt(np.square(text - text.mean(axis=0)).mean())
    price = TABLE["price"].drop_nulls().to_numpy()
    expected = [
        [(45 - 30) / price.std(), 0, 0, 0, 1, *(([1, 5] - text.mean(axis=0)) / scale)],
        # The price is unknown, and so it was in training; the brand is none of those.
        [0, 1, 0, 0, 0, *(([2, 2] - text.mean(axis=0)) / scale)],
    ]
    weights = model.posterior.shared["feature_weights"].mean.detach().numpy()
    means = model.posterior.shared["group_means"].mean.detach().numpy()
    for item, x, group in zip(["new", "other"], expected, [1, 0], strict=True):
        found, _ = row_of(recommender, item)
        np.testing.assert_allclose(found, means[group] + np.array(x) @ weights, rtol=2e-5)


def test_its_spread_is_that_of_draws_from_the_posterior() -> None:
    """Draws of μ_g, of S_g and of W; 200,000 of them have a sampling error of 0.2 %."""
    model = described()
    recommender = Recommender(model)
    recommender.add_items(["new", "other"], ["green", "red"], NEW)
    assert model.item_encoder is not None
    x = torch.from_numpy(model.item_encoder.encode(pl.DataFrame(NEW)))[0]
    seeded, shared = torch.Generator().manual_seed(1), model.posterior.shared

    def drawn(name: str) -> torch.Tensor:
        return shared[name].samples(200_000, seeded)

    with torch.no_grad():
        scale = (drawn("group_spreads")[:, 1].square() + model.config.scale_floor**2).sqrt()
        centre = drawn("group_means")[:, 1] + torch.einsum("q,jqc->jc", x, drawn("feature_weights"))
        items = centre + scale * torch.randn(scale.shape, generator=seeded)
    means, scales = row_of(recommender, "new")
    np.testing.assert_allclose(items.std(0).numpy(), scales, rtol=0.01)
    np.testing.assert_allclose(items.mean(0).numpy(), means, atol=0.02)


def test_without_features_they_are_unknown() -> None:
    model = described()
    recommender = Recommender(model)
    recommender.add_items(["silent"], ["red"])
    nothing = {"price": [None], "brand": [None], "text": [None]}
    recommender.add_items(["unknown"], ["red"], nothing)
    silent, unknown = row_of(recommender, "silent"), row_of(recommender, "unknown")
    np.testing.assert_array_equal(silent, unknown)
    # A price was missing in training: that it is says something. All else is at the mean.
    missing = model.posterior.shared["feature_weights"].mean[1]
    expected = model.posterior.shared["group_means"].mean[0] + missing
    np.testing.assert_allclose(silent[0], expected.detach().numpy(), rtol=1e-5)


def test_in_a_new_group_features_speak_too() -> None:
    recommender = Recommender(described())
    recommender.add_items(["n", "m"], ["violet", "violet"], NEW)
    recommender.add_items(["k", "l"], ["violet", "violet"])
    moved = row_of(recommender, "n")[0] - row_of(recommender, "k")[0]
    recommender.add_items(["r"], ["red"], pl.DataFrame(NEW).head(1))
    recommender.add_items(["s"], ["red"])
    again = row_of(recommender, "r")[0] - row_of(recommender, "s")[0]
    np.testing.assert_allclose(moved, again, rtol=1e-4, atol=1e-6)


def test_what_features_say_does_not_depend_on_who_comes_along() -> None:
    rng = np.random.default_rng(0)
    features = rng.standard_normal((257, 300)).astype(np.float32)
    weights = rng.standard_normal((300, 11)).astype(np.float32)
    together = _product(features, weights)
    alone = [_product(features[[row]], weights) for row in range(257)]
    np.testing.assert_array_equal(together, np.concatenate(alone))
    np.testing.assert_allclose(together, features @ weights, atol=1e-4)


@pytest.mark.parametrize(
    ("add", "problem"),
    [
        (lambda r: r.add_items(["n"], ["red"], {"price": [1.0]}), "'brand' of the items is not"),
        (lambda r: r.add_items(["n"], ["red"], NEW), "1 items have 2 rows"),
        (lambda r: r.add_items(["n", "m"], ["red"] * 2, NEW | {"size": [1, 2]}), "no feature 'si"),
        (lambda r: r.add_items(["n", "m"], ["red"] * 2, NEW | {"price": ["a", "b"]}), "no number"),
        (lambda r: r.add_items(["n", "m"], ["red"] * 2, NEW | {"price": [1.0]}), "no columns"),
        (
            lambda r: r.add_items(["n", "m"], ["red"] * 2, NEW | {"price": [1.0, float("nan")]}),
            "row 2, column 'price': 'nan' is no number",
        ),
    ],
)
def test_features_that_do_not_fit_add_nothing(
    add: Callable[[Recommender], None], problem: str
) -> None:
    recommender = Recommender(described())
    with pytest.raises(SlatewiseError, match=problem):
        add(recommender)
    assert len(recommender.items) == recommender.ranker.table.num_items == TABLE.height
    assert recommender.items.group_names == GROUPS


def test_a_model_without_features_refuses_them(model: SlateModel) -> None:
    with pytest.raises(SlatewiseError, match="trained without features") as refusal:
        Recommender(model).add_items(["new"], ["red"], {"price": [3.0]})
    assert "--item-features" in refusal.value.remedy


def test_columns_of_a_network_are_asked_for_too(tmp_path: Path) -> None:
    config = ModelConfig(terms=("network",), network_units=4, network_members=1, dimensions=2)
    recommender = Recommender(model_of(config, small_log(tmp_path)))
    assert recommender.item_columns == ["price", "brand", "made"]
    given: dict[str, list[Any]] = {"price": [3.0], "brand": ["b1"], "made": ["2023-11-14"]}
    for wrong, problem in (
        ({"made": ["soon"]}, "row 1, column 'made': 'soon' is no date"),
        ({"size": [1]}, "no feature 'size'"),
    ):
        with pytest.raises(SlatewiseError, match=problem):
            recommender.add_items(["new"], ["a"], given | wrong)
    recommender.add_items(["new"], ["a"], given)
    recommender.add_items(["silent"], ["a"])
    assert len(recommender.items) == ITEMS + 2
