"""What a version knows of items, by the views that its run keeps."""

import json
from pathlib import Path

import numpy as np
import pytest

from slatewise.service.insight.item_map import item_map
from slatewise.service.insight.learning import scales_by_views, version_reports
from slatewise.service.insight.numbers import LittleSeen, item_numbers
from slatewise.service.serving.items import ItemLog
from slatewise.service.serving.live import Live
from slatewise.service.serving.models import Models
from slatewise.training import runs
from tests.service.serving.world import a_model


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Live:
    """A version of which item a07 was seen 7 times, and so on to a59."""
    run = tmp_path_factory.mktemp("run") / "run"
    runs.save(a_model(), run)
    made = Live.of_run("main", "1", runs.load(run), run, ItemLog())
    made.table.set_available(np.arange(60), True)
    return made


def test_items_have_the_numbers_of_their_run(live: Live) -> None:
    model = a_model()
    found = item_numbers(live, ["a07", "nothing", "a59"])
    assert {item: numbers.views for item, numbers in found.items()} == {"a07": 7, "a59": 59}
    wanted = np.sqrt(np.square(model.item_scales[7]).mean())
    assert found["a07"].scale == pytest.approx(float(wanted), rel=1e-5)


def test_scales_are_told_by_doubling_views(live: Live) -> None:
    found = scales_by_views(live)
    assert [(one.least, one.most) for one in found][:4] == [(0, 0), (1, 1), (2, 3), (4, 7)]
    assert [one.items for one in found] == [1, 1, 2, 4, 8, 16, 28]
    assert all(one.low <= one.median <= one.high for one in found)


def test_little_seen_is_the_least_seen_quarter(live: Live) -> None:
    few = LittleSeen(live)
    assert few.below == 15
    assert few(["a00", "a14", "a15", "a59", "came later"]).tolist() == [True] * 2 + [False] * 2 + [
        True
    ]


def test_groups_of_the_map_are_averages_of_all_their_items(live: Live) -> None:
    found = item_map(live, 1_000)
    assert [group.items for group in found.groups] == [20, 20, 20]
    assert sum(group.views for group in found.groups) == sum(range(60))
    for number, group in enumerate(found.groups):
        points = found.points[found.group == number]
        np.testing.assert_allclose([group.x, group.y], points.mean(0), atol=1e-5)


def test_a_trained_run_tells_its_curve_by_its_log(tmp_path: Path) -> None:
    run = tmp_path / "run"
    runs.save(a_model(), run)
    lines = [json.dumps({"validation": value}) for value in (-2.0, -1.5)]
    (run / runs.LOG).write_text("\n".join(lines))
    Models.of(tmp_path, "main").add(run)
    (report,) = version_reports(tmp_path, "main")
    assert report.curve == [-2.0, -1.5]
    assert report.version == "1"
