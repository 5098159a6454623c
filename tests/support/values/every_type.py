"""One column and a few values of every type: what tests with other engines write."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

_MOMENT = dt.datetime(2024, 1, 2, 3, 4, 5, 678901)
_EARLY = dt.datetime(1969, 12, 31, 23, 59, 59, 999999)

# Type → values; null comes on top.
ATOMS: dict[str, list[Any]] = {
    "BOOLEAN": [True, False],
    "TINYINT": [-128, 127],
    "SMALLINT": [-32768, 32767],
    "INT": [-(2**31), 2**31 - 1],
    "BIGINT": [-(2**63), 2**63 - 1],
    "FLOAT": [0.1, -0.0, float("nan"), float("-inf")],
    "DOUBLE": [0.1, 1e300, -0.0, float("nan"), float("inf")],
    "CHAR(3)": ["abc", "ä中z"],
    "VARCHAR(5)": ["", "abcde"],
    "STRING": ["", "x" * 40, "ä中\U0001f600\n\t'\"\\"],
    "BINARY(2)": [b"ab", b"\x00\xff"],
    "BYTES": [b"", bytes(range(256))],
    "DECIMAL(5, 2)": [Decimal("1.20"), Decimal("-999.99")],
    "DECIMAL(15, 3)": [Decimal("123456789012.345"), Decimal("-0.001")],
    "DECIMAL(38, 10)": [Decimal("-9999999999999999999999999999.9999999999"), Decimal("0E-10")],
    "DATE": [dt.date(2024, 1, 2), dt.date(1, 1, 1), dt.date(9999, 12, 31)],
    "TIME(3)": [dt.time(0, 0), dt.time(23, 59, 59, 999000)],
    "TIMESTAMP(3)": [_MOMENT.replace(microsecond=678000), _EARLY.replace(microsecond=999000)],
    "TIMESTAMP(6)": [_MOMENT, _EARLY, dt.datetime(9999, 12, 31, 23, 59, 59, 999999)],
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": [
        _MOMENT.replace(tzinfo=dt.UTC),
        _EARLY.replace(tzinfo=dt.UTC),
    ],
}
NESTED: dict[str, list[Any]] = {
    "ARRAY<INT>": [[], [1, None, 3]],
    "ARRAY<STRING NOT NULL>": [["", "a"]],
    "MAP<STRING, INT>": [[], [("k", 1), ("l", None)]],
    "MAP<INT, ARRAY<DATE>>": [[(1, [dt.date(2024, 1, 2), None]), (2, None)]],
    "ROW<a INT, `b c` STRING>": [{"a": 1, "b c": "x"}, {"a": None, "b c": "y"}],
    "ARRAY<ROW<x BIGINT, y DECIMAL(20, 2)>>": [[{"x": 1, "y": Decimal("1.25")}, None]],
    "ROW<m MAP<STRING, DOUBLE>, t TIMESTAMP(6)>": [{"m": [("k", 0.5)], "t": _MOMENT}],
}
# Partition values: each becomes a folder that others must find.
PARTITIONS: dict[str, list[Any]] = {
    "BOOLEAN": [True, False],
    "TINYINT": [-1, 5],
    "SMALLINT": [-300, 5],
    "INT": [-(2**31), 7],
    "BIGINT": [-(2**63), 7],
    "DATE": [dt.date(2024, 1, 2), dt.date(1, 1, 1), dt.date(1969, 12, 31)],
    "STRING": [
        "a/b:c=d e%",
        "",
        "   ",
        "ä中\U0001f600",
        "__DEFAULT_PARTITION__",
        "a\tb\n\x7f",
        "p=1",
        "..",
        ".",
        "%41",
        "\"#'*?\\{}[]^&|<>+~",
    ],
    "CHAR(3)": ["a", "abc"],
    "VARCHAR(5)": ["x y"],
    "DECIMAL(5, 2)": [Decimal("1.20"), Decimal("-0.05"), Decimal("0.00")],
    "DECIMAL(30, 12)": [Decimal("0.000000000001"), Decimal("123456789012345678.000000000000")],
    "TIMESTAMP(3)": [
        dt.datetime(2024, 1, 2, 3, 4),
        dt.datetime(2024, 1, 2, 3, 4, 5, 120000),
        dt.datetime(1, 1, 1),
    ],
    "TIMESTAMP(6)": [_MOMENT, _EARLY, dt.datetime(2024, 1, 1)],
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": [_MOMENT.replace(tzinfo=dt.UTC)],
    "TIME(0)": [dt.time(3, 4, 5)],
}
FLOATING_PARTITIONS: dict[str, list[float]] = {
    "FLOAT": [1.5, 0.1, 1e20, -0.0, 1e-5, 16777216.0],
    "DOUBLE": [1.5, 0.1, 1e20, 1e-5, 1e7, 123456.789, 1.7976931348623157e308],
}


def table_of(types: dict[str, list[Any]]) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Columns `c0`, `c1`, … of the types, and rows `k` = 0, 1, … that hold every value once."""
    columns = {f"c{index}": name for index, name in enumerate(types)}
    longest = max(len(values) for values in types.values())
    rows: list[dict[str, Any]] = [
        {
            "k": number,
            **{
                f"c{index}": values[number] if number < len(values) else None
                for index, values in enumerate(types.values())
            },
        }
        for number in range(longest + 1)
    ]
    return {"k": "BIGINT", **columns}, rows
