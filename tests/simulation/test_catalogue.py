import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from slatewise.simulation.catalogue import Catalogue, repeated
from slatewise.simulation.config import CatalogueConfig


def make(**fields: object) -> Catalogue:
    config = CatalogueConfig.model_validate({"items": 500, "groups": 20, **fields})
    return Catalogue.generate(config, np.random.default_rng(1))


def test_every_item_has_one_group_and_every_group_an_item() -> None:
    catalogue = make()
    assert sorted(catalogue.members) == list(range(500))
    assert set(catalogue.group) == set(range(20))
    for g in range(20):
        members = catalogue.members[catalogue.start[g] : catalogue.start[g + 1]]
        assert (catalogue.group[members] == g).all()


def test_as_many_groups_as_items() -> None:
    catalogue = make(items=20, groups=20)
    assert sorted(catalogue.group) == list(range(20))


def test_group_sizes_follow_their_skew() -> None:
    sizes = np.diff(make().start)
    assert sizes.max() > 5 * np.median(sizes)
    assert np.ptp(np.diff(make(group_skew=0).start)) <= 20


@pytest.mark.parametrize("skew", [0.0, 0.7, 1.0, 1.2, 2.2])
def test_draws_follow_the_stated_exposure(skew: float) -> None:
    catalogue = make(exposure_skew=skew)
    n = 400_000
    counts = np.bincount(catalogue.draw((n,), np.random.default_rng(2)), minlength=500)
    expected = n * catalogue.exposure
    assert expected.sum() == pytest.approx(n)
    common = expected > 5
    z = (counts - expected)[common] / np.sqrt(expected[common])
    assert np.abs(z).max() < 5
    assert z.std() == pytest.approx(1, abs=0.15)


def test_exposure_is_zipf_inside_a_group() -> None:
    catalogue = make(items=1_000, groups=1, exposure_skew=1.2)
    exposure = catalogue.exposure[catalogue.members]
    assert (np.diff(exposure) < 0).all()
    rank = np.arange(10, 1_000)
    slope = np.polyfit(np.log(rank + 1.5), np.log(exposure[10:]), 1)[0]
    assert slope == pytest.approx(-1.2, abs=0.01)
    assert np.sort(make().exposure)[-5:].sum() > 0.2


def test_no_skew_exposes_all_alike() -> None:
    np.testing.assert_allclose(make(exposure_skew=0).exposure, 1 / 500)


def test_draws_stay_in_their_group(rng: np.random.Generator) -> None:
    catalogue = make()
    groups = rng.integers(20, size=(50, 40))
    assert (catalogue.group[catalogue.draw_in(groups, rng)] == groups).all()


@given(
    hnp.arrays(
        np.int64, st.tuples(st.integers(1, 6), st.integers(1, 12)), elements=st.integers(-1, 9)
    )
)
def test_repeated_marks_all_but_the_first(items: np.ndarray) -> None:
    expected = [[x in row[:j] for j, x in enumerate(row)] for row in items.tolist()]
    assert repeated(items).tolist() == expected


@settings(deadline=None)
@given(
    hnp.arrays(
        np.int64, st.tuples(st.integers(1, 6), st.integers(1, 12)), elements=st.integers(-1, 19)
    ),
    st.integers(1, 20),
)
def test_complete_keeps_the_first_distinct_items_and_fills_the_rest(
    items: np.ndarray, k: int
) -> None:
    catalogue = make(items=20, groups=3)
    slates = catalogue.complete(items, k, np.random.default_rng(3))
    assert slates.shape == (len(items), k)
    for row, slate in zip(items.tolist(), slates.tolist(), strict=True):
        kept = list(dict.fromkeys(x for x in row if x >= 0))[:k]
        assert slate[: len(kept)] == kept
        assert len(set(slate)) == k
        assert set(slate) <= set(range(20))
