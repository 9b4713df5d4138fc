"""Users are dealt out to arms by shares, always the same way, and move as little as can be."""

import math
import os
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from slatewise.service.serving.arms import assign

USERS = [f"user-{number}" for number in range(20_000)]
SHARES = {"a": 0.5, "b": 0.3, "c": 0.2}


def dealt(shares: dict[str, float], salt: str = "salt") -> list[str]:
    return [assign(shares, salt, user) for user in USERS]


def four_errors(share: float, count: int = len(USERS)) -> float:
    """Four standard errors of a share: a true one is missed once in 16,000 times."""
    return 4 * math.sqrt(share * (1 - share) / count)


def moved(before: list[str], after: list[str]) -> float:
    return float(np.mean([old != new for old, new in zip(before, after, strict=True)]))


def variation(before: dict[str, float], after: dict[str, float]) -> float:
    one, other = sum(before.values()), sum(after.values())
    arms = before.keys() | after.keys()
    gaps = (abs(before.get(a, 0) / one - after.get(a, 0) / other) for a in arms)
    return sum(gaps) / 2


def test_shares_are_met() -> None:
    counts = Counter(dealt(SHARES))
    for arm, share in SHARES.items():
        assert counts[arm] / len(USERS) == pytest.approx(share, abs=four_errors(share))


def test_shares_need_not_add_up_to_one() -> None:
    assert dealt({arm: 40 * share for arm, share in SHARES.items()}) == dealt(SHARES)


def test_the_order_of_arms_does_not_matter() -> None:
    assert dealt(dict(reversed(SHARES.items()))) == dealt(SHARES)


def test_an_arm_without_a_share_has_no_users() -> None:
    assert dealt(SHARES | {"resting": 0.0}) == dealt(SHARES)


def test_one_arm_has_everybody() -> None:
    assert {assign({"only": 0.01}, "salt", user) for user in USERS[:50]} == {"only"}


def test_assignments_are_those_of_earlier_releases() -> None:
    users = ["1", "2", "Åse", "日本", "", "a" * 500, "\udc80"]
    assert [assign(SHARES, "slatewise", user) for user in users] == GOLDEN
    assert [assign(SHARES, "", user) for user in users] == GOLDEN_WITHOUT_SALT


GOLDEN = ["a", "c", "c", "b", "a", "b", "a"]
GOLDEN_WITHOUT_SALT = ["b", "b", "c", "b", "a", "b", "a"]


def test_assignments_are_the_same_in_every_process() -> None:
    program = (
        "from slatewise.service.serving.arms import assign\n"
        f"print([assign({SHARES!r}, 'salt', f'user-{{n}}') for n in range(100)])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONHASHSEED": "1"},  # of this process it is another
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == repr(dealt(SHARES)[:100])


@pytest.mark.parametrize(
    "after", [SHARES | {"a": 1.0}, SHARES | {"c": 0.05}, {"a": 0.5, "b": 0.3}, {"b": 0.3, "c": 0.2}]
)
def test_a_change_of_one_share_moves_no_more_users_than_it_must(after: dict[str, float]) -> None:
    least = variation(SHARES, after)
    assert moved(dealt(SHARES), dealt(after)) == pytest.approx(least, abs=four_errors(least))


def test_an_arm_that_grows_only_wins_users() -> None:
    before, after = dealt(SHARES), dealt(SHARES | {"b": 0.6})
    assert {new for old, new in zip(before, after, strict=True) if old != new} == {"b"}


def test_a_new_arm_takes_from_all_in_proportion() -> None:
    before, after = dealt(SHARES), dealt(SHARES | {"new": 0.25})
    lost = Counter(old for old, new in zip(before, after, strict=True) if new == "new")
    total = sum(lost.values())
    assert total / len(USERS) == pytest.approx(0.2, abs=four_errors(0.2))
    for arm, share in SHARES.items():
        assert lost[arm] / total == pytest.approx(share, abs=four_errors(share, total))


def test_a_change_of_all_shares_moves_little_more_than_it_must() -> None:
    after = {"a": 0.2, "b": 0.3, "c": 0.5}
    least = variation(SHARES, after)
    most = 2 * least / (1 + least)
    assert least - four_errors(least) < moved(dealt(SHARES), dealt(after))
    assert moved(dealt(SHARES), dealt(after)) < most + four_errors(most)


def test_another_salt_deals_independently() -> None:
    pairs = Counter(zip(dealt(SHARES, "one"), dealt(SHARES, "two"), strict=True))
    chi_squared = sum(
        (pairs[a, b] - len(USERS) * SHARES[a] * SHARES[b]) ** 2
        / (len(USERS) * SHARES[a] * SHARES[b])
        for a in SHARES
        for b in SHARES
    )
    assert chi_squared < 31.8  # of 8 degrees of freedom: once in 10,000 times


def test_salt_arm_and_user_do_not_run_into_each_other() -> None:
    shares = {"x": 1.0, "xy": 1.0}
    one = [assign(shares, "s", f"yu{n}") for n in range(200)]
    other = [assign(shares, "sx", f"u{n}") for n in range(200)]
    assert one != other
