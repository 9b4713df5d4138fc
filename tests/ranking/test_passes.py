"""Passes of a GPU against those in plain torch: on one, or by Triton's interpreter anywhere."""

import os
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from slatewise.compiled.splitmix import log_uniforms_of, mixed
from slatewise.ranking.batched import BatchedTable
from slatewise.ranking.passes_plain import PlainPasses, Spread

from . import naive
from .laws import K, assert_same_counts, reference
from .test_draws import case

pytest.importorskip("triton", reason="NO TRITON: passes of a GPU are NOT tested here")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not (INTERPRETED or torch.cuda.is_available()):
    pytest.skip(
        "NO CUDA DEVICE, and TRITON_INTERPRET is not 1: passes of a GPU are NOT tested here",
        allow_module_level=True,
    )

import triton  # noqa: E402
import triton.language as tl  # noqa: E402

from slatewise.compiled.gpu_noise import log_uniform  # noqa: E402
from slatewise.ranking import passes_gpu  # noqa: E402

DEVICE = "cpu" if INTERPRETED else "cuda"
KEYS = torch.tensor([3 << 40, -(7 << 50), 11 << 33, 1 << 62]).to(DEVICE)


@triton.jit
def _uniforms(keys, found):  # noqa: ANN001, ANN202 (Triton reads annotations)
    counter = tl.arange(0, 64).to(tl.int64)
    tl.store(found + counter, log_uniform(tl.load(keys), counter))


class Both(NamedTuple):
    """The same profiles and items in both ways."""

    gpu: passes_gpu.GpuPasses
    plain: PlainPasses
    near: Tensor


def both(scale: float, num_items: int = 300, rows: int = 70) -> Both:
    """Make passes of profiles that lie among the items; neither number fills its last tile."""
    world = naive.make_world(num_items, scale=scale)
    mean, scales = (torch.from_numpy(part).to(DEVICE) for part in (world.means, world.scales))
    profiles = torch.randn(rows, 5, generator=torch.Generator().manual_seed(2)).to(DEVICE)
    spread = Spread.of(scales)
    near = torch.cdist(profiles.double(), mean.double()).square().float() + spread.variance
    packed = passes_gpu.PackedTable.of(mean, scales, spread)
    plain = PlainPasses(mean, scales, spread, profiles, near)
    return Both(passes_gpu.GpuPasses(packed, profiles), plain, near)


def test_the_nearest_of_the_best_blocks_are_found() -> None:
    passes = both(0.3)
    found = passes.gpu.nearest(3)
    blocks = torch.nn.functional.pad(passes.near, (0, 20), value=torch.inf).view(70, 5, 64)
    values, inside = blocks.min(2)
    best = values.topk(3, largest=False).indices
    wanted = best * 64 + inside.gather(1, best)
    np.testing.assert_array_equal(found.sort(1).values.cpu(), wanted.sort(1).values.cpu())


def test_as_many_items_are_nearer() -> None:
    passes = both(0.3)
    targets = torch.randint(300, (70,), generator=torch.Generator().manual_seed(6)).to(DEVICE)
    found, wanted = (way.ahead(targets) for way in (passes.gpu, passes.plain))
    np.testing.assert_array_equal(found.cpu(), wanted.cpu())
    assert len(found.unique()) > 30


def test_of_items_that_are_alike_the_lower_number_comes_first() -> None:
    """In several tiles, where floats may make unlike distances of them."""
    mean = torch.randn(7, 5, generator=torch.Generator().manual_seed(1)).repeat(30, 1).to(DEVICE)
    table = BatchedTable(mean, torch.full_like(mean, 0.3))
    profiles = torch.randn(70, 5, generator=torch.Generator().manual_seed(2)).to(DEVICE)
    nearest = torch.cdist(profiles, mean[:7]).argsort(1)
    for place, kind in enumerate(nearest.T[:2]):
        for copy in (0, 17, 29):
            found = table.ranks(profiles, kind + 7 * copy)
            assert bool((found == 1 + 30 * place + copy).all())


def test_the_best_by_mean_are_those_of_the_whole_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    world = naive.make_world(4_000, scale=0.4)
    table = BatchedTable(*(torch.from_numpy(part).to(DEVICE) for part in world[:2]))
    profiles = torch.randn(70, 5, generator=torch.Generator().manual_seed(2)).to(DEVICE)
    row, item = torch.arange(70).repeat_interleave(3), torch.randint(4_000, (210,))
    exclude = row.to(DEVICE), item.to(DEVICE)
    assert table._tiles(40)
    found = table.rank_means(profiles, 6, exclude)
    monkeypatch.setattr(BatchedTable, "takes_tiles", False)
    np.testing.assert_array_equal(found.cpu(), table.rank_means(profiles, 6, exclude).cpu())


def test_the_pilot_has_the_same_draws() -> None:
    passes = both(0.3)
    items = torch.randint(300, (70, 41), generator=torch.Generator().manual_seed(5)).to(DEVICE)
    found, wanted = (way.draws(items, KEYS) for way in (passes.gpu, passes.plain))
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rooms", ["of all blocks", "of one block", "too few"])
def test_the_same_items_come_late(rooms: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds differ by rounding, so that one event in some thousands may."""
    passes = both(0.4)
    if rooms == "of one block":
        monkeypatch.setattr(passes_gpu, "_SAMPLED", 1)
    elif rooms == "too few":
        few = torch.arange(71).to(DEVICE)
        monkeypatch.setattr(passes.gpu, "_rooms", lambda limits, keys: few)
    limits = passes.near.kthvalue(30, dim=1).values.double()
    found, wanted = (way.late(limits, KEYS) for way in (passes.gpu, passes.plain))
    assert bool((found.row.diff() >= 0).all())
    pairs = [
        dict(zip((late.row * 300 + late.item).tolist(), late.distance.tolist(), strict=True))
        for late in (found, wanted)
    ]
    shared = pairs[0].keys() & pairs[1].keys()
    assert len(shared) > 500
    assert len(shared) >= 0.995 * max(map(len, pairs))
    for pair in shared:
        assert pairs[0][pair] == pytest.approx(pairs[1][pair], rel=1e-3)


def test_uniforms_are_those_of_the_reference() -> None:
    found = torch.empty(64, dtype=torch.float64, device=DEVICE)
    _uniforms[(1,)](KEYS, found)
    wanted = log_uniforms_of(mixed(KEYS[0], torch.arange(64, device=DEVICE)))
    torch.testing.assert_close(found, wanted)


def test_a_ranking_by_tiles_has_the_law_of_drawing_everything() -> None:
    one = case(0.4)
    profiles = torch.from_numpy(one.profiles).repeat(100, 1).to(DEVICE)
    generator = torch.Generator(DEVICE).manual_seed(3)
    none = torch.zeros(0, dtype=torch.int64, device=DEVICE)
    table = BatchedTable(*(torch.from_numpy(part).to(DEVICE) for part in one.world[:2]))
    assert table._tiles(K)
    found = table.rank_draws(profiles, K, generator, (none, none), K)
    wanted = reference(one).items[: len(found)]
    assert_same_counts(found.cpu().numpy(), wanted)
    assert_same_counts(found[:, 0].cpu().numpy(), wanted[:, 0])
