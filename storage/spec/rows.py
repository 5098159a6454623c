"""Row kinds: the effect of a changelog row on its key."""

from __future__ import annotations

from enum import IntEnum

# The column with the kind of each row: '+I', '-U', '+U', '-D', or 0 to 3.
ROW_KIND_COLUMN = "_rowkind"


class RowKind(IntEnum):
    """The effect of a row; data files hold the numbers."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    @property
    def short(self) -> str:
        return ("+I", "-U", "+U", "-D")[self]

    @property
    def retracts(self) -> bool:
        """Whether the row retracts an earlier row of its key."""
        return self in (RowKind.UPDATE_BEFORE, RowKind.DELETE)
