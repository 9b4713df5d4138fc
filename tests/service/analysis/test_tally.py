import numpy as np
import pytest

from slatewise.service.analysis import tally as tally_module
from slatewise.service.analysis.tally import Tally
from slatewise.service.store import Store
from slatewise.service.store.clock import DAY
from slatewise.service.store.records import Outcome, SlateRecord
from tests.service.analysis.log import START, fill, served

END = START + 1_000 * DAY


def read(store: Store) -> Tally:
    tally = Tally()
    tally.read(store)
    return tally


def test_only_slates_that_somebody_answered_count_in_rates(store: Store) -> None:
    fill(store, [("ann", "x", 0, True), ("ann", "x", 1, False), ("bob", "x", 1, None)])
    slates = read(store).slates(START, END)
    assert slates.people() == {"x": 2}
    assert slates.count() == {"x": (3, 2)}
    assert slates.totals()["x"].clicks.tolist() == [1]
    assert slates.totals()["x"].impressions.tolist() == [2]


def test_several_answers_to_a_slate_are_one_and_slates_of_others_do_not_count(
    store: Store,
) -> None:
    fill(store, [("ann", "x", 0, False)])
    store.write([], [Outcome("s0", 1, ("b",), START + 9), Outcome("s0", 2, (), START + 10)])
    others = SlateRecord("theirs", "ann", START, "search", ("a",))
    store.write([others], [Outcome("theirs", None, ("a",), START)])
    arm = read(store).slates(START, END).totals()["x"]
    assert (arm.clicks.tolist(), arm.impressions.tolist()) == ([1], [1])


def test_somebody_without_a_name_is_nobody_else(store: Store) -> None:
    fill(store, [(None, "x", 0, True), (None, "x", 0, False)])
    assert read(store).slates(START, END).people() == {"x": 2}


def test_a_user_counts_in_her_first_arm_until_she_is_moved(store: Store) -> None:
    mine = [("x", 0, True), ("x", 1, False), ("y", 2, True), ("x", 3, True)]
    fill(store, [("ann", *row) for row in mine] + [("bob", "y", 2, True)])
    slates = read(store).slates(START, END)
    assert slates.changed == 1
    assert slates.people() == {"x": 1, "y": 1}
    assert slates.count() == {"x": (2, 2), "y": (1, 1)}
    assert slates.totals()["x"].clicks.tolist() == [1]


def test_once_nobody_is_moved_any_more_the_arms_have_alike_users_again(store: Store) -> None:
    # Half of the users come every day and click always, half once and never; both arms are alike.
    # On day 5, half of the users of x are moved to y.
    rng, rows = np.random.default_rng(0), []
    for user in range(1_200):
        often, moves = user % 2 == 0, user % 8 < 4
        for day in range(10) if often else [int(rng.integers(10))]:
            arm = "y" if user % 4 < 2 or (moves and day >= 5) else "x"
            rows.append((f"u{user}", arm, float(day), often))
    fill(store, sorted(rows, key=lambda row: row[2]))
    tally = read(store)
    assert START + 4 * DAY < tally.settled() <= START + 5 * DAY
    slates = tally.slates(tally.settled(), END)
    assert slates.changed == 0
    x, y = ((arm.clicks > 0).mean() for arm in slates.totals().values())
    assert abs(x - y) < 0.05
    x, y = ((arm.clicks > 0).mean() for arm in tally.slates(START, END).totals().values())
    assert abs(x - y) > 0.1  # with those who were moved, it is a comparison of early and late users


def test_reading_on_gives_what_reading_at_once_gives(store: Store) -> None:
    rng = np.random.default_rng(1)
    tally = Tally()
    for step in range(5):
        rows = [
            (f"u{rng.integers(30)}", "xy"[rng.integers(2)], float(step), rng.random() < 0.3)
            for _ in range(40)
        ]
        fill(store, rows)
        store.write([], [Outcome(f"s{rng.integers(40)}", 1, ("a",), START + 5)])
        tally.read(store)
    at_once = read(store).slates(START, END)
    so_far = tally.slates(START, END)
    assert at_once.count() == so_far.count()
    for arm, totals in at_once.totals().items():
        assert totals.clicks.tolist() == so_far.totals()[arm].clicks.tolist()


def test_columns_are_what_the_rows_of_the_tables_say(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tally_module, "_PAGE", 7)
    names = ["ann", 'a "quoted" one', "back\\slash", "two\nlines", "Zoë 🐟", "\x01\x7f", None]
    rng = np.random.default_rng(2)
    fill(
        store,
        [
            (
                names[rng.integers(7)],
                "xyz"[rng.integers(3)],
                rng.random(),
                [True, False, None][n % 3],
            )
            for n in range(60)
        ],
    )
    store.write([], [Outcome(f"s{n}", 1, ("b",), START + 9) for n in range(0, 60, 5)])
    tally = read(store)
    found = list(
        zip(
            tally._user.values.tolist(),
            [list(tally._arms)[number] for number in tally._arm.values],
            tally._time.values.tolist(),
            tally._answered.values.tolist(),
            tally._clicked.values.tolist(),
            strict=True,
        )
    )
    pages = [page for batch in store.served(0, END) for page in batch]
    ordered = sorted(pages, key=lambda one: int(one[0].slate_id[1:]))
    assert len(found) == len(ordered) == 60
    people: dict[str, int] = {}
    for (user, *rest), (slate, visit) in zip(found, ordered, strict=True):
        assert slate.serving is not None
        clicked = visit is not None and bool(visit.clicked)
        assert rest == [slate.serving.arm, slate.time, visit is not None, clicked]
        assert people.setdefault(slate.user_id or slate.slate_id, user) == user
    assert len(set(people.values())) == len(people)


def test_a_span_of_time_has_its_own_slates_and_days(store: Store) -> None:
    fill(store, [("ann", "x", 0.2, True), ("ann", "x", 0.9, False), ("bob", "y", 3.5, True)])
    tally = read(store)
    assert tally.first() == {"x": START + DAY // 5, "y": START + 7 * DAY // 2}
    days = tally.slates(START, END).by_day()
    assert list(days) == [20_000, 20_003]
    assert days[20_000].count() == {"x": (2, 2), "y": (0, 0)}
    later = tally.slates(START + DAY, END)
    assert later.count() == {"x": (0, 0), "y": (1, 1)}
    assert tally.slates(END, END).people() == {"x": 0, "y": 0}


def test_no_name_of_a_user_stays_in_memory(store: Store) -> None:
    store.write([served(1, "somebody-with-a-name", "x", START)], [])
    assert "somebody-with-a-name" not in repr(vars(read(store)))
