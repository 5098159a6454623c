"""Takeovers look at the dates and timestamps that a file's footer does not vouch for."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewright.storage import Catalog
from lakewright.storage.errors import InvalidRequestError, UnfitValues
from tests.support.tables.builders import new_table

NEAR = dt.datetime(2024, 1, 31, 12, 0, 0, 5)
FAR = dt.datetime(9999, 12, 31)
TODAY = NEAR.date()
COLUMNS = {"t": "TIMESTAMP(9)", "a": "ARRAY<TIMESTAMP(9)>", "d": "DATE", "part": "STRING"}
LEGACY = {"org.apache.spark.version": "3.5.1", "org.apache.spark.legacyDateTime": ""}


def land(
    root: Path,
    part: str,
    *,
    t: dt.datetime = NEAR,
    inner: dt.datetime = NEAR,
    day: dt.date = TODAY,
    name: str = "f",
    marks: dict[str, str] | None = None,
) -> Path:
    folder = root / f"part={part}"
    folder.mkdir(parents=True, exist_ok=True)
    rows = pa.table(
        {
            "t": pa.array([t], pa.timestamp("us")),
            "a": pa.array([[inner]], pa.list_(pa.timestamp("us"))),
            "d": [day],
        }
    )
    pq.write_table(
        rows.replace_schema_metadata(marks),
        folder / f"{name}.parquet",
        use_deprecated_int96_timestamps=True,
    )
    return root


@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize("column", ["t", "a"])
def test_a_file_with_a_moment_that_its_column_does_not_hold_is_refused_before_anything_changes(
    catalog: Catalog, tmp_path: Path, column: str, copy: bool
) -> None:
    landed = {"t": {"t": FAR}, "a": {"inner": FAR}}[column]
    root = land(tmp_path / "landed", "x")
    land(root, "y", **landed)
    table = new_table(catalog, COLUMNS, partitions=["part"])
    with pytest.raises(InvalidRequestError) as caught:
        table.upkeep.add_partitions(str(root), copy_files=copy, age_ms=0)
    for part in (f"{root}/part=y/f.parquet", f"column {column} is ", "holds 9999-12-31 00:00:00"):
        assert part in str(caught.value)
    after = catalog.table("db.t")
    assert (after.schema, after.history.latest_snapshot()) == (table.schema, None)
    # Without that folder, the rest is taken over and read.
    (root / "part=y" / "f.parquet").unlink()
    table.upkeep.add_partitions(str(root), copy_files=copy, age_ms=0)
    found = catalog.table("db.t").read().column("t").cast(pa.timestamp("us"))
    assert found.to_pylist() == [NEAR]


def test_a_repair_leaves_such_a_folder_alone_and_says_why(catalog: Catalog, tmp_path: Path) -> None:
    root = land(tmp_path / "landed", "x")
    table = new_table(catalog, COLUMNS, partitions=["part"])
    table.upkeep.add_partitions(str(root), age_ms=0)
    land(root, "far", t=FAR)
    land(root, "old", day=dt.date(1500, 3, 11), marks=LEGACY)
    land(root, "good", marks=LEGACY)
    table = catalog.table("db.t")
    plan = table.upkeep.plan_repair_partitions(age_ms=0)
    reasons = {left.partition["part"]: left.reason for left in plan.left}
    assert "holds 9999-12-31 00:00:00" in reasons.pop("far")
    assert "column d" in reasons["old"]
    assert "other readers take days as they are stored" in reasons.pop("old")
    assert reasons == {}
    table.upkeep.run(plan)
    assert catalog.table("db.t").read().num_rows == 2


def test_what_was_taken_over_before_is_refused_when_it_is_read(
    unchecked_catalog: Catalog, tmp_path: Path
) -> None:
    root = land(land(tmp_path / "landed", "x"), "x", name="g")
    table = new_table(unchecked_catalog, COLUMNS, partitions=["part"])
    table.upkeep.add_partitions(str(root), age_ms=0)
    # As if the takeover had not looked.
    land(root, "x", t=FAR)
    table = unchecked_catalog.table("db.t")
    for attempt in (table.read, lambda: table.upkeep.compact(full=True)):
        with pytest.raises(UnfitValues, match=r"column t of data file .*x/f.parquet holds 9999-12"):
            attempt()
    assert table.read(columns=["d"]).num_rows == 2
