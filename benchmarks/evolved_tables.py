"""Prepares the tables of the case `versions`: many files under many schema versions, and under one.

`python -m benchmarks.evolved_tables KIND VERSIONS FILES FOLDER` fills a folder in a process of its
own. `evolved` gets one commit under each schema version, of one file for each partition. `plain`
gets the same commits, with the values that the last schema shows for them, under one schema. Each
alter does one of four things in turn: it adds a column, renames it, widens it, or drops an older
one; `LIVE_COLUMNS` of them are there at a time.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage import (
    AddColumn,
    Catalog,
    ChangeType,
    DropColumn,
    RenameColumn,
    Table,
)
from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.schema_change import SchemaChange

DATABASE = "bench"
KINDS = ("append", "keyed")
TABLES = ("plain", "evolved")
LIVE_COLUMNS = 4
# Every alter but these leaves `id`, `amount` and `part` as they are.
PROJECTED = ("id", "amount")
_ROWS_OF_A_FILE = 100
_TURN = 4
_FILTERED_SHARE = 10
_DONE = "tables.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a read returns: rows, the sum of `amount`, and the files that hold them."""

    rows: int
    checksum: float
    files: dict[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvolvedTables:
    """A prepared folder; `below` is the bound on `id` of the filtered read."""

    warehouse: Path
    files: int
    below: int
    whole: Expected
    filtered: Expected


def load_tables(folder: Path) -> EvolvedTables | None:
    """The tables of an earlier preparation, if that was finished."""
    done = folder / _DONE
    if not done.is_file():
        return None
    record = json.loads(done.read_text())
    for name in ("whole", "filtered"):
        record[name] = Expected(**record[name])
    return EvolvedTables(warehouse=folder / "warehouse", **record)


def prepare(kind: str, versions: int, files: int, folder: Path) -> None:
    """Write both tables; the file that `load_tables` checks comes last."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    catalog = Catalog.open(str(folder / "warehouse"), durable=False)
    parts = files // versions
    commits = list(_evolve(_create(catalog, kind, "evolved"), versions, parts))
    evolved = catalog.table(f"{DATABASE}.evolved")
    plain = _create(catalog, kind, "plain", evolved)
    for fields, rows in commits:
        plain.write(_shown(rows, fields, evolved))
    _check_equal(evolved, plain)
    ids = max(int(pc.max(rows.column("id")).as_py()) for _, rows in commits) + 1
    below = ids // _FILTERED_SHARE
    tables = EvolvedTables(
        warehouse=folder / "warehouse",
        files=sum(len(split.files) for split in evolved.scan().splits),
        below=below,
        whole=_expected(evolved, plain, None),
        filtered=_expected(evolved, plain, f"id < {below}"),
    )
    record = asdict(tables)
    record.pop("warehouse")
    (folder / _DONE).write_text(json.dumps(record))


def _create(catalog: Catalog, kind: str, name: str, like: Table | None = None) -> Table:
    columns = {"part": "INT NOT NULL", "id": "BIGINT NOT NULL", "amount": "DOUBLE", "c0": "INT"}
    if like is not None:
        columns = {field.name: str(field.type) for field in like.schema.fields}
    return catalog.create_table(
        f"{DATABASE}.{name}",
        columns,
        partition_keys=["part"],
        primary_keys=["part", "id"] if kind == "keyed" else [],
        options={"write-only": "true", **({"bucket": "1"} if kind == "keyed" else {})},
    )


def _evolve(
    table: Table, versions: int, parts: int
) -> Iterator[tuple[tuple[DataField, ...], pa.Table]]:
    """Write one commit under each version; the fields and the rows of each."""
    for version in range(versions):
        if version:
            table = table.alter(_change(table, version))
        rows = _rows(table, version, parts)
        table.write(rows)
        yield table.schema.fields, rows


def _change(table: Table, version: int) -> SchemaChange:
    own = table.schema.fields[len(("part", *PROJECTED)) :]
    match version % _TURN:
        case 1:
            return AddColumn(f"c{version}", "INT")
        case 2:
            return RenameColumn(own[-1].name, f"renamed{version}")
        case 3:
            return ChangeType(own[-1].name, "BIGINT")
    if len(own) > LIVE_COLUMNS:
        return DropColumn(own[0].name)
    return RenameColumn(own[0].name, f"again{version}")


def _rows(table: Table, version: int, parts: int) -> pa.Table:
    """Rows of every partition; half of the keys of a commit are in the commit before."""
    generator = np.random.default_rng(version)
    first = version * _ROWS_OF_A_FILE // 2
    count = parts * _ROWS_OF_A_FILE
    columns = {
        "part": np.repeat(np.arange(parts, dtype=np.int32), _ROWS_OF_A_FILE),
        "id": np.tile(np.arange(first, first + _ROWS_OF_A_FILE), parts),
        "amount": generator.integers(0, 1 << 40, count) / 100,
    }
    return pa.table(
        {
            field.name: pa.array(
                columns[field.name]
                if field.name in columns
                else generator.integers(0, 1_000, count),
                to_arrow_type(field.type),
            )
            for field in table.schema.fields
        }
    )


def _shown(rows: pa.Table, fields: Sequence[DataField], under: Table) -> pa.Table:
    """Rows as the last schema shows them: by the ids of the fields, without the code under test."""
    names = {field.id: field.name for field in fields}
    columns = {}
    for field in under.schema.fields:
        kind = to_arrow_type(field.type)
        held = rows.column(names[field.id]) if field.id in names else None
        columns[field.name] = pa.nulls(rows.num_rows, kind) if held is None else held.cast(kind)
    return pa.table(columns)


def _check_equal(evolved: Table, plain: Table) -> None:
    order = [(name, "ascending") for name in ("part", *PROJECTED)]
    one, other = (table.read().sort_by(order) for table in (evolved, plain))
    if not one.equals(other):
        raise ValueError("the table of many schema versions reads otherwise than that of one")


def _expected(evolved: Table, plain: Table, where: str | None) -> Expected:
    rows = plain.read(where, ["amount"])
    files = {
        name: tuple(
            table.table_files.data_file_path(split.place, file)
            for split in table.scan(where).splits
            for file in split.files
        )
        for name, table in (("plain", plain), ("evolved", evolved))
    }
    total = float(pc.sum(rows.column("amount")).as_py())
    return Expected(rows=rows.num_rows, checksum=total, files=files)


def main() -> None:
    """Fill one folder."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.evolved_tables", description=__doc__
    )
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("versions", type=int)
    parser.add_argument("files", type=int)
    parser.add_argument("folder", type=Path)
    parsed = parser.parse_args()
    prepare(parsed.kind, parsed.versions, parsed.files, parsed.folder)


if __name__ == "__main__":
    main()
