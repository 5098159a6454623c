"""Which statistics of a Parquet file may be used: those that its writer is known to get right.

The format has two pairs of bounds. `min` and `max` are of signed comparison, byte by byte for
bytes, and must not be used for texts and decimals in bytes. `min_value` and `max_value` count
where the footer names the order of the column (`column_orders`). The library gives either pair,
and does not tell which.

Writers got more wrong: parquet-mr bounds of bytes before 1.8 (PARQUET-251), of decimals before 1.10
(PARQUET-686, PARQUET-1025), and counts of nulls; parquet-cpp decimals before 4 (PARQUET-1655), and
counts of nulls before 6. Others have had decimals compared without their sign, and nulls counted
once for each page. Bounds of signed integers are right in all of them.
"""

from __future__ import annotations

import re
from typing import Any

# The first versions of writers whose statistics are right.
_RIGHT_SINCE = {"parquet-mr": (1, 10), "parquet-cpp-arrow": (6, 0)}
_CREATED_BY = re.compile(r"(\S+) version (\d+)\.(\d+)")
_INTEGERS = ("BOOLEAN", "INT32", "INT64")
# The length of the footer and the mark are behind it.
_AFTER_FOOTER_BYTES = 8
# In the compact protocol: the field after `created_by`, a list; a list of structures, of which from
# so many on their number follows.
_NEXT_IS_LIST, _LIST_OF_STRUCTS, _LONG_LIST = b"\x19", 0x0C, 15
# The one order that is defined, and the end of the footer.
_TYPE_ORDER, _END = b"\x1c\x00\x00", b"\x00"


def is_right_writer(created_by: str) -> bool:
    """Whether all statistics of a writer are right, as far as the orders of columns are named."""
    found = _CREATED_BY.match(created_by or "")
    since = None if found is None else _RIGHT_SINCE.get(found[1])
    return found is not None and since is not None and (int(found[2]), int(found[3])) >= since


def is_signed_integer(column: Any) -> bool:
    """Whether a column of a Parquet schema is of integers that all writers compare alike."""
    others = column.converted_type.startswith("UINT") or column.logical_type.type == "DECIMAL"
    return column.physical_type in _INTEGERS and not others


def names_orders(source: Any, file_size: int, columns: int) -> bool:
    """Whether the footer ends with an order for each column, as it does without encryption."""
    head = _NEXT_IS_LIST + bytes([min(columns, _LONG_LIST) << 4 | _LIST_OF_STRUCTS])
    if columns >= _LONG_LIST:
        head += _varint(columns)
    due = head + _TYPE_ORDER * columns + _END
    source.seek(max(0, file_size - _AFTER_FOOTER_BYTES - len(due)))
    return bool(source.read(len(due)) == due)


def _varint(number: int) -> bytes:
    found = b""
    while number > 0x7F:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])
