"""Rankings of many profiles at once have the law of drawing everything, as those of one have."""

import numpy as np
import pytest
import torch

from slatewise.ranking import Filter
from slatewise.ranking.batched import BatchedTable
from slatewise.ranking.passes_plain import Spread

from . import naive
from .laws import Case, K, assert_same_counts, reference
from .test_draws import case, certain_items, cold_items

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")),
]
NONE = torch.zeros(0, dtype=torch.int64)


def table_of(world: naive.World, device: str = "cpu") -> BatchedTable:
    return BatchedTable(
        torch.from_numpy(world.means).to(device), torch.from_numpy(world.scales).to(device)
    )


def ranked(one: Case, pilot: int, device: str, times: int = 250) -> naive.Array:
    profiles = torch.from_numpy(one.profiles).repeat(times, 1).to(device)
    generator = torch.Generator(device).manual_seed(3)
    none = NONE.to(device)
    table = table_of(one.world, device)
    return table.rank_draws(profiles, K, generator, (none, none), pilot).cpu().numpy()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("pilot", [K, 40])
@pytest.mark.parametrize(
    "one",
    [case(0.2), case(0.5, around=0.3), cold_items(), certain_items()],
    ids=["narrow", "wide", "cold", "certain"],
)
def test_a_draw_of_few_items_is_as_one_of_all(
    one: Case, pilot: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pilot of no more than the slate, found by blocks, leaves most of the work to events."""
    monkeypatch.setattr("slatewise.ranking.passes_plain.BLOCK", 64 if pilot > K else 7)
    found, wanted = ranked(one, pilot, device), reference(one).items
    assert_same_counts(found, wanted)
    for rank in range(K):
        assert_same_counts(found[:, rank], wanted[:, rank])


def test_without_the_events_the_law_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    one = case(0.5)

    def nothing(near: torch.Tensor, least: torch.Tensor, spread: Spread) -> torch.Tensor:
        return torch.zeros_like(near, dtype=torch.int32)

    monkeypatch.setattr("slatewise.ranking.passes_plain.bounds", nothing)
    with pytest.raises(AssertionError):
        assert_same_counts(ranked(one, K, "cpu"), reference(one).items)


def test_what_is_excluded_leaves_the_law_of_the_others() -> None:
    """More is excluded than the pilot has items for: all that is nearest to the profile."""
    one, times = case(0.4), 40
    nearest = np.argsort(-naive.distances(one.profiles[:1], one.world.means))[0, :15]
    rows = len(one.profiles) * times
    pairs = np.repeat(np.arange(rows), len(nearest)), np.tile(nearest, rows)
    exclude = torch.from_numpy(pairs[0]), torch.from_numpy(pairs[1])
    profiles = torch.from_numpy(one.profiles).repeat(times, 1)
    generator = torch.Generator().manual_seed(4)
    found = table_of(one.world).rank_draws(profiles, K, generator, exclude, K).numpy()
    few = one._replace(filter=Filter(exclude=nearest))
    wanted = reference(few).items[: len(found)]
    assert not np.isin(found, nearest).any()
    assert_same_counts(found, wanted)
    assert_same_counts(found[:, 0], wanted[:, 0])


@pytest.mark.parametrize("device", DEVICES)
def test_means_are_ranked_as_one_by_one(device: str) -> None:
    world = naive.make_world(scale=0.4)
    profiles = np.random.default_rng(5).normal(size=(30, 5)).astype(np.float32)
    wider, means = naive.with_spread(profiles, world.means, np.square(world.scales).sum(1))
    expected = np.argsort(-naive.distances(wider, means), axis=1)[:, :K]
    none = NONE.to(device)
    found = table_of(world, device).rank_means(
        torch.from_numpy(profiles).to(device), K, (none, none)
    )
    np.testing.assert_array_equal(found.cpu().numpy(), expected)


def test_what_is_excluded_is_not_shown_and_few_items_leave_gaps() -> None:
    world = naive.make_world(num_items=6)
    profiles = torch.zeros(3, 5)
    exclude = torch.tensor([0, 0, 2]), torch.tensor([1, 4, 0])
    generator = torch.Generator().manual_seed(1)
    table = table_of(world)
    for found in (
        table.rank_draws(profiles, 6, generator, exclude),
        table.rank_means(profiles, 6, exclude),
    ):
        rows = [set(row.tolist()) for row in found]
        assert rows == [{0, 2, 3, 5, -1}, {0, 1, 2, 3, 4, 5}, {1, 2, 3, 4, 5, -1}]
        assert found[0, 4:].tolist() == [-1, -1]
