import numpy as np
import pytest

from slatewise.service.analysis.assignment import check_assignment, chi_square_tail


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7])
def test_the_tail_of_chi_square_is_that_of_sums_of_squares(freedom: int) -> None:
    rng = np.random.default_rng(freedom)
    drawn = (rng.standard_normal((200_000, freedom)) ** 2).sum(axis=1)
    for value in (0.5, freedom, 2.5 * freedom):
        assert chi_square_tail(value, freedom) == pytest.approx((drawn > value).mean(), abs=0.004)


def test_the_tail_of_chi_square_is_what_tables_say() -> None:
    assert chi_square_tail(3.841459, 1) == pytest.approx(0.05, abs=1e-6)
    assert chi_square_tail(7.814728, 3) == pytest.approx(0.05, abs=1e-6)
    assert chi_square_tail(0, 4) == 1


def test_users_as_the_shares_say_are_no_problem_and_others_are_one() -> None:
    shares = {"a": 1.0, "b": 3.0, "resting": 0.0}
    well = check_assignment({"a": 1_020, "b": 2_980, "resting": 5}, shares)
    assert well.problem is None
    assert well.expected == {"a": 1_000, "b": 3_000}
    badly = check_assignment({"a": 1_150, "b": 2_850}, shares)
    assert badly.p < 1e-6
    assert "a 1,150 for 1,000" in (badly.problem or "")


def test_an_alarm_is_rare_where_all_is_well() -> None:
    rng = np.random.default_rng(0)
    p = []
    for _ in range(1_000):
        a, b, c = rng.multinomial(3_000, [0.2, 0.3, 0.5]).tolist()
        p.append(check_assignment({"a": a, "b": b, "c": c}, {"a": 2, "b": 3, "c": 5}).p)
    assert np.mean(np.array(p) < 0.1) == pytest.approx(0.1, abs=0.03)


def test_one_arm_or_nobody_is_nothing_to_check() -> None:
    assert check_assignment({"a": 9}, {"a": 1}).p == 1
    assert check_assignment({}, {"a": 1, "b": 1}).p == 1
