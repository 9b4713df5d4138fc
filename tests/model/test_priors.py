import math

import numpy as np
import pytest
import torch
from torch.distributions import Normal, kl_divergence

from slatewise.model.config import ModelConfig
from slatewise.model.gaussian import Gaussian
from slatewise.model.item_centre import ItemCentre
from slatewise.model.priors.flat import FlatPrior
from slatewise.model.priors.hierarchical import HierarchicalPrior
from tests.model.ragged import normals
from tests.model.reference import item_kl

D = 3
DRAWS = 200_000


def centre_of(config: ModelConfig) -> ItemCentre:
    """Two features whose weights are uncertain."""
    centre = ItemCentre(config, 2, 0.05)
    centre.weights.mean.copy_(normals(20, 2, D))
    centre.weights.raw.copy_(normals(21, 2, D))
    return centre


def hierarchical(groups: int = 2, copies: int = 1, featured: bool = False) -> HierarchicalPrior:
    """Groups with wide posteriors, each `copies` times."""
    config = ModelConfig(dimensions=D, kappa_mu=1.7, kappa_sigma=0.8, scale_floor=0.3)
    centre = centre_of(config) if featured else None
    prior = HierarchicalPrior(config, range(groups * copies), torch.zeros, centre)
    for seed, part in enumerate((prior.means, prior.spreads)):
        part.mean.copy_(normals(seed, groups, D).repeat_interleave(copies, 0))
        part.raw.copy_(normals(9 + seed, groups, D).repeat_interleave(copies, 0))
    return prior


def test_the_flat_divergence_is_that_of_torch() -> None:
    prior = FlatPrior(ModelConfig(prior="flat", dimensions=D, sigma_v=0.4), range(2), torch.zeros)
    items = Gaussian(normals(0, 5, D), normals(1, 5, D), 1.0)
    expected = kl_divergence(Normal(items.mean, items.scale), Normal(0.0, 0.4)).sum(1)
    actual = item_kl(prior, items, torch.zeros(5, dtype=torch.int64), None)
    torch.testing.assert_close(actual, expected.double(), rtol=1e-6, atol=1e-6)
    assert prior.kl() == 0
    assert prior.learned == {}


def test_the_flat_predictive_is_the_prior() -> None:
    prior = FlatPrior(ModelConfig(prior="flat", dimensions=D, sigma_v=0.4), range(2), torch.zeros)
    mean, scale = prior.predictive(torch.tensor([0, 0, 1]))
    assert torch.equal(mean, torch.zeros(3, D))
    assert torch.equal(scale, torch.full((3, D), 0.4))


def test_the_divergence_of_the_groups_is_that_of_torch() -> None:
    prior = hierarchical()
    means, spreads = prior.learned["group_means"], prior.learned["group_spreads"]
    expected = kl_divergence(Normal(means.mean, means.scale), Normal(0.0, 1.7)).sum()
    expected += kl_divergence(Normal(spreads.mean, spreads.scale), Normal(0.0, 0.8)).sum()
    torch.testing.assert_close(prior.kl(), expected)


