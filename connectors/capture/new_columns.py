"""Columns that come to a table while it is captured: what to tell of them, each once."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from lakewright.connectors.rests import COLUMNS, UNDECLARED, Facts

_LOG = logging.getLogger(__name__)
_AGAIN = "read the table again: give the stream a new checkpoint, and empty the table that it fills"


def tell_new_columns(
    before: Facts,
    now: Facts,
    told: set[str],
    defaults: Mapping[str, str],
    *,
    owner: str,
    place: str,
) -> None:
    """Warn of columns that came since a position, declared or not, and were not `told`.

    `defaults` are those of columns, as the server writes them: rows that were there have them, and
    no change tells so.
    """
    if COLUMNS not in before:
        return
    known = {*before[COLUMNS], *before[UNDECLARED], *told}
    if added := [name for name in now[UNDECLARED] if name not in known]:
        filled = [f"{name} DEFAULT {defaults[name]}" for name in added if defaults.get(name)]
        _LOG.warning(
            "%s: %s has new columns that are not declared and not read: %s%s",
            owner,
            place,
            ", ".join(added),
            f"; rows that were read have values there ({', '.join(filled)}) which no change tells, "
            f"so to declare them, {_AGAIN}"
            if filled
            else "",
        )
        told.update(added)
    known = {*before[COLUMNS], *told}
    if added := [name for name in now[COLUMNS] if name not in known]:
        _LOG.warning(
            "%s: rows of %s that were read without the columns %s have null there until they "
            "change, regardless of the source (such as a DEFAULT there); to have their values, %s",
            owner,
            place,
            ", ".join(added),
            _AGAIN,
        )
        told.update(added)
