"""Ids in paths: any text, slashes and line ends too."""

from typing import Annotated

from fastapi import Path
from starlette.convertors import StringConvertor, register_url_convertor

from slatewise.service.http.schemas import ID_LENGTH, NO_NUL


class _AnyText(StringConvertor):
    regex = "(?s:.+)"


register_url_convertor("id", _AnyText())

PathId = Annotated[str, Path(max_length=ID_LENGTH, pattern=NO_NUL, examples=["9"])]
"""An id that stands in a path as `{name:id}`, encoded as URLs have it."""
