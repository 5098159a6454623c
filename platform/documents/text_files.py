"""Text of files that people and tools write: declarations, contracts, SQL."""

from __future__ import annotations

import codecs
from pathlib import Path

from lakewright.storage.errors import InvalidRequestError

# The mark of UTF-32 begins with that of UTF-16, so it comes first.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def text_of(file: Path, *, errors: str = "strict") -> str:
    """The text of a file: UTF-8, or the encoding that its byte order mark names.

    Raises:
        InvalidRequestError: the file cannot be read.
        UnicodeDecodeError: it is not in that encoding, and `errors` is strict.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise InvalidRequestError(f"{file} cannot be read: {error.strerror}") from error
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "utf-8")
    return data.decode(encoding, errors)
