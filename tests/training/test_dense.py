"""The dense step does what the sparse one does, on the same data with the same noise."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from slatewise.data.interactions import Interactions
from slatewise.errors import SlatewiseError
from slatewise.model.config import ModelConfig
from slatewise.model.likelihood import Candidates, Exposure
from slatewise.model.padded import PaddedBatch
from slatewise.model.posterior import Posterior
from slatewise.training import TrainingConfig, dense
from slatewise.training.dense import DenseSteps, dense_negative_elbo, draw_noise
from slatewise.training.objective import ItemRows, negative_elbo
from slatewise.training.steps import SCALE_RATE, SparseSteps
from tests.model.ragged import random_interactions

ITEMS, GROUPS, LONGEST_SLATE, LONGEST_USER = 12, 3, 6, 8
SOURCES = ["search", "recommendation"]


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


def eager_steps(
    posterior: Posterior,
    interactions: Interactions,
    config: TrainingConfig,
    exposure: Exposure | None = None,
    *,
    frozen_items: bool = False,
) -> DenseSteps:
    return DenseSteps(
        posterior, interactions, config, exposure, frozen_items=frozen_items, compiled=False
    )


def posterior_of(dtype: torch.dtype = torch.float64, **options: object) -> Posterior:
    config = ModelConfig(dimensions=3, **options)  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(1)
    groups = torch.arange(ITEMS) % GROUPS
    posterior = Posterior(config, groups, range(GROUPS), LONGEST_SLATE, generator)
    for part in (posterior.items, *posterior.shared.values()):
        part.mean, part.raw = part.mean.to(dtype), part.raw.to(dtype) + 1
        part.requires_grad_()
    return posterior


def gradients(posterior: Posterior) -> dict[str, Tensor]:
    parts = {"items": posterior.items, **posterior.shared}
    found = {}
    for name, part in parts.items():
        for field in ("mean", "raw"):
            parameter = getattr(part, field)
            found[f"{name}.{field}"] = parameter.grad
            parameter.grad = None
    return found


VARIANTS = [
    {"dynamics": dynamics, "prior": prior, "likelihood": likelihood, "negatives": negatives}
    for dynamics in ("linear", "gru")
    for prior in ("flat", "hierarchical")
    for likelihood, negatives in (
        ("slate", 5),
        ("all-item", 5),
        ("all-item", 50),
        ("source-aware", 5),
    )
]


@pytest.mark.parametrize("options", VARIANTS, ids=lambda o: "-".join(map(str, o.values())))
@pytest.mark.parametrize("seed", [0, 1])
def test_loss_and_gradients_are_those_of_the_sparse_step(
    options: dict[str, object], seed: int
) -> None:
    posterior, interactions = posterior_of(**options), data(seed)
    exposure = Exposure.of(posterior.config, SOURCES)
    candidates = None
    if exposure is not None:
        drawn = torch.randperm(ITEMS, generator=torch.Generator().manual_seed(seed))
        candidates = Candidates(drawn[: posterior.config.negatives], ITEMS)
    users = torch.tensor([4, 0, 2, 5])
    ends = interactions.train_end[users]
    shares = torch.rand(ITEMS, generator=torch.Generator().manual_seed(seed)).double()

    # All items are rows, so that both number them alike and draw the same noise in turn.
    ragged = interactions.of_users(users, ends)
    rows = ItemRows(posterior.items, posterior.item_groups, shares)
    sparse, likelihood = negative_elbo(
        posterior, rows, ragged, 100, torch.Generator().manual_seed(2), exposure, candidates
    )
    sparse.backward()
    wanted = gradients(posterior)

    loss, slate = dense_negative_elbo(
        posterior,
        PaddedBatch.of(interactions, users, ends, (LONGEST_USER + 1, LONGEST_SLATE), ITEMS),
        draw_noise(posterior, torch.Generator().manual_seed(2)),
        shares / len(ragged.clicks),
        100,
        exposure,
        candidates,
    )
    loss.backward()
    torch.testing.assert_close(loss, sparse)
    torch.testing.assert_close(slate, likelihood.slate.mean())
    for name, gradient in gradients(posterior).items():
        torch.testing.assert_close(gradient, wanted[name], msg=name)


def test_every_step_carries_what_the_views_of_an_epoch_carry() -> None:
    interactions = data(3, users=9)
    steps = eager_steps(posterior_of(), interactions, TrainingConfig(batch_users=2))
    sparse = SparseSteps(posterior_of(), interactions, TrainingConfig(batch_users=2), None)
    torch.testing.assert_close(steps.views, sparse.views)
    torch.testing.assert_close(steps.users, sparse.users)
    seen = (steps.views > 0).double()
    torch.testing.assert_close(steps._carried, seen / steps.total)


def test_users_who_fill_up_a_batch_change_nothing() -> None:
    interactions = data(4)
    losses = []
    for batch_users in (2, 5):
        steps = eager_steps(posterior_of(), interactions, TrainingConfig(batch_users=batch_users))
        result = steps.step(steps.users[:2], torch.Generator().manual_seed(0), 0.02)
        losses.append((result.loss, result.log_likelihood))
    assert losses[0] == pytest.approx(losses[1])


def test_long_users_go_through_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    interactions = data(5)
    losses = []
    for chunk in (32, 3):
        monkeypatch.setattr(dense, "_CHUNK", chunk)
        steps = eager_steps(posterior_of(), interactions, TrainingConfig(batch_users=512))
        losses.append(steps.step(steps.users, torch.Generator().manual_seed(0), 0.02).loss)
    assert losses[0] == pytest.approx(losses[1])


@pytest.mark.parametrize("likelihood", ["slate", "all-item"])
def test_steps_lower_the_loss_and_stopping_changes_nothing(likelihood: str) -> None:
    interactions = data(6, users=30)
    exposure = Exposure.of(ModelConfig(likelihood=likelihood), SOURCES)  # type: ignore[arg-type]
    posterior = posterior_of(torch.float32, likelihood=likelihood, negatives=5)
    config = TrainingConfig(batch_users=16)

    def run(steps: DenseSteps, first: int, last: int) -> list[float]:
        batches = steps.users.split(16)
        return [
            steps.step(batches[n % 2], torch.Generator().manual_seed(n), 0.02).loss
            for n in range(first, last)
        ]

    steps = eager_steps(posterior, interactions, config, exposure)
    losses = run(steps, 0, 60)
    assert sum(losses[-10:]) < sum(losses[:10])
    state = {name: tensor.clone() for name, tensor in steps.state().items()}
    saved = {name: tensor.clone() for name, tensor in posterior.tensors().items()}
    went_on = run(steps, 60, 64)
    resumed = posterior_of(torch.float32, likelihood=likelihood, negatives=5)
    resumed.load(saved)
    again = eager_steps(resumed, interactions, config, exposure)
    again.load_state(state)
    assert run(again, 60, 64) == went_on


def test_item_scales_learn_faster_than_the_rest() -> None:
    posterior = posterior_of()
    before = {name: tensor.clone() for name, tensor in posterior.tensors().items()}
    steps = eager_steps(posterior, data(9), TrainingConfig(batch_users=512))
    steps.step(steps.users, torch.Generator().manual_seed(0), 0.02)
    for name, tensor in posterior.tensors().items():
        rate = 0.02 * (SCALE_RATE if name == "items.raw" else 1)
        assert (tensor - before[name]).abs().max() == pytest.approx(rate, rel=1e-3), name


def test_frozen_items_stay() -> None:
    posterior = posterior_of()
    before = {name: tensor.clone() for name, tensor in posterior.tensors().items()}
    for part in (posterior.items, *posterior.shared.values()):
        part.requires_grad_(False)
    steps = eager_steps(posterior, data(7), TrainingConfig(batch_users=512), frozen_items=True)
    assert steps.step(steps.users, torch.Generator().manual_seed(0), 0.02).finite
    moved = {n for n, tensor in posterior.tensors().items() if not tensor.equal(before[n])}
    kept = {f"{n}.{f}" for n in ("items", *posterior.prior.learned) for f in ("mean", "raw")}
    assert moved == set(before) - kept


def test_a_step_that_is_not_finite_is_not_taken() -> None:
    posterior = posterior_of()
    with torch.no_grad():
        posterior.items.mean[0, 0] = torch.nan
    before = posterior.tensors()["no_click.mean"].clone()
    steps = eager_steps(posterior, data(8, users=20), TrainingConfig(batch_users=512))
    assert not steps.step(steps.users, torch.Generator().manual_seed(0), 0.02).finite
    assert posterior.tensors()["no_click.mean"].equal(before)


def test_what_a_gpu_cannot_do_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    amortised = posterior_of(initial_state="amortised")
    with pytest.raises(SlatewiseError, match="Use the CPU"):
        eager_steps(amortised, data(0), TrainingConfig(batch_users=512))
    monkeypatch.setattr(dense, "_MOST_CELLS", 60)
    with pytest.raises(SlatewiseError, match="batch_users to 1 or fewer"):
        eager_steps(posterior_of(), data(0), TrainingConfig(batch_users=512))
