"""What is believed of items before any click (Section priors of the paper), a module each."""

from slatewise.model.priors.base import (
    BASE,
    START_SCALE,
    START_SPREAD,
    ItemPrior,
    Source,
    by_column,
    grouped_kl,
)

__all__ = ["BASE", "START_SCALE", "START_SPREAD", "ItemPrior", "Source", "by_column", "grouped_kl"]
