"""Prepares data on disk for measurements: rows to write, tables to read, and their models.

`python -m benchmarks.prepare CASE ROWS FOLDER` fills a folder, in a process of its own, which frees
its memory. Lakewright writes the tables, in `FOLDER/warehouse`:
`base` (the full load, compacted), `runs_1`, `runs_5`, `runs_20` (commits over it),
`compacted` (`runs_5` after a full compaction), `small` (five files of about 100 KB), `empty`,
and `source` (an append table with the rows of the full load, for contestants that only read
tables).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.tpch import lineitem
from benchmarks.workload import BUCKETS, CASES, Case, Load, Loads, Model
from lakewright.storage import Catalog, SchemaSpec, Table, columns_from_arrow

DATABASE = "bench"
RUNS = (1, 5, 20)
COMPACTED_RUNS = 5
SMALL_FILES = 5
SMALL_FILE_BYTES = 100_000
_SMALL_TRIAL_ROWS = 4_000
_DONE = "dataset.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A table: its files by bucket, the written rows, and the expected result of a read."""

    name: str
    files: tuple[tuple[str, ...], ...]
    file_bytes: int
    input_rows: int
    rows: int
    checksum: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A prepared folder."""

    case: Case
    row_count: int
    folder: Path
    tables: dict[str, Layout]

    @property
    def warehouse(self) -> Path:
        return self.folder / "warehouse"

    @property
    def input(self) -> Path:
        """The rows of the full load, in their input order."""
        return self.folder / "input.parquet"


def load_dataset(case: Case, row_count: int, folder: Path) -> Dataset | None:
    """The dataset of an earlier preparation, if that was finished."""
    done = folder / _DONE
    if not done.is_file():
        return None
    tables = {
        name: Layout(**{**each, "files": tuple(tuple(group) for group in each["files"])})
        for name, each in json.loads(done.read_text()).items()
    }
    return Dataset(case=case, row_count=row_count, folder=folder, tables=tables)


def prepare(case: Case, row_count: int, folder: Path, oracles: Path, runs: Sequence[int]) -> None:
    """Write everything; the file that `load_dataset` checks comes last."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    source = None
    if case.name == "lineitem":
        source = lineitem(folder.parent, oracles, row_count)
    loads = Loads(case, row_count, lineitem=source)
    catalog = Catalog.open(str(folder / "warehouse"))
    base = loads.load(0)
    pq.write_table(base.rows, folder / "input.parquet")
    tables = dict(_tables(catalog, loads, base, runs))
    written = json.dumps({name: asdict(layout) for name, layout in tables.items()})
    (folder / _DONE).write_text(written)


def _tables(
    catalog: Catalog, loads: Loads, base: Load, runs: Sequence[int]
) -> list[tuple[str, Layout]]:
    case = loads.case
    made: list[tuple[str, Layout]] = []
    model = Model()
    _create(catalog, case, base, "empty")
    _write_source(catalog, base)
    table = _create(catalog, case, base, "growing")
    table.write(base.rows)
    table.upkeep.run(table.upkeep.plan_compact(full=True))
    model.apply(base)
    input_rows = base.rows.num_rows
    made.append(_keep(catalog, "base", input_rows, model))
    for number in range(1, max(runs) + 1):
        load = loads.load(number)
        table.write(load.rows)
        model.apply(load)
        input_rows += load.rows.num_rows
        if number in runs:
            made.append(_keep(catalog, f"runs_{number}", input_rows, model))
        if number == COMPACTED_RUNS:
            clone_table(catalog, "growing", "compacted")
            compacted = catalog.table(f"{DATABASE}.compacted")
            compacted.upkeep.run(compacted.upkeep.plan_compact(full=True))
            made.append(("compacted", _layout(compacted, "compacted", model.row_count, model)))
    made.append(_small(catalog, case, base))
    shutil.rmtree(Path(catalog.table(f"{DATABASE}.growing").table_files.paths.root))
    return made


def _write_source(catalog: Catalog, base: Load) -> None:
    spec = SchemaSpec(columns=columns_from_arrow(base.rows.schema), options={"bucket": "-1"})
    catalog.create_table(f"{DATABASE}.source", spec).write(base.rows)


def _create(
    catalog: Catalog, case: Case, load: Load, name: str, *, buckets: int = BUCKETS
) -> Table:
    # No compaction runs beside the write, which is measured alone.
    options = {"bucket": str(buckets), "write-only": "true", **case.options}
    return catalog.create_table(
        f"{DATABASE}.{name}",
        SchemaSpec(
            columns=columns_from_arrow(load.rows.schema),
            primary_keys=case.keys,
            options=options,
        ),
    )


def _keep(catalog: Catalog, name: str, input_rows: int, model: Model) -> tuple[str, Layout]:
    clone_table(catalog, "growing", name)
    return name, _layout(catalog.table(f"{DATABASE}.{name}"), name, input_rows, model)


def _small(catalog: Catalog, case: Case, base: Load) -> tuple[str, Layout]:
    """Five commits of the same keys, whose files are about 100 KB."""
    trial = _create(catalog, case, base, "trial", buckets=1)
    row_count = min(_SMALL_TRIAL_ROWS, base.rows.num_rows // 2)
    trial.write(base.sliced(row_count).rows)
    (entry,) = trial.at().files()
    per_row = entry.file.file_size / row_count
    shutil.rmtree(trial.table_files.paths.root)
    wanted = min(base.rows.num_rows, int(SMALL_FILE_BYTES / per_row))
    table = _create(catalog, case, base, "small", buckets=1)
    model = Model()
    load = base.sliced(wanted)
    for _ in range(SMALL_FILES):
        table.write(load.rows)
        model.apply(load)
    return "small", _layout(table, "small", SMALL_FILES * wanted, model)


def _layout(table: Table, name: str, input_rows: int, model: Model) -> Layout:
    entries = table.at().files()
    buckets = sorted({entry.bucket for entry in entries})
    files = tuple(
        tuple(
            table.table_files.data_file_path(entry.place, entry.file)
            for entry in entries
            if entry.bucket == bucket
        )
        for bucket in buckets
    )
    return Layout(
        name=f"{DATABASE}.{name}",
        files=files,
        file_bytes=sum(entry.file.file_size for entry in entries),
        input_rows=input_rows,
        rows=model.row_count,
        checksum=model.checksum,
    )


def clone_table(catalog: Catalog, source: str, target: str) -> None:
    """A copy of a table with links to the same data files, which never change."""
    root = Path(catalog.table(f"{DATABASE}.{source}").table_files.paths.root)
    clone_folder(root, root.parent / target)


def clone_folder(source: Path, target: Path) -> None:
    """Copy a table's folder; data files are linked."""

    def copy(one: str, other: str) -> str:
        if Path(one).parent.name.startswith("bucket-"):
            os.link(one, other)
            return other
        return str(shutil.copy2(one, other))

    shutil.copytree(source, target, copy_function=copy)


def main() -> None:
    """Fill one folder."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.prepare", description=__doc__)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("rows", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--oracles", type=Path, default=Path(".oracles"))
    parser.add_argument("--runs", type=int, nargs="+", default=list(RUNS))
    parsed = parser.parse_args()
    prepare(CASES[parsed.case], parsed.rows, parsed.folder, parsed.oracles, parsed.runs)


if __name__ == "__main__":
    main()
