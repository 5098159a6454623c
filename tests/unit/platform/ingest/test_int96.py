"""Timestamps of Parquet as INT96, which Spark, Impala and others write, in each declared type."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewright.platform.ingest.source_files import source_files
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.storage.errors import InvalidRows
from lakewright.storage.file_reader.reader import divided, read_in_turn

FAR = dt.datetime(9999, 12, 31)
NEAR = dt.datetime(2024, 1, 31, 13, 45, 0, 123_456)
OLD = dt.datetime(1, 1, 1)


def read(folder: Path, kind: str, moments: pa.Array, *, partition: bool = False) -> list[Any]:
    rows = pa.table({"y": range(len(moments)), "x": range(len(moments)), "v": moments})
    pq.write_table(
        rows, folder / "a.parquet", use_deprecated_int96_timestamps=True, row_group_size=2
    )
    declaration = TableDeclaration.model_validate(
        {
            "table": "s.t",
            "columns": [{"name": "v", "type": kind}, {"name": "x", "type": "BIGINT"}],
            "partition_keys": ["v"] if partition else [],
            "source": {"parquet": str(folder), "extra_columns": "ignore"},
        }
    )
    files = divided(source_files(declaration, None))
    return pa.concat_tables(read_in_turn(files, None)).column("v").to_pylist()


def test_moments_far_from_1970_stay_what_they_are(tmp_path: Path) -> None:
    moments = pa.array([FAR, None, NEAR, OLD], pa.timestamp("us"))
    assert read(tmp_path, "TIMESTAMP(6)", moments) == [FAR, None, NEAR, OLD]
    assert read(tmp_path, "TIMESTAMP_LTZ(6)", moments) == [
        each and each.replace(tzinfo=dt.UTC) for each in (FAR, None, NEAR, OLD)
    ]
    for kind in ("TIMESTAMP(9)", "TIMESTAMP_LTZ(9)"):
        with pytest.raises(InvalidRows, match=r"column v is TIMESTAMP.*\(9\).* out of bounds"):
            read(tmp_path, kind, moments)


def test_all_digits_are_kept_or_refused(tmp_path: Path) -> None:
    nanos = pa.array([1_706_708_700_123_456_789, None, -1], pa.timestamp("ns"))
    found = read(tmp_path, "TIMESTAMP(9)", nanos)
    assert [each and each.value for each in found] == [1_706_708_700_123_456_789, None, -1]
    with pytest.raises(InvalidRows, match=r"column v is TIMESTAMP.* would lose data"):
        read(tmp_path, "TIMESTAMP(6)", nanos)
    with pytest.raises(InvalidRows, match=r"column v is TIMESTAMP.* would lose data"):
        read(tmp_path, "TIMESTAMP(3)", pa.array([NEAR], pa.timestamp("us")))


def test_other_columns_and_empty_files_are_read_as_before(tmp_path: Path) -> None:
    assert read(tmp_path, "TIMESTAMP_LTZ(6)", pa.array([], pa.timestamp("us"))) == []
    days = read(tmp_path, "DATE", pa.array([NEAR], pa.timestamp("us")), partition=True)
    assert days == [NEAR.date()]
    with pytest.raises(InvalidRows, match="column v is STRING, and the rows hold timestamp"):
        read(tmp_path, "STRING", pa.array([NEAR], pa.timestamp("us")))
