"""Exposure logs, the dataset that training reads, and the preparation of one from the other."""

from slatewise.data.dataset import SlateDataset

__all__ = ["SlateDataset"]
