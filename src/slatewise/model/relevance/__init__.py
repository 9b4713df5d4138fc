"""How a profile z and an item vector v make a utility, a module each."""

from slatewise.model.relevance.base import BASE, Array, Relevance

__all__ = ["BASE", "Array", "Relevance"]
