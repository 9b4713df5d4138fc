"""Arms from period to period."""

import numpy as np
import pytest

from slatewise.service.analysis.history import MOST, period_width

MINUTE, DAY = 60_000_000, 86_400_000_000


@pytest.mark.parametrize(
    ("duration", "width"),
    [(0, MINUTE), (30 * MINUTE, MINUTE), (60 * MINUTE, 5 * MINUTE), (30 * DAY, DAY)],
)
def test_periods_are_as_narrow_as_a_figure_can_show(duration: int, width: int) -> None:
    assert period_width(duration) == width


def test_there_are_never_more_periods_than_a_figure_shows() -> None:
    for duration in np.geomspace(1, 92 * DAY, 50).astype(int).tolist():
        assert duration // period_width(duration) + 1 <= MOST
