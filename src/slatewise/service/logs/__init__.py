"""Exposure logs from elsewhere, brought into a service's store."""

from slatewise.service.logs.load import LoadReport, load_dataset, load_log

__all__ = ["LoadReport", "load_dataset", "load_log"]
