import math
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from slatewise.data.interactions import Interactions
from slatewise.model.config import ModelConfig
from slatewise.model.gaussian import Gaussian
from slatewise.model.likelihood import BatchLikelihood, Candidates, Exposure
from slatewise.model.posterior import Posterior
from slatewise.training import steps as steps_module
from slatewise.training.config import TrainingConfig
from slatewise.training.objective import ItemRows, negative_elbo
from slatewise.training.steps import SparseSteps, training_views
from tests.model.ragged import random_interactions
from tests.training.dense import Dense, leaves

ITEMS, GROUPS, D, LONGEST = 30, 3, 5, 6
SOURCES = ["recommendation", "search"]
UNLIMITED = TrainingConfig(gradient_limit=1e9, batch_users=512)
LINEAR = ModelConfig(dynamics="linear", dimensions=D)
GRU = ModelConfig(dynamics="gru", prior="flat", dimensions=D, temperature=0.4)
ALL_ITEM = ModelConfig(dynamics="linear", likelihood="all-item", dimensions=D)
SOURCE_AWARE = ModelConfig(dynamics="gru", likelihood="source-aware", dimensions=D)
every_model = pytest.mark.parametrize(
    "config", [LINEAR, GRU, ALL_ITEM, SOURCE_AWARE], ids=lambda config: config.name
)


def log(users: int = 12, items: int = ITEMS, seed: int = 0) -> Interactions:
    """Every user's last interaction is not for training."""
    drawn = random_interactions(seed, users=users, items=items, longest_slate=LONGEST)
    return replace(drawn, train_end=(drawn.train_end - 1).clamp(min=0))


def steps_of(
    config: ModelConfig,
    interactions: Interactions,
    training: TrainingConfig = UNLIMITED,
    *,
    items: int = ITEMS,
    frozen_items: bool = False,
) -> SparseSteps:
    posterior = Posterior(
        config,
        torch.arange(items) % GROUPS,
        range(GROUPS),
        LONGEST,
        torch.Generator().manual_seed(0),
    )
    exposure = Exposure.of(config, SOURCES)
    return SparseSteps(posterior, interactions, training, exposure, frozen_items=frozen_items)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def copied(posterior: Posterior) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in posterior.tensors().items()}


@dataclass
class Drawn:
    """A Gaussian as it was when something was drawn from it, and the noise."""

    part: Gaussian
    noise: Tensor


@pytest.fixture
def draws(monkeypatch: pytest.MonkeyPatch) -> list[Drawn]:
    """Everything drawn from Gaussians, in order."""
    seen: list[Drawn] = []
    plain = Gaussian.noise

    def recorded(self: Gaussian, generator: torch.Generator | None = None) -> Tensor:
        noise = plain(self, generator)
        seen.append(Drawn(self, noise))
        return noise

    monkeypatch.setattr(Gaussian, "noise", recorded)
    return seen


def first_seen(batch: Interactions, whole_catalogue: bool) -> list[int]:
    cells = batch.slate_items.tolist() + (list(range(ITEMS)) if whole_catalogue else [])
    return list(dict.fromkeys(cells))


