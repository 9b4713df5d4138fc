import math

import numpy as np
import pytest
import torch
from torch.distributions import Normal, kl_divergence

from slatewise.model.config import ModelConfig
from slatewise.model.dynamics.gru import GruWeights
from slatewise.model.dynamics.linear import LinearWeights, drift_kl
from slatewise.model.gaussian import Gaussian
from slatewise.model.parameters import Parameters
from slatewise.model.posterior import Posterior
from slatewise.model.priors.hierarchical import HierarchicalPrior
from tests.model.ragged import normals
from tests.model.reference import samples_around

CONFIGS = [
    ModelConfig(dynamics="gru", prior="hierarchical", dimensions=3, hidden=5, sigma_rnn=0.7),
    ModelConfig(dynamics="linear", prior="flat", dimensions=3, sigma_h0=0.6, sigma_no_click=2.0),
    ModelConfig(dynamics="linear", prior="hierarchical", dimensions=3, sigma_max=0.5),
    ModelConfig(dynamics="gru", prior="flat", dimensions=3),
    ModelConfig(dynamics="gru", dimensions=3, hidden=5, terms=("bias",), kappa_bias=0.3),
    ModelConfig(dynamics="linear", prior="flat", dimensions=3, terms=("bias",)),
    ModelConfig(
        dimensions=3,
        terms=("bias", "position", "propensity", "popularity", "history"),
        sigma_weights=0.7,
        sigma_position=0.4,
    ),
]
every_model = pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def posterior_of(config: ModelConfig, seed: int = 0, items: int = 8) -> Posterior:
    """A posterior away from where posteriors start."""
    posterior = Posterior(config, torch.arange(items) % 3, range(3), 6, seeded(seed))
    for number, tensor in enumerate(posterior.tensors().values()):
        tensor.add_(0.5 * normals(100 * seed + number, *tensor.shape))
    return posterior


def by_column(config: ModelConfig, of_vectors: float, of_biases: float) -> torch.Tensor:
    bias = [of_biases] if "bias" in config.terms else []
    return torch.tensor([of_vectors] * config.dimensions + bias)


def values_of(parameters: Parameters) -> list[torch.Tensor]:
    return [
        parameters.items,
        *parameters.weights,
        parameters.initial_state,
        parameters.no_click,
    ]


@pytest.mark.parametrize("mean", [-3.0, 0.0, 0.4, 2.5])
@pytest.mark.parametrize("scale", [0.02, 0.3, 0.9])
def test_the_divergence_of_the_drift_is_that_of_numerical_integration(
    mean: float, scale: float
) -> None:
    """γ = sigmoid(x) against N(.5, .3) cut to [0, 1], both densities written down for γ."""
    inside = np.linspace(0, 1, 200_001)
    bell = np.exp(-0.5 * ((inside - 0.5) / 0.3) ** 2)
    normaliser = np.trapezoid(bell, inside)

    x = mean + scale * np.linspace(-9, 9, 200_001)
    gamma = 1 / (1 + np.exp(-x))
    mass = np.exp(-0.5 * ((x - mean) / scale) ** 2) / (scale * math.sqrt(2 * math.pi))
    log_q = np.log(mass) - np.log(gamma * (1 - gamma))
    log_prior = -0.5 * ((gamma - 0.5) / 0.3) ** 2 - math.log(normaliser)
    expected = np.trapezoid(mass * (log_q - log_prior), x)

    logit = Gaussian.around(torch.tensor(mean, dtype=torch.float64), scale, 1.0)
    assert float(drift_kl(logit)) == pytest.approx(expected, abs=1e-6)


def test_the_divergence_of_the_drift_has_the_gradient_of_finite_differences() -> None:
    def divergence(mean: torch.Tensor, raw: torch.Tensor) -> torch.Tensor:
        return drift_kl(Gaussian(mean, raw, 1.0))

    start = (normals(0, 1)[0].requires_grad_(), normals(1, 1)[0].requires_grad_())
    assert torch.autograd.gradcheck(divergence, start)


