"""What a filter on a changed partition key reads: `python -m benchmarks.respec_pruning`.

Flights and weather of the demo go from one list of partition keys to others. Under each list every
client reads with a filter on the key that comes, in a process of its own under `strace`. A line of
JSON for each: data files opened, and bytes that were read of them.

* `flights`: an append table of 2013 by day, by day and airport, and by day again.
* `keyed`: the same with a primary key, and by airport at the end.
* `weather`: December by day, and by day and hour.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from benchmarks.processes import ROOT
from lakewright.demo import nycflights
from lakewright.demo.hourly_weather import december_weather
from lakewright.storage import Catalog, Table
from tests.oracles.client import (
    Oracle,
    OracleError,
    start_java,
    start_java_latest,
    start_pypaimon,
    start_rust,
)
from tests.support.processes.traced import files_read, rows_read_by_us, tracing, why_untraced

_NAME = "nyc.rows"
_DATA_FILES = "/bucket-"
_CLIENTS: Mapping[str, Callable[[Path], Oracle]] = {
    "pypaimon": start_pypaimon,
    "java": start_java,
    "java_latest": start_java_latest,
    "rust": start_rust,
}


@dataclass(frozen=True)
class Case:
    """Rows, the lists of partition keys that they get in turn, and a filter."""

    rows: Callable[[], pa.Table]
    keys: Sequence[Sequence[str]]
    where: tuple[str, str, str | int]
    primary_key: Sequence[str] = ()
    options: Mapping[str, str] = field(default_factory=dict)


def _weather() -> pa.Table:
    # Java 0.9 takes no SMALLINT in a filter that comes from outside of the JVM.
    rows = december_weather()
    return rows.set_column(1, "hour", rows.column("hour").cast(pa.int32()))


CASES = {
    "flights": Case(
        rows=nycflights.flights,
        keys=(("dt",), ("dt", "origin"), ("dt",)),
        where=("origin", "=", "JFK"),
    ),
    "keyed": Case(
        rows=nycflights.flights,
        keys=(("dt",), ("dt", "origin"), ("origin",)),
        where=("origin", "=", "JFK"),
        primary_key=("dt", "origin", "carrier", "flight", "time_hour"),
        options={"bucket": "1"},
    ),
    "weather": Case(rows=_weather, keys=(("dt",), ("dt", "hour")), where=("hour", "=", 5)),
}


def make_table(catalog: Catalog, case: Case) -> Table:
    """The table under the first list of keys."""
    rows = case.rows()
    fields = [each.with_nullable(each.name not in case.primary_key) for each in rows.schema]
    rows = rows.cast(pa.schema(fields))
    table = catalog.create_table(
        _NAME,
        rows.schema,
        partition_keys=case.keys[0],
        primary_keys=case.primary_key,
        options=case.options,
    )
    table.write(rows)
    return table


def measure(table: Table, warehouse: str, case: Case, logs: Path) -> None:
    """What each client reads of a table as it is."""
    column, operator, value = case.where
    literal = f"'{value}'" if isinstance(value, str) else value
    rows = rows_read_by_us(logs / "us", warehouse, _NAME, f"{column} {operator} {literal}")
    live = [file for split in table.scan().splits for file in split.files]
    show(client="all files", files=len(live), bytes=sum(each.file_size for each in live))
    show(client="Lakewright", rows=rows, **_read(logs / "us"))
    for name, start in _CLIENTS.items():
        with start(ROOT / ".oracles" / name).started_by(*tracing(logs / name)) as client:
            try:
                found = len(client.read(warehouse, _NAME, where=[case.where]))
                assert found == rows, f"{name} finds {found} rows, and we {rows}"
            except OracleError as error:
                show(client=name, cannot=error.message.partition("\n")[0][:120])
                continue
        show(client=name, rows=found, **_read(logs / name))


def _read(log: Path) -> dict[str, int]:
    found = files_read(log, _DATA_FILES)
    return {"files": len(found), "bytes": sum(found.values())}


def main() -> None:
    """Measure the cases that are named, or all."""
    if (why := why_untraced()) is not None:
        sys.exit(why)
    for name in sys.argv[1:] or CASES:
        case = CASES[name]
        with tempfile.TemporaryDirectory() as made:
            catalog = Catalog.open(f"{made}/warehouse")
            table = make_table(catalog, case)
            for turn, keys in enumerate(case.keys):
                if keys != table.schema.partition_keys:
                    table.upkeep.respec(keys)
                    table = catalog.table(_NAME)
                show(case=name, keys=",".join(keys), where=" ".join(map(str, case.where)))
                measure(table, catalog.root, case, Path(made) / f"logs-{turn}")


def show(**figures: object) -> None:
    """Print a line."""
    sys.stdout.write(json.dumps(figures) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
