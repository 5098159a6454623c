"""The cast mode of a table: which casts it allows, and what becomes of values that do not fit.

To other clients the option is a property without effect.
"""

from __future__ import annotations

from enum import Enum

from lakewright.storage.errors import InvalidOption
from lakewright.storage.spec.option_values import trimmed
from lakewright.storage.spec.schema import TableSchema

CAST_MODE = "lakewright.cast-mode"


class CastMode(Enum):
    """Which casts a table allows, and what becomes of values that do not fit."""

    # Implicit casts only; values are read as Java reads them.
    IMPLICIT = "implicit"
    # Explicit casts too; values are read as Java reads them: numbers wrap around, texts are cut.
    EXPLICIT = "explicit"
    # Explicit casts too; a read of a value that does not fit fails.
    EXPLICIT_FAIL = "explicit-fail"
    # Explicit casts too; a value that does not fit is null, and readers count such values.
    EXPLICIT_NULL = "explicit-null"

    @property
    def allows_explicit(self) -> bool:
        return self is not CastMode.IMPLICIT

    @property
    def checks_values(self) -> bool:
        """Whether values that do not fit are told from those that do."""
        return self in (CastMode.EXPLICIT_FAIL, CastMode.EXPLICIT_NULL)

    @property
    def fate(self) -> str:
        """How values that do not fit are read: two modes read them as Java does."""
        return self.value if self.checks_values else "as Java"


def cast_mode(schema: TableSchema, *, table: str) -> CastMode:
    """The mode that a schema sets.

    Raises:
        InvalidOption: the option names no mode.
    """
    name = trimmed(schema.options).get(CAST_MODE, CastMode.IMPLICIT.value)
    try:
        return CastMode(name)
    except ValueError:
        known = ", ".join(each.value for each in CastMode)
        raise InvalidOption(
            f"{table}: {CAST_MODE}={name} is not one of {known}; set one of them, or reset the "
            "option",
            table=table,
            option=CAST_MODE,
        ) from None
