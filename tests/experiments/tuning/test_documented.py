from slatewise.experiments.tuning.space import known_ranges
from tests.test_docs import table


def test_every_range_is_listed() -> None:
    listed = {
        row[0]: (float(row[2]), float(row[3])) for row in table("tuning.md", "What is searched")
    }
    assert listed == known_ranges()
