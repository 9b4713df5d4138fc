"""Whether a model that ranks by the past serves from a store without any."""

from collections.abc import Iterable

from slatewise.model.terms import Term
from slatewise.service.serving.item_states import AnswerSource


class MissingPast:
    """Notes about a past that models ask for, as long as the store has no answer at all."""

    def __init__(self) -> None:
        self._empty: bool | None = None

    def look(self, store: AnswerSource) -> None:
        """See whether the store has an answer; once it has one, it is not asked again."""
        if self._empty is not False:
            self._empty = not store.answers_since(0, 1)

    def notes(self, terms: Iterable[Term]) -> list[str]:
        """Say which terms of a model have nothing to go by."""
        if not self._empty:
            return []
        empty = [term.without_past for term in terms]
        return [f"{what}: no log was loaded; run slatewise load DIR LOG" for what in empty if what]
