"""Rows that are clicks on one slate are recognised, and a slate is never cut."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slatewise.cli import prepare as command
from slatewise.data.preparation import prepare
from slatewise.data.reductions import PrepareConfig
from slatewise.data.several_clicks import further_clicks
from slatewise.data.split import SplitConfig
from tests.data.log_rows import Write, row
from tests.features.logs import first_of_showing, random_log


@given(st.integers(0, 10_000))
def test_clicks_before_on_the_same_slate_are_counted(seed: int) -> None:
    log = random_log(seed)
    found = further_clicks(
        *(
            getattr(log, name).numpy()
            for name in ("user_offsets", "times", "sources", "clicks", "slate_offsets")
        ),
        log.slate_items.numpy(),
    )
    wanted = [n - first_of_showing(log, n) for n in range(len(log.clicks))]
    assert (found is None) == (not any(wanted))
    assert found is None or found.tolist() == wanted


def test_a_second_click_on_the_same_item_begins_another_slate() -> None:
    clicks = np.array([0, 1, 0, 1, 2, 1], np.int32)
    found = further_clicks(
        np.array([0, 6]),
        np.zeros(6, np.int64),
        np.zeros(6, np.uint8),
        clicks,
        np.arange(0, 19, 3),
        np.tile(np.arange(3, dtype=np.int32), 6),
    )
    assert found is not None
    assert found.tolist() == [0, 1, 0, 1, 2, 0]


def test_rows_and_lists_of_clicks_make_the_same_dataset(write_log: Write, tmp_path: Path) -> None:
    def prepared(rows: list[dict[str, Any]], name: str) -> Any:
        config = PrepareConfig(strict=True)  # clicks on one slate are no tie in time
        return prepare(*write_log(rows), tmp_path / name, config)

    alone = row(user_id="bob")
    rows = prepared([row(click="c"), row(click="a"), alone], "rows")
    lists = prepared([row(click=["c", "a"]), alone | {"click": ["b"]}], "lists")
    assert rows.content_hash == lists.content_hash
    assert rows.meta["counts"]["further_clicks"] == 1
    assert rows.meta["counts"]["slates_with_several_clicks"] == 1
    several = rows.interactions().several
    assert several is not None
    user = rows.user_ids.to_list().index("ann")
    first = int(rows.user_offsets[user])
    assert several.further[first : first + 2].tolist() == [0, 1]
    assert several.stops[first : first + 2].tolist() == [False, True]
    assert several.taken[rows.slate_offsets[first + 1] :][:3].tolist() == [False, False, True]
    assert several.stops.sum() == 2  # bob had enough after one


def test_a_slate_shown_again_is_another_slate_and_counted(
    write_log: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [row(time=1, click="a"), row(time=2, click="b"), row(time=2, click="c")]
    dataset = prepare(*write_log(rows), tmp_path / "set", PrepareConfig(same_slate=0))
    assert dataset.further_clicks is not None
    assert dataset.further_clicks.tolist() == [0, 0, 1]
    assert dataset.meta["counts"]["clicks_on_slates_shown_again"] == 1
    command._show(dataset)
    said = capsys.readouterr().out
    assert "on 1 slate with several clicks" in said
    assert "the user chooses among the items left" in said
    assert "1 clicks follow a click on the same slate at another time" in said


MINUTE = 60
NOON = 1_715_949_000
FIRST, LATER = row(time=NOON, click="a"), row(time=NOON + MINUTE, click="b")


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        ([FIRST, LATER, row(time=NOON + 30 * MINUTE, click="c")], [0, 1, 2]),
        ([FIRST, LATER, row(time=NOON + 30 * MINUTE + 1, click="c")], [0, 1, 0]),
        ([FIRST, LATER, row(time=NOON + 2 * MINUTE, click="a")], [0, 1, 0]),
        ([FIRST, LATER | {"click": None}, row(time=NOON + 2 * MINUTE, click="c")], [0, 0, 0]),
        ([FIRST, LATER | {"source": "home"}], [0, 0]),
        ([FIRST, LATER | {"slate": ["b", "a", "c"]}], [0, 0]),
        ([FIRST, LATER | {"user_id": "bob"}], [0, 0]),
        ([row(time=NOON + t, slate=["a"], click="a") for t in range(3)], [0, 0, 0]),
        # A second click on an item begins a slate that may have further clicks itself.
        ([*(row(time=NOON + n, click=c) for n, c in enumerate("abacb"))], [0, 1, 0, 1, 2]),
        # Times that are only an order: whenever, in the order of the rows.
        ([row(time=n, click=c) for n, c in ((1, "a"), (700, "c"), (10**6, "b"))], [0, 1, 2]),
    ],
)
def test_rows_of_a_click_each_are_one_slate_within_half_an_hour(
    rows: list[dict[str, Any]], wanted: list[int], write_log: Write, tmp_path: Path
) -> None:
    files = write_log(rows)
    dataset = prepare(*files, tmp_path / "set", PrepareConfig(strict=True))
    found = dataset.further_clicks
    assert ([0] * len(wanted) if found is None else found.tolist()) == wanted
    first = np.arange(len(wanted)) - wanted
    times = np.sort([one["time"] for one in rows]) * (10**6 if rows[0]["time"] >= NOON else 1)
    assert dataset.times.tolist() == times[first].tolist()
    assert dataset.meta["report"]["clicks_joined"] == np.count_nonzero(wanted)
    apart = prepare(*files, tmp_path / "apart", PrepareConfig(same_slate=0))
    assert apart.further_clicks is None
    assert apart.times.tolist() == times.tolist()


def test_rows_that_list_clicks_are_whole_slates(write_log: Write, tmp_path: Path) -> None:
    rows = [row(time=time, click=[click]) for time, click in ((1, "a"), (2, "b"))]
    lists = prepare(*write_log(rows), tmp_path / "lists")
    assert lists.further_clicks is None
    _, items = write_log([row()])
    text = tmp_path / "log.csv"
    header = "user_id,time,slate,click,source"
    text.write_text(f"{header}\nann,1,a|b|c,['a'],s\nann,2,a|b|c,['b'],s\n")
    assert prepare(text, items, tmp_path / "json").further_clicks is None
    text.write_text(f"{header}\nann,1,a|b|c,a,s\nann,2,a|b|c,b,s\nann,3,b|c,b|c,s\n")
    dataset = prepare(text, items, tmp_path / "text")
    assert dataset.further_clicks is not None
    assert dataset.further_clicks.tolist() == [0, 0, 0, 1]


def test_joined_clicks_are_in_the_account(
    write_log: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command._show(prepare(*write_log([FIRST, LATER]), tmp_path / "set"))
    said = " ".join(capsys.readouterr().out.split())
    assert "clicks on the slate of a row before 1 of one slate" in said
    assert "1 clicks at later times follow a click on another item of the same slate" in said
    assert "--same-slate 0" in said


def test_a_log_with_one_click_a_slate_is_as_it_was(write_log: Write, tmp_path: Path) -> None:
    dataset = prepare(*write_log([row(), row(time=2, click=None)]), tmp_path / "set")
    assert dataset.further_clicks is None
    assert dataset.interactions().several is None
    assert "further_clicks" not in dataset.meta["counts"]


@pytest.mark.parametrize("prefix", [1, 2, 3])
def test_no_split_cuts_a_slate(
    prefix: int, write_log: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    rows = [
        row(user_id=user, time=time, click=click)
        for user in range(20)
        for time in range(4)
        for click in ("a", "c", "b")[: 1 + (user + time) % 3]
    ]
    division = SplitConfig(valid_share=0.4, test_share=0.4, prefix=prefix)
    dataset = prepare(*write_log(rows), tmp_path / "set", division=division)
    assert dataset.further_clicks is not None
    for ends in (dataset.train_end, dataset.valid_end):
        behind = dataset.user_offsets[:-1] + ends
        inside = behind < dataset.user_offsets[1:]
        assert (dataset.further_clicks[behind[inside]] == 0).all()
