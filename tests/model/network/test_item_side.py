"""The network of one item: what it learns from, and that it learns."""

import numpy as np
import pytest
import torch

from slatewise.data import SlateDataset
from slatewise.features.popularity import SECOND, Popularity, PopularityConfig
from slatewise.features.popularity_index import PopularityIndex
from slatewise.model.network import item_side
from slatewise.model.network.fitting import mean_log_likelihood
from slatewise.model.network.item_side import NextClicks, candidates_of, drawn_moments
from tests.contract.world import ITEMS, small_log


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
    return small_log(tmp_path_factory.mktemp("item_side"))


def test_candidates_stand_for_all_items_and_hold_what_was_clicked(
    dataset: SlateDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(item_side, "RECENT", 5)
    monkeypatch.setattr(item_side, "SAMPLED", 6)
    log, rng = dataset.interactions(), np.random.default_rng(0)
    rows, training = drawn_moments(log, rng)
    items, log_weights = candidates_of(log, rows, ITEMS, rng)
    assert items.shape == (len(rows), item_side.TOGETHER + 5 + 6)
    stands_for = np.exp(log_weights)
    np.testing.assert_allclose(stands_for.sum(1), ITEMS, rtol=1e-5)
    for row, own in enumerate(items.tolist()):
        options = [item for item, weight in zip(own, stands_for[row], strict=True) if weight > 0]
        assert len(options) == len(set(options))
        clicked = log.clicked_items[torch.from_numpy(rows[row])].tolist()
        assert set(clicked) <= {i for i, w in zip(own, stands_for[row], strict=True) if w == 1}
    ends = log.user_offsets[:-1] + log.train_end
    users = torch.searchsorted(log.user_offsets, torch.from_numpy(rows), right=True) - 1
    is_training = (torch.from_numpy(rows) < ends[users]).numpy()
    assert is_training[:training].all()
    assert not is_training[training:].any()


def test_a_click_long_after_a_moment_does_not_count_for_it(
    dataset: SlateDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    popularity = Popularity.fit(dataset, PopularityConfig())
    index = PopularityIndex.of(popularity, dataset)
    log, groups = dataset.interactions(), torch.zeros(ITEMS, dtype=torch.int64)
    counts = []
    for hours in (0, 1, 1_000):
        monkeypatch.setattr(item_side, "SOON", hours * 3_600 * SECOND)
        rng = np.random.default_rng(1)
        columns = torch.zeros(ITEMS, 0)
        found, _, _ = item_side.next_clicks(log, index, groups, columns, {}, rng)
        counts.append(found.clicks.sum(1))
    assert bool((counts[0] >= 1).all())
    assert bool((counts[2] == item_side.TOGETHER).all())
    assert counts[0].sum() < counts[1].sum() < counts[2].sum()


def test_it_learns_what_makes_an_item_clicked_next() -> None:
    rng = np.random.default_rng(2)
    features = torch.from_numpy(rng.normal(size=(250, 12, 3))).float()
    best = features[..., 0].abs().argmax(1)  # of no linear worth
    clicks = torch.nn.functional.one_hot(best, 12).float()
    items = torch.from_numpy(rng.integers(5, size=(250, 12)))
    known = torch.zeros(5, dtype=torch.int64), torch.zeros(5, 0)
    moments = NextClicks(features, items, torch.zeros(250, 12), clicks, *known)
    fitted = item_side.fit_item_network(moments, 200, groups=1, hidden=8, seed=0)
    assert fitted.validation[0] == pytest.approx(-np.log(12), abs=0.3)
    # A linear one learns nothing.
    held_out = torch.arange(200, 250)
    assert mean_log_likelihood(moments, fitted.network, held_out) > -2.2
