"""Whether a model that ranks by the past serves from a store without any."""

from collections.abc import Iterable
from typing import Final

from slatewise.service.serving.popularity import AnswerSource

_EMPTY: Final = {"popularity": "popularity is empty", "history": "histories are empty"}
"""Terms that need what users did, and what to say if nothing is known of it."""


class MissingPast:
    """Notes about a past that models ask for, as long as the store has no answer at all."""

    def __init__(self) -> None:
        self._empty: bool | None = None

    def look(self, store: AnswerSource) -> None:
        """See whether the store has an answer; once it has one, it is not asked again."""
        if self._empty is not False:
            self._empty = not store.answers_since(0, 1)

    def notes(self, terms: Iterable[str]) -> list[str]:
        """Say which terms of a model have nothing to go by."""
        if not self._empty:
            return []
        remedy = "no log was loaded; run slatewise load DIR LOG"
        return [f"{_EMPTY[term]}: {remedy}" for term in terms if term in _EMPTY]
