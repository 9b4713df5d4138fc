"""Words for numbers."""

import pytest

from slatewise.words import counted


@pytest.mark.parametrize(
    ("number", "shown"), [(0, "0 users"), (1, "1 user"), (2, "2 users"), (1_000, "1,000 users")]
)
def test_a_number_of_things_is_in_the_singular_for_one(number: int, shown: str) -> None:
    assert counted(number, "user") == shown
