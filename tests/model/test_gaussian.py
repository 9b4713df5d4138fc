import pytest
import torch
from torch.distributions import Normal, kl_divergence

from slatewise.model.gaussian import Gaussian, gaussian_kl
from tests.model.ragged import normals


def gaussian(sigma_max: float = 1.0) -> Gaussian:
    return Gaussian(normals(0, 4, 3), 2 * normals(1, 4, 3), sigma_max)


@pytest.mark.parametrize("prior_scale", [0.1, 0.5, 3.0])
def test_the_divergence_is_that_of_torch(prior_scale: float) -> None:
    q = gaussian()
    expected = kl_divergence(Normal(q.mean, q.scale), Normal(0.0, prior_scale))
    # The prior's scale is a float32, also where the posterior is in float64.
    torch.testing.assert_close(q.kl(prior_scale), expected.double(), rtol=1e-6, atol=1e-6)


def test_the_divergence_from_any_normal_is_that_of_torch() -> None:
    q, prior_mean, prior_scale = gaussian(), normals(2, 4, 3), normals(3, 4, 3).exp()
    expected = kl_divergence(Normal(q.mean, q.scale), Normal(prior_mean, prior_scale))
    actual = gaussian_kl(q.mean, q.scale, prior_mean, prior_scale)
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


def test_a_gaussian_does_not_diverge_from_itself() -> None:
    q = gaussian()
    assert gaussian_kl(q.mean, q.scale, q.mean, q.scale).abs().max() < 1e-12


@pytest.mark.parametrize("sigma_max", [0.2, 1.0, 5.0])
def test_scales_stay_between_zero_and_the_greatest(sigma_max: float) -> None:
    raw = torch.tensor([-80.0, -5.0, 0.0, 5.0, 80.0])
    scale = Gaussian(torch.zeros(5), raw, sigma_max).scale
    assert (scale > 0).all()
    assert (scale <= sigma_max).all()
    assert (scale.diff() > 0).all()
    assert scale[2] == pytest.approx(sigma_max / 2)


@pytest.mark.parametrize(
    ("scale", "sigma_max", "expected"), [(0.05, 1.0, 0.05), (0.05, 0.2, 0.05), (0.8, 0.5, 0.495)]
)
def test_around_starts_at_the_scale_it_is_given(
    scale: float, sigma_max: float, expected: float
) -> None:
    started = Gaussian.around(torch.ones(2, 3), scale, sigma_max)
    torch.testing.assert_close(started.scale, torch.full((2, 3), expected))
    assert (started.mean == 1).all()


def test_draws_have_the_stated_mean_and_scale() -> None:
    # 200,000 draws each: the mean is off by sd / 447, the sd by sd / 632, four times that is rare.
    mean, raw = torch.tensor([-3.0, 0.0, 2.0]), torch.tensor([-4.0, 0.0, 3.0])
    q = Gaussian(mean.expand(200_000, 3), raw.expand(200_000, 3), 1.5)
    drawn = q.sample(torch.Generator().manual_seed(0))
    scale = 1.5 * torch.sigmoid(raw)
    assert ((drawn.mean(0) - mean).abs() < 4 * scale / 447).all()
    assert ((drawn.std(0) - scale).abs() < 4 * scale / 632).all()


def test_draws_and_divergence_have_the_gradients_of_finite_differences() -> None:
    noise_seed = 5

    def drawn(mean: torch.Tensor, raw: torch.Tensor) -> torch.Tensor:
        return Gaussian(mean, raw, 0.7).sample(torch.Generator().manual_seed(noise_seed))

    def divergence(mean: torch.Tensor, raw: torch.Tensor) -> torch.Tensor:
        return Gaussian(mean, raw, 0.7).kl(0.5)

    start = (normals(0, 2, 3).requires_grad_(), normals(1, 2, 3).requires_grad_())
    assert torch.autograd.gradcheck(drawn, start)
    assert torch.autograd.gradcheck(divergence, start)


def test_rows_are_tensors_of_their_own() -> None:
    q = gaussian()
    before = q.mean.clone()
    part = q.rows(torch.tensor([2, 0])).requires_grad_()
    torch.testing.assert_close(part.scale.detach(), q.scale[[2, 0]])
    with torch.no_grad():
        part.mean += 1
    assert torch.equal(q.mean, before)
    assert not q.mean.requires_grad
