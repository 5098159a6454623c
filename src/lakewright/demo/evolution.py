"""The demo's change of a schema: judged, made by runs, and read in every snapshot.

1. The gate judges a bad change, and says what and who would break.
2. The declaration loses a column, as by mistake; it is loaded again, and a run drops the column.
3. The declaration has the column again, a new one, a wider one and a renamed one; a run makes the
   table as declared.
4. A run ingests the last day again, in the new schema.
5. The last snapshots are read, each in the schema of its time.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.demo import DEMO_TABLES
from lakewright.demo.dagster_server import DagsterServer
from lakewright.jobs.evolve_schema import VERB as EVOLVE
from lakewright.platform.orchestration.names import UPKEEP, TableNames
from lakewright.platform.tables.workspace import read_workspace
from lakewright.platform.upkeep.dependents import dependents_of
from lakewright.storage import ChangeType, DropColumn, GateRules, Table
from lakewright.storage.operations.schema.alter import AlterPlan

FLIGHTS = "nyc.flights"
DROPPED = "arr_time"
LAST_DAY = "2013-12-31"
_EARLIER = DEMO_TABLES.parent / "earlier" / "flights.yaml"
_FILE = "flights.yaml"


class Stage(Enum):
    """What the declaration of flights says."""

    FIRST = "as the table was made"
    MISTAKEN = "without a column"
    FINAL = "as the package has it"


def declare(folder: Path, stage: Stage) -> None:
    """Put the declarations of the demo into a folder, that of flights as of a stage."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in DEMO_TABLES.glob("*.yaml"):
        shutil.copy(file, folder)
    if stage is not Stage.FINAL:
        lines = _EARLIER.read_text(encoding="utf-8").splitlines(keepends=True)
        mistaken = stage is Stage.MISTAKEN
        kept = [line for line in lines if not (mistaken and f"name: {DROPPED}," in line)]
        (folder / _FILE).write_text("".join(kept), encoding="utf-8")


def is_evolved(table: Table) -> bool:
    """Whether the changes of the demo were made already."""
    return {"cancelled", DROPPED} <= set(table.schema.field_names)


def bad_change(table: Table, tables: Path) -> AlterPlan:
    """A plan that no run should carry out: distances do not fit, and others use the airline."""
    rules = GateRules(dependents=tuple(dependents_of(read_workspace([tables]), table)))
    return table.plan_alter(
        ChangeType("distance", "DECIMAL(3, 0)"), DropColumn("carrier"), rules=rules
    )


def evolve(server: DagsterServer, folder: Path, stage: Stage) -> str:
    """Change the declaration, load it, and launch the run that makes the table like it."""
    declare(folder, stage)
    server.reload()
    config = TableNames(FLIGHTS).run_config(EVOLVE, {"on_destructive": "allow"})
    return server.launch_job(UPKEEP, config)


@dataclass(frozen=True, slots=True)
class Seen:
    """What is read of one snapshot of flights."""

    snapshot_id: int
    schema_id: int
    rows: int
    late_minutes: int
    # Values by column, for the columns that changed; None if the schema lacks the column.
    values: Mapping[str, int | None]


_CHANGED = ("cancelled", DROPPED, "air_time", "air_minutes")


def seen(table: Table, most: int) -> list[Seen]:
    """What the last snapshots of flights read as, in the schema of their time."""
    result = []
    for snapshot in table.history.snapshots()[-most:]:
        view = table.at(snapshot=snapshot.id)
        there = [name for name in _CHANGED if name in view.schema.field_names]
        rows = view.read(columns=["dep_delay", *there])
        result.append(
            Seen(
                snapshot.id,
                view.schema.id,
                rows.num_rows,
                _sum(rows, "dep_delay"),
                {name: _count(rows, name) if name in there else None for name in _CHANGED},
            )
        )
    return result


def _sum(rows: pa.Table, name: str) -> int:
    return int(pc.sum(rows.column(name).cast(pa.int64())).as_py())


def _count(rows: pa.Table, name: str) -> int:
    return int(rows.num_rows - int(rows.column(name).null_count))


def seen_lines(found: list[Seen]) -> list[str]:
    """A line for each snapshot: rows, and how many values each changed column has."""
    lines = []
    for each in found:
        values = ", ".join(
            f"{name} {'-' if count is None else f'{count:,}'}"
            for name, count in each.values.items()
        )
        lines.append(
            f"snapshot {each.snapshot_id}, schema {each.schema_id}: {each.rows:,} rows, "
            f"{each.late_minutes:,} minutes late; values: {values}"
        )
    return lines
