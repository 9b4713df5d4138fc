from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from slatewise.data.interactions import Interactions
from slatewise.model.config import ModelConfig
from slatewise.model.gaussian import Gaussian
from slatewise.model.initial_states import amortised
from slatewise.model.initial_states.amortised import InitialStates, after_prefix, random_prefix
from slatewise.model.likelihood import Candidates, Exposure
from slatewise.model.posterior import Posterior
from slatewise.model.steps import ClickSteps
from slatewise.training.objective import ItemRows, negative_elbo
from tests.model.ragged import histories, normals, ragged, random_interactions
from tests.model.reference import item_kl
from tests.training.dense import Dense, leaves

ITEMS, GROUPS, D, LONGEST = 12, 3, 4, 6
SOURCES = ["recommendation", "search"]
TOTAL = 200
TERMS = ("bias", "history", "popularity", "propensity", "position")
CONFIGS = [
    ModelConfig(dynamics="linear", prior="hierarchical", dimensions=D),
    ModelConfig(dynamics="gru", prior="hierarchical", dimensions=D, hidden=5, temperature=0.3),
    ModelConfig(dynamics="gru", prior="flat", dimensions=D, sigma_max=0.4),
    ModelConfig(likelihood="all-item", dynamics="linear", prior="flat", dimensions=D),
    ModelConfig(likelihood="source-aware", dynamics="gru", dimensions=D),
    ModelConfig(initial_state="amortised", dynamics="linear", dimensions=D, temperature=0.5),
    ModelConfig(initial_state="amortised", dynamics="gru", likelihood="all-item", dimensions=D),
    ModelConfig(dynamics="gru", dimensions=D, terms=("bias",), kappa_bias=0.3),
    ModelConfig(likelihood="all-item", dynamics="linear", dimensions=D, terms=("bias",)),
    ModelConfig(likelihood="source-aware", prior="flat", dimensions=D, terms=("bias",)),
    ModelConfig(dynamics="gru", dimensions=D, terms=TERMS, sigma_weights=0.7, sigma_position=0.4),
    ModelConfig(likelihood="all-item", dynamics="linear", dimensions=D, terms=TERMS),
    ModelConfig(likelihood="source-aware", dimensions=D, terms=("history", "propensity")),
    ModelConfig(dynamics="linear", dimensions=D, evidence=("search",), sigma_evidence=0.4),
    ModelConfig(dynamics="gru", dimensions=D, evidence=("search", "recommendation"), terms=TERMS),
    ModelConfig(initial_state="amortised", dimensions=D, evidence=("recommendation",)),
]


def posterior_of(config: ModelConfig) -> Posterior:
    """A posterior in float64, away from where posteriors start."""
    seeded = torch.Generator().manual_seed(0)
    groups = torch.arange(ITEMS) % GROUPS
    posterior = Posterior(config, groups, range(GROUPS), LONGEST, seeded, SOURCES)
    for number, part in enumerate([posterior.items, *posterior.shared.values()]):
        part.mean = part.mean.double() + 0.3 * normals(number, *part.mean.shape)
        part.raw = part.raw.double() + 0.5 * normals(50 + number, *part.raw.shape)
        part.requires_grad_()
    return posterior


def rows_of(posterior: Posterior, shares: Tensor) -> ItemRows:
    return ItemRows(posterior.items, posterior.item_groups, shares)


