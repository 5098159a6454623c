"""What becomes of columns of a table that rows from outside lack: the one rule for every way in."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum

from lakewright.storage.spec.data_types import DataField


class MissingColumns(Enum):
    """What a run does with declared columns that its source lacks."""

    FILL = "fill"
    REFUSE = "refuse"


def may_be_left_out(field: DataField, partition_keys: Collection[str]) -> bool:
    """Whether rows need not give a column: it has a default, or becomes null.

    A partition column has to be given, unless it has a default: its value says where the row is.
    """
    if field.default_value is not None:
        return True
    return field.type.nullable and field.name not in partition_keys


def wrongly_missing(
    fields: Sequence[DataField], given: Collection[str], partition_keys: Collection[str]
) -> list[str]:
    """The columns that rows lack and have to give, with the reasons.

    Rows that give no column beside partition columns are other rows, so all others are missing.
    """
    missing = [field for field in fields if field.name not in given]
    others = {field.name for field in fields} - set(partition_keys)
    if others and not others & set(given):
        return [each.name for each in missing]
    return [
        f"{each.name} ({_reason(each, partition_keys)})"
        for each in missing
        if not may_be_left_out(each, partition_keys)
    ]


def _reason(field: DataField, partition_keys: Collection[str]) -> str:
    if field.name in partition_keys:
        return "a partition column"
    return "NOT NULL without a default"
