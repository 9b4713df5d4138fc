"""Public exposure logs, converted from their published files to our log format."""

from slatewise.data.public.download import download_finn
from slatewise.data.public.importers import IMPORTERS, PublicDataset, import_public
from slatewise.data.public.tally import PublicLog, Tally

__all__ = ["IMPORTERS", "PublicDataset", "PublicLog", "Tally", "download_finn", "import_public"]
