"""Reads of few rows by a filter, of sorted and unsorted rows, by clients of four table formats.

    python -m benchmarks.filtered_reads --rows 5000000

Each client writes the rows by its defaults, and reads them in its own process. pyiceberg and
deltalake are installed from `lakehouses.lock` on first use; pypaimon is that of `make oracles`.
"""

# ruff: noqa: PLC0415 - no environment has the packages of all clients.
from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
# What a client reads: the least and the greatest id, or a list of ids.
Asked = tuple[int, int] | list[int]
Reader = Callable[[Asked], int]
_TIMES = 5


def _lakewright(rows: Any, folder: Path) -> Reader:
    from lakewright.storage import Catalog, SchemaSpec
    from lakewright.storage.codec.arrow_types import columns_from_arrow

    spec = SchemaSpec(columns=columns_from_arrow(rows.schema))
    table = Catalog.open(str(folder)).create_table("db.t", spec)
    table.write(rows)

    def read(asked: Asked) -> int:
        if isinstance(asked, list):
            return int(table.read(f"id IN ({', '.join(map(str, asked))})").num_rows)
        return int(table.read(f"id BETWEEN {asked[0]} AND {asked[1]}").num_rows)

    return read


def _pypaimon(rows: Any, folder: Path) -> Reader:
    from pypaimon import CatalogFactory, Schema

    catalog = CatalogFactory.create({"warehouse": str(folder)})
    catalog.create_database("db", True)
    catalog.create_table("db.t", Schema.from_pyarrow_schema(rows.schema), True)
    table = catalog.get_table("db.t")
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(rows)
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()

    def read(asked: Asked) -> int:
        reading = table.new_read_builder()
        by = reading.new_predicate_builder()
        where = by.is_in("id", asked) if isinstance(asked, list) else by.between("id", *asked)
        reading = reading.with_filter(where)
        splits = reading.new_scan().plan().splits()
        return int(reading.new_read().to_arrow(splits).num_rows)

    return read


def _pyiceberg(rows: Any, folder: Path) -> Reader:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.expressions import And, GreaterThanOrEqual, In, LessThanOrEqual

    folder.mkdir(parents=True, exist_ok=True)
    catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", schema=rows.schema)
    table.append(rows)

    def read(asked: Asked) -> int:
        where: Any
        if isinstance(asked, list):
            where = In("id", asked)
        else:
            where = And(GreaterThanOrEqual("id", asked[0]), LessThanOrEqual("id", asked[1]))
        return int(table.scan(row_filter=where).to_arrow().num_rows)

    return read


def _deltalake(rows: Any, folder: Path) -> Reader:
    import pyarrow.dataset as ds
    from deltalake import DeltaTable, write_deltalake

    write_deltalake(str(folder), rows)
    table = DeltaTable(str(folder))

    def read(asked: Asked) -> int:
        if isinstance(asked, list):
            where = ds.field("id").isin(asked)
        else:
            where = (ds.field("id") >= asked[0]) & (ds.field("id") <= asked[1])
        return int(table.to_pyarrow_table(filters=where).num_rows)

    return read


_CLIENTS = {
    "Lakewright": _lakewright,
    "pypaimon": _pypaimon,
    "pyiceberg": _pyiceberg,
    "deltalake": _deltalake,
}


def _measure(client: str, parquet: Path, folder: Path, count: int) -> dict[str, float]:
    """The best of some reads in milliseconds, by what is read."""
    import pyarrow.parquet as pq

    read = _CLIENTS[client](pq.read_table(parquet), folder)
    middle = count // 2
    asked: dict[str, tuple[Asked, int]] = {
        "point": ((middle, middle), 1),
        "range of 1,000": ((middle, middle + 999), 1000),
        "IN of 10": ([middle + 7 * each for each in range(10)], 10),
    }
    found = {}
    for name, (where, expected) in asked.items():
        best = float("inf")
        for _ in range(_TIMES):
            begin = time.perf_counter()
            assert read(where) == expected
            best = min(best, time.perf_counter() - begin)
        found[name] = best * 1000
    return found


def _rows(folder: Path, count: int, *, is_sorted: bool) -> Path:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    chance = np.random.default_rng(1)
    ids = np.arange(count) if is_sorted else chance.permutation(count)
    columns = {
        "id": pa.array(ids),
        "name": pa.array([f"name of {each}" for each in ids]),
        "amount": pa.array(chance.random(count)),
        "kind": pa.array(chance.integers(0, 100, count)),
    }
    made = folder / f"{'sorted' if is_sorted else 'unsorted'}.parquet"
    pq.write_table(pa.table(columns), made)
    return made


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--environments", type=Path, default=ROOT / ".oracles")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.one:
        client, parquet, folder = given.one
        print(json.dumps(_measure(client, Path(parquet), Path(folder), given.rows)))
        return
    from benchmarks.processes import lakehouse_python

    lakehouses = lakehouse_python(given.environments)
    interpreters = {
        "Lakewright": sys.executable,
        "pypaimon": str(given.environments / "pypaimon/bin/python"),
        "pyiceberg": lakehouses,
        "deltalake": lakehouses,
    }
    print(
        "| rows | client | point, ms | range of 1,000, ms | IN of 10, ms |\n|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as place:
        for is_sorted in (True, False):
            parquet = _rows(Path(place), given.rows, is_sorted=is_sorted)
            for client, python in interpreters.items():
                folder = Path(place) / f"{parquet.stem}-{client}"
                done = subprocess.run(
                    [
                        *(python, __file__, "--rows", str(given.rows)),
                        *("--one", client, str(parquet), str(folder)),
                    ],
                    check=True,
                    capture_output=True,
                    text=True,
                )
                figures = json.loads(done.stdout.splitlines()[-1]).values()
                shown = " | ".join(f"{each:,.1f}" for each in figures)
                print(f"| {parquet.stem} | {client} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
