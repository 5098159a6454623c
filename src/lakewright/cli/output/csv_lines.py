"""Lines of CSV: null is empty, empty text is in quotes, nested values are JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable

_JSON = json.JSONEncoder(ensure_ascii=False)


def csv_line(values: Iterable[object]) -> str:
    """One line, without its end."""
    return ",".join(map(_cell, values))


def plain_text(value: object) -> str:
    """A value as text: nested ones as JSON."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case float():
            return repr(value)
        case list() | tuple() | dict():
            return _JSON.encode(value)
        case _:
            return str(value)


def _cell(value: object) -> str:
    if value is None:
        return ""
    text = plain_text(value)
    if text and not any(char in text for char in ',"\r\n'):
        return text
    return '"' + text.replace('"', '""') + '"'
