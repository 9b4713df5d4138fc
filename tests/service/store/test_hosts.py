"""Hosts that share a store: one trains at a time, and no two versions have the same number."""

import pytest

from slatewise.errors import SlatewiseError
from slatewise.service.store import Store
from tests.service.conftest import new_schema
from tests.service.postgres import Postgres


@pytest.mark.xdist_group("postgresql")
def test_one_host_trains_at_a_time(postgres: Postgres) -> None:
    url = new_schema(postgres)
    one, other, elsewhere = Store.open(url), Store.open(url), Store.open(new_schema(postgres))
    for _ in range(2):  # and again, when the first has ended
        with one.training():
            with pytest.raises(SlatewiseError, match="Another host"), other.training():
                pass
            with elsewhere.training():  # another store in the same database
                pass
        with other.training():
            pass
    for store in (one, other, elsewhere):
        store.close()


def test_no_two_versions_have_the_same_number(store: Store, store_url: str) -> None:
    other = Store.open(store_url)
    taken = [store.take_version("main", 1), other.take_version("main", 1)]
    taken += [store.take_version("main", 7), other.take_version("main", 2)]
    assert taken == [1, 2, 7, 8]
    assert other.take_version("plain", 1) == 1
    other.close()
