from slatewise.experiments.study import StudyConfig
from slatewise.experiments.tuning.config import TuneConfig
from slatewise.experiments.tuning.space import known_ranges
from tests.test_docs import table


def test_every_setting_of_a_search_is_listed_with_its_default() -> None:
    listed = {row[0]: row[1] for row in table("tuning.md", "Settings")}
    default = TuneConfig.model_construct()
    own = {"seeds"} | set(TuneConfig.model_fields) - set(StudyConfig.model_fields)
    assert listed == {name: _shown(getattr(default, name)) for name in own}


def test_every_range_is_listed() -> None:
    listed = {
        row[0]: (float(row[2]), float(row[3])) for row in table("tuning.md", "What is searched")
    }
    assert listed == known_ranges()


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return str(value) if value else "–"
