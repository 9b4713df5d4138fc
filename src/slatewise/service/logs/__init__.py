"""Exposure logs from elsewhere, brought into a service's store, and out of it again."""

from slatewise.service.logs.export import ExportReport, export_log
from slatewise.service.logs.load import LoadReport, load_dataset, load_log

__all__ = [
    "ExportReport",
    "LoadReport",
    "export_log",
    "load_dataset",
    "load_log",
]
