"""Terms of the utility that are linear in features from the strict past, a module each."""

from slatewise.model.terms.describing import Describer
from slatewise.model.terms.fitted import FittedTerms
from slatewise.model.terms.registry import terms_of
from slatewise.model.terms.term import FeatureTerm, Term

__all__ = ["Describer", "FeatureTerm", "FittedTerms", "Term", "terms_of"]

BASE = Term
