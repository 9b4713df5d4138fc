from dataclasses import replace

import torch
from hypothesis import given
from hypothesis import strategies as st

from slatewise.features import replay
from slatewise.features.showings import as_interactions, showing_starts
from tests.features.logs import first_of_showing, random_log


@given(st.integers(0, 10_000))
def test_a_showing_begins_where_the_slate_is_not_the_one_before(seed: int) -> None:
    log = random_log(seed)
    wanted = [first_of_showing(log, n) == n for n in range(len(log.clicks))]
    assert showing_starts(log).tolist() == wanted


def test_another_time_or_source_is_another_showing() -> None:
    log = random_log(0, users=1)
    n = int((~showing_starts(log)).nonzero()[0, 0])
    for name in ("times", "sources"):
        values = getattr(log, name).clone()
        values[n:] += 1
        assert showing_starts(replace(log, **{name: values}))[n]


@given(st.integers(0, 10_000))
def test_a_replayed_log_holds_every_interaction(seed: int) -> None:
    log = random_log(seed)
    shown = [one for user in range(log.num_users) for one in replay(log, user)]
    again = as_interactions(shown)
    for name in ("times", "sources", "clicks", "slate_offsets", "slate_items"):
        assert torch.equal(getattr(again, name), getattr(log, name))
