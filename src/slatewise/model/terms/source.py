"""How readily slates of each source are left without a click: searches seldom, offers often."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final, Literal

import numpy as np
import torch
from pydantic import PositiveFloat

from slatewise.config import Config
from slatewise.data.dataset import SlateDataset
from slatewise.model.part import Parameter
from slatewise.model.terms.term import Ranks, Term

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig


class SourceSettings(Config):
    """Settings of the source term."""

    sigma_source: PositiveFloat = 1.5
    """Prior of what a source adds to log β_s, the utility of not clicking; small keeps sources
    close to what they have in common."""


class Source(Term):
    """One number for each source, added to what all slates of that length have in common."""

    name = "source"
    ranks: ClassVar[Ranks] = "never"
    acts_on: ClassVar[Literal["items", "no click"]] = "no click"
    by_source: ClassVar[bool] = True
    Settings = SourceSettings

    @classmethod
    def parameters(
        cls, config: "ModelConfig", longest_slate: int, sources: Sequence[str] = ()
    ) -> dict[str, Parameter]:
        """Return what each source adds to the utility of not clicking."""
        scale = config.of(cls).sigma_source
        return {"source": Parameter(torch.zeros(len(sources)), scale, rows=tuple(sources))}

    @classmethod
    def obstacle(cls, dataset: SlateDataset) -> str | None:
        """Return why a log cannot teach it: one source, or a click on every slate."""
        if len(dataset.source_names) < 2:
            return "the log has one source"
        return None if (np.asarray(dataset.clicks) < 0).any() else "every slate has a click"


PART: Final = Source
