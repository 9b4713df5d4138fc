"""Retention: how long slates stay in the store, and where they go."""

from pydantic import PositiveFloat

from slatewise.config import Config


class RetentionConfig(Config):
    """When slates leave the store."""

    days: PositiveFloat | None = None
    """Age at which slates leave; without it, all stay."""
    archive: str | None = None
    """Folder for Parquet files by day, in the service's directory unless it is absolute; without
    it, what leaves is deleted."""
    rewrite: bool = False
    """Whether nights write a large file of SQLite anew after people were erased, so that no byte of
    them is left; events wait for as long as that takes."""