@every_model
def test_the_shared_divergence_is_the_sum_of_its_parts(config: ModelConfig) -> None:
    posterior = posterior_of(config)
    prior_scale = {
        "initial_state": config.sigma_h0,
        "no_click": config.sigma_no_click,
        "group_means": by_column(config, config.kappa_mu, config.kappa_bias),
        "group_spreads": by_column(config, config.kappa_sigma, config.kappa_bias),
        "from_item": config.sigma_rnn,
        "from_state": config.sigma_rnn,
        "output": config.sigma_rnn,
        "position": config.sigma_position,
        "position_factor": config.sigma_position_factor,
        **dict.fromkeys(("history", "popularity", "propensity"), config.sigma_weights),
    }
    expected = torch.zeros(())
    for name, part in posterior.shared.items():
        if name == "drift_logit":
            expected += drift_kl(part)
        else:
            normal = Normal(part.mean, part.scale)
            expected += kl_divergence(normal, Normal(0.0, prior_scale[name])).sum()
    torch.testing.assert_close(posterior.shared_kl(), expected)


@every_model
def test_the_mean_is_made_of_the_means(config: ModelConfig) -> None:
    posterior = posterior_of(config)
    mean, shared = posterior.mean(), posterior.shared
    assert torch.equal(mean.items, posterior.items.mean)
    assert torch.equal(mean.initial_state, shared["initial_state"].mean)
    assert torch.equal(mean.no_click, shared["no_click"].mean)
    if config.dynamics == "linear":
        assert isinstance(mean.weights, LinearWeights)
        assert mean.weights.drift == torch.sigmoid(shared["drift_logit"].mean)
    else:
        d, hidden = config.dimensions, posterior.parts.dynamics.state_size
        assert isinstance(mean.weights, GruWeights)
        assert [list(w.shape) for w in mean.weights] == [
            [3 * hidden, d],
            [3 * hidden, hidden],
            [d, hidden],
        ]
        assert torch.equal(mean.weights.output, shared["output"].mean)


@every_model
def test_draws_without_spread_are_the_mean(config: ModelConfig) -> None:
    posterior = posterior_of(config)
    posterior.load({k: v - 80 if k.endswith("raw") else v for k, v in posterior.tensors().items()})
    drawn, mean = posterior.sample(seeded(0)), posterior.mean()
    for actual, expected in zip(values_of(drawn), values_of(mean), strict=True):
        torch.testing.assert_close(actual, expected)


@every_model
def test_draws_lie_around_the_mean_as_the_scales_say(config: ModelConfig) -> None:
    # 2,000 draws: means are off by sd / 45 and sds by sd / 63; five times that for any of ~150.
    posterior = posterior_of(config)
    generator = seeded(1)
    draws = [values_of(posterior.sample(generator)) for _ in range(2_000)]
    names = ["initial_state", "no_click"]
    parts = {0: posterior.items, -2: posterior.shared[names[0]], -1: posterior.shared[names[1]]}
    if config.dynamics == "gru":
        gru = ("from_item", "from_state", "output")
        parts |= {1 + index: posterior.shared[name] for index, name in enumerate(gru)}
    for index, part in parts.items():
        values = torch.stack([draw[index] for draw in draws])
        scale = part.scale
        assert ((values.mean(0) - part.mean).abs() < 5 * scale / 45).all()
        assert ((values.std(0) - scale).abs() < 5 * scale / 63).all()
    if config.dynamics == "linear":
        drift = torch.logit(torch.stack([draw[1] for draw in draws]))
        part = posterior.shared["drift_logit"]
        assert abs(float(drift.mean() - part.mean)) < 5 * float(part.scale) / 45
        assert abs(float(drift.std() - part.scale)) < 5 * float(part.scale) / 63


@every_model
def test_the_same_generator_gives_the_same_draw(config: ModelConfig) -> None:
    posterior = posterior_of(config)
    first, again, other = (values_of(posterior.sample(seeded(seed))) for seed in (4, 4, 5))
    assert all(torch.equal(*pair) for pair in zip(first, again, strict=True))
    assert not any(torch.equal(*pair) for pair in zip(first, other, strict=True))


