"""The inner loops of training: item draws and slate terms with their gradients, and row updates."""

from slatewise.model.kernels.items import ItemDraw, draw_items
from slatewise.model.kernels.rows import RowAdam, unique_rows
from slatewise.model.kernels.slate import SlateTerms, slate_terms

__all__ = ["ItemDraw", "RowAdam", "SlateTerms", "draw_items", "slate_terms", "unique_rows"]
