"""What the network adds to a utility: beside clicking nothing, or far above it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from slatewise.features.past import PastFeatures
from slatewise.model.network.architecture import SlateNetwork, log_sums
from slatewise.model.network.candidates import ALWAYS
from slatewise.model.terms.network import NetworkTerm
from tests.features.logs import random_log

PAST = PastFeatures(popularity=None, rates=(0.5, 0.7), rate=0.6)


@pytest.mark.parametrize("can_pass", [False, True])
def test_items_stand_far_above_no_click_where_every_slate_has_a_click(can_pass: bool) -> None:
    log = random_log(4)
    table = PAST.table(log, np.zeros(8, np.int64))
    network = SlateNetwork(table.items.shape[1], table.slates.shape[1], 1, 4)
    term = NetworkTerm(past=PAST, can_pass=can_pass, groups=1, units=4, validation=(-1.0, -1.0))
    tensors = {"item_groups": torch.zeros(8, dtype=torch.int32)}
    for name, values in (("items", table.items), ("slates", table.slates)):
        tensors |= {f"{name}_mean": values.mean(0), f"{name}_sd": torch.ones(values.shape[1])}
    found = term._columns(log, table, network, tensors)[:, 0]
    level = log_sums(found, log.slate_offsets)
    if can_pass:
        assert (level - level[0]).abs().max() > 1e-4
    else:
        torch.testing.assert_close(level, torch.full_like(level, ALWAYS))
    again = term._columns(replace(log, clicks=log.clicks * 0), table, network, tensors)[:, 0]
    assert torch.equal(again, found)  # of clicks nothing is read