def test_the_expected_divergence_of_items_is_that_of_monte_carlo() -> None:
    """Vector, group mean and group scale all drawn here; only the group scale there.

    Each side is a mean of 200,000 draws; both together may be off by five standard errors.
    """
    prior = hierarchical(groups=1, copies=DRAWS)
    items = Gaussian(normals(5, 1, D).float(), normals(6, 1, D).float(), 1.0)
    many = Gaussian(items.mean.expand(DRAWS, D), items.raw.expand(DRAWS, D), 1.0)
    ours = item_kl(prior, many, torch.arange(DRAWS), torch.Generator().manual_seed(0))  # [DRAWS]

    rng = np.random.default_rng(0)

    def draw(part: Gaussian) -> np.ndarray:
        mean, scale = part.mean[0].double().numpy(), part.scale[0].double().numpy()
        return mean + scale * rng.standard_normal((DRAWS, D))

    def log_density(x: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
        return -0.5 * ((x - mean) / scale) ** 2 - np.log(scale) - 0.5 * math.log(2 * math.pi)

    vector, centre, x = draw(items), draw(prior.means), draw(prior.spreads)
    under_q = log_density(vector, items.mean[0].numpy(), items.scale[0].numpy())
    under_prior = log_density(vector, centre, np.sqrt(x**2 + 0.3**2))
    theirs = (under_q - under_prior).sum(1)  # [DRAWS]

    error = math.sqrt((float(ours.var()) + theirs.var()) / DRAWS)
    assert error < 0.02 * theirs.mean()  # else the bound says nothing
    assert abs(float(ours.double().mean()) - theirs.mean()) < 5 * error
    # What forgetting the uncertainty of the group mean would cost is far outside that bound.
    forgotten = 0.5 * (prior.means.scale[0].double().numpy() ** 2 / (x**2 + 0.3**2)).sum(1).mean()
    assert forgotten > 20 * error


@pytest.mark.parametrize("name", ["flat", "hierarchical"])
def test_with_features_the_expected_divergence_is_that_of_monte_carlo(name: str) -> None:
    """Vector, weights and group mean are drawn here, at one group scale; five standard errors."""
    flat = ModelConfig(prior="flat", dimensions=D, sigma_v=0.5)
    prior: FlatPrior | HierarchicalPrior = FlatPrior(flat, range(2), torch.zeros, centre_of(flat))
    if name == "hierarchical":
        prior = hierarchical(groups=1, featured=True)
    items = Gaussian(normals(5, 1, D).float(), normals(6, 1, D).float(), 1.0)
    features = torch.tensor([[0.7, -1.2]])
    ours = item_kl(prior, items, torch.zeros(1, dtype=torch.int64), None, features)
    rng = np.random.default_rng(0)

    def draw(part: Gaussian) -> np.ndarray:
        mean, scale = part.mean.double().numpy(), part.scale.double().numpy()
        return mean + scale * rng.standard_normal((DRAWS, *mean.shape))

    vector, weights = draw(items)[:, 0], draw(prior.learned["feature_weights"])  # [DRAWS, 2, D]
    centre = np.einsum("q,nqd->nd", features[0].double().numpy(), weights)
    scale = np.full(D, 0.5)
    if isinstance(prior, HierarchicalPrior):
        centre = centre + draw(prior.means)[:, 0]
        scale = np.sqrt(prior.spreads.mean[0].double().numpy() ** 2 + 0.09)

    def log_density(x: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> np.ndarray:
        return -0.5 * ((x - mean) / sd) ** 2 - np.log(sd)

    under_q = log_density(vector, items.mean[0].numpy(), items.scale[0].numpy())
    theirs = (under_q - log_density(vector, centre, scale)).sum(1)
    error = theirs.std() / math.sqrt(DRAWS)
    assert abs(float(ours) - theirs.mean()) < 5 * error
    variance = features.square() @ prior.learned["feature_weights"].scale.square()
    forgotten = 0.5 * (variance[0].numpy() / scale**2).sum()
    assert forgotten > 20 * error


@pytest.mark.parametrize("name", ["flat", "hierarchical"])
def test_features_move_the_predictive_and_widen_it(name: str) -> None:
    config = ModelConfig(prior="flat", dimensions=D, sigma_v=0.5)
    flat = FlatPrior(config, range(2), torch.zeros, centre_of(config))
    prior = flat if name == "flat" else hierarchical(featured=True)
    groups, features = torch.tensor([1, 0, 1]), normals(8, 3, 2).float()
    bare_mean, bare_scale = prior.predictive(groups)
    mean, scale = prior.predictive(groups, features)
    weights = prior.learned["feature_weights"]
    torch.testing.assert_close(mean, bare_mean + features @ weights.mean)
    wobble = features.square() @ weights.scale.square()
    torch.testing.assert_close(scale.square(), bare_scale.square() + wobble)


def test_without_a_generator_the_group_scales_are_their_means() -> None:
    prior = hierarchical()
    prior.spreads.raw.fill_(-30)  # a draw is the mean
    items = Gaussian(normals(0, 4, D).float(), normals(1, 4, D).float(), 1.0)
    groups = torch.tensor([1, 0, 0, 1])
    drawn = item_kl(prior, items, groups, torch.Generator().manual_seed(0))
    torch.testing.assert_close(item_kl(prior, items, groups, None), drawn)


@pytest.mark.parametrize("featured", [False, True])
@pytest.mark.parametrize("seed", [None, 4])
@pytest.mark.parametrize("name", ["flat", "hierarchical"])
def test_the_divergence_of_a_draw_is_that_of_its_items(
    name: str, seed: int | None, featured: bool
) -> None:
    """Summed over groups or over items, with group scales drawn or not, in float64."""
    items = Gaussian(normals(0, 9, D).requires_grad_(), normals(1, 9, D).requires_grad_(), 0.8)
    groups, shares = torch.tensor([1, 0, 0, 1, 1, 0, 1, 1, 1]), torch.linspace(0, 2, 9).double()
    config = ModelConfig(prior="flat", dimensions=D, sigma_v=0.5)
    flat = FlatPrior(config, range(2), torch.zeros, centre_of(config) if featured else None)
    prior = flat if name == "flat" else hierarchical(featured=featured)
    features = normals(8, 9, 2) if featured else None
    free = [items.mean, items.raw]
    for part in prior.learned.values():
        part.mean, part.raw = part.mean.double(), part.raw.double()
        free += [part.requires_grad_().mean, part.raw]

    drawn = prior.draw(items, groups, shares, torch.Generator().manual_seed(7), features)
    noise = items.noise(torch.Generator().manual_seed(7))
    torch.testing.assert_close(drawn.vectors, items.sample(noise))

    def source() -> torch.Generator | None:
        return None if seed is None else torch.Generator().manual_seed(seed)

    actual = prior.drawn_kl(drawn, source())
    expected = (shares * item_kl(prior, items, groups, source(), features)).sum()
    torch.testing.assert_close(actual, expected)
    gradients = [torch.autograd.grad(kl, free, allow_unused=True) for kl in (actual, expected)]
    torch.testing.assert_close(*gradients)


def test_gradients_are_those_of_finite_differences() -> None:
    groups = torch.tensor([1, 0, 0, 1])

    def divergence(*free: torch.Tensor) -> torch.Tensor:
        prior = hierarchical()
        prior.means = Gaussian(free[2], free[3], 1.0)
        prior.spreads = Gaussian(free[4], free[5], 1.0)
        generator = torch.Generator().manual_seed(0)
        return item_kl(prior, Gaussian(free[0], free[1], 1.0), groups, generator)

    shapes = [4, 4, 2, 2, 2, 2]
    free = [normals(seed, rows, D).requires_grad_() for seed, rows in enumerate(shapes)]
    assert torch.autograd.gradcheck(divergence, free)


def test_the_predictive_has_the_moments_of_drawing_down_the_hierarchy() -> None:
    # 200,000 draws: the mean is off by sd / 447; the sd by 1 % at most for a mixture of normals.
    prior = hierarchical()
    mean, scale = prior.predictive(torch.tensor([1, 0, 1]))
    generator = torch.Generator().manual_seed(0)
    for row, group in enumerate([1, 0, 1]):

        def draw(part: Gaussian, group: int = group) -> torch.Tensor:
            noise = torch.randn(DRAWS, D, generator=generator)
            return part.mean[group] + part.scale[group] * noise

        spread = (draw(prior.spreads).square() + 0.3**2).sqrt()
        vectors = draw(prior.means) + spread * torch.randn(DRAWS, D, generator=generator)
        assert ((vectors.mean(0) - mean[row]).abs() < 4 * scale[row] / 447).all()
        assert ((vectors.std(0) / scale[row] - 1).abs() < 0.01).all()


@pytest.mark.parametrize(("mean", "scale"), [(0.5, 0.05), (-0.5, 0.05), (0.2, 0.3), (0.0, 0.4)])
def test_the_divergence_of_x_is_that_of_its_fold_up_to_a_constant(
    mean: float, scale: float
) -> None:
    """The prior is on |x|, the divergence is taken of x.

    It is greater by log 2 where x keeps its sign, by nothing where both signs are alike, and
    between the two elsewhere: a bound, and the same up to a constant for a scale that is known.
    """
    kappa = 0.8
    y = np.linspace(1e-6, 8, 400_001)

    def density(at: np.ndarray, centre: float, width: float) -> np.ndarray:
        return np.exp(-0.5 * ((at - centre) / width) ** 2) / (width * math.sqrt(2 * math.pi))

    folded_q = density(y, mean, scale) + density(-y, mean, scale) + 1e-300
    folded_prior = 2 * density(y, 0, kappa) + 1e-300
    folded = np.trapezoid(folded_q * np.log(folded_q / folded_prior), y)

    x = Gaussian.around(torch.tensor(mean, dtype=torch.float64), scale, 1.0)
    excess = float(x.kl(kappa)) - folded
    if abs(mean) > 5 * scale:
        assert excess == pytest.approx(math.log(2), abs=1e-4)
    elif mean == 0:
        assert excess == pytest.approx(0, abs=1e-4)
    else:
        assert 0 < excess < math.log(2)
