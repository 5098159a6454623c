"""The cast mode of a table: which casts it allows, and what becomes of values that do not fit.

To other clients the option is a property without effect.
"""

from __future__ import annotations

from enum import Enum

from lakewright.storage.errors import InvalidOption
from lakewright.storage.spec.merge_spec import MergeEngine
from lakewright.storage.spec.options import trimmed
from lakewright.storage.spec.schema import TableSchema

CAST_MODE = "lakewright.cast-mode"
# A null of theirs gives way to an older value, or is left out of a sum.
_COMBINING = frozenset({MergeEngine.PARTIAL_UPDATE.value, MergeEngine.AGGREGATION.value})


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
        InvalidOption: the option names no mode, or one that does not go with the merge engine.
    """
    options = trimmed(schema.options)
    name = options.get(CAST_MODE, CastMode.IMPLICIT.value)
    try:
        mode = CastMode(name)
    except ValueError:
        known = ", ".join(each.value for each in modes_of(schema))
        raise InvalidOption(
            f"{table}: {CAST_MODE}={name} is not one of {known}; set one of them, or reset the "
            "option",
            option=CAST_MODE,
        ) from None
    if mode not in modes_of(schema):
        raise InvalidOption(
            f"{table}: {CAST_MODE}={name} does not go with merge-engine={options['merge-engine']}, "
            "which combines the rows of a key: where a value is null because it does not fit, an "
            "older value would show as if it were the present one, and a sum would leave it out; "
            f"set {CAST_MODE} to {CastMode.EXPLICIT_FAIL.value} or {CastMode.EXPLICIT.value}",
            option=CAST_MODE,
        )
    return mode


def modes_of(schema: TableSchema) -> tuple[CastMode, ...]:
    """The modes that a table may have; none reads null where the rows of a key are combined."""
    nulls_mislead = combines_rows(schema)
    return tuple(
        each for each in CastMode if not (nulls_mislead and each is CastMode.EXPLICIT_NULL)
    )


def combines_rows(schema: TableSchema) -> bool:
    """Whether the merge engine makes a key's row of the values of several rows."""
    engine = trimmed(schema.options).get("merge-engine", "").lower()
    return schema.has_primary_key and engine in _COMBINING
