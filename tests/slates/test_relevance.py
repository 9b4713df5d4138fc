"""Relevance by draws that are made once is the relevance by fresh draws."""

import numpy as np
import pytest

from slatewise.features import Showing, UserHistory
from slatewise.features.user_history import NO_HISTORY
from slatewise.slates import relevance
from slatewise.slates.exact import ExactRanker
from slatewise.slates.relevance import Relevance
from slatewise.slates.tables import table_of
from slatewise.slates.users import Users
from tests.service.serving.world import a_model
from tests.slates.fresh_draws import relevance_draws

ITEMS = np.array([3, 40, 7, 22, 51])
SHOWN = (Showing((3, 5), (0,)), Showing((9, 40)), Showing((7, 8), (0,)))
HISTORY = UserHistory.of_showings(SHOWN)
USER = Users.of_histories([HISTORY], 0, show_clicked=True)
NEW_USER = Users.of_histories([NO_HISTORY], 0, show_clicked=True)
DRAWS = 4_000


def ranker_of(terms: tuple[str, ...], evidence: tuple[str, ...]) -> ExactRanker:
    model = a_model(terms, evidence)
    table = table_of(model)
    if "popularity" in terms:
        table.set_features(np.random.default_rng(0).normal(size=(table.num_items, 9)))
    return ExactRanker(model.posterior, table, model.terms)


@pytest.mark.parametrize(
    ("terms", "evidence"),
    [((), ()), (("bias",), ()), (("history", "popularity"), ()), ((), ("search",))],
)
def test_mean_and_scale_are_those_of_fresh_draws(
    terms: tuple[str, ...], evidence: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relevance, "_SLOTS", 64)  # enough for 60 items to have their own
    ranker = ranker_of(terms, evidence)
    ours = Relevance(ranker, DRAWS)
    mean, scale = ours.of(USER, ours.profiles(HISTORY), ITEMS)
    fresh = relevance_draws(ranker, HISTORY, ITEMS, DRAWS, 5)
    error = 5 * fresh.std(axis=0) * np.sqrt(2 / DRAWS)
    assert (np.abs(mean - fresh.mean(axis=0)) < error).all()
    # Relevance is skewed: its scale is estimated to a tenth or so.
    np.testing.assert_allclose(scale, fresh.std(axis=0), rtol=0.25)


def test_the_relevance_of_an_item_does_not_depend_on_the_slate() -> None:
    ranker = ranker_of(("bias", "history"), ())
    ours = Relevance(ranker)
    profiles = ours.profiles(HISTORY)
    mean, scale = ours.of(USER, profiles, ITEMS)
    alone = ours.of(USER, profiles, ITEMS[2:3])
    assert (alone[0][0], alone[1][0]) == pytest.approx((mean[2], scale[2]))


def test_an_empty_slate_has_no_relevance() -> None:
    ours = Relevance(ranker_of(("history",), ()))
    mean, scale = ours.of(NEW_USER, ours.profiles(NO_HISTORY), np.empty(0, np.int64))
    assert mean.shape == scale.shape == (0,)


@pytest.mark.parametrize("terms", [(), ("bias", "history")])
def test_compiled_loops_and_plain_functions_agree(
    terms: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    ranker = ranker_of(terms, ())
    ours = Relevance(ranker)
    given = USER, ours.profiles(HISTORY), ITEMS
    compiled = ours.of(*given)
    monkeypatch.setattr(type(ranker.relevance), "ranking", ranker.relevance.of_arrays)
    np.testing.assert_allclose(ours.of(*given), compiled, rtol=1e-5)