@every_model
def test_a_step_on_everybody_is_a_dense_step(config: ModelConfig, draws: list[Drawn]) -> None:
    """Loss, gradients and first update, in float32 against float64 with the same noise."""
    interactions = log()
    steps = steps_of(config, interactions)
    batch = interactions.of_users(steps.users, interactions.train_end[steps.users])
    exact = config.likelihood != "slate"
    rows = torch.tensor(first_seen(batch, exact))
    assert exact or len(rows) < ITEMS
    before = copied(steps.posterior)

    result = steps.step(steps.users, seeded(3), rate=0.01)

    touched, shared = draws[0].part, steps.posterior.shared
    torch.testing.assert_close(touched.mean.detach(), before["items.mean"][rows], rtol=0, atol=0)
    noise = {"items": torch.zeros(ITEMS, D)}
    noise["items"][rows] = draws[0].noise
    for name, part in shared.items():  # the group scales are drawn twice; the last draw counts
        noise[name] = [draw.noise for draw in draws if draw.part is part][-1]
    free = leaves(before)
    dense = Dense(config, free, noise, steps.posterior.item_groups, SOURCES)
    shares = torch.zeros(ITEMS, dtype=torch.float64)
    shares[rows] = 1
    expected = dense.negative_elbo(batch, shares=shares, total=len(batch.clicks))
    expected.backward()

    assert result.finite
    assert result.loss == pytest.approx(expected.item(), rel=1e-5)
    gradients = {f"items.{field}": getattr(touched, field).grad for field in ("mean", "raw")}
    for name, part in shared.items():
        gradients |= {f"{name}.mean": part.mean.grad, f"{name}.raw": part.raw.grad}
    after = steps.posterior.tensors()
    for name, actual in gradients.items():
        wanted = free[name].grad
        assert wanted is not None
        wanted = wanted[rows] if name.startswith("items") else wanted
        scale = float(wanted.abs().max())
        torch.testing.assert_close(actual.double(), wanted, rtol=1e-3, atol=2e-4 * scale)
        # Adam's first step: all of the rate, divided by the entry's own size or the row's.
        size = wanted.abs()
        if name.startswith("items"):
            size = wanted.square().mean(1, keepdim=True).sqrt()
        moved = (after[name] - before[name]).double()
        moved = moved[rows] if name.startswith("items") else moved
        large = (size > 0.01 * scale).expand_as(moved)
        assert large.any()
        step = -0.01 * wanted / (size + 1e-10)
        pace = (moved[large].norm() / step[large].norm()).item()
        if name == "items.raw":  # scales of items may have a rate of their own
            assert 0.99 < pace < 10
        else:
            assert pace == pytest.approx(1, abs=0.01)
        torch.testing.assert_close(moved[large], pace * step[large], rtol=0.01, atol=pace * 2e-5)


def test_a_posterior_that_knows_the_slate_reports_its_likelihood() -> None:
    """The mean of the slate's log-likelihood, which for a spread of nothing is that of the mean."""
    interactions = log()
    steps = steps_of(LINEAR, interactions)
    flat = {k: v - 60 if k.endswith("raw") else v for k, v in copied(steps.posterior).items()}
    flat["items.mean"] = torch.zeros(ITEMS, D)
    flat["no_click.mean"] = torch.zeros(LONGEST)
    flat["initial_state.mean"] = torch.zeros(D)
    steps.posterior.load(flat)
    result = steps.step(steps.users, seeded(0), rate=0.0)
    batch = interactions.of_users(steps.users, interactions.train_end[steps.users])
    expected = -torch.log(batch.scroll_lengths.double() + 1).mean()
    assert result.log_likelihood == pytest.approx(expected.item(), abs=1e-5)


@every_model
def test_items_outside_the_batch_do_not_change(config: ModelConfig) -> None:
    config = config.model_copy(update={"negatives": 4})
    interactions = log(items=60)
    steps = steps_of(config, interactions, items=60)
    before = copied(steps.posterior)
    users = steps.users[:2]
    steps.step(users, seeded(0), rate=0.02)
    batch = interactions.of_users(users, interactions.train_end[users])
    changed = (steps.posterior.items.mean != before["items.mean"]).any(1)
    seen = torch.zeros(60, dtype=torch.bool)
    seen[batch.slate_items.long()] = True
    assert changed[seen].all()
    beside = int(changed[~seen].sum())
    assert beside == 0 if config.likelihood == "slate" else beside <= 4
    assert torch.equal(steps.posterior.items.raw[~changed], before["items.raw"][~changed])


@every_model
def test_the_same_seeds_give_the_same_bits(config: ModelConfig) -> None:
    config = config.model_copy(update={"negatives": 4})

    def trained(seed: int) -> dict[str, Tensor]:
        steps = steps_of(config, log())
        for number in range(4):
            steps.step(steps.users[number::2], seeded(seed + number), rate=0.02)
        return steps.posterior.tensors()

    one, again, other = trained(0), trained(0), trained(100)
    for name, tensor in one.items():
        assert torch.equal(tensor, again[name]), name
        assert not torch.equal(tensor, other[name]), name


