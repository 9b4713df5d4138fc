"""The inner loops of training: draws, terms of slates and catalogue with gradients, row updates."""

from slatewise.model.kernels.catalogue import catalogue_terms
from slatewise.model.kernels.items import ItemDraw, draw_items
from slatewise.model.kernels.rows import RowAdam, unique_rows
from slatewise.model.kernels.slate import SlateTerms, slate_terms

__all__ = [
    "ItemDraw",
    "RowAdam",
    "SlateTerms",
    "catalogue_terms",
    "draw_items",
    "slate_terms",
    "unique_rows",
]
