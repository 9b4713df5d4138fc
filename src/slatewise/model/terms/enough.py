"""When users have had enough of a slate that may be clicked several times.

After a click, the next choice is among the items left and "enough", which has a utility of its own:
to leave a slate after a click is another matter than to leave it without one.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final, Literal

import torch

from slatewise.data.dataset import SlateDataset
from slatewise.model.part import Parameter
from slatewise.model.terms.term import Ranks, Term

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig

_COUNTS: Final = 3
"""Numbers learned: after one click, after two, and after three or more."""


class Enough(Term):
    """One number for each count of clicks made, beside log(items left): [3].

    The logarithm makes enough as likely in long slates as in short ones, of equally good items.
    """

    name = "enough"
    ranks: ClassVar[Ranks] = "never"
    acts_on: ClassVar[Literal["items", "no click"]] = "no click"
    automatic: ClassVar[bool] = True

    @classmethod
    def parameters(
        cls, config: "ModelConfig", longest_slate: int, sources: Sequence[str] = ()
    ) -> dict[str, Parameter]:
        """Return the utility of enough after one, two, … clicks; its prior is that of no click."""
        rows = range(1, _COUNTS + 1)
        return {"enough": Parameter(torch.zeros(_COUNTS), config.sigma_no_click, rows=rows)}

    @classmethod
    def obstacle(cls, dataset: SlateDataset) -> str | None:
        """Return why a log cannot teach it: nothing is clicked behind a click."""
        return "no slate has several clicks" if dataset.further_clicks is None else None


PART: Final = Enough
