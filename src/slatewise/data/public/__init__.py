"""Published exposure logs, read as they were published and written in the log format of ours."""

from slatewise.data.public.download import download_finn
from slatewise.data.public.importers import IMPORTERS, PublicDataset, import_public
from slatewise.data.public.tally import PublicLog, Tally

__all__ = ["IMPORTERS", "PublicDataset", "PublicLog", "Tally", "download_finn", "import_public"]