@every_model
def test_saved_parameters_come_back_in_place(config: ModelConfig) -> None:
    one, other = posterior_of(config, seed=0), posterior_of(config, seed=1)
    free = other.shared["no_click"].mean.requires_grad_()
    saved = {name: tensor.clone() for name, tensor in one.tensors().items()}
    other.load(saved)
    assert other.shared["no_click"].mean is free
    assert free.requires_grad
    for name, tensor in other.tensors().items():
        assert torch.equal(tensor, saved[name]), name
    for mine, theirs in zip(
        values_of(one.sample(seeded(2))), values_of(other.sample(seeded(2))), strict=True
    ):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize("prior", ["hierarchical", "flat"])
def test_items_never_seen_have_the_predictive_of_their_group(prior: str) -> None:
    config = ModelConfig(prior=prior, dimensions=3, sigma_max=4.0)
    posterior = posterior_of(config)
    mean, scale = posterior.prior.predictive(posterior.item_groups)
    before = (posterior.items.mean.clone(), posterior.items.raw.clone())
    posterior.fill_unseen(torch.tensor([3, 0, 1, 0, 0, 2, 1, 1]))
    unseen, seen = [1, 3, 4], [0, 2, 5, 6, 7]
    torch.testing.assert_close(posterior.items.mean[unseen], mean[unseen])
    torch.testing.assert_close(posterior.items.scale[unseen], scale[unseen])
    assert torch.equal(posterior.items.mean[seen], before[0][seen])
    assert torch.equal(posterior.items.raw[seen], before[1][seen])


def test_weights_stand_in_the_order_of_the_features_however_terms_are_named() -> None:
    posterior = posterior_of(CONFIGS[-1])
    mean, shared = posterior.mean(), posterior.shared
    expected = torch.cat([shared["history"].mean, shared["popularity"].mean])
    assert torch.equal(mean.cell_weights, expected)
    assert expected.shape == (3 + 4 * 3 + 1,)
    assert torch.equal(mean.step_weights, shared["propensity"].mean)
    assert torch.equal(mean.positions, shared["position"].mean)
    drawn = samples_around(posterior, torch.zeros(5, 8, 4), seeded(0))
    assert drawn.cell_weights.shape == (5, 16)


def test_a_model_with_biases_starts_like_one_without() -> None:
    """The same draws for all else: what the bias changes is the bias."""
    bare, biased = (
        Posterior(
            ModelConfig(dimensions=3, terms=terms), torch.arange(8) % 3, range(3), 6, seeded(1)
        )
        for terms in ((), ("bias",))
    )
    for name, tensor in bare.tensors().items():
        other = biased.tensors()[name]
        assert torch.equal(tensor, other[..., :3] if tensor.shape != other.shape else other), name
    assert biased.items.mean.shape == (8, 4)
    assert (biased.items.mean[:, 3] == 0).all()


def test_views_narrow_a_bias_as_much_as_all_dimensions_of_a_vector_together() -> None:
    posterior = posterior_of(ModelConfig(dimensions=3, terms=("bias",), sigma_max=4.0))
    posterior.widen(torch.tensor([0, 30, 10, 5, 0, 0, 0, 0]))
    precision = posterior.items.scale[:4].detach() ** -2
    torch.testing.assert_close(
        precision[:, :3], torch.tensor([4.0, 14, 22 / 3, 17 / 3])[:, None].expand(4, 3)
    )
    torch.testing.assert_close(precision[:, 3], torch.tensor([4.0, 34, 14, 9]))


def test_a_predictive_wider_than_the_greatest_scale_is_cut_to_it() -> None:
    posterior = posterior_of(ModelConfig(prior="hierarchical", dimensions=3, sigma_max=0.4))
    assert isinstance(posterior.prior, HierarchicalPrior)
    posterior.prior.spreads.mean.fill_(2.0)
    posterior.fill_unseen(torch.zeros(8))
    torch.testing.assert_close(posterior.items.scale, torch.full((8, 3), 0.999 * 0.4))


def test_scales_never_exceed_the_greatest() -> None:
    posterior = posterior_of(ModelConfig(dimensions=3, sigma_max=0.3))
    for part in (posterior.items, *posterior.shared.values()):
        part.raw += 100
        assert (part.scale <= 0.3).all()
