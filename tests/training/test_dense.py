"""The step of a GPU against an independent reference, and what it does besides: here on a CPU.

`tests/model/kernels/test_gpu.py` holds its kernels to plain torch, `test_cuda.py` runs whole fits.
"""

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from slatewise.compiled.gpu import has_triton, takes_triton
from slatewise.data.interactions import Interactions, SeveralClicks
from slatewise.errors import SlatewiseError
from slatewise.model.config import ModelConfig
from slatewise.model.dynamics.linear import Linear
from slatewise.model.likelihood import Candidates, Exposure
from slatewise.model.noise import KeyedNoise, normals
from slatewise.model.posterior import Posterior
from slatewise.model.resident import ResidentBatch, Room, in_one_byte, resident
from slatewise.training import TrainingConfig, dense
from slatewise.training.dense import DenseSteps
from slatewise.training.loop import seeded
from slatewise.training.objective import ItemRows, negative_elbo
from slatewise.training.peers import Peers
from slatewise.training.steps import SCALE_RATE, SparseSteps
from tests.model.ragged import histories, random_interactions
from tests.model.ragged import normals as seeded_normals
from tests.parts import all_parts, parts_of
from tests.training.dense import Dense, leaves
from tests.training.test_objective import CONFIGS, SOURCES
from tests.training.test_objective import posterior_of as a_posterior
from tests.training.test_peers import together

ITEMS, GROUPS, LONGEST_SLATE, LONGEST_USER = 12, 3, 6, 8
USERS = [4, 0, 2, 5, 7]


def data(seed: int, users: int = 6) -> Interactions:
    """Draw ragged users, the last interaction of each not for training."""
    drawn = random_interactions(
        seed,
        users=users,
        items=ITEMS,
        longest_user=LONGEST_USER,
        longest_slate=LONGEST_SLATE,
    )
    return replace(drawn, train_end=(drawn.train_end - 1).clamp(min=0))


def described(log: Interactions, posterior: Posterior) -> Interactions:
    weights = posterior.mean().cell_weights
    return replace(
        log,
        cell_features=seeded_normals(
            70, len(log.slate_items), 0 if weights is None else len(weights)
        ),
        step_features=seeded_normals(71, len(log.clicks), 1),
    )


def steps_of(
    posterior: Posterior, log: Interactions, batch_users: int = 512, **options: Any
) -> DenseSteps:
    exposure = Exposure.of(posterior.config, SOURCES)
    config = TrainingConfig(batch_users=batch_users)
    return DenseSteps(posterior, log, config, exposure, **({"compiled": False} | options))


def posterior_of(dtype: torch.dtype = torch.float64, **options: object) -> Posterior:
    config = ModelConfig(dimensions=3, **options)  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(1)
    groups = torch.arange(ITEMS) % GROUPS
    posterior = Posterior(config, groups, range(GROUPS), LONGEST_SLATE, generator, SOURCES)
    for part in (posterior.items, *posterior.shared.values()):
        part.mean, part.raw = part.mean.to(dtype), part.raw.to(dtype) + 1
    return posterior


def gradients(steps: DenseSteps) -> dict[str, Tensor]:
    """Take the gradients of everything by name, after a backward pass."""
    items = steps.posterior.items
    found = {f"items.{field}": getattr(items, field).grad for field in ("mean", "raw")}
    for field, flat in zip(("mean", "raw"), steps.shared.gradients(1e9)[0], strict=True):
        sizes = [part.mean.numel() for part in steps.posterior.shared.values()]
        parts = zip(steps.posterior.shared.items(), torch.split(flat, sizes), strict=True)
        found |= {f"{name}.{field}": own.view(part.mean.shape) for (name, part), own in parts}
    return found


