"""Drawings for plotly.js."""

import pytest

from slatewise.report.figures import counts


@pytest.mark.parametrize(
    ("most", "ticks"),
    [
        (1, ["1"]),
        (8, ["1", "2", "5"]),
        (60, ["1", "2", "5", "10", "20", "50"]),
        (2_500, ["1", "10", "100", "1,000"]),
    ],
)
def test_colours_of_counts_have_round_numbers_beside_them(most: int, ticks: list[str]) -> None:
    (drawn,) = counts([1, 10, 100], [0, 1], [[1, most]])
    bar = drawn["colorbar"]
    assert bar["ticktext"] == ticks
    values = [float(text.replace(",", "")) for text in ticks]
    assert [10**at for at in bar["tickvals"]] == pytest.approx(values)