@every_model
def test_a_saved_optimiser_goes_on_with_the_same_bits(config: ModelConfig) -> None:
    config = config.model_copy(update={"negatives": 4})
    steps, other = (steps_of(config, log()) for _ in range(2))
    for number in range(3):
        steps.step(steps.users, seeded(number), rate=0.02)
    other.posterior.load(copied(steps.posterior))
    other.load_state({name: tensor.clone() for name, tensor in steps.state().items()})
    for each in (steps, other):
        each.step(each.users[:4], seeded(9), rate=0.01)
    theirs = other.posterior.tensors()
    for name, tensor in steps.posterior.tensors().items():
        assert torch.equal(tensor, theirs[name]), name


@pytest.mark.parametrize(
    ("where", "value"),
    [("items.mean", torch.inf), ("no_click.mean", torch.nan), ("drift_logit.raw", -torch.inf)],
)
def test_a_step_that_is_not_finite_is_not_taken(where: str, value: float) -> None:
    steps = steps_of(LINEAR, log())
    steps.step(steps.users, seeded(0), rate=0.02)
    sound = copied(steps.posterior)
    broken = copied(steps.posterior)
    broken[where].fill_(value)
    steps.posterior.load(broken)
    memory = {name: tensor.clone() for name, tensor in steps.state().items()}

    result = steps.step(steps.users, seeded(1), rate=0.02)

    assert not result.finite
    for name, tensor in steps.posterior.tensors().items():
        assert torch.equal(tensor.nan_to_num(), broken[name].nan_to_num()), name
    for name, tensor in steps.state().items():
        assert torch.equal(tensor, memory[name]), name
    steps.posterior.load(sound)
    assert steps.step(steps.users, seeded(2), rate=0.02).finite


def test_a_gradient_that_is_not_finite_is_not_taken_either(monkeypatch: pytest.MonkeyPatch) -> None:
    def steep(posterior: Posterior, rows: ItemRows, *rest: object) -> tuple[Tensor, object]:
        loss, likelihood = negative_elbo(posterior, rows, *rest)  # type: ignore[arg-type]
        # Zero, with an infinite slope.
        return loss + (rows.items.mean[0, 0] - rows.items.mean[0, 0].detach()).sqrt(), likelihood

    steps = steps_of(LINEAR, log())
    before = copied(steps.posterior)
    monkeypatch.setattr(steps_module, "negative_elbo", steep)
    result = steps.step(steps.users, seeded(0), rate=0.02)
    assert math.isfinite(result.loss)
    assert not result.finite
    for name, tensor in steps.posterior.tensors().items():
        assert torch.equal(tensor, before[name]), name


def test_the_gradient_of_everything_but_items_is_limited() -> None:
    tight = steps_of(LINEAR, log(), TrainingConfig(gradient_limit=1e-3, batch_users=512))
    tight.step(tight.users, seeded(0), rate=0.0)
    gradients = [
        getattr(p, f).grad for p in tight.posterior.shared.values() for f in ("mean", "raw")
    ]
    norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
    assert norm.item() == pytest.approx(1e-3, rel=1e-3)


def test_frozen_items_and_their_prior_stay_while_the_dynamics_learn() -> None:
    config = ModelConfig(dynamics="gru", prior="hierarchical", dimensions=D)
    steps = steps_of(config, log(), frozen_items=True)
    before = copied(steps.posterior)
    assert steps.step(steps.users, seeded(0), rate=0.02).finite
    for name, tensor in steps.posterior.tensors().items():
        frozen = name.startswith(("items.", "group_"))
        assert torch.equal(tensor, before[name]) == frozen, name


def test_views_count_training_slates_only() -> None:
    interactions = log()
    expected = [0] * ITEMS
    for user in range(interactions.num_users):
        first = int(interactions.user_offsets[user])
        for n in range(first, first + int(interactions.train_end[user])):
            start, end = interactions.slate_offsets[n : n + 2].tolist()
            for item in interactions.slate_items[start:end].tolist():
                expected[item] += 1
    assert training_views(interactions, ITEMS).tolist() == expected
    held_out = len(interactions.slate_items) - sum(expected)
    assert held_out > 0


# Who answers for the divergence of which item.


@dataclass
class Charged:
    """Shares of each item's divergence, added up over steps."""

    shares: Tensor
    """[I]"""
    candidates: list[int]
    """how many there were, by step"""