@pytest.mark.parametrize(
    "config", CONFIGS, ids=lambda config: f"{config.name}-{config.initial_state}"
)
def test_loss_and_gradient_are_those_of_all_items_one_user_after_the_other(
    config: ModelConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the same noise; gradients of τ, λ, float32 constants and quadrature leave 1e-6."""
    batch = random_interactions(11, users=12, items=ITEMS, longest_slate=LONGEST)
    posterior = posterior_of(config)
    weights = posterior.mean().cell_weights
    batch = replace(
        batch,
        cell_features=normals(70, len(batch.slate_items), 0 if weights is None else len(weights)),
        step_features=normals(71, len(batch.clicks), 1),
    )
    parts = {"items": posterior.items, **posterior.shared}
    noise = {
        name: normals(90 + i, *part.mean.shape) for i, (name, part) in enumerate(parts.items())
    }
    by_part = {id(part): noise[name] for name, part in parts.items()}
    clicks = [sum(each.click >= 0 for each in met) for met in histories(batch)]
    prefix = [(7 * user) % (count + 1) for user, count in enumerate(clicks)]
    assert 0 in prefix
    assert max(prefix) > 1
    initial_noise = normals(80, batch.num_users, D)

    def same_noise(self: Gaussian, generator: torch.Generator | None = None) -> Tensor:
        return by_part[id(self)]

    order = ClickSteps.of(batch, posterior.mean().evidence).users

    def same_initial(self: InitialStates, generator: torch.Generator | None) -> Tensor:
        drawn = self.mean + self.scale * initial_noise[order]
        return torch.where(self.known[:, None], drawn, self.mean)

    monkeypatch.setattr(Gaussian, "noise", same_noise)
    monkeypatch.setattr(InitialStates, "sample", same_initial)
    monkeypatch.setattr(amortised, "random_prefix", lambda *_: torch.tensor(prefix)[order])

    shares = torch.linspace(0.1, 1, ITEMS, dtype=torch.float64)
    exposure = Exposure.of(config, SOURCES)
    loss, _ = negative_elbo(
        posterior,
        rows_of(posterior, shares),
        batch,
        TOTAL,
        torch.Generator(),
        exposure,
        Candidates(torch.arange(ITEMS), ITEMS),
    )
    loss.backward()

    free = leaves(posterior.tensors())
    dense = Dense(config, free, noise, posterior.item_groups, SOURCES)
    averaged = config.initial_state == "amortised"
    expected = dense.negative_elbo(
        batch,
        shares=shares,
        total=TOTAL,
        prefix=prefix if averaged else None,
        initial_noise=initial_noise,
    )
    expected.backward()

    assert loss.item() == pytest.approx(expected.item(), abs=1e-6)
    for name, part in parts.items():
        for field in ("mean", "raw"):
            torch.testing.assert_close(
                getattr(part, field).grad, free[f"{name}.{field}"].grad, rtol=1e-5, atol=1e-7
            )


@pytest.mark.parametrize("prior", ["hierarchical", "flat"])
@pytest.mark.parametrize("batch_users", [1, 3, 20])
def test_an_epoch_carries_the_whole_divergence(prior: str, batch_users: int) -> None:
    """What all batches say of KL / N, by their size, is what the dense divergence is.

    Each view of an item carries its share; scales without spread, so that draws do not matter.
    """
    config = ModelConfig(prior=prior, dimensions=D, dynamics="linear")
    posterior = posterior_of(config)
    if prior == "hierarchical":
        posterior.shared["group_spreads"].raw = torch.full((GROUPS, D), -40.0, dtype=torch.float64)
    everything = random_interactions(2, users=20, items=ITEMS, longest_slate=LONGEST)
    total = len(everything.clicks)
    views = torch.bincount(everything.slate_items, minlength=ITEMS)
    assert (views > 0).all()

    def carried(config: ModelConfig) -> float:
        posterior.config = config
        carried = 0.0
        for users in _batches(everything, batch_users):
            batch = everything.of_users(users)
            shares = torch.bincount(batch.slate_items, minlength=ITEMS) / views
            generator = torch.Generator().manual_seed(int(users[0]))
            loss, _ = negative_elbo(posterior, rows_of(posterior, shares), batch, total, generator)
            carried += loss.item() * len(batch.clicks) / total
        return carried

    # The same noise twice: what τ changes is the divergence.
    half, whole = carried(config.model_copy(update={"temperature": 0.5})), carried(config)
    dense = (
        posterior.shared_kl()
        + item_kl(posterior.prior, posterior.items, posterior.item_groups, None).sum()
    )
    assert 2 * (whole - half) == pytest.approx(dense.item() / total, rel=1e-6)


def _batches(everything: Interactions, users: int) -> Iterator[Tensor]:
    order = torch.randperm(everything.num_users, generator=torch.Generator().manual_seed(0))
    yield from order[everything.user_offsets.diff()[order] > 0].split(users)


@given(batch=ragged, seed=st.integers(0, 1_000))
def test_only_what_comes_after_the_prefix_is_scored(batch: Interactions, seed: int) -> None:
    steps = ClickSteps.of(batch)
    prefix = random_prefix(batch, steps, torch.Generator().manual_seed(seed))
    weights = after_prefix(batch, steps, prefix)
    by_user = dict(zip(steps.users.tolist(), prefix.tolist(), strict=True))
    for user, met in enumerate(histories(batch)):
        clicks = 0
        for each in met:
            assert float(weights[each.index]) == (clicks >= by_user[user])
            clicks += each.click >= 0
        assert 0 <= by_user[user] <= clicks


def test_every_prefix_from_none_to_all_is_as_likely() -> None:
    # 3,000 draws for each of some users: a share p is off by at most sqrt(p / 3000), times five.
    batch = random_interactions(1, users=8)
    steps = ClickSteps.of(batch)
    clicks = torch.tensor([sum(e.click >= 0 for e in met) for met in histories(batch)])[steps.users]
    generator = torch.Generator().manual_seed(0)
    drawn = torch.stack([random_prefix(batch, steps, generator) for _ in range(3_000)])
    for user, count in enumerate(clicks.tolist()):
        share = torch.bincount(drawn[:, user], minlength=count + 1) / 3_000
        expected = 1 / (count + 1)
        assert len(share) == count + 1
        assert ((share - expected).abs() < 5 * (expected / 3_000) ** 0.5).all()
