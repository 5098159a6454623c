"""What the upkeep sensor reports on the pages of tables, without a run.

* The check `healthy`, when the set of verbs that are due or wait has changed, and when a run of
  upkeep has ended, so that the page shows what the run left.
* A materialization of a table that is not written here, when others have changed its rows; an
  observation if they only rewrote its files.

What was reported is remembered in the process. After a restart each check is reported once more;
the last snapshot that was reported is read from the asset's own events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import dagster as dg

from lakewright.platform.declare.declarations import TableDeclaration
from lakewright.platform.declare.partition_keys import InvalidPartitionKeyError, describe_partition
from lakewright.platform.orchestration.asset_partitions import key_of_asset, partitions_def
from lakewright.platform.orchestration.health_reports import Background, evaluate_health
from lakewright.platform.orchestration.names import TableNames, UpkeepNames
from lakewright.platform.orchestration.reports import table_metadata
from lakewright.platform.orchestration.run_identity import origin_of
from lakewright.platform.upkeep.health import PartitionHealth
from lakewright.platform.upkeep.words import counted, size_text
from lakewright.platform.warehouse.kept_tables import KeptTable, KeptTables
from lakewright.platform.warehouse.look import Look, Watch
from lakewright.platform.warehouse.past import recent_actions
from lakewright.platform.warehouse.table_state import TableState
from lakewright.platform.warehouse.trend import read_trend
from lakewright.storage import Catalog, PartitionStats, Snapshot, Table
from lakewright.storage.errors import StorageError
from lakewright.storage.spec.snapshot import CommitKind

Event = dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation
PartitionFigures: TypeAlias = PartitionHealth | PartitionStats

SNAPSHOT = "lakewright/snapshot_id"
_MOST_EVENTS = 100
_MOST_PARTITIONS = 20
# Commits between two looks that are read to see whether rows changed; more are taken to.
_MOST_COMMITS = 20
# Manifests of more bytes are not read a second time to find the partitions that changed.
_LARGE_BYTES = 16 << 20
_SAME_ROWS = (CommitKind.COMPACT, CommitKind.ANALYZE)


@dataclass(slots=True)
class TableNews:
    """Reports what is new on tables, at most so many events at a time; the rest comes later."""

    tables: KeptTables
    names: UpkeepNames
    most_events: int = _MOST_EVENTS
    _health: dict[str, tuple[bool, frozenset[str], int]] = field(default_factory=dict)
    _snapshots: dict[str, int | None] = field(default_factory=dict)
    _last: str = ""

    def events(
        self,
        instance: dg.DagsterInstance,
        catalog: Catalog,
        watch: Watch,
        look: Look,
        *,
        location: str | None = None,
        until_ms: int | None = None,
    ) -> list[Event]:
        """The events of one look; tables that had none for long come first.

        After `until_ms`, no table is begun with.
        """
        # Tables that the look did not get to are not gone.
        for known in (self._health, self._snapshots):
            for gone in [each for each in known if watch.state(each) is None]:
                del known[gone]
        self._read_reported(instance, look.decisions)
        names = sorted(look.decisions, key=lambda name: (name <= self._last, name))
        found: list[Event] = []
        for name in names:
            state = watch.state(name)
            if state is None:
                continue
            kept = self.tables.table(name)
            # The commits first: the page is then materialized before it is checked.
            found += self._commits(catalog, kept, state)
            health = evaluate_health(state, look.of(name), kept, self.names, location=location)
            told = (health.passed, health.told, watch.ended_ms(name))
            if self._health.get(name) != told:
                self._health[name] = told
                health = evaluate_health(
                    state,
                    look.of(name),
                    kept,
                    self.names,
                    location=location,
                    beside=Background(
                        trend=read_trend(catalog, name), actions=recent_actions(catalog, name)
                    ),
                )
                found.append(health.event(TableNames(name)))
            is_late = until_ms is not None and catalog.env.now_ms() >= until_ms
            if is_late or len(found) >= self.most_events:
                self._last = name
                break
        return found

    def _read_reported(self, instance: dg.DagsterInstance, tables: Mapping[str, object]) -> None:
        """Of tables that this process has not seen, the last snapshot that was reported."""
        new = [
            name
            for name in tables
            if name not in self._snapshots and is_written_elsewhere(self.tables.table(name))
        ]
        if not new:
            return
        by_key = {TableNames(name).asset_key: name for name in new}
        self._snapshots |= dict.fromkeys(new)
        for record in instance.get_asset_records([*by_key]):
            entry = record.asset_entry.last_materialization
            event = None if entry is None else entry.asset_materialization
            told = None if event is None else event.metadata.get(SNAPSHOT)
            if isinstance(told, dg.IntMetadataValue):
                self._snapshots[by_key[record.asset_entry.asset_key]] = told.value

    def _commits(self, catalog: Catalog, kept: KeptTable, state: TableState) -> list[Event]:
        latest = state.survey.history.latest_snapshot
        if not is_written_elsewhere(kept) or latest is None or state.survey.problem is not None:
            return []
        told = self._snapshots.get(kept.name)
        if told == latest:
            return []
        try:
            table = catalog.table(kept.name)
            snapshot = table.table_files.snapshots.read(latest)
            found = list(_commit_events(table, snapshot, kept, state, told))
        except StorageError:
            # An expiry or a drop came between; the next look reads what is there then.
            return []
        self._snapshots[kept.name] = latest
        return found


def is_written_elsewhere(kept: KeptTable) -> bool:
    """Whether only others write the rows of a table."""
    return kept.declaration is None or not kept.declaration.is_written_here


def _commit_events(
    table: Table, latest: Snapshot, kept: KeptTable, state: TableState, told: int | None
) -> Iterator[Event]:
    commits = _commits_since(table, latest, told)
    names = TableNames(kept.name)
    metadata, description = _about(table, latest, state), _described(latest, told)
    if told is not None and all(each.commit_kind in _SAME_ROWS for each in commits):
        # Runs of upkeep report their commits themselves.
        if any(origin_of(each.commit_user) is None for each in commits):
            yield dg.AssetObservation(names.asset_key, metadata=metadata, description=description)
        return
    changed = [] if told is None else _changed_partitions(table, latest, state, commits)
    if changed:
        metadata["partitions"] = _partitions_table(changed)
        yield from _of_partitions(table, kept.declaration, names, changed)
    yield dg.AssetMaterialization(names.asset_key, metadata=metadata, description=description)


def _commits_since(table: Table, latest: Snapshot, told: int | None) -> list[Snapshot]:
    """The latest commits, newest first; a table that was recreated begins again."""
    found: list[Snapshot] = []
    for each in table.table_files.snapshots.back_from(latest):
        if (told is not None and each.id == told) or len(found) == _MOST_COMMITS:
            break
        found.append(each)
    return found


def _about(table: Table, latest: Snapshot, state: TableState) -> dict[str, Any]:
    files = state.survey.files
    return {
        "dagster/row_count": latest.total_record_count,
        SNAPSHOT: latest.id,
        "lakewright/commit_user": latest.commit_user,
        "lakewright/commit_kind": latest.commit_kind.value,
        "committed": dg.MetadataValue.timestamp(latest.time_millis / 1000),
        "lakewright/files": files.files,
        "lakewright/bytes": files.bytes,
        "size": f"{size_text(files.bytes)} in {counted(files.files, 'file')}",
        **table_metadata(table),
    }


def _described(latest: Snapshot, told: int | None) -> str:
    what = f"snapshot {latest.id}, {latest.commit_kind.value} by {latest.commit_user}"
    commits = 0 if told is None else latest.id - told
    return f"{what}; {counted(commits, 'commit')} since the last report" if commits > 1 else what


def _changed_partitions(
    table: Table, latest: Snapshot, state: TableState, commits: Sequence[Snapshot]
) -> list[PartitionFigures]:
    """The partitions with files of these commits, if they are few and cheap to find."""
    survey = state.survey
    known: Sequence[PartitionFigures] = state.health.partitions
    if not survey.partition_keys:
        return []
    if len(known) < survey.layout.partitions:
        if survey.manifests.bytes > _LARGE_BYTES:
            return []
        known = table.at(snapshot=latest.id).partitions()
    earliest = commits[-1]
    before = next(
        (each for each in table.table_files.snapshots.back_from(earliest) if each != earliest), None
    )
    since_ms = 0 if before is None else before.time_millis
    found = [
        each
        for each in known
        # Files are written before their commit; those of the commit before it are not meant.
        if (each.last_file_creation_ms or 0) > since_ms
    ]
    return found if len(found) <= _MOST_PARTITIONS else []


def _partitions_table(changed: Sequence[PartitionFigures]) -> dg.TableMetadataValue:
    return dg.MetadataValue.table(
        records=[
            dg.TableRecord(
                {
                    "partition": describe_partition(each.spec),
                    "rows": each.row_count,
                    "files": each.file_count,
                    "size": size_text(each.size_bytes),
                }
            )
            for each in changed
        ]
    )


def _of_partitions(
    table: Table,
    declaration: TableDeclaration | None,
    names: TableNames,
    changed: Sequence[PartitionFigures],
) -> Iterator[dg.AssetMaterialization]:
    """Of a declared table, a materialization for each partition that the asset has."""
    if declaration is None or not declaration.columns:
        return
    known = partitions_def(declaration.scheme, names)
    if known is None:
        return
    common = table_metadata(table)
    for each in changed:
        try:
            key = declaration.scheme.key_of(each.spec)
        except InvalidPartitionKeyError:
            continue
        yield dg.AssetMaterialization(
            names.asset_key,
            partition=key_of_asset(known, key),
            metadata={
                **common,
                "dagster/partition_row_count": each.row_count,
                "lakewright/partition_files": each.file_count,
                "lakewright/partition_bytes": each.size_bytes,
            },
        )
