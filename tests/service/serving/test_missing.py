"""A model that ranks by the past, in a store that has none, says so until it has some."""

from pathlib import Path

import pytest

from slatewise.service.serving import Request
from tests.service.serving.world import COLD, a_model, a_service, visit

POPULARITY = "popularity is empty: no log was loaded; run slatewise load DIR LOG"


@pytest.mark.parametrize(
    ("terms", "notes"),
    [
        (("bias",), [COLD]),  # which move users, whatever the terms
        (("bias", "history"), [COLD]),
        (("popularity",), [COLD, POPULARITY]),
        (("history", "popularity"), [COLD, POPULARITY]),
    ],
)
def test_what_is_missing_is_said_with_every_slate_until_something_is_known(
    tmp_path: Path, terms: tuple[str, ...], notes: list[str]
) -> None:
    service = a_service(tmp_path, a_model(terms))
    assert sorted(service.ready()) == notes
    for user in ("u1", None):
        assert sorted(service.recommend(Request(user))[2]) == notes
    visit(service, "u1", ["a01", "a02"], ["a02"])
    service.refresh()
    assert service.ready() == service.recommend(Request("u1"))[2] == []


def test_a_model_with_evidence_and_without_terms_misses_histories(tmp_path: Path) -> None:
    service = a_service(tmp_path, a_model(evidence=("search",)))
    assert service.ready() == service.recommend(Request("u1"))[2] == [COLD]


def test_a_shop_without_a_model_misses_nothing(tmp_path: Path) -> None:
    assert a_service(tmp_path).ready() == []
