"""What the network learned of a feature: what moves the odds comes first, what does not is flat."""

import pytest
import torch

from slatewise.model.network.architecture import SlateInputs, SlateNetwork
from slatewise.model.network.responses import VALUES, responses


@pytest.mark.parametrize("can_pass", [False, True])
def test_the_feature_that_counts_moves_the_odds_and_no_other_does(can_pass: bool) -> None:
    seeded = torch.Generator().manual_seed(1)
    network = SlateNetwork(3, 1, 1, 2)
    with torch.no_grad():
        for weights in network.parameters():
            weights.zero_()
        network.of_item.weight[0, 1] = 1.0  # the second feature, where it is positive
        network.beside.weight[0, 0] = network.weights.weight[0, 0] = 1.0
    lengths = torch.randint(1, 5, (50,), generator=seeded)
    offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
    items = torch.randn(int(offsets[-1]), 3, generator=seeded)
    groups = torch.zeros(len(items), dtype=torch.int64)
    found = responses(
        network, SlateInputs(items, torch.zeros(50, 1), groups, offsets), can_pass=can_pass
    )
    first, *rest = found
    assert first.feature == 1
    assert len(first.values) == VALUES
    rise = first.log_odds.diff()[first.values[1:] > 0][1:]
    torch.testing.assert_close(rise, first.values.diff()[first.values[1:] > 0][1:])
    assert all(one.range < 1e-5 for one in rest)


def test_slates_of_one_item_say_nothing_where_one_must_be_clicked() -> None:
    inputs = SlateInputs(
        torch.zeros(2, 1), torch.zeros(2, 1), torch.zeros(2, dtype=torch.int64), torch.arange(3)
    )
    assert responses(SlateNetwork(1, 1, 1, 2), inputs, can_pass=False) == []
