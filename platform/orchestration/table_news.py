"""What the upkeep sensor reports on the pages of tables, without a run.

* The check `healthy`, when it tells of another verb or another reason, when the mode of the policy
  has changed, and when a run of upkeep has ended, so that the page shows what the run left.
* A materialization of a table that is not written here, when others have changed its rows; an
  observation if they only did upkeep. Before it come those of the partitions that changed,
  at the first report of all; more than a few are told look by look (`partition_news.py`).

What was reported is remembered in the process. After a restart each check is reported once more;
the last snapshot that was reported, and whether partitions were left, is read from the asset's own
events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import dagster as dg

from lakewright.platform.decide.adopted import is_upkeep
from lakewright.platform.decide.kept_tables import KeptTable, KeptTables
from lakewright.platform.decide.look import Look, TableWatch
from lakewright.platform.decide.upkeep_state import UpkeepState
from lakewright.platform.ledger.past import recent_actions
from lakewright.platform.orchestration.health_background import read_at_a_look
from lakewright.platform.orchestration.health_reports import (
    evaluate_health,
    health_told,
    overview_figures,
)
from lakewright.platform.orchestration.names import UpkeepNames
from lakewright.platform.orchestration.partition_news import (
    MOST_EVENTS,
    MOST_PARTITIONS,
    SINCE,
    PartitionNews,
    figures_by_key,
    is_registered,
    register,
    scheme_shown,
)
from lakewright.platform.orchestration.reports import (
    overview_metadata,
    rows_at,
    table_metadata,
)
from lakewright.platform.orchestration.run_identity import origin_of
from lakewright.platform.tables.partition_keys import partition_identity
from lakewright.platform.upkeep.health import PartitionHealth
from lakewright.platform.upkeep.words import counted, size_text
from lakewright.storage import Catalog, PartitionStats, Snapshot, Table
from lakewright.storage.errors import StorageError
from lakewright.storage.operations.commit.commits_of_user import partitions_of_commit
from lakewright.storage.spec.partition_words import describe_partition

Event = dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation
PartitionFigures: TypeAlias = PartitionHealth | PartitionStats

SNAPSHOT = "lakewright/snapshot_id"
_COMMITTED = "committed"
_MOST_EVENTS = 100
# So many partitions that changed are reported and listed at once.
_FEW_PARTITIONS = 20
# Commits between two looks that are read to see whether rows changed; more are taken to.
_MOST_COMMITS = 100
# Of tables with manifests of more bytes, none are read to find the partitions that changed.
_LARGE_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class _Told:
    """The last snapshot that was reported, and when it was committed."""

    snapshot: int | None = None
    committed_ms: int = 0


@dataclass(slots=True)
class TableNews:
    """Reports what is new on tables, at most so many events at a time; the rest comes later."""

    tables: KeptTables
    names: UpkeepNames
    most_events: int = _MOST_EVENTS
    _health: dict[str, tuple[object, ...]] = field(default_factory=dict)
    _told: dict[str, _Told] = field(default_factory=dict)
    _partitions: PartitionNews = field(default_factory=PartitionNews)
    # Since when partitions were to be reported, by a process that did not come to the end.
    _unfinished: dict[str, int] = field(default_factory=dict)
    # Under other partition keys, all partitions are others.
    _keys: dict[str, tuple[str, ...]] = field(default_factory=dict)
    # The figures of a table at the present look, with which the overview of its asset opens.
    _overview: Callable[[UpkeepState], Mapping[str, Any]] = lambda state: {}
    _last: str = ""
    _last_of_partitions: str = ""

    def events(
        self,
        instance: dg.DagsterInstance,
        catalog: Catalog,
        watch: TableWatch,
        look: Look,
        *,
        location: str | None = None,
        until_ms: int | None = None,
    ) -> list[Event]:
        """The events of one look; tables that had none for long come first.

        After `until_ms`, no table is begun with.
        """
        # Tables that the look did not get to are not gone.
        for known in (self._health, self._told, self._unfinished, self._keys):
            for gone in [each for each in known if watch.state(each) is None]:
                del known[gone]
        for gone in [table for table in self._partitions.tables if watch.state(table) is None]:
            self._partitions.forget(gone)
        self._overview = lambda state: overview_metadata(
            overview_figures(
                state,
                look.of(state.survey.table),
                recent_actions(catalog, state.survey.table),
            ),
            state.survey.taken_ms,
        )
        self._read_reported(instance, watch, look.decisions)
        names = sorted(look.decisions, key=lambda name: (name <= self._last, name))
        found: list[Event] = []
        for name in names:
            state = watch.state(name)
            if state is None:
                continue
            kept = self.tables.table(name)
            # The commits first: the page is then materialized before it is checked.
            found += self._commits(instance, catalog, kept, state)
            decisions = look.of(name)
            told = (
                *health_told(state, decisions),
                kept.policy.mode,
                watch.ended_ms(name),
                kept.problems,
            )
            if self._health.get(name) != told:
                self._health[name] = told
                health = evaluate_health(
                    state,
                    decisions,
                    kept,
                    self.names,
                    location=location,
                    beside=read_at_a_look(catalog, state),
                )
                found.append(health.event(self.names.of(name)))
            is_late = until_ms is not None and catalog.env.now_ms() >= until_ms
            if is_late or len(found) >= self.most_events:
                self._last = name
                break
        return [*found, *self._partitions_left(catalog, watch, until_ms)]

    def _read_reported(
        self, instance: dg.DagsterInstance, watch: TableWatch, tables: Mapping[str, object]
    ) -> None:
        """Of tables that this process has not seen, what was reported last."""
        new = [
            name
            for name in tables
            if name not in self._told and is_written_elsewhere(self.tables.table(name))
        ]
        if not new:
            return
        by_key = {self.names.of(name).asset_key: name for name in new}
        self._told |= dict.fromkeys(new, _Told())
        for record in instance.get_asset_records([*by_key]):
            entry = record.asset_entry.last_materialization
            event = None if entry is None else entry.asset_materialization
            if event is None:
                continue
            name = by_key[record.asset_entry.asset_key]
            snapshot, committed = event.metadata.get(SNAPSHOT), event.metadata.get(_COMMITTED)
            if isinstance(snapshot, dg.IntMetadataValue) and snapshot.value is not None:
                at = committed.value if isinstance(committed, dg.TimestampMetadataValue) else 0.0
                self._told[name] = _Told(snapshot.value, round(at * 1000))
            since, state = event.metadata.get(SINCE), watch.state(name)
            if isinstance(since, dg.IntMetadataValue) and since.value is not None:
                self._unfinished[name] = since.value
            elif self.tables.table(name).declaration is None and state is not None:
                keys = state.survey.partition_keys
                if keys and not is_registered(instance, self.names.of(name), keys):
                    self._unfinished[name] = 0

    def _commits(
        self, instance: dg.DagsterInstance, catalog: Catalog, kept: KeptTable, state: UpkeepState
    ) -> list[Event]:
        latest = state.survey.history.latest_snapshot
        if not is_written_elsewhere(kept) or latest is None or state.survey.problem is not None:
            return []
        keys = state.survey.partition_keys
        if kept.declaration is None and self._keys.setdefault(kept.name, keys) != keys:
            self._keys[kept.name] = keys
            self._partitions.forget(kept.name)
            if keys:
                self._unfinished[kept.name] = 0
        told = self._told.get(kept.name, _Told())
        if told.snapshot == latest and kept.name not in self._unfinished:
            return []
        try:
            table = catalog.table(kept.name)
            snapshot = table.table_files.snapshots.read(latest)
            self._resume(instance, table, snapshot, kept, state)
            if told.snapshot == latest:
                return []
            found = list(self._commit_events(instance, table, snapshot, kept, state))
        except StorageError:
            # An expiry or a drop came between; the next look reads what is there then.
            return []
        self._told[kept.name] = _Told(latest, snapshot.time_millis)
        return found

    def _resume(
        self,
        instance: dg.DagsterInstance,
        table: Table,
        latest: Snapshot,
        kept: KeptTable,
        state: UpkeepState,
    ) -> None:
        """Find again what another process had still to report."""
        since_ms = self._unfinished.get(kept.name)
        scheme, names = scheme_shown(kept.declaration, table), self.names.of(kept.name)
        if since_ms is not None and scheme is not None:
            changed = _changed_partitions(table, latest, state, since_ms)
            found = figures_by_key(scheme, names, changed)
            register(instance, scheme, names, found)
            if since_ms == 0:
                done = instance.get_materialized_partitions(names.asset_key)
                found = {key: each for key, each in found.items() if key not in done}
            self._partitions.add(kept.name, found, since_ms)
        self._unfinished.pop(kept.name, None)

    def _commit_events(
        self,
        instance: dg.DagsterInstance,
        table: Table,
        latest: Snapshot,
        kept: KeptTable,
        state: UpkeepState,
    ) -> Iterator[Event]:
        told = self._told.get(kept.name, _Told())
        commits = _commits_since(table, latest, told.snapshot)
        names = self.names.of(kept.name)
        are_all = told.snapshot is not None and latest.id - told.snapshot == len(commits)
        news = [commit for commit in commits if not is_upkeep(commit)]
        if are_all and not news:
            # Runs of upkeep report their commits themselves.
            if any(origin_of(commit.commit_user) is None for commit in commits):
                yield dg.AssetObservation(
                    names.asset_key,
                    metadata=self._about(table, latest, state),
                    description=_described(latest, told.snapshot),
                )
            return
        since_ms = told.committed_ms
        if told.snapshot is None or told.snapshot > latest.id:
            # A table that was recreated begins again.
            self._partitions.forget(kept.name)
            since_ms = 0
        scheme = scheme_shown(kept.declaration, table)
        changed: Sequence[PartitionFigures] = ()
        if scheme is not None:
            changed = _changed_partitions(table, latest, state, since_ms)
            if are_all and state.survey.manifests.bytes <= _LARGE_BYTES:
                # Others were rewritten by upkeep.
                touched = _partitions_of(table, news)
                changed = [each for each in changed if partition_identity(each.spec) in touched]
            found = figures_by_key(scheme, names, changed)
            register(instance, scheme, names, found)
            self._partitions.add(kept.name, found, since_ms)
            if self._partitions.left(kept.name) <= _FEW_PARTITIONS:
                yield from self._partitions.take(table, names, scheme, _FEW_PARTITIONS)
        few = changed if len(changed) <= _FEW_PARTITIONS else ()
        yield self._of_table(table, latest, state, told.snapshot, few)

    def _of_table(
        self,
        table: Table,
        latest: Snapshot,
        state: UpkeepState,
        told: int | None,
        changed: Sequence[PartitionFigures] = (),
    ) -> dg.AssetMaterialization:
        """The event of the table as a whole, which says what is left to report."""
        metadata = self._about(table, latest, state) | self._partitions.metadata(table.name)
        if changed:
            metadata["partitions"] = _partitions_table(changed)
        return dg.AssetMaterialization(
            self.names.of(table.name).asset_key,
            metadata=metadata,
            description=_described(latest, told),
        )

    def _about(self, table: Table, latest: Snapshot, state: UpkeepState) -> dict[str, Any]:
        files = state.survey.files
        return {
            **self._overview(state),
            **rows_at(table, latest),
            SNAPSHOT: latest.id,
            "lakewright/commit_user": latest.commit_user,
            "lakewright/commit_kind": latest.commit_kind.value,
            _COMMITTED: dg.MetadataValue.timestamp(latest.time_millis / 1000),
            "lakewright/files": files.files,
            "lakewright/bytes": files.bytes,
            **table_metadata(table),
        }

    def _partitions_left(
        self, catalog: Catalog, watch: TableWatch, until_ms: int | None
    ) -> Iterator[Event]:
        """Events of partitions that no look has told; tables that had none for long come first."""
        left = MOST_EVENTS
        last = self._last_of_partitions
        for name in sorted(self._partitions.tables, key=lambda name: (name <= last, name)):
            if left <= 0 or (until_ms is not None and catalog.env.now_ms() >= until_ms):
                return
            state = watch.state(name)
            latest = None if state is None else state.survey.history.latest_snapshot
            if state is None or latest is None or latest != self._told[name].snapshot:
                continue
            try:
                table = catalog.table(name)
                snapshot = table.table_files.snapshots.read(latest)
            except StorageError:
                continue
            scheme = scheme_shown(self.tables.declarations.get(name), table)
            if scheme is None:
                self._partitions.forget(name)
                continue
            events = list(self._partitions.take(table, self.names.of(name), scheme, left))
            yield from events
            yield self._of_table(table, snapshot, state, latest)
            left -= len(events)
            self._last_of_partitions = name


def is_written_elsewhere(kept: KeptTable) -> bool:
    """Whether only others write the rows of a table."""
    return kept.declaration is None or not kept.declaration.is_written_here


def _commits_since(table: Table, latest: Snapshot, told: int | None) -> list[Snapshot]:
    """The latest commits, newest first; a table that was recreated begins again."""
    found: list[Snapshot] = []
    for each in table.table_files.snapshots.back_from(latest):
        if (told is not None and each.id == told) or len(found) == _MOST_COMMITS:
            break
        found.append(each)
    return found


def _partitions_of(table: Table, commits: Iterable[Snapshot]) -> set[object]:
    """The identities of the partitions in which commits added or removed files."""
    files = table.table_files
    found = (partitions_of_commit(files, commit) for commit in commits)
    return {partition_identity(partition.spec) for each in found for partition in each}


def _described(latest: Snapshot, told: int | None) -> str:
    what = f"snapshot {latest.id}, {latest.commit_kind.value} by {latest.commit_user}"
    commits = 0 if told is None else latest.id - told
    return f"{what}; {counted(commits, 'commit')} since the last report" if commits > 1 else what


def _changed_partitions(
    table: Table, latest: Snapshot, state: UpkeepState, since_ms: int
) -> list[PartitionFigures]:
    """The partitions with files of later commits, if it is cheap to find them."""
    survey = state.survey
    if not 0 < survey.layout.partitions <= MOST_PARTITIONS or not survey.partition_keys:
        return []
    known: Sequence[PartitionFigures] = state.health.partitions
    if len(known) < survey.layout.partitions:
        if survey.manifests.bytes > _LARGE_BYTES:
            return []
        known = table.at(snapshot=latest.id).partitions()
    return [
        each
        for each in known
        # Files are written before their commit; those of the commit before it are not meant.
        if since_ms == 0 or (each.last_file_creation_ms or 0) > since_ms
    ]


def _partitions_table(changed: Sequence[PartitionFigures]) -> dg.TableMetadataValue:
    return dg.MetadataValue.table(
        records=[
            dg.TableRecord(
                {
                    "partition": describe_partition(each.spec),
                    "rows in files": each.row_count,
                    "files": each.file_count,
                    "size": size_text(each.size_bytes),
                }
            )
            for each in changed
        ]
    )
