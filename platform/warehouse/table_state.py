"""The state of a table that decisions are made from: its survey, partitions and retention."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakewright.platform.declare.upkeep_policies import SnapshotPolicy
from lakewright.platform.upkeep.health import TableHealth, read_health
from lakewright.platform.warehouse.survey import (
    FileFigures,
    HistoryFigures,
    LayoutFigures,
    TableSurvey,
)
from lakewright.storage import Catalog, Table
from lakewright.storage.errors import StorageError
from lakewright.storage.spec.partition_expiry import TIME_OPTION


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Which snapshots stay."""

    retain_min: int = 1
    retain_max: int = 1 << 31
    time_retained_ms: int = 0

    def under(self, policy: SnapshotPolicy) -> Retention:
        """The table's own retention, with what the policy says in its place."""
        given = {
            "retain_min": policy.retain_min,
            "retain_max": policy.retain_max,
            "time_retained_ms": policy.time_retained,
        }
        return replace(self, **{name: value for name, value in given.items() if value is not None})


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """What metadata shows of a table at one snapshot.

    `retention` is what the table's options say, and `expires_partitions` whether these let
    partitions expire. `created_ms` is None if the first schema is gone or does not tell.
    """

    survey: TableSurvey
    health: TableHealth
    retention: Retention = Retention()
    expires_partitions: bool = False
    oldest_quarantine_ms: int | None = None
    created_ms: int | None = None


def read_state(catalog: Catalog, name: str, *, now_ms: int) -> TableState:
    """Read the state of a table from its metadata; a table that cannot be read has a `problem`."""
    try:
        return _state(catalog.table(name), now_ms)
    except StorageError as err:
        survey = TableSurvey(table=name, uuid="", taken_ms=now_ms, problem=str(err))
        health = TableHealth(table=name, keyed=False, snapshot_id=None, partitions=())
        return TableState(survey=survey, health=health)


def _state(table: Table, now_ms: int) -> TableState:
    options = table.options
    health = read_health(table)
    first = table.table_files.schemas.read(0) if table.table_files.schemas.exists(0) else None
    made = (each.created_ms for each in table.upkeep.quarantines())
    return TableState(
        survey=_survey(table, health, now_ms),
        health=health,
        retention=Retention(
            retain_min=options.snapshot_num_retained_min,
            retain_max=options.snapshot_num_retained_max,
            time_retained_ms=options.snapshot_time_retained_ms,
        ),
        expires_partitions=TIME_OPTION in table.schema.options,
        created_ms=None if first is None else first.time_millis,
        oldest_quarantine_ms=min((each for each in made if each is not None), default=None),
    )


def _survey(table: Table, health: TableHealth, now_ms: int) -> TableSurvey:
    ids = table.table_files.snapshots.ids()
    first = table.table_files.snapshots.read(ids[0]) if ids else None
    return TableSurvey(
        table=table.name,
        uuid=table.uuid,
        taken_ms=now_ms,
        keyed=health.keyed,
        partition_keys=table.schema.partition_keys,
        files=FileFigures(files=health.file_count, rows=health.row_count, bytes=health.size_bytes),
        layout=LayoutFigures(partitions=len(health.partitions)),
        history=HistoryFigures(
            snapshots=len(ids),
            earliest_snapshot=ids[0] if ids else None,
            latest_snapshot=ids[-1] if ids else None,
            earliest_ms=None if first is None else first.time_millis,
            tags=len(table.history.tags()),
        ),
    )