@pytest.mark.parametrize(
    "config", CONFIGS, ids=lambda config: f"{config.name}-{config.initial_state}"
)
def test_loss_and_gradient_are_those_of_all_items_one_user_after_the_other(
    config: ModelConfig,
) -> None:
    """Of a batch in a larger log, where it lies, with the same noise in float64."""
    config = config.model_copy(update={"negatives": ITEMS})
    posterior = a_posterior(config)
    log = described(random_interactions(11, users=12, items=ITEMS), posterior)
    users = torch.tensor(USERS)
    batch = log.of_users(users, log.train_end[users])
    before = {name: tensor.clone() for name, tensor in posterior.tensors().items()}
    steps = steps_of(posterior, log, 7)
    key = torch.tensor([12_345])
    ends = torch.nn.functional.pad(log.train_end[users], (0, 2))
    filled = torch.cat([users, users[:2]])  # a smaller batch, filled up
    with steps.shared.differentiable():
        loss, _ = steps.negative_elbo(filled, ends, key)
        loss.backward()

    shape = tuple(posterior.items.mean.shape)
    drawn = KeyedNoise(key, 1 + posterior.items.mean.numel())
    flat = drawn.normals((steps.shared.size,))
    sizes = [part.mean.numel() for part in posterior.shared.values()]
    parts = zip(posterior.shared.items(), torch.split(flat, sizes), strict=True)
    noise = {name: own.view(part.mean.shape) for (name, part), own in parts}
    noise["items"] = normals(key, 1, shape)
    prefix = initial_noise = None
    if config.initial_state == "amortised":
        clicks = [sum(each.click >= 0 for each in met) for met in histories(batch)]
        share = drawn.uniforms(len(filled)).tolist()
        prefix = [int(u * (c + 1)) for u, c in zip(share, clicks, strict=False)]
        assert max(prefix) > 0
        initial_noise = drawn.normals((len(filled), config.dimensions)).double()
    if config.prior == "hierarchical":
        noise["group_spreads"] = drawn.normals(tuple(noise["group_spreads"].shape))
    free = leaves(before)
    reference = Dense(config, free, noise, posterior.item_groups, SOURCES)
    count, total = len(batch.clicks), steps.total
    expected = reference.negative_elbo(
        batch,
        shares=steps._carried * count,
        total=total,
        prefix=prefix,
        initial_noise=initial_noise,
    )
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), abs=1e-6)
    for name, gradient in gradients(steps).items():
        wanted = free[name].grad
        torch.testing.assert_close(gradient, wanted, rtol=1e-5, atol=1e-6, msg=name)


PARTS: dict[str, dict[str, Any]] = {
    "dot": {"relevance": "dot"},
    "dot, all items": {"relevance": "dot", "likelihood": "all-item"},
    "source": {"terms": ("source",)},
    "co_clicks": {"terms": ("co_clicks", "bias")},
    "contrast": {"terms": ("contrast", "item_network")},
    "network": {"terms": ("network", "position")},
    "enough": {"terms": ("enough",)},
    "enough, source-aware": {"terms": ("enough", "bias"), "likelihood": "source-aware"},
    "item features": {"prior": "hierarchical"},
    "item features, flat": {"prior": "flat", "terms": ("bias",)},
    "sampled candidates": {"likelihood": "all-item", "negatives": 5, "terms": ("bias",)},
    "sampled candidates, source-aware": {"likelihood": "source-aware", "negatives": 5},
    "nothing clicked twice": {"likelihood": "all-item", "terms": ("history",), "repeats": False},
}
WITH_REFERENCE: dict[str, dict[str, Any]] = {
    "gru": {"prior": "flat"},
    "linear": {"dynamics": "linear", "terms": ("bias",)},
    "evidence": {"evidence": ("search",)},
    "amortised": {"initial_state": "amortised"},
    "terms": {"terms": ("bias", "history", "popularity", "propensity", "position", "source")},
}
"""What `Dense` has, by the kernels."""


def test_every_part_of_a_model_is_compared() -> None:
    assert parts_of([*PARTS.values(), *WITH_REFERENCE.values()]) == all_parts()


