"""The slate-aware network: it sees the slate, knows clicking nothing, and says how sure it is."""

import pytest
import torch

from slatewise.model.network.architecture import SlateInputs, slate_log_likelihood
from slatewise.model.network.fitting import Choices, FittedNetwork, fit_network
from slatewise.model.network.laplace import PRECISION, covariance_root


def drawn_choices(count: int, *, longest: int, passes: bool, seed: int = 0) -> Choices:
    """Draw slates in which what counts is how far an item lies below the best of its slate."""
    seeded = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (count,), generator=seeded)
    offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
    rows = torch.repeat_interleave(lengths)
    items = torch.randn(len(rows), 3, generator=seeded)
    slates = torch.randn(count, 2, generator=seeded)
    best = torch.segment_reduce(items[:, 0], "max", offsets=offsets, axis=0)
    beside = best[rows] - items[:, 0]
    utilities = 3 * (beside - 1).abs() + items[:, 1]
    clicks = torch.empty(count, dtype=torch.int64)
    noise = -torch.log(torch.empty(len(rows)).exponential_(generator=seeded))
    none = slates[:, 0] - torch.log(torch.empty(count).exponential_(generator=seeded))
    for n, part in enumerate(torch.split(utilities + noise, lengths.tolist())):
        clicks[n] = -1 if passes and none[n] > part.max() else part.argmax()
    groups = torch.zeros(len(rows), dtype=torch.int64)
    return Choices(SlateInputs(items, slates, groups, offsets), clicks, passes)


def fitted(choices: Choices, count: int, hidden: int = 16) -> FittedNetwork:
    rows = torch.arange(count)
    cut = 4 * count // 5
    return fit_network(choices, rows[:cut], rows[cut:], groups=1, hidden=hidden, seed=3)


def test_it_learns_how_an_item_stands_beside_the_others_of_its_slate() -> None:
    choices = drawn_choices(2_000, longest=5, passes=False)
    found = fitted(choices, 2_000)
    assert max(found.validation) > found.validation[0] + 0.25  # a linear utility gains .05


def test_it_learns_who_clicks_nothing_also_where_slates_have_one_item() -> None:
    choices = drawn_choices(3_000, longest=1, passes=True)
    found = fitted(choices, 3_000)
    assert max(found.validation) > found.validation[0] + 0.1
    probabilities = choices.log_likelihood(found.network, torch.arange(5)).exp()
    assert ((probabilities > 0) & (probabilities < 1)).all()


def test_the_same_seed_gives_the_same_network() -> None:
    choices = drawn_choices(600, longest=4, passes=True)
    one, two = (fitted(choices, 600, hidden=4) for _ in range(2))
    assert one.validation == two.validation
    for first, second in zip(one.network.parameters(), two.network.parameters(), strict=True):
        assert torch.equal(first, second)


def test_the_likelihood_is_that_of_a_softmax_over_the_slate_and_no_click() -> None:
    utilities, none = torch.tensor([1.0, 2.0, -1.0]), torch.tensor([0.5, -3.0])
    offsets, clicks = torch.tensor([0, 2, 3]), torch.tensor([-1, 0])
    found = slate_log_likelihood(utilities, none, clicks, offsets)
    first = torch.log_softmax(torch.tensor([1.0, 2.0, 0.5]), 0)[2]
    second = torch.log_softmax(torch.tensor([-1.0, -3.0]), 0)[0]
    torch.testing.assert_close(found, torch.stack([first, second]))
    alone = slate_log_likelihood(utilities, None, torch.tensor([1, 0]), offsets)
    torch.testing.assert_close(
        alone, torch.stack([first.new_tensor([1.0, 2.0]).log_softmax(0)[1], alone.new_zeros(())])
    )


@pytest.mark.parametrize("passes", [False, True])
def test_its_certainty_is_the_curvature_of_the_likelihood(passes: bool) -> None:
    choices = drawn_choices(100, longest=4, passes=passes)
    network = fitted(choices, 100, hidden=4).network
    with torch.no_grad():
        last, none = network.hidden_units(choices.inputs)
        position = network.position_utilities(choices.inputs)

    def log_likelihood(weights: torch.Tensor) -> torch.Tensor:
        total = weights.new_zeros(())
        slates = torch.split(last.double() @ weights + position, choices.inputs.lengths.tolist())
        for slate, option, click in zip(slates, none, choices.clicks.tolist(), strict=True):
            options = torch.cat([slate, option[None]]) if passes else slate
            total = total + options.log_softmax(0)[click]
        return total

    weights = network.weights.weight[0].detach().double()
    hessian = torch.autograd.functional.hessian(log_likelihood, weights)
    root = covariance_root(network, choices, torch.arange(100)).double()
    wanted = torch.linalg.inv(PRECISION * torch.eye(4).double() - hessian)
    torch.testing.assert_close(root @ root.T, wanted, rtol=1e-4, atol=1e-6)
