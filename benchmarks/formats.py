"""`python -m benchmarks.formats`: rows a second of message formats, beside plain parsers.

The floor of each format is what parses the same bytes without making columns of declared types:
`json.loads` and `csv.reader` for each message, and Arrow's readers over all of them as one file.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from lakewright.connectors.formats.built_in import BUILT_IN_FORMATS
from lakewright.connectors.options import read_options
from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.spec.data_types import DataField, parse_data_type

_COLUMNS = {
    "id": "BIGINT",
    "name": "STRING",
    "price": "DOUBLE",
    "amount": "DECIMAL(12, 2)",
    "at": "TIMESTAMP(3)",
    "flag": "BOOLEAN",
}
_NAMES = ("json", "debezium-json", "canal-json", "csv", "changelog-csv", "avro")
_REPEATS = 3


def main() -> None:
    """Print a table of the formats and of the floors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    count = parser.parse_args().rows
    fields = [
        DataField(at, name, parse_data_type(kind))
        for at, (name, kind) in enumerate(_COLUMNS.items())
    ]
    rows = _rows(count, fields)
    print("| format | decode, rows/s | encode, rows/s |\n|---|---|---|")
    for name in _NAMES:
        decoder, encoder = _made(name, fields)
        messages = encoder.encode(rows)
        read = _rate(count, lambda d=decoder, m=messages: d.decode(m))
        written = _rate(count, lambda e=encoder: e.encode(rows))
        print(f"| {name} | {read:,.0f} | {written:,.0f} |")
        for floor, run in _floors(name, messages):
            print(f"| · {floor} | {_rate(count, run):,.0f} | |")
        sys.stdout.flush()


def _rows(count: int, fields: Sequence[DataField]) -> pa.RecordBatch:
    numbers = range(count)
    columns: list[Any] = [
        pa.array(numbers, pa.int64()),
        pa.array([f"name of {each}" for each in numbers]),
        pa.array([each / 7 for each in numbers]),
        pa.array([f"{each % 9999}.{each % 100:02}" for each in numbers]).cast(pa.decimal128(12, 2)),
        pa.array([1_600_000_000_000 + each * 977 for each in numbers], pa.timestamp("ms")),
        pa.array([each % 2 == 0 for each in numbers]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=to_arrow_schema(fields))


def _made(name: str, fields: Sequence[DataField]) -> tuple[Any, Any]:
    module, factory_name = BUILT_IN_FORMATS[name].split(":")
    factory = getattr(import_module(module), factory_name)()
    options = read_options(
        {}, required=factory.required_options, optional=factory.optional_options, owner=name
    )
    return (
        factory.decoding_format(options).decoder(fields),
        factory.encoding_format(options).encoder(fields),
    )


def _floors(name: str, messages: Sequence[bytes]) -> list[tuple[str, Callable[[], object]]]:
    lines = b"\n".join(messages)
    if name == "json":
        return [
            ("json.loads", lambda: [json.loads(each) for each in messages]),
            ("pyarrow.json", lambda: pyarrow.json.read_json(io.BytesIO(lines))),
        ]
    if name == "debezium-json":
        return [("json.loads", lambda: [json.loads(each) for each in messages])]
    if name == "csv":
        return [
            ("csv.reader", lambda: list(csv.reader(io.StringIO(lines.decode())))),
            ("pyarrow.csv", lambda: pyarrow.csv.read_csv(io.BytesIO(lines))),
        ]
    return []


def _rate(count: int, run: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(_REPEATS):
        begun = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - begun)
    return count / best


if __name__ == "__main__":
    main()