def charged(
    monkeypatch: pytest.MonkeyPatch,
    config: ModelConfig,
    interactions: Interactions,
    items: int,
    *,
    epochs: int,
    batch_users: int,
) -> tuple[SparseSteps, Charged]:
    """Go through epochs without learning, watching what each step is charged with."""
    steps = steps_of(config, interactions, TrainingConfig(batch_users=batch_users), items=items)
    # The first coordinate tells which item a row is.
    steps.posterior.items.mean[:, 0] = torch.arange(items) / 64
    seen = Charged(torch.zeros(items, dtype=torch.float64), [])

    def watched(
        posterior: Posterior,
        rows: ItemRows,
        batch: Interactions,
        total: int,
        generator: torch.Generator,
        exposure: Exposure | None,
        candidates: Candidates | None,
    ) -> tuple[Tensor, BatchLikelihood]:
        which = (rows.items.mean[:, 0].detach() * 64).round().long()
        seen.shares[which] += rows.shares.double()
        if candidates is not None:
            assert candidates.catalogue == items
            assert len(candidates.rows.unique()) == len(candidates.rows)
            seen.candidates.append(len(candidates.rows))
        nothing = 0 * (rows.items.mean.sum() + rows.items.raw.sum())
        return nothing, BatchLikelihood(nothing, torch.zeros(1))

    monkeypatch.setattr(steps_module, "negative_elbo", watched)
    for epoch in range(epochs):
        order = torch.randperm(len(steps.users), generator=seeded(epoch))
        for number, users in enumerate(steps.users[order].split(batch_users)):
            steps.step(users, seeded(1_000 * epoch + number), rate=0.0)
    return steps, seen


@pytest.mark.parametrize("batch_users", [1, 5, 100])
def test_an_epoch_answers_for_every_item_seen_once(
    monkeypatch: pytest.MonkeyPatch, batch_users: int
) -> None:
    steps, seen = charged(
        monkeypatch, LINEAR, log(users=8), ITEMS, epochs=1, batch_users=batch_users
    )
    assert 0 < (steps.views > 0).sum() < ITEMS
    torch.testing.assert_close(seen.shares, (steps.views > 0).double(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("batch_users", [1, 5, 100])
def test_with_the_whole_catalogue_in_each_step_an_epoch_answers_for_every_item(
    monkeypatch: pytest.MonkeyPatch, batch_users: int
) -> None:
    _, seen = charged(monkeypatch, ALL_ITEM, log(users=8), ITEMS, epochs=1, batch_users=batch_users)
    torch.testing.assert_close(seen.shares, torch.ones_like(seen.shares), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("items", "negatives"),
    [
        (2_000, 128),
        (51, 50),
        (200, 128),
        (8_100, 1_000),
    ],
)
def test_each_step_has_the_candidates_asked_for(
    monkeypatch: pytest.MonkeyPatch, items: int, negatives: int
) -> None:
    config = ALL_ITEM.model_copy(update={"negatives": negatives})
    interactions = log(users=20, items=items)
    _, seen = charged(monkeypatch, config, interactions, items, epochs=3, batch_users=5)
    assert set(seen.candidates) == {negatives}


@pytest.mark.parametrize(("items", "negatives"), [(200, 20), (60, 50)], ids=["few", "most"])
def test_with_drawn_candidates_an_epoch_answers_for_every_item_on_average(
    monkeypatch: pytest.MonkeyPatch, items: int, negatives: int
) -> None:
    """Over 200 epochs of 4 steps; an item never seen is charged when it is drawn.

    It is drawn 800 K / I times and each time for I / 4 K: off by sqrt(I / 800 K) at most, 11 % for
    few candidates, and five times that for any item; the mean over all items is within 1 %.
    """
    config = ALL_ITEM.model_copy(update={"negatives": negatives})
    interactions = log(users=20, items=items)
    users = int((interactions.train_end > 0).sum())
    batch_users = math.ceil(users / 4)
    assert math.ceil(users / batch_users) == 4
    _, seen = charged(monkeypatch, config, interactions, items, epochs=200, batch_users=batch_users)
    shares = seen.shares / 200
    assert shares.mean().item() == pytest.approx(1, abs=0.01)
    assert (shares - 1).abs().max() < 5 * math.sqrt(items / (800 * negatives))
