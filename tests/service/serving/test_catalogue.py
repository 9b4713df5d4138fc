"""Offered is what the store shows, in rows that depend on the changes alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slatewise.service.serving.items import ItemLog
from slatewise.slates.catalogue import Catalogue
from slatewise.slates.predictive import Predictive
from slatewise.slates.tables import table_of
from tests.service.serving.test_items import Shop
from tests.service.serving.world import a_model

TRAINED = ["a", "b", "c"]
Change = tuple[str, str, str]


def catalogue_of(log: ItemLog) -> Catalogue:
    model = a_model(ids=TRAINED)
    table, new_items = table_of(model), Predictive(model)
    return Catalogue(table, TRAINED, model.group_names, new_items, log.items, shown=False)


def after(changes: list[Change], cuts: list[int]) -> Catalogue:
    """Apply changes, divided at the cuts."""
    log, shop = ItemLog(), Shop(*changes)
    catalogue = catalogue_of(log)
    for cut in [*sorted(cuts), len(changes)]:
        since = log.number
        log.read(shop, cut)
        catalogue.apply(log.changes(since, cut))
    return catalogue


def shown(catalogue: Catalogue) -> dict[str, str]:
    rows = np.flatnonzero(catalogue.table.available)
    return dict(zip(catalogue.ids_of(rows), catalogue.groups_of(rows), strict=True))


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
    catalogue = after(changes, [cut for cut in cuts if cut <= len(changes)])
    final = {item: (group, state) for item, group, state in changes}
    expected = {item: group for item, (group, state) in final.items() if state == "shown"}
    assert shown(catalogue) == expected
    assert catalogue.shown == len(expected)


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
    assert [r.tolist() for r in other.known(known)[:1]] == [
        r.tolist() for r in one.known(known)[:1]
    ]


def test_without_changes_nothing_is_offered() -> None:
    catalogue = catalogue_of(ItemLog())
    assert shown(catalogue) == {}
    assert catalogue.known(["a", "nothing"])[0].tolist() == [0]


def test_an_item_that_training_knew_keeps_what_was_learned_in_another_group() -> None:
    before = table_of(a_model(ids=TRAINED)).means_of([1])
    catalogue = after([("b", "violet", "shown")], [])
    row = catalogue.known(["b"])[0]
    assert row.tolist() == [1]
    assert catalogue.groups_of(row) == ["violet"]
    np.testing.assert_array_equal(catalogue.table.means_of(row), before)


def test_a_new_item_is_as_its_group_says_also_after_a_correction() -> None:
    catalogue = after([("x", "red", "shown"), ("x", "green", "shown")], [1])
    row = catalogue.known(["x"])[0]
    means, scales, _, _ = Predictive(a_model(ids=TRAINED))(np.array([1]))
    np.testing.assert_array_equal(catalogue.table.means_of(row), means)
    np.testing.assert_array_equal(catalogue.table.scales_of(row), scales)
    assert catalogue.renumbered == 2


def test_an_item_that_returns_is_the_same_item() -> None:
    catalogue = after([("x", "red", s) for s in ("shown", "removed", "shown")], [1, 2])
    assert catalogue.table.num_items == len(TRAINED) + 1
    assert shown(catalogue) == {"x": "red"}


def test_caps_name_groups_and_tell_unknown_ones() -> None:
    catalogue = after([("x", "violet", "shown")], [])
    caps, unknown = catalogue.caps({"green": 0, "violet": 2, "nowhere": 1})
    assert caps.tolist() == [-1, 0, -1, 2]
    assert unknown == ["nowhere"]
    assert catalogue.caps(3)[0].tolist() == [3, 3, 3, 3]


def test_features_of_items_are_those_of_rows_also_of_later_ones() -> None:
    log, shop = (
        ItemLog(),
        Shop(("x", "red", "shown"), ("y", "red", "shown"), ("x", "blue", "shown")),
    )
    log.items.indices(["x", "c"])
    catalogue = catalogue_of(log)
    log.read(shop, 1)
    catalogue.apply(log.changes(0, 1))
    catalogue.set_features(np.arange(1, 7, dtype=np.float32).reshape(3, 2))  # of x, c, a
    assert catalogue.table.features_of([0, 1, 2, 3]).tolist() == [[5, 6], [0, 0], [3, 4], [1, 2]]
    log.read(shop)
    catalogue.apply(log.changes(1, 3))
    assert catalogue.table.features_of([4, 5]).tolist() == [[0, 0], [1, 2]]


@pytest.mark.parametrize("ids", [[], ["nobody"]])
def test_what_nobody_has_heard_of_is_unknown(ids: list[str]) -> None:
    rows, unknown = catalogue_of(ItemLog()).known(ids)
    assert rows.tolist() == []
    assert unknown == ids
