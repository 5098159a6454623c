"""Row kinds: what a row of a changelog does to its key."""

from __future__ import annotations

from enum import IntEnum


class RowKind(IntEnum):
    """The numbers are embedded in data files."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    @property
    def short(self) -> str:
        return ("+I", "-U", "+U", "-D")[self]

    @property
    def retracts(self) -> bool:
        """Whether the row takes its key away."""
        return self in (RowKind.UPDATE_BEFORE, RowKind.DELETE)
