"""The inner loops of training: slate terms with their gradients, and updates of touched rows."""

from slatewise.model.kernels.rows import RowAdam, unique_rows
from slatewise.model.kernels.slate import SlateTerms, slate_terms

__all__ = ["RowAdam", "SlateTerms", "slate_terms", "unique_rows"]
