"""Half-lives are found in a log of slates of one item as well."""

from pathlib import Path

import numpy as np

from slatewise.evaluation import half_lives_of
from tests.evaluation.drawing import toy_world
from tests.model.terms.logs import START, Rows, dataset_of

DAYS = 20


def rows_of_trends(hours: float) -> Rows:
    """Draw feeds of single items whose chance to be clicked changes at random, every so often."""
    rng = np.random.default_rng(2)
    periods = int(DAYS * 24 / hours) + 1
    liked = rng.random((periods, 12)) < 0.5
    rows: Rows = []
    for user in range(600):
        for second in np.sort(rng.integers(0, DAYS * 86_400, 15)).tolist():
            item = int(rng.integers(12))
            clicked = rng.random() < (0.9 if liked[int(second / 3_600 / hours), item] else 0.1)
            rows.append(
                {
                    "user_id": user,
                    "time": START + second,
                    "slate": [item],
                    "click": item if clicked else None,
                    "source": "feed",
                }
            )
    return rows


def test_fast_trends_have_shorter_half_lives_than_slow_ones(tmp_path: Path) -> None:
    """An item is seen about every 40 minutes; likes last 12 hours, or the whole log."""
    fast = half_lives_of(dataset_of(tmp_path / "fast", rows_of_trends(12)))
    slow = half_lives_of(dataset_of(tmp_path / "slow", rows_of_trends(10_000)))
    assert fast[0] in (1.0, 4.0)
    assert slow[0] > fast[0]


def test_times_that_are_only_an_order_have_the_usual_ones(tmp_path: Path) -> None:
    assert half_lives_of(toy_world(tmp_path / "toy")) == (2.0, 24.0, 96.0)
