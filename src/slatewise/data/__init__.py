"""Logs people bring, the dataset that training reads, and the way from one to the other."""

from slatewise.data.dataset import SlateDataset

__all__ = ["SlateDataset"]
