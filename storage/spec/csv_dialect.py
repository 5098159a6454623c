"""The dialect of a CSV: what declared keys and the options of tables say of its characters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvDialect:
    """How rows are written; an empty text is no character.

    An `escape` counts before a quote or itself in a quoted field, or with `escapes_all` before any
    character anywhere, where `escaped` has what some characters mean behind it. A field without
    quotes whose text is one of `nulls` is null, and with `quoted_nulls` any field. With `comments`
    a line that begins with # is no row. With `fills` missing values at the end of a row are null,
    and a delimiter may end a row.
    """

    delimiter: str = ","
    quote: str = '"'
    escape: str = ""
    escapes_all: bool = False
    escaped: Mapping[str, str] = field(default_factory=dict)
    header: bool = True
    nulls: tuple[str, ...] = ("",)
    quoted_nulls: bool = False
    comments: bool = False
    fills: bool = False
    ends_with_delimiter: bool = False
