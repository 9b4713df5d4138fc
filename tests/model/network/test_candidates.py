"""Candidates for a slate: each is seen in the slate that it would be a part of, in draws too."""

import numpy as np
import pytest
import torch

from slatewise.model.network.architecture import SlateInputs, SlateNetwork
from slatewise.model.network.candidates import ALWAYS, SlateCandidates

COUNT, HIDDEN = 6, 4


def candidates(*, can_pass: bool = True, members: int = 2) -> SlateCandidates:
    """Return six candidates to a network with weights at random."""
    units = members * HIDDEN
    with torch.random.fork_rng():
        torch.manual_seed(2)
        network = SlateNetwork(3, 2, 2, HIDDEN, members)
        torch.nn.init.normal_(network.weights.weight)
        torch.nn.init.normal_(network.of_group.weight)
        inputs = inputs_of(torch.randn(COUNT, 3), torch.randn(1, 2), torch.arange(COUNT) % 3)
        return SlateCandidates(network, inputs, torch.randn(units, units), can_pass)


def inputs_of(items: torch.Tensor, slate: torch.Tensor, groups: torch.Tensor) -> SlateInputs:
    return SlateInputs(items, slate, groups, torch.tensor([0, len(items)]))


@pytest.mark.parametrize("can_pass", [False, True])
def test_a_candidate_is_seen_in_the_slate_in_place_of_the_last_item(can_pass: bool) -> None:
    found, shown = candidates(can_pass=can_pass), np.array([4, 0, 2])
    utilities = found.mean(shown)[:, 0]
    given = found.inputs
    with torch.no_grad():
        level = None
        for candidate in (2, 4, 0, 1, 3, 5):
            slate = shown if candidate in shown else np.append(shown[:-1], candidate)
            some = inputs_of(given.items[slate], given.slates, given.groups[slate])
            last, none = found.network.hidden_units(some)
            alone = (last @ found.network.last_weights.T)[:, 0]
            if level is None:  # clicking nothing is worth what it is to the slate
                level = float(none) if can_pass else float(alone.logsumexp(0)) - ALWAYS
            own = float(alone[list(slate).index(candidate)])
            assert utilities[candidate] == pytest.approx(own - level, abs=1e-5)


def test_drawn_utilities_have_the_law_of_the_last_weights() -> None:
    found, shown = candidates(), np.arange(3)
    drawn = found.draws(shown, 40_000, np.random.default_rng(1))[..., 0].astype(np.float64)
    with torch.no_grad():
        units = found.network.item_units(found.inputs)
        last, _ = found.network.units_beside(units, found.inputs.slates, torch.from_numpy(shown))
        wanted = (last @ found.root @ found.root.T @ last.T).double().numpy()
    sd = np.sqrt(np.diag(wanted))
    error = (drawn.mean(0) - found.mean(shown)[:, 0]) / np.where(sd > 0, sd, 1)
    assert np.abs(error).max() < 4 / np.sqrt(len(drawn))
    scale = np.outer(sd, sd).max()
    np.testing.assert_allclose(np.cov(drawn.T), wanted, atol=0.03 * scale)


def test_draws_are_those_of_the_seed_and_no_position_adds_to_them() -> None:
    found, shown = candidates(), np.arange(2)
    one, two = (found.draws(shown, 3, np.random.default_rng(5)) for _ in range(2))
    assert np.array_equal(one, two)
    assert not one[..., 1].any()
    assert not found.mean(shown)[:, 1].any()
