"""Where the live service keeps what happened: SQLite by itself, PostgreSQL by a URL."""

from slatewise.errors import SlatewiseError, install_remedy

try:
    import sqlalchemy as _  # noqa: F401
except ImportError as error:
    raise SlatewiseError(
        "The live service needs libraries that are not installed.",
        install_remedy("serve"),
    ) from error

from slatewise.service.store.engine import StoreError
from slatewise.service.store.store import Store

__all__ = ["Store", "StoreError"]