@pytest.mark.parametrize("name", PARTS)
def test_parts_without_a_reference_of_their_own_are_those_of_the_sparse_step(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without spread, so that noise does not matter; candidates are the same for both."""
    config = ModelConfig(dimensions=3, **PARTS[name])
    features = seeded_normals(1, ITEMS, 2) if "features" in name else None
    generator, groups = torch.Generator().manual_seed(1), torch.arange(ITEMS) % GROUPS
    posterior = Posterior(
        config, groups, range(GROUPS), LONGEST_SLATE, generator, SOURCES, features
    )
    for number, part in enumerate((posterior.items, *posterior.shared.values())):
        part.mean = part.mean.double() + 0.3 * seeded_normals(number, *part.mean.shape)
        part.raw = torch.full_like(part.mean, -36.0)
    log = described(random_interactions(3, users=9, items=ITEMS), posterior)
    if "enough" in config.terms:
        further = torch.zeros(len(log.clicks), dtype=torch.int32)
        args = further.numpy(), log.clicks.numpy(), log.slate_offsets.numpy()
        log = replace(log, several=SeveralClicks.of(*args))
        assert log.several is not None
        assert log.several.stops.any()
    chosen = Candidates(torch.tensor([1, 3, 4, 8, 10]), ITEMS)
    chosen = chosen if config.negatives < ITEMS else Candidates(torch.arange(ITEMS), ITEMS)
    exposure = Exposure.of(config, SOURCES)
    users = torch.nonzero(log.train_end > 0).squeeze(1)
    batch = log.of_users(users, log.train_end[users])
    mirror = copy.deepcopy(posterior)
    for part in (mirror.items, *mirror.shared.values()):
        part.requires_grad_()
    shares = (torch.bincount(log.slate_items, minlength=ITEMS) > 0).double()
    if exposure is not None:
        shares = torch.ones_like(shares)
    rows = ItemRows(mirror.items, groups, shares, features)
    wanted, found = negative_elbo(
        mirror, rows, batch, len(batch.clicks), generator, exposure, chosen
    )
    wanted.backward()
    steps = steps_of(posterior, log)
    monkeypatch.setattr(steps, "_candidates", lambda noise: exposure and chosen)
    with steps.shared.differentiable():
        loss, slate = steps.negative_elbo(users, log.train_end[users], torch.tensor([1]))
        loss.backward()
    torch.testing.assert_close(loss, wanted)
    torch.testing.assert_close(slate, found.slate.mean())
    own = {"items": mirror.items, **mirror.shared}
    for key, gradient in gradients(steps).items():
        part, _, field = key.rpartition(".")
        right = getattr(own[part], field).grad
        torch.testing.assert_close(gradient, right, rtol=1e-5, atol=1e-8, msg=key)


def test_terms_that_wait_cost_training_no_columns() -> None:
    posterior = posterior_of(terms=("history", "item_network", "network"))
    whole = described(data(3), posterior)
    sizes = {name: len(posterior.shared[name].mean) for name in posterior.config.terms}
    assert whole.cell_features is not None
    whole.cell_features[:, sizes["history"] :] = 0
    short = replace(whole, cell_features=whole.cell_features[:, : sizes["history"]])
    found = []
    for posterior.training, log in ((False, whole), (True, short)):
        steps = steps_of(posterior, log)
        with steps.shared.differentiable():
            ends = log.train_end[steps.users]
            loss, _ = steps.negative_elbo(steps.users, ends, torch.tensor([1]))
            loss.backward()
        found.append({"loss": loss.detach(), **gradients(steps)})
    assert bool((found[0]["network.mean"] != 0).all())  # it is drawn towards its prior
    for name, value in found[0].items():
        torch.testing.assert_close(found[1][name], value, msg=name)


def test_a_batch_has_the_same_shapes_whoever_is_in_it() -> None:
    log = data(3, users=12)
    users = torch.nonzero(log.train_end > 0).squeeze(1)
    room = Room.of(log, users, 4)
    shapes = set()
    for some in (users[:4], users[4:8], users[-4:]):
        batch = ResidentBatch.of(log, some, log.train_end[some], room)
        shapes.add(tuple(batch.events.shape + batch.state_of.shape + batch.starts.shape))
        right = log.of_users(some, log.train_end[some])
        gathered = batch.gathered()
        assert torch.equal(gathered.slate_items, right.slate_items)
        assert torch.equal(gathered.clicks, right.clicks)
        assert torch.equal(gathered.slate_offsets, right.slate_offsets)
    assert len(shapes) == 1
    assert room.interactions == int(torch.topk(log.train_end, 4).values.sum())
    assert 0 < room.events <= room.interactions + 1


def test_every_step_carries_what_the_views_of_an_epoch_carry() -> None:
    log = data(3, users=9)
    steps = steps_of(posterior_of(), log, 2)
    sparse = SparseSteps(posterior_of(), log, TrainingConfig(batch_users=2), None)
    torch.testing.assert_close(steps.views, sparse.views)
    torch.testing.assert_close(steps.users, sparse.users)
    seen = (steps.views > 0).double()
    torch.testing.assert_close(steps._carried, seen / steps.total)


def test_users_who_fill_up_a_batch_change_nothing() -> None:
    log = data(4)
    losses = []
    for batch_users in (2, 5):
        steps = steps_of(posterior_of(), log, batch_users)
        result = steps.step(steps.users[:2], torch.Generator().manual_seed(0), 0.02)
        losses.append((result.loss, result.log_likelihood))
    assert losses[0] == pytest.approx(losses[1])


@pytest.mark.parametrize("likelihood", ["slate", "all-item"])
def test_steps_lower_the_loss_and_stopping_changes_nothing(likelihood: str) -> None:
    log = data(6, users=30)
    posterior = posterior_of(torch.float32, likelihood=likelihood, negatives=5)

    def run(steps: DenseSteps, first: int, last: int) -> list[float]:
        batches = steps.users.split(16)
        return [
            steps.step(batches[n % 2], torch.Generator().manual_seed(n), 0.02).loss
            for n in range(first, last)
        ]

    steps = steps_of(posterior, log, 16)
    losses = run(steps, 0, 60)
    assert sum(losses[-10:]) < sum(losses[:10])
    state = {name: tensor.clone() for name, tensor in steps.state().items()}
    saved = {name: tensor.clone() for name, tensor in posterior.tensors().items()}
    went_on = run(steps, 60, 64)
    resumed = posterior_of(torch.float32, likelihood=likelihood, negatives=5)
    resumed.load(saved)
    again = steps_of(resumed, log, 16)
    again.load_state(state)
    assert run(again, 60, 64) == went_on


@pytest.mark.parametrize(
    "options",
    [{}, {"prior": "flat", "likelihood": "all-item", "negatives": 5}, {"terms": ("position",)}],
    ids=str,
)
def test_several_workers_take_the_steps_of_one(options: dict[str, Any]) -> None:
    """They draw the same noise: each has a part of the batch, and all end at the same model."""
    log = data(6, users=30)
    steps = steps_of(posterior_of(**options), log, 30)
    losses = [steps.step(steps.users, seeded(n), 0.02).loss for n in range(4)]

    def worker(peers: Peers) -> tuple[list[float], DenseSteps]:
        mine = log.of_users(peers.share(log.num_users))
        own = steps_of(posterior_of(**options), mine, 30, peers=peers)
        assert len(own.users) < len(steps.users)
        return [own.step(own.users, seeded(n), 0.02).loss for n in range(4)], own

    for found, own in together(3, worker):
        assert found == pytest.approx(losses, abs=1e-9)
        for name, tensor in steps.posterior.tensors().items():
            torch.testing.assert_close(own.posterior.tensors()[name], tensor, rtol=1e-6, atol=1e-7)


def test_a_worker_without_users_is_refused() -> None:
    log, third = data(6, users=2), Peers(2, 3)
    with pytest.raises(SlatewiseError, match="Use fewer workers"):
        steps_of(posterior_of(), log.of_users(third.share(2)), peers=third)


def test_item_scales_learn_faster_than_the_rest() -> None:
    posterior = posterior_of()
    before = {name: tensor.clone() for name, tensor in posterior.tensors().items()}
    steps = steps_of(posterior, data(9))
    steps.step(steps.users, torch.Generator().manual_seed(0), 0.02)
    for name, tensor in posterior.tensors().items():
        rate = 0.02 * (SCALE_RATE if name == "items.raw" else 1)
        assert (tensor - before[name]).abs().max() == pytest.approx(rate, rel=1e-3), name


def test_frozen_items_stay() -> None:
    posterior = posterior_of()
    before = {name: tensor.clone() for name, tensor in posterior.tensors().items()}
    steps = steps_of(posterior, data(7), frozen_items=True)
    assert steps.step(steps.users, torch.Generator().manual_seed(0), 0.02).finite
    moved = {n for n, tensor in posterior.tensors().items() if not tensor.equal(before[n])}
    kept = {f"{n}.{f}" for n in ("items", *posterior.prior.learned) for f in ("mean", "raw")}
    assert moved == set(before) - kept


def test_a_step_that_is_not_finite_is_not_taken() -> None:
    posterior = posterior_of()
    with torch.no_grad():
        posterior.items.mean[0, 0] = torch.nan
    before = posterior.tensors()["no_click.mean"].clone()
    steps = steps_of(posterior, data(8, users=20))
    assert not steps.step(steps.users, torch.Generator().manual_seed(0), 0.02).finite
    assert posterior.tensors()["no_click.mean"].equal(before)
    assert not steps.shared.moments["exp_avg"].any()


def test_what_a_gpu_cannot_do_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Linear, "devices", frozenset(["cpu"]))
        with pytest.raises(SlatewiseError, match="'linear' cannot be trained on a GPU"):
            steps_of(posterior_of(dynamics="linear"), data(0))
    monkeypatch.setattr(dense, "_MOST_NUMBERS", 20)
    with pytest.raises(SlatewiseError, match="batch_users to 1 or fewer"):
        steps_of(posterior_of(), data(0))


def test_features_stay_as_they_are_where_nothing_is_moved() -> None:
    log = replace(data(0), cell_features=torch.ones(3, 2))
    assert resident(log, "cpu") is log


def test_features_of_one_byte_are_right_to_half_a_step() -> None:
    posterior = posterior_of(torch.float32, terms=("history", "popularity"))
    log = described(data(0), posterior)
    assert log.cell_features is not None
    features = log.cell_features.float() * torch.logspace(-2, 2, log.cell_features.shape[1])
    features[:, 1] = 0
    kept, scales = in_one_byte(features, "cpu")
    assert kept.dtype == torch.int8
    assert torch.equal(kept.abs().amax(0), torch.where(torch.arange(len(scales)) == 1, 0, 127))
    short = replace(log, cell_features=kept, cell_scales=scales)
    users = torch.tensor([3, 1])
    found, right = (
        each.of_users(users).cell_features for each in (short, replace(log, cell_features=features))
    )
    assert found is not None
    assert right is not None
    assert bool(((found - right).abs() <= 0.5001 * scales).all())
    # A step takes the rounded numbers, however they are kept.
    long = replace(log, cell_features=kept * scales, step_features=None)
    losses = [
        steps_of(posterior_of(torch.float32, terms=("history", "popularity")), each)
        .step(torch.tensor([3, 1]), torch.Generator().manual_seed(0), 0.02)
        .loss
        for each in (replace(short, step_features=None), long)
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


@pytest.mark.skipif(
    not (has_triton() and takes_triton(torch.zeros(1))),
    reason="NO INTERPRETED TRITON: recorded steps are tested on a GPU alone",
)
@pytest.mark.parametrize("name", [*PARTS, *WITH_REFERENCE])
def test_steps_by_kernels_are_those_of_plain_torch(name: str) -> None:
    """Two steps, of which the second is filled up."""
    config = ModelConfig(dimensions=3, **(WITH_REFERENCE | PARTS)[name])
    features = torch.randn(ITEMS, 2) if "features" in name else None
    ends = []
    log = random_interactions(3, users=9, items=ITEMS)
    for compiled in (False, True):
        posterior = Posterior(
            config,
            torch.arange(ITEMS) % GROUPS,
            range(GROUPS),
            LONGEST_SLATE,
            torch.Generator().manual_seed(1),
            SOURCES,
            features,
        )
        for number, part in enumerate((posterior.items, *posterior.shared.values())):
            part.mean = part.mean + 0.3 * seeded_normals(number, *part.mean.shape).float()
        log = described(log, posterior)
        log = replace(
            log,
            cell_features=None if log.cell_features is None else log.cell_features.float(),
            step_features=None if log.step_features is None else log.step_features.float(),
        )
        steps = steps_of(posterior, log, 5, compiled=compiled)
        results = [
            steps.step(users, torch.Generator().manual_seed(n), 0.02)
            for n, users in enumerate((steps.users[:5], steps.users[5:8]))
        ]
        ends.append(([r.loss for r in results], posterior.tensors()))
    assert ends[0][0] == pytest.approx(ends[1][0], rel=1e-4)
    for key, tensor in ends[0][1].items():
        # Where a gradient is all but 0, Adam goes by its rounding errors.
        apart = (ends[1][1][key] - tensor).abs() > 1e-3
        assert apart.float().mean() < 0.04, key
