"""Row groups are passed over by bounds that their writer is known to get right alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewright.storage.files.data_files import WantedPieces, read_pieces
from lakewright.storage.files.file_systems import open_file_system
from lakewright.storage.files.parquet_trust import is_right_writer
from tests.support.tables.footers import sign_as


@pytest.mark.parametrize(
    ("created_by", "is_right"),
    [
        ("parquet-mr version 1.12.0 (build x)", True),
        ("parquet-mr version 1.10.1-cdh6", True),
        ("parquet-mr version 1.9.0 (build x)", False),
        ("parquet-mr (build x)", False),
        ("parquet-cpp-arrow version 6.0.0", True),
        ("parquet-cpp-arrow version 5.0.0", False),
        ("parquet-cpp version 1.5.1-SNAPSHOT", False),
        ("someone version 9.0.0", False),
        ("", False),
        (None, False),
    ],
)
def test_writers_are_known_by_their_names_and_versions(created_by: Any, is_right: bool) -> None:
    assert is_right_writer(created_by) == is_right


@pytest.mark.parametrize(
    ("created_by", "known"),
    [
        (None, {"id", "small", "at", "t"}),
        ("parquet-mr version 1.8.1", {"id", "small", "at"}),
        ("impala version 3.4.0", {"id", "small", "at"}),
    ],
)
def test_row_groups_have_only_the_bounds_that_are_right(
    tmp_path: Path, created_by: str | None, known: set[str]
) -> None:
    rows = pa.table(
        {
            "id": [1, 2],
            "small": pa.array([1, 2], pa.int8()),
            "at": pa.array([1, 2], pa.timestamp("us")),
            "x": [0.5, float("nan")],
            "t": ["a", "b"],
        }
    )
    pq.write_table(rows, tmp_path / "f.parquet", row_group_size=1)
    if created_by is not None:
        sign_as(tmp_path / "f.parquet", created_by)
    fs, root = open_file_system(str(tmp_path))
    seen: list[set[str]] = []

    def may_hold(bounds: Any) -> bool:
        seen.append({*bounds})
        return True

    names = rows.column_names
    wanted = WantedPieces(bounded=names, may_hold=may_hold)
    pieces = read_pieces(fs, f"{root}/f.parquet", names, expected_rows=2, wanted=wanted)
    assert [start for start, _ in pieces] == [0, 1]
    assert seen == [known, known]
