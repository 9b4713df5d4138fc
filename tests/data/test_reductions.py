"""The reductions of Section 5, and an account that adds up."""

from pathlib import Path

import numpy as np

from slatewise.data.preparation import prepare
from slatewise.data.reductions import PRESETS, PrepareConfig
from tests.data.log_rows import Write, found, many, row
from tests.data.recovery import rows_of


def test_several_clicks_become_interactions_or_only_the_first(
    write_log: Write, tmp_path: Path
) -> None:
    rows = [row(click=["c", "a"]), row(time=2, click=[]), row(time=3, click=None)]
    log, items = write_log(rows)
    each = prepare(log, items, tmp_path / "each")
    assert [entry[2] for entry in rows_of(each)["ann"]] == ["c", "a", None, None]
    assert each.meta["report"]["clicks_unfolded"] == 1
    assert found(each) == {}
    first = prepare(log, items, tmp_path / "first", PrepareConfig(several_clicks="first"))
    assert [entry[2] for entry in rows_of(first)["ann"]] == ["c", None, None]
    assert first.meta["report"]["clicks_ignored"] == 1
    assert first.meta["report"]["reductions"] == {}


def test_the_papers_reductions_leave_what_section_5_says(write_log: Write, tmp_path: Path) -> None:
    rows = many(users=60, steps=60)
    dataset = prepare(*write_log(rows), tmp_path / "out", PRESETS["paper"])
    counts = np.diff(dataset.user_offsets)
    assert counts.min() >= 10
    assert counts.max() == 20
    assert np.diff(dataset.slate_offsets).max() == 25
    everything = {(r["user_id"], r["time"]): r for r in rows}
    for user, entries in rows_of(dataset).items():
        for time, slate, click, _ in entries:
            original = everything[user, time]
            assert list(slate) == original["slate"][:25]
            assert click == original["click"]
    report = dataset.meta["report"]
    assert report["rows"] - sum(report["reductions"].values()) == dataset.num_interactions
    unclicked = sum(r["click"] is None for r in rows)
    kept = unclicked - report["reductions"]["without a click, not in the sample"]
    # A tenth of n, within four standard deviations.
    assert abs(kept - 0.1 * unclicked) < 4 * np.sqrt(0.09 * unclicked)


def test_the_sample_of_no_clicks_depends_on_rows_and_seed_not_on_order(
    write_log: Write, tmp_path: Path
) -> None:
    rows = many(users=20, steps=20)
    config = PrepareConfig(no_click_share=0.3)
    kept = rows_of(prepare(*write_log(rows), tmp_path / "a", config))
    assert rows_of(prepare(*write_log(rows[::-1]), tmp_path / "b", config)) == kept
    other = rows_of(
        prepare(*write_log(rows), tmp_path / "c", config.model_copy(update={"seed": 1}))
    )
    assert other != kept
    # A row that stays in the log keeps its fate when others leave it.
    fewer = rows_of(prepare(*write_log(rows[: len(rows) // 2]), tmp_path / "d", config))
    assert fewer == {user: entries for user, entries in kept.items() if user < 10}


def test_the_account_adds_up(write_log: Write, tmp_path: Path) -> None:
    rows = many(users=12, steps=30)
    rows += [
        row(user_id=None, slate=[1], click=None),
        row(user_id=1, slate=[], click=None),
        row(user_id=2, click=-5, slate=[1]),
    ]
    rows = [r | {"click": [] if r["click"] is None else [r["click"]]} for r in rows]
    rows[7]["slate"], rows[7]["click"] = [1, 2, 3, 4], [3, 2, 1]
    rows[9]["slate"], rows[9]["click"] = [1, 2, 3, 4], [3, 99]
    rows += [rows[0], row(user_id=3, time=99, slate=[1, 2, 3], click=[1])]
    dataset = prepare(
        *write_log(rows), tmp_path / "out", PrepareConfig(no_click_share=0.5, max_slate=9, first=12)
    )
    report = dataset.meta["report"]
    gone = sum(p["count"] for p in report["problems"] if p["drops"])
    gone += sum(report["reductions"].values())
    assert report["rows"] == len(rows)
    assert report["clicks_unfolded"] == 3
    assert (
        report["rows"] + 3 - gone == dataset.num_interactions == report["remaining"]["interactions"]
    )
