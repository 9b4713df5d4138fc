"""The slate-aware network: it sees the slate, knows clicking nothing, and says how sure it is."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from slatewise.data.interactions import SeveralClicks
from slatewise.features.past import PastTable
from slatewise.model.network import fitting
from slatewise.model.network.architecture import (
    SlateInputs,
    SlateNetwork,
    slate_log_likelihood,
)
from slatewise.model.network.fitting import Choices, FittedNetwork, fit_network
from slatewise.model.network.inputs import feature_scales, standardised
from slatewise.model.network.laplace import PRECISION, covariance_root
from tests.features.logs import random_log


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


def fitted(choices: Choices, count: int, hidden: int = 16, members: int = 1) -> FittedNetwork:
    rows = torch.arange(count)
    cut = 4 * count // 5
    return fit_network(
        choices, rows[:cut], rows[cut:], groups=1, hidden=hidden, seed=3, members=members
    )


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


def test_it_ends_after_some_epochs_without_gain_and_keeps_the_best(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fitting, "BATCHES", (8, 8))  # few slates are learned by heart
    choices = drawn_choices(200, longest=4, passes=True)
    found, rows = fitted(choices, 200), torch.arange(160, 200)
    best = max(found.validation)
    assert found.validation.index(best) == len(found.validation) - 1 - fitting.PATIENCE
    assert fitting.mean_log_likelihood(choices, found.network, rows) == pytest.approx(best)


def test_columns_that_say_nothing_of_items_count_less(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, seeded = drawn_choices(400, longest=4, passes=True), torch.Generator().manual_seed(1)
    numbers = torch.randint(30, (len(plain.inputs.items),), generator=seeded)
    catalogue = torch.randn(31, 8, generator=seeded)
    choices = replace(plain, inputs=replace(plain.inputs, numbers=numbers, catalogue=catalogue))
    monkeypatch.setattr(fitting, "EPOCHS", 20)
    sizes = []
    for decay in (0.0, fitting.COLUMN_DECAY, 50.0):
        monkeypatch.setattr(fitting, "COLUMN_DECAY", decay)
        weight = fitted(choices, 400).network.of_item.weight.detach()
        sizes.append(float(weight[:, 3:].norm()))
        others = float(weight[:, :3].norm())
    assert sizes[0] > sizes[1] > 1.5 * sizes[2]
    assert others > 1  # what is known of the past is left alone


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


def test_several_members_are_the_mean_of_networks_that_share_nothing() -> None:
    choices, seeded = drawn_choices(50, longest=4, passes=True), torch.Generator().manual_seed(1)
    alone = [SlateNetwork(3, 2, 1, 4) for _ in range(3)]
    with torch.no_grad():
        for value in (value for one in alone for value in one.parameters()):
            value.add_(0.3 * torch.randn(value.shape, generator=seeded))
        network = SlateNetwork.merged(alone)
        found, wanted = network(choices.inputs), [one(choices.inputs) for one in alone]
        last, _ = network.hidden_units(choices.inputs)
        of_items = (last @ network.last_weights.T)[:, 0]
        positions = network.position_utilities(choices.inputs)
    for own, members in zip(found, zip(*wanted, strict=True), strict=True):
        torch.testing.assert_close(own, torch.stack(members).mean(0))
    torch.testing.assert_close(found[0], of_items + positions)


def test_members_begin_differently_and_the_first_as_if_it_were_alone() -> None:
    choices = drawn_choices(300, longest=4, passes=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "EPOCHS", 1)
        pair = fitted(choices, 300, hidden=4, members=2).network.of_item.weight
        alone = fitted(choices, 300, hidden=4).network.of_item.weight
    assert torch.equal(pair[:4], alone)
    assert not torch.allclose(pair[:4], pair[4:])


def test_a_further_click_is_a_choice_among_what_is_left() -> None:
    """The second row is a further click on the slate of the first, and cannot pass."""
    offsets, clicks = torch.tensor([0, 3, 6]), torch.tensor([1, 2])
    several = SeveralClicks.of(np.array([0, 1], np.int32), clicks.int().numpy(), offsets.numpy())
    items, slates = torch.randn(6, 3), torch.randn(2, 2)
    inputs = SlateInputs(items, slates, torch.zeros(6, dtype=torch.int64), offsets)
    choices, network = Choices(inputs, clicks, True, several), SlateNetwork(3, 2, 1, 4)
    with torch.no_grad():
        utilities, none = network(inputs)
        found = choices.log_likelihood(network, torch.arange(2))
    first = torch.cat([utilities[:3], none[:1]]).log_softmax(0)[1]
    second = utilities[[3, 5]].log_softmax(0)[1]
    torch.testing.assert_close(found, torch.stack([first, second]))
    choices.log_likelihood(network, torch.arange(2)).sum().backward()
    assert all(value.grad is None or value.grad.isfinite().all() for value in network.parameters())
    alone = covariance_root(network, choices, torch.tensor([1]))
    pair = Choices(replace(inputs, offsets=offsets), clicks, False, several)
    torch.testing.assert_close(alone, covariance_root(network, pair, torch.tensor([1])))


def test_what_was_the_same_throughout_training_says_nothing_later() -> None:
    """As the mark of a source that comes up after training for the first time."""
    log = random_log(1)
    rows, cells = len(log.clicks), len(log.slate_items)
    table = PastTable(torch.randn(cells, 2), torch.randn(rows, 2))
    table.slates[:, 1] = (torch.arange(rows) == rows - 1).float()
    scales = feature_scales(table, log, torch.arange(rows - 1))
    items, slates = standardised(scales, table)
    assert not slates[:, 1].any()
    assert slates[:, 0].std() > 0.5
    assert items.std(0).min() > 0.5


@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("passes", [False, True])
def test_its_certainty_is_the_curvature_of_the_likelihood(passes: bool, members: int) -> None:
    choices = drawn_choices(100, longest=4, passes=passes)
    network = fitted(choices, 100, hidden=4, members=members).network
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

    weights = network.last_weights[0].detach().double()
    hessian = torch.autograd.functional.hessian(log_likelihood, weights)
    root = covariance_root(network, choices, torch.arange(100)).double()
    prior = members**2 * PRECISION * torch.eye(4 * members).double()
    wanted = torch.linalg.inv(prior - hessian)
    torch.testing.assert_close(root @ root.T, wanted, rtol=1e-4, atol=1e-6)
