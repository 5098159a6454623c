"""The partition keys of a stream: fixed values, and those that follow from times, over Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spec.partition_clock import (
    ClockPart,
    EventTime,
    PartitionClock,
    ProcessingTime,
    partition_clock,
    parts_of,
)
from lakewright.storage.spec.partition_expiry import PartitionExpiry

_UNITS = {
    "year": pc.year,
    "month": pc.month,
    "day": pc.day,
    "hour": pc.hour,
    "minute": pc.minute,
    "second": pc.second,
}


def divided_keys(
    files: TableFiles, partition: Mapping[str, object]
) -> tuple[dict[str, object], PartitionClock | None]:
    """The partition keys with one value for a whole stream, and the clock of the others.

    Raises:
        InvalidRequestError: a key is unknown, or a time does not fit it.
    """
    times = {
        key: value
        for key, value in partition.items()
        if isinstance(value, (EventTime, ProcessingTime))
    }
    fixed = {key: value for key, value in partition.items() if key not in times}
    files.partitions.stored(fixed | dict.fromkeys(times))
    if not times:
        return fixed, None
    fields = {field.name: field for field in files.schema.partition_fields}
    formatter = PartitionExpiry(files.schema, files.name).times.formatter
    return fixed, partition_clock(fields, times, table=files.name, formatter=formatter)


def with_partition_times(
    rows: pa.Table, clock: PartitionClock, *, table: str
) -> tuple[pa.Table, int | None]:
    """Rows with the partition columns of their times, and the latest instant in milliseconds.

    A row without a time gets null.

    Raises:
        InvalidRequestError: the column of the clock is not there, or is no time.
    """
    assert clock.column is not None
    kind = rows.schema.field(clock.column).type if clock.column in rows.column_names else None
    if kind is None or not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        what = "is not there" if kind is None else f"is {kind}"
        raise InvalidRequestError(
            f"partitions of {table} follow from the time in column {clock.column}, which {what}; "
            "name a column of timestamps or dates"
        )
    times = rows.column(clock.column)
    is_instant = pa.types.is_timestamp(kind) and kind.tz is not None
    micros = times.cast(pa.timestamp("us", tz=clock.zone if is_instant else None), safe=False)
    moments = pc.local_timestamp(micros) if is_instant else micros
    for field, layout in zip(clock.fields, clock.layouts, strict=True):
        (wanted,) = to_arrow_schema([field]).types
        values = (
            moments.cast(pa.date32(), safe=False)
            if layout is None
            else _written(moments, [*parts_of(layout)]).cast(wanted)
        )
        rows = rows.append_column(field.name, values)
    latest = pc.max(micros.cast(pa.int64())).as_py()
    if latest is not None:
        latest = latest // 1000 if is_instant else clock.instant(latest // 1000)
    return rows, latest


def _written(moments: pa.ChunkedArray, parts: list[ClockPart]) -> pa.ChunkedArray:
    """Times as a layout writes them."""

    def pieces() -> Iterator[pa.ChunkedArray | pa.Scalar]:
        for part in parts:
            if not part.digits:
                yield pa.scalar(part.text)
                continue
            number = _UNITS[part.text](moments).cast(pa.string())
            yield pc.utf8_lpad(number, width=part.digits, padding="0")

    return pc.binary_join_element_wise(*pieces(), pa.scalar(""))
