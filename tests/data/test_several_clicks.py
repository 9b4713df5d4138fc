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
    dataset = prepare(*write_log(rows), tmp_path / "set")
    assert dataset.further_clicks is not None
    assert dataset.further_clicks.tolist() == [0, 0, 1]
    assert dataset.meta["counts"]["clicks_on_slates_shown_again"] == 1
    command._show(dataset)
    said = capsys.readouterr().out
    assert "on 1 slates with several clicks" in said
    assert "each further click is a choice among the items left" in said
    assert "1 clicks follow a click on the same slate at another time" in said


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
