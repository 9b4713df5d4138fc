"""The demo in small: simulated users, the real server, nights that make slates better."""

import importlib.util
from collections import Counter
from io import StringIO
from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console

EXAMPLE = Path(__file__).parents[3] / "examples" / "live_marketplace.py"

pytestmark = pytest.mark.xdist_group("live")


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("live_marketplace", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_service_learns_from_what_it_served_and_its_slates_get_better(
    example: ModuleType, tmp_path: Path
) -> None:
    options = example.parse(["--days", "3", "--past", "4", "--slates", "2", "--seed", "1"])
    # No request failed and no event was refused, or this would have ended.
    said = StringIO()
    story = example.play(options, tmp_path / "service", Console(file=said))
    assert "The page of the service: http://127.0.0.1:" in said.getvalue()
    days = [[one for one in story.served if one.day == day] for day in range(3)]
    assert all(one.version.startswith("prior") for one in days[0])
    assert any(night["outcome"] == "promoted" for night in story.nights)
    (first, error), (last, last_error) = example.expected(days[0]), example.expected(days[-1])
    assert last - first > 4 * (error**2 + last_error**2) ** 0.5
    users = {one.user: one.arm for one in story.served}
    greedy = sum(arm == "greedy" for arm in users.values()) / len(users)
    assert abs(greedy - 0.5) < 4 * (0.25 / len(users)) ** 0.5
    assert all(one.arm == users[one.user] for one in story.served)
    # An analysis begins with the first slate of the arm that came last.
    for arm, served in Counter(one.arm for one in story.served).items():
        assert served - 20 < story.experiment["arms"][arm]["slates"] <= served


def test_a_shop_that_stays_open_names_its_page_and_ends_when_asked(
    example: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Town:
        address = "http://127.0.0.1:8000"
        days = 0

        def day(self, *_: object, pause: float) -> None:
            self.days += 1
            if self.days == 3:
                raise KeyboardInterrupt

    monkeypatch.setattr(example.time, "sleep", lambda seconds: None)
    town, said = Town(), StringIO()
    example.stay(town, example.parse(["--stay"]), Console(file=said, width=200))
    assert town.days == 3
    assert "http://127.0.0.1:8000 has its page" in said.getvalue()
