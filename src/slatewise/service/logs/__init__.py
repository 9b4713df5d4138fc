"""Exposure logs from elsewhere, brought into a service's store."""

from slatewise.service.logs.load import LoadReport, dataset_of_run, load_dataset, load_log

__all__ = ["LoadReport", "dataset_of_run", "load_dataset", "load_log"]
