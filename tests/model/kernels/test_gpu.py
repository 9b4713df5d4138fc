"""Kernels for a GPU against their references: on one, or by Triton's interpreter on any machine."""

import math
import os
from typing import Any

import pytest
import torch
from torch import Tensor

from slatewise.model.kernels.catalogue import ItemLists, catalogue_log_sum
from slatewise.model.kernels.items import draw_items
from slatewise.model.kernels.means import row_means
from slatewise.model.kernels.slate import slate_terms
from slatewise.model.noise import normals
from slatewise.model.relevance.distance import DISTANCE
from slatewise.model.relevance.dot import Dot

pytest.importorskip("triton", reason="NO TRITON: kernels for a GPU are NOT tested here")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not (INTERPRETED or torch.cuda.is_available()):
    pytest.skip(
        "NO CUDA DEVICE, and TRITON_INTERPRET is not 1: kernels for a GPU are NOT tested here",
        allow_module_level=True,
    )

from slatewise.model.kernels.gpu import items as item_kernels  # noqa: E402
from slatewise.model.kernels.gpu import means, parts, scan  # noqa: E402
from slatewise.model.kernels.gpu.choice import SlateBatch, choice_values  # noqa: E402

DEVICE = "cpu" if INTERPRETED else "cuda"


def rng(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rand(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=rng(seed)).to(DEVICE)


def test_noise_is_that_of_the_reference() -> None:
    key = torch.tensor([0x1234_5678_9ABC_DEF0], dtype=torch.int64)
    found = parts.normals(key.to(DEVICE), 7, (300, 5)).cpu()
    torch.testing.assert_close(found, normals(key, 7, (300, 5)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("offsets", [False, True])
@pytest.mark.parametrize("groups", [1, 4])
def test_items_are_drawn_and_moved_as_by_autograd_and_adam(offsets: bool, groups: int) -> None:
    count, columns, sigma = 150, 5, 1.5
    mean, raw = rand(count, columns, seed=1), rand(count, columns, seed=2)
    of_item = torch.randint(groups, (count,), generator=rng(3)).to(DEVICE)
    weights = torch.rand(count, generator=rng(4)).to(DEVICE)
    centres = rand(groups, columns, seed=5).requires_grad_()
    shift = rand(count, columns, seed=6).requires_grad_() if offsets else None
    slopes = rand(count, columns, seed=7)
    key = torch.tensor([99], device=DEVICE)
    noise = normals(key.cpu(), 1, (count, columns)).to(DEVICE)
    views = torch.randint(50, (count,), generator=rng(8)).to(DEVICE)

    def loss(vectors: Tensor, squares: Tensor, log_scale: Tensor) -> Tensor:
        # Sums of squares are near 100: their own sine would be one of their rounding errors.
        return (vectors * slopes).sum() + (squares / 50).sin().sum() - 0.3 * log_scale

    wanted = [t.clone().requires_grad_() for t in (mean, raw)]
    drawn = draw_items(
        *wanted,
        noise,
        sigma_max=sigma,
        groups=of_item,
        weights=weights,
        centres=centres,
        offsets=shift,
        backend="torch",
    )
    leaves = [*wanted, centres] + ([] if shift is None else [shift])
    right = torch.autograd.grad(loss(drawn.vectors, drawn.squares, drawn.log_scale), leaves)
    adam = torch.optim.Adam([{"params": [wanted[0]]}, {"params": [wanted[1]], "lr": 0.06}], lr=0.02)
    for parameter, gradient in zip(wanted, right, strict=False):
        parameter.grad = gradient
    adam.step()

    table = item_kernels.ItemTable(mean, raw, sigma, of_item, weights)
    vectors, squares, log_scale = table.draw(key, centres, shift)
    torch.testing.assert_close(vectors, drawn.vectors.detach(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(squares, drawn.squares, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(log_scale, drawn.log_scale, rtol=1e-4, atol=1e-4)
    found = torch.autograd.grad(loss(vectors, squares, log_scale), leaves[2:])
    for one, other in zip(found, right[2:], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
    gradient = parts.RowGradient(count, columns, views)
    gradient.total.copy_(slopes)
    moments = {
        f"{name}.{kind}": torch.zeros_like(mean)
        for name in ("mean", "raw")
        for kind in ("exp_avg", "exp_avg_sq")
    }
    kwargs: dict[str, Any] = {"faster": 3.0, "betas": (0.9, 0.999), "epsilon": 1e-8}
    first = torch.tensor([0.0, 0.02, 0.1, math.sqrt(0.001)], device=DEVICE)
    before = mean.clone()
    table.update(key, gradient, moments, first, **kwargs)
    assert torch.equal(mean, before)  # a step that is not taken
    gradient.total.copy_(slopes)
    first[0] = 1
    table.update(key, gradient, moments, first, **kwargs)
    assert not gradient.buffer.any()
    torch.testing.assert_close(mean, wanted[0].detach(), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(raw, wanted[1].detach(), rtol=1e-3, atol=1e-4)


def collected(gradient: parts.RowGradient) -> Tensor:
    gradient.collect()
    return gradient.total.clone()


def test_means_are_those_of_the_reference() -> None:
    table = rand(40, 6).requires_grad_()
    cells = torch.randint(40, (200,), generator=rng(1), dtype=torch.int32).to(DEVICE)
    starts = torch.randint(150, (37,), generator=rng(2)).to(DEVICE)
    lengths = torch.randint(1, 9, (37,), generator=rng(3)).to(DEVICE)
    slopes = rand(37, 5, seed=4)
    wanted = row_means(table, cells, starts, starts + lengths, 5, backend="torch")
    (right,) = torch.autograd.grad((wanted * slopes).sum(), table)
    gradient = parts.RowGradient(40, 6, torch.arange(40, device=DEVICE))
    found = means.row_means(table.detach(), cells, starts, lengths, 5, gradient)
    torch.testing.assert_close(found, wanted)
    (found * slopes).sum().backward()
    torch.testing.assert_close(collected(gradient), right)


def rolled(
    dynamics: str, moving: Tensor, initial: Tensor, weights: Tensor, offsets: list[int]
) -> Tensor:
    """Go through the events of one user after the other."""
    states = []
    for user, state in enumerate(initial):
        states.append(state)
        for event in range(offsets[user], offsets[user + 1]):
            if dynamics == "linear":
                state = weights * state + (1 - weights) * moving[event]  # noqa: PLW2901
            else:
                given, hidden = moving[event].chunk(3), (weights @ state).chunk(3)
                reset, update = (torch.sigmoid(given[k] + hidden[k]) for k in (0, 1))
                new = torch.tanh(given[2] + reset * hidden[2])
                state = (1 - update) * new + update * state  # noqa: PLW2901
            states.append(state)
    return torch.stack(states)


@pytest.mark.parametrize("dynamics", ["linear", "gru"])
def test_scans_are_those_of_one_user_after_the_other(dynamics: str) -> None:
    counts = [3, 0, 7, 1, 5] * 8
    offsets = [0, *torch.tensor(counts).cumsum(0).tolist()]
    size, events, users = 5, offsets[-1], len(counts)
    moving = rand(events, size if dynamics == "linear" else 3 * size, seed=1).requires_grad_()
    initial = rand(users, size, seed=2).requires_grad_()
    weights = torch.tensor(0.7, device=DEVICE) if dynamics == "linear" else rand(3 * size, size)
    weights.requires_grad_()
    slopes = rand(events + users, size, seed=3)
    wanted = rolled(dynamics, moving, initial, weights, offsets)
    leaves = moving, initial, weights
    right = torch.autograd.grad((wanted * slopes).sum(), leaves)
    ends = torch.tensor(offsets, device=DEVICE)
    if dynamics == "linear":
        found = scan.scan_linear(moving, initial, weights, ends)
    else:
        user_of = torch.repeat_interleave(torch.tensor(counts)).to(DEVICE)
        before = torch.arange(events, device=DEVICE) + user_of
        found = scan.scan_gru(moving, initial, weights, ends, before)
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)
    for one, other in zip(torch.autograd.grad((found * slopes).sum(), leaves), right, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=2e-4)


CASES = {
    "plain": {},
    "dot": {"relevance": "dot"},
    "terms": {"bias": True, "features": True, "positions": True, "factors": True},
    "features of one byte": {"features": True, "one_byte": True},
    "several": {"several": True},
    "all-item": {"kind": "all-item", "bias": True},
    "source-aware": {"kind": "source-aware", "bias": True, "features": True},
    "dot, all-item": {"kind": "all-item", "relevance": "dot"},
    "all-item, exact": {"kind": "all-item", "exact": True, "bias": True},
    "many candidates": {"kind": "all-item", "items": 700, "candidates": 600, "bias": True},
    "dot, many candidates": {
        "kind": "all-item",
        "items": 700,
        "candidates": 640,
        "relevance": "dot",
    },
    "everything": {
        **dict.fromkeys(("bias", "features", "positions", "factors", "several"), True),
        "kind": "source-aware",
    },
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_choices_are_those_of_the_reference(case: dict[str, Any]) -> None:
    count, dims, num_items, states = 60, 5, case.get("items", 90), 25
    lengths = torch.randint(1, 44, (count,), generator=rng(1))
    offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
    total = int(offsets[-1])
    slates = [torch.randperm(num_items, generator=rng(2 + 100 * n)) for n in range(count)]
    cells = torch.cat([s[:n] for s, n in zip(slates, lengths.tolist(), strict=True)]).int()
    clicks = (torch.rand(count, generator=rng(3)) * lengths).int()
    clicks = torch.where(torch.rand(count, generator=rng(4)) < 0.6, clicks, -1)
    weights = torch.rand(count, generator=rng(5)) * (torch.rand(count, generator=rng(6)) < 0.9)
    state_of = torch.randint(states, (count,), generator=rng(7))
    z = rand(states, dims, seed=8).requires_grad_()
    table = rand(num_items, dims + bool(case.get("bias")), seed=9).requires_grad_()
    none = rand(count, seed=10).requires_grad_()
    options: dict[str, Tensor] = {}
    features = taken = stops = lambdas = candidates = None
    if case.get("features"):
        features = torch.randn(total, 7, generator=rng(11)).half()
        if case.get("one_byte"):
            features = (3 * features).round().to(torch.int8)
        options["feature_weights"] = rand(7, seed=12).requires_grad_()
    if case.get("positions"):
        options["positions"] = rand(20, seed=13).requires_grad_()
    if case.get("factors"):
        options["factors"] = rand(count, seed=14).requires_grad_()
    if case.get("several"):
        taken = torch.rand(total, generator=rng(15)) < 0.2
        taken[(offsets[:-1] + clicks)[clicks >= 0]] = False
        stops = (torch.rand(count, generator=rng(16)) < 0.5) & (clicks >= 0)
        options["enough"] = rand(count, seed=17).requires_grad_()
    kind, kappa = case.get("kind"), 1.0
    if kind is not None:
        lambdas = torch.rand(count, generator=rng(18)) * (
            torch.rand(count, generator=rng(19)) < 0.8
        )
        kappa = 1.0 if kind == "all-item" else 2.0
        size = num_items if case.get("exact") else case.get("candidates", 33)
        candidates = torch.randperm(num_items, generator=rng(20))[:size].to(DEVICE)

    def there(tensor: Tensor | None) -> Tensor | None:
        return None if tensor is None else tensor.to(DEVICE)

    relevance = Dot() if case.get("relevance") == "dot" else DISTANCE
    reference = slate_terms(
        z,
        table,
        none,
        state_of=state_of.to(DEVICE),
        cells=cells.to(DEVICE),
        offsets=offsets.to(DEVICE),
        clicks=clicks.to(DEVICE),
        weights=weights.to(DEVICE),
        features=None if features is None else features.float().to(DEVICE),
        feature_weights=options.get("feature_weights"),
        positions=options.get("positions"),
        position_factors=options.get("factors"),
        taken=there(taken),
        stops=there(stops),
        enough=options.get("enough"),
        exposure_weights=there(lambdas),
        sharpness=kappa,
        include_no_click=kind == "all-item",
        include_bias=kind == "all-item",
        relevance=relevance,
        backend="torch",
    )
    wanted = reference.total
    if candidates is not None and lambdas is not None:
        if kind == "all-item":
            chosen = cells[(offsets[:-1] + clicks.clamp(min=0))]
            own = ItemLists(torch.arange(count + 1), torch.where(clicks >= 0, chosen, -1))
        else:
            own = ItemLists(offsets, cells if taken is None else torch.where(taken, -1, cells))
        over = catalogue_log_sum(
            z,
            table,
            candidates=candidates,
            catalogue=num_items,
            state_of=state_of.to(DEVICE),
            own=ItemLists(*(part.to(DEVICE) for part in own)),
            sharpness=kappa,
            include_bias=kind == "all-item",
            relevance=relevance,
        )
        if kind == "all-item":
            over = torch.logaddexp(over, kappa * none)
        wanted = wanted - ((weights * lambdas).to(DEVICE) * over).sum()
    leaves = [z, table, none, *options.values()]
    right = torch.autograd.grad(wanted, leaves)
    gradient = parts.RowGradient(num_items, table.shape[1], torch.arange(num_items, device=DEVICE))
    slates = SlateBatch(
        cells.to(DEVICE),
        offsets[:-1].to(DEVICE).contiguous(),
        lengths.to(DEVICE),
        clicks.to(DEVICE),
        state_of.to(DEVICE),
        weights.to(DEVICE),
        features=there(features),
        taken=there(taken),
        stops=there(stops),
        lambdas=there(lambdas),
        kappa=kappa,
        is_choice=kind == "all-item",
        distance=relevance is DISTANCE,
        candidates=candidates,
        catalogue=num_items,
    )
    found, within = choice_values(z, table.detach(), none, slates, gradient=gradient, **options)
    torch.testing.assert_close(found, wanted, rtol=2e-4, atol=1e-3)
    counted = weights.to(DEVICE) != 0
    torch.testing.assert_close(
        within[counted], reference.log_likelihood[counted], rtol=1e-3, atol=1e-4
    )
    some = [z, none, *options.values()]
    slopes = torch.autograd.grad(found, some)
    slopes = (slopes[0], collected(gradient), *slopes[1:])
    for one, other in zip(slopes, right, strict=True):
        torch.testing.assert_close(one, other, rtol=5e-3, atol=1e-3)
