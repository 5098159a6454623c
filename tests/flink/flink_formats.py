"""Flink's own formats as a process that decodes and encodes messages, and values as it shows."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakewright.storage.spec.data_types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
)

_SOURCE = Path(__file__).parent / "FlinkFormats.java"
_NANOS = {"ms": 1_000_000, "us": 1_000, "ns": 1}
_COUNT = AtomicType(TypeRoot.INT)
Row = tuple[str, list[Any]]


class FlinkFormats:
    """One Java process; a request and its answer are a line of JSON each."""

    def __init__(self, folder: Path) -> None:
        jars = [str(each) for each in folder.rglob("*.jar") if "paimon" not in each.name]
        self._process = subprocess.Popen(
            ["java", "-Xmx500m", "-cp", os.pathsep.join(jars), str(_SOURCE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )

    def close(self) -> None:
        self._process.communicate(timeout=60)

    def decode(
        self,
        format_name: str,
        options: Mapping[str, str],
        fields: Sequence[DataField],
        messages: Sequence[bytes | None],
        metadata: Sequence[DataField] = (),
    ) -> list[list[Row] | str]:
        """The rows of each message, metadata behind the fields, or why Flink refuses it."""
        held = [each if each is None else base64.b64encode(each).decode() for each in messages]
        asked = {"metadata": _typed(metadata)} if metadata else {}
        answer = self._asked("decode", format_name, options, fields, messages=held, **asked)
        every = [*fields, *metadata]
        return [
            each["error"] if isinstance(each, dict) else [_row(row, every) for row in each]
            for each in answer
        ]

    def encode(
        self,
        format_name: str,
        options: Mapping[str, str],
        fields: Sequence[DataField],
        rows: Sequence[Row],
    ) -> list[bytes | None]:
        answer = self._asked("encode", format_name, options, fields, rows=rows)
        failed = [each for each in answer if isinstance(each, dict)]
        assert not failed, failed[0]
        return [each if each is None else base64.b64decode(each) for each in answer]

    def _asked(
        self,
        verb: str,
        format_name: str,
        options: Mapping[str, str],
        fields: Sequence[DataField],
        **given: object,
    ) -> list[Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {
            "do": verb,
            "format": format_name,
            "options": dict(options),
            "fields": _typed(fields),
            **given,
        }
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            pytest.fail("Flink's formats ended; run tests/flink/FlinkFormats.java by hand")
        answer = json.loads(line)
        assert "error" not in answer, answer["error"]
        results: list[Any] = answer["results"]
        return results


def _typed(fields: Sequence[DataField]) -> list[tuple[str, str]]:
    return [(each.name, str(each.type)) for each in fields]


def rows_of(batch: pa.RecordBatch, fields: Sequence[DataField]) -> list[Row]:
    """Rows of ours as the process shows them."""
    columns = [_shown(batch.column(each.name), each.type) for each in fields]
    kinds = ["+I"] * batch.num_rows
    if "_rowkind" in batch.schema.names:
        kinds = batch.column("_rowkind").to_pylist()
    return [(kind, list(row)) for kind, row in zip(kinds, zip(*columns, strict=True), strict=True)]


def _shown(array: pa.Array, data_type: DataType) -> list[Any]:
    match data_type:
        case AtomicType(root=root):
            return [each if each is None else _atom(each, root) for each in _raw(array, root)]
        case ArrayType(element=element):
            return [_shown_list(each, element) for each in array]
        case MapType(key=key, value=value):
            return [_pairs(each, key, value) for each in array]
        case MultisetType(element=element):
            return [_pairs(each, element, _COUNT) for each in array]
        case RowType(fields=fields):
            members = [
                _shown(part, each.type) for part, each in zip(array.flatten(), fields, strict=True)
            ]
            valid = array.is_valid().to_pylist()
            rows = zip(*members, strict=True)
            return [list(row) if there else None for row, there in zip(rows, valid, strict=True)]


def _shown_list(scalar: Any, element: DataType) -> list[Any] | None:
    return _shown(scalar.values, element) if scalar.is_valid else None


def _pairs(scalar: Any, key: DataType, value: DataType) -> list[Any] | None:
    if not scalar.is_valid:
        return None
    keys = _shown(scalar.values.field(0), key)
    values = _shown(scalar.values.field(1), value)
    return sorted([list(pair) for pair in zip(keys, values, strict=True)], key=lambda each: each[0])


def _raw(array: pa.Array, root: TypeRoot) -> list[Any]:
    if root in (TypeRoot.DATE, TypeRoot.TIME):
        return list(array.cast(pa.int32()).to_pylist())
    if root.is_timestamp:
        unit = _NANOS[array.type.unit]
        numbers = array.cast(pa.int64()).to_pylist()
        return [each if each is None else each * unit for each in numbers]
    return list(array.to_pylist())


def _atom(value: Any, root: TypeRoot) -> Any:
    if root.is_bytes:
        return base64.b64encode(value).decode()
    if root is TypeRoot.FLOAT:
        return repr(float(np.float32(value)))
    if root is TypeRoot.DOUBLE:
        return repr(float(value))
    if root.is_timestamp or root is TypeRoot.DECIMAL:
        return str(value)
    return value


def _row(row: Any, fields: Sequence[DataField]) -> Row:
    kind, values = row
    return kind, [_same(value, each.type) for value, each in zip(values, fields, strict=True)]


def _same(value: Any, data_type: DataType) -> Any:
    """A value that Java shows, with its floating numbers and decimals as Python shows them."""
    if value is None:
        return None
    match data_type:
        case AtomicType(root=TypeRoot.DECIMAL):
            return str(Decimal(value))
        case AtomicType(root=root):
            return _atom(value, root) if root.is_floating else value
        case ArrayType(element=element):
            return [_same(each, element) for each in value]
        case MapType(key=key, value=inner):
            return sorted([[_same(k, key), _same(v, inner)] for k, v in value], key=lambda e: e[0])
        case MultisetType(element=element):
            return sorted([[_same(k, element), v] for k, v in value], key=lambda e: e[0])
        case RowType(fields=fields):
            return [_same(each, field.type) for each, field in zip(value, fields, strict=True)]
