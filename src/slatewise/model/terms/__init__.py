"""Terms of the utility that are linear in features from the strict past, a module each."""

from slatewise.model.terms.features import Describer
from slatewise.model.terms.fitted import FittedTerms, feature_terms, with_automatic_terms
from slatewise.model.terms.term import FeatureTerm, Term

__all__ = [
    "Describer",
    "FeatureTerm",
    "FittedTerms",
    "Term",
    "feature_terms",
    "with_automatic_terms",
]

BASE = Term
OUTSIDE = FeatureTerm
"""Terms without features have a place of their own in `model.utility`; others would be ignored."""
