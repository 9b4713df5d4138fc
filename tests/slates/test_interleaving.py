import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slatewise.slates.interleaving import interleave, interleave_capped
from slatewise.slates.users import Ints


def by_hand(rankings: list[list[int]], k: int) -> list[int]:
    """The third step of the strategy, as printed."""
    slate: list[int] = []
    for rank in range(len(rankings[0])):
        for ranking in rankings:
            item = ranking[rank]
            if item >= 0 and item not in slate and len(slate) < k:
                slate.append(item)
    return slate + [-1] * (k - len(slate))


@st.composite
def many_rankings(draw: st.DrawFn) -> Ints:
    users, draws, length = (draw(st.integers(1, 4)) for _ in range(3))
    order = st.permutations(range(-1, 6))
    rows = [[draw(order)[:length] for _ in range(draws)] for _ in range(users)]
    return np.array(rows, dtype=np.int64)


def test_the_first_of_each_come_before_the_second_of_any() -> None:
    rankings = np.array([[[4, 5, 6], [4, 7, 5], [8, 4, 9]]])
    assert interleave(rankings, 5).tolist() == [[4, 8, 5, 7, 6]]


@given(rankings=many_rankings(), k=st.integers(1, 8))
def test_slates_are_those_made_by_hand(rankings: Ints, k: int) -> None:
    expected = [by_hand(user.tolist(), k) for user in rankings]
    assert interleave(rankings, k).tolist() == expected


@given(rankings=many_rankings(), k=st.integers(1, 8))
def test_without_a_cap_in_the_way_caps_change_nothing(rankings: Ints, k: int) -> None:
    groups, caps = np.abs(rankings) % 2, np.array([-1, 9])
    for user, group in zip(rankings, groups, strict=True):
        expected = interleave(user[None], k)[0].tolist()
        assert interleave_capped(user, k, group, caps).tolist() == expected


def test_a_full_group_is_passed_over_and_no_place_stays_empty() -> None:
    # Even items are one group, of which one may be shown; each ranking keeps to that.
    rankings = np.array([[2, 1, 3], [4, 5, 1]])
    slate = interleave_capped(rankings, 3, rankings % 2, np.array([1, -1]))
    assert slate.tolist() == [2, 1, 5]
