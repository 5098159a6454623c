"""Makes `table/`, the files that `test_table_files.py` compares with. Run it to make them anew.

    python -m tests.golden.make_table

The clock and the ids are fixed, so that a second run gives the same bytes; what Parquet writes
about itself may change with its version, and is not kept.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from lakewright.storage import Catalog, Table
from tests.support.tables.builders import compact, new_table, rows
from tests.support.tables.environment import FixedEnv

HERE = Path(__file__).resolve().parent
TABLE = HERE / "table"
COLUMNS = {
    "id": "BIGINT",
    "day": "DATE",
    "amount": "DECIMAL(10, 2)",
    "note": "STRING",
    "tags": "ARRAY<STRING NOT NULL>",
    "place": "ROW<x DOUBLE, y DOUBLE>",
}
OPTIONS = {"bucket": "2", "manifest.compression": "null"}


def make(warehouse: str) -> Table:
    """A keyed table with an upsert, a deletion, a compaction and a write after it."""
    catalog = Catalog.open(warehouse, env=FixedEnv())
    table = new_table(catalog, COLUMNS, partitions=["day"], keys=["day", "id"], options=OPTIONS)
    days = [19723, 19724]
    table.write(
        rows(
            table,
            [
                {"id": number, "day": day, "note": f"a rather long note, number {number}"}
                for day in days
                for number in range(4)
            ],
        ),
        commit_user="writer",
        commit_identifier=1,
    )
    gone = [{"id": 0, "day": days[0]}, {"id": 3, "day": days[1]}]
    table.write(rows(table, gone, ["-D"] * 2), commit_user="writer", commit_identifier=2)
    compact(table, full=True)
    table.write(
        rows(table, [{"id": 9, "day": days[1], "note": "late"}]),
        commit_user="writer",
        commit_identifier=3,
    )
    return table


def metadata_files(root: Path) -> dict[str, bytes]:
    """Everything but data files, by path below the table."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and "bucket-" not in path.as_posix()
    }


def main() -> None:
    """Write `table/` anew."""
    shutil.rmtree(TABLE, ignore_errors=True)
    with TemporaryDirectory() as folder:
        make(folder)
        for name, data in metadata_files(Path(folder) / "db.db" / "t").items():
            target = TABLE / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)


if __name__ == "__main__":
    main()
