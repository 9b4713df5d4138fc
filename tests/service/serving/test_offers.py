"""Offered is what the store shows, in rows that depend on the changes alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slatewise.service.serving.items import ItemLog
from slatewise.service.serving.offers import Offers
from slatewise.slates.predictive import Predictive
from slatewise.slates.tables import table_of
from tests.service.serving.test_items import Shop
from tests.service.serving.world import a_model

TRAINED = ["a", "b", "c"]
Change = tuple[str, str, str]


def offers_of(log: ItemLog) -> Offers:
    model = a_model(ids=TRAINED)
    names = model.group_names, model.source_names
    return Offers(log, table_of(model), TRAINED, *names, Predictive(model))


def after(changes: list[Change], cuts: list[int]) -> Offers:
    """Apply changes, divided at the cuts."""
    log, shop = ItemLog(), Shop(*changes)
    offers = offers_of(log)
    for cut in sorted(cuts):
        log.read(shop, cut)
        offers.apply(cut)
    log.read(shop)
    offers.apply(len(changes))
    return offers


def shown(offers: Offers) -> dict[str, str]:
    rows = np.flatnonzero(offers.table.available)
    return dict(zip(offers.ids_of(rows), offers.groups_of(rows), strict=True))


changes_of_items = st.lists(
    st.tuples(
        st.sampled_from([*TRAINED, "x", "y", "z"]),
        st.sampled_from(["red", "green", "violet", "pink"]),
        st.sampled_from(["shown", "hidden", "removed"]),
    ),
    max_size=25,
)


@given(changes=changes_of_items, cuts=st.lists(st.integers(0, 25), max_size=4))
def test_offered_are_exactly_the_items_that_the_store_shows(
    changes: list[Change], cuts: list[int]
) -> None:
    offers = after(changes, [cut for cut in cuts if cut <= len(changes)])
    final = {item: (group, state) for item, group, state in changes}
    expected = {item: group for item, (group, state) in final.items() if state == "shown"}
    assert shown(offers) == expected
    assert offers.shown == len(expected)


@given(changes=changes_of_items, cuts=st.lists(st.integers(0, 25), max_size=4))
def test_rows_do_not_depend_on_how_changes_are_divided(
    changes: list[Change], cuts: list[int]
) -> None:
    one = after(changes, [])
    other = after(changes, [cut for cut in cuts if cut <= len(changes)])
    rows = np.arange(one.table.num_items)
    assert other.table.num_items == one.table.num_items
    assert other.ids_of(rows) == one.ids_of(rows)
    assert other.groups_of(rows) == one.groups_of(rows)
    np.testing.assert_array_equal(other.table.means_of(rows), one.table.means_of(rows))
    np.testing.assert_array_equal(other.table.available, one.table.available)
    known = [*TRAINED, "x", "y", "z"]
    assert [r.tolist() for r in other.find(known)[:1]] == [r.tolist() for r in one.find(known)[:1]]


def test_without_changes_nothing_is_offered() -> None:
    offers = offers_of(ItemLog())
    assert shown(offers) == {}
    assert offers.find(["a", "nothing"])[0].tolist() == [0]


def test_an_item_that_training_knew_keeps_what_was_learned_in_another_group() -> None:
    before = table_of(a_model(ids=TRAINED)).means_of([1])
    offers = after([("b", "violet", "shown")], [])
    row = offers.find(["b"])[0]
    assert row.tolist() == [1]
    assert offers.groups_of(row) == ["violet"]
    np.testing.assert_array_equal(offers.table.means_of(row), before)


def test_a_new_item_is_as_its_group_says_also_after_a_correction() -> None:
    offers = after([("x", "red", "shown"), ("x", "green", "shown")], [1])
    row = offers.find(["x"])[0]
    means, scales, _, _ = Predictive(a_model(ids=TRAINED))(np.array([1]))
    np.testing.assert_array_equal(offers.table.means_of(row), means)
    np.testing.assert_array_equal(offers.table.scales_of(row), scales)
    assert offers.renumbered == 2


def test_an_item_that_returns_is_the_same_item() -> None:
    offers = after([("x", "red", s) for s in ("shown", "removed", "shown")], [1, 2])
    assert offers.table.num_items == len(TRAINED) + 1
    assert shown(offers) == {"x": "red"}


def test_caps_name_groups_and_tell_unknown_ones() -> None:
    offers = after([("x", "violet", "shown")], [])
    caps, unknown = offers.caps({"green": 0, "violet": 2, "nowhere": 1})
    assert caps.tolist() == [-1, 0, -1, 2]
    assert unknown == ["nowhere"]
    assert offers.caps(3)[0].tolist() == [3, 3, 3, 3]


def test_features_of_places_are_those_of_rows_also_of_later_ones() -> None:
    log, shop = (
        ItemLog(),
        Shop(("x", "red", "shown"), ("y", "red", "shown"), ("x", "blue", "shown")),
    )
    log.places(["x", "c"])
    offers = offers_of(log)
    log.read(shop, 1)
    offers.apply(1)
    offers.set_features(np.arange(1, 7, dtype=np.float32).reshape(3, 2))  # of x, c, a
    assert offers.table.features_of([0, 1, 2, 3]).tolist() == [[5, 6], [0, 0], [3, 4], [1, 2]]
    log.read(shop)
    offers.apply(3)
    assert offers.table.features_of([4, 5]).tolist() == [[0, 0], [1, 2]]


@pytest.mark.parametrize("ids", [[], ["nobody"]])
def test_what_nobody_has_heard_of_is_unknown(ids: list[str]) -> None:
    rows, unknown = offers_of(ItemLog()).find(ids)
    assert rows.tolist() == []
    assert unknown == ids
