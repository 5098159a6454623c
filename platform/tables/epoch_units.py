"""Units of numbers that stand for moments: a column's `from` names one, and none is guessed."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema

from lakewright.platform.documents.declared_values import Text
from lakewright.storage.spec.data_types import AtomicType, DataType, TypeRoot
from lakewright.storage.spec.epoch_units import EpochUnit

UNITS = tuple(each.value for each in EpochUnit)


def _as_origin(value: object) -> object:
    """A unit by itself, which is one word, as a list."""
    if isinstance(value, str):
        if value not in UNITS:
            raise ValueError(
                f"{value!r} is neither a unit of numbers ({', '.join(UNITS)}) nor a list of "
                "columns such as [shop.orders.amount]"
            )
        return (value,)
    return value


Origin = Annotated[
    tuple[Text, ...],
    BeforeValidator(_as_origin),
    WithJsonSchema(
        {"anyOf": [{"enum": list(UNITS)}, {"type": "array", "items": {"type": "string"}}]}
    ),
]


def wrong_unit(unit: EpochUnit, data_type: DataType) -> str | None:
    """Why a column of a type cannot be read from numbers of a unit; None if it can."""
    root = data_type.root if isinstance(data_type, AtomicType) else None
    if root is TypeRoot.DATE:
        if unit is EpochUnit.DAYS:
            return None
        return f"a DATE is read from epoch_days, and {unit.value} says a time of day, too"
    if root is not None and root.is_timestamp:
        if unit is not EpochUnit.DAYS:
            return None
        return f"a {data_type} is read from epoch_s, epoch_ms, epoch_us or epoch_ns"
    return f"{unit.value} is for columns of type DATE and TIMESTAMP, and this one is {data_type}"
