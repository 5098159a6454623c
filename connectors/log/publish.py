"""The relay: publishes what each commit of a table changed in its log, each commit once.

1. Take the transactions of the topic over, so that no other relay publishes from now on.
2. Find what was published last at the end of the topic. The consumer `log` of the table keeps the
   snapshots from there on, and says the place of a topic whose messages are gone by age.
3. A new log begins with all rows of the snapshot at which it was made.
4. Publish the changes of each later snapshot in one transaction; a snapshot that changes no row has
   none. Then move the consumer.

What a commit changed is what it wrote, where each row that is written becomes visible as it is;
else the difference of the two states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from lakewright.connectors.factories import FactoryFinder
from lakewright.connectors.kafka.client import Fenced
from lakewright.connectors.kafka.encoding import Record
from lakewright.connectors.kafka.sink import KafkaSink
from lakewright.connectors.log.table_log import HEADERS, TableLog
from lakewright.connectors.log.topic import COMMIT, SNAPSHOT, LogTopic, Published
from lakewright.connectors.model.changelog_mode import ChangelogMode
from lakewright.connectors.planning.plan_sink import PlannedSink, WriteRequest, plan_write
from lakewright.connectors.registry import installed
from lakewright.storage.errors import (
    FileMissing,
    InvalidRequestError,
    NotFoundError,
    SnapshotNotFound,
    StalePlan,
    StorageError,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.changes.change_plan import ChangePlan, IncrementalMode
from lakewright.storage.operations.changes.change_read import ChangeReader
from lakewright.storage.operations.changes.state_difference import difference_plan
from lakewright.storage.operations.changes.written_files import written_plan
from lakewright.storage.operations.read.read import SplitReader
from lakewright.storage.operations.read.scan import DataSplit, plan_scan
from lakewright.storage.operations.references.consumers import delete_consumer
from lakewright.storage.operations.state.live_files import level_0_waits
from lakewright.storage.spec.data_types import DataField, DataType
from lakewright.storage.spec.merge_spec import MergeEngine
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.snapshot import CommitKind, Snapshot
from lakewright.storage.table import Table

CONSUMER = "log"
_PAUSE_MS = 200
# A relay that is taken over tries again; then the one that took it over goes on.
_TRIES = 3
_OF_HEADERS = pa.map_(pa.string(), pa.binary())
Stale = Callable[[str], StalePlan]


@dataclass(frozen=True, slots=True)
class Relayed:
    """What one relay published: commits with changes, and the last snapshot that it looked at."""

    table: str
    commits: int
    snapshot_id: int


def relay(table: Table, *, anew: bool = False) -> Relayed:
    """Publish what was committed and is not in the table's log; Lakewright's SQL does so itself.

    With `anew`, the topic is deleted and made again, and begins with all present rows; its readers
    have to begin anew, too.

    Raises:
        InvalidRequestError: the table has no log, or another process relays it now.
        StalePlan: the table was rolled back, or a column was renamed, dropped or given another
            type; a log with `anew` goes on.
        SnapshotNotFound: a snapshot that is to be published expired.
    """
    commits = 0
    while True:
        going = Relay(table.refresh())
        if anew:
            going.begin_anew()
            anew = False
        done = going.run()
        commits += done.commits
        if not going.is_outdated:
            return replace(done, commits=commits)


def relay_again(table: Table, going: Relay | None) -> tuple[Relay | None, Relayed | None]:
    """Publish what is new, by the relay of the last time if it still can; what goes on next time.

    A relay that cannot go on, since another process took it over, begins again at the topic's end.
    """
    if not unrelayed(table):
        return going, None
    if going is not None and going.is_of(table):
        with suppress(StorageError):
            return going, going.run()
    for _ in range(_TRIES):
        going = Relay(table)
        with suppress(Fenced):
            return going, going.run()
    return None, None


def follow(open_table: Callable[[], Table]) -> Iterator[Relayed]:
    """Relay a table again and again, without end; tells what it published."""
    going: Relay | None = None
    while True:
        table = open_table()
        going, done = relay_again(table, going)
        if done is not None and done.commits:
            yield done
        table.table_files.env.sleep_ms(_PAUSE_MS)


def unrelayed(table: Table) -> int:
    """How many snapshots the table has that its relay has not looked at, by its own consumer."""
    latest = table.table_files.snapshots.latest_id() or 0
    files = table.table_files.references
    at = files.consumers().get(CONSUMER, 0)
    return latest - at + (CONSUMER in files.consumers_without_rows())


def whole_state(files: TableFiles, snapshot: Snapshot) -> tuple[SplitReader, Sequence[DataSplit]]:
    """What reads all rows of a snapshot, in the columns of today."""
    splits = plan_scan(files, snapshot, None).splits
    return SplitReader(files, columns=None, predicate=None, snapshot_id=snapshot.id), splits


def hold(files: TableFiles) -> None:
    """Keep the present snapshot and later ones for a log that is about to be made."""
    latest = files.snapshots.latest_id()
    files.references.set_consumer(CONSUMER, latest or 1, without_rows=True)


def let_go(files: TableFiles) -> None:
    """Keep no snapshot for the log."""
    if CONSUMER in files.references.consumers():
        delete_consumer(files, CONSUMER)


class Relay:
    """Publishes the changes of one table with one producer; `run` may be called again and again."""

    def __init__(self, table: Table, registry: FactoryFinder | None = None) -> None:
        log = TableLog.of(table.name, table.schema)
        if log is None:
            raise InvalidRequestError(
                f"{table.name} has no log; give it one with ALTER TABLE {table.name} SET "
                "('log.system'='kafka', 'log.bootstrap.servers'='…')"
            )
        self._files, self._log = table.table_files, log
        self._registry = registry or installed()
        # None until the topic was read.
        self._last: Published | None = None
        self._is_read = False
        # Whether it met rows with columns that it does not know.
        self.is_outdated = False

    def is_of(self, table: Table) -> bool:
        """Whether the table still has the schema, and with it the log, of this relay."""
        return self._files.schema == table.schema and self._files.paths == table.table_files.paths

    def begin_anew(self) -> None:
        """Make the topic again, and begin with all present rows."""
        # A relay that goes on elsewhere publishes nothing in the new topic.
        self._sink.claim()
        hold(self._files)
        self._topic.drop()
        self._topic.create(self._log.partition_count)

    def run(self) -> Relayed:
        """Publish all that is committed; see `relay`."""
        if not self._is_read:
            self._sink.claim()
            self._last, self._is_read = self._place(), True
        files, latest = self._files, self._files.snapshots.latest_id() or 0
        self._check_stands(latest)
        reader: ChangeReader | SplitReader
        done, published = self._last, 0
        if done is None:
            begin = files.references.consumers().get(CONSUMER, latest)
            if begin > latest or not latest:
                return Relayed(files.name, 0, 0)
            whole = self._snapshot(begin)
            reader, splits = whole_state(files, whole)
            published += self._publish(reader, splits, whole)
            done = self._done(whole)
        for number in range(done.snapshot_id + 1, latest + 1):
            after = self._snapshot(number)
            if after.schema_id > files.schema.id:
                self.is_outdated = True
                break
            plan = self._changes(after)
            if plan is not None and plan.splits:
                reader = ChangeReader(
                    files, columns=None, predicate=None, snapshot_ids=plan.snapshot_ids
                )
                published += self._publish(reader, plan.splits, after)
            done = self._done(after)
        if files.references.consumers().get(CONSUMER) != done.snapshot_id:
            # It keeps the published snapshot, which tells a rollback.
            files.references.set_consumer(CONSUMER, done.snapshot_id)
        return Relayed(files.name, published, done.snapshot_id)

    @cached_property
    def _topic(self) -> LogTopic:
        return LogTopic(self._log.cluster, self._log.topic)

    @cached_property
    def _planned(self) -> PlannedSink:
        return plan_write(
            self._log.context(self._registry),
            WriteRequest(mode=ChangelogMode.all(), source_name=f"the relay of {self._log.table}"),
        )

    @cached_property
    def _sink(self) -> KafkaSink:
        found = self._planned.runtime
        assert isinstance(found, KafkaSink)
        return found.of_stream(self._log.topic, "")

    def _place(self) -> Published | None:
        """What was published last, None if the log is new."""
        if self._topic.identity() is None:
            raise NotFoundError(
                f"topic {self._log.topic} of the log of {self._log.table} is gone; make it again "
                f"(lakewright relay {self._log.table} --anew)"
            )
        references = self._files.references
        found, held = self._topic.last(), references.consumers().get(CONSUMER, 0)
        if CONSUMER in references.consumers_without_rows() or not held:
            return found
        if found is None:
            # Its messages are gone by age.
            return Published(held, self._snapshot(held).delta_manifest_list)
        # Snapshots in between changed no row, and may be gone. The one that is held changed none
        # either, unless a rollback made room for another one.
        return found if found.snapshot_id >= held - 1 else Published(held - 1, "")

    def _done(self, snapshot: Snapshot) -> Published:
        self._last = Published(snapshot.id, snapshot.delta_manifest_list)
        return self._last

    def _check_stands(self, latest: int) -> None:
        """Check that what was published is still the table's history, in columns of today.

        Raises:
            StalePlan: it is not.
        """
        if self._last is None:
            return
        files, number = self._files, self._last.snapshot_id
        try:
            found = files.snapshots.read(number) if number <= latest else None
        except SnapshotNotFound:
            # The next one is read, or its expiry told.
            return
        if found is None or self._last.commit not in ("", found.delta_manifest_list):
            raise self._stale(
                f"{files.name} was rolled back behind snapshot {number}, which its log has"
            )
        _check_columns(files.at_schema(found.schema_id).schema, files.schema, self._stale)

    def _stale(self, told: str) -> StalePlan:
        name = self._files.name
        return StalePlan(f"{told}; make the log again (lakewright relay {name} --anew)")

    def _snapshot(self, number: int) -> Snapshot:
        try:
            return self._files.snapshots.read(number)
        except (SnapshotNotFound, FileMissing) as error:
            raise SnapshotNotFound(
                f"snapshot {number} of {self._files.name} expired before its changes were in the "
                f"log; make the log again (lakewright relay {self._files.name} --anew)"
            ) from error

    def _changes(self, after: Snapshot) -> ChangePlan | None:
        """What a commit changed, None if it changed no row that a reader sees."""
        files, kind = self._files, after.commit_kind
        is_append, is_keyed = kind is CommitKind.APPEND, files.schema.has_primary_key
        shows_later = level_0_waits(files) or files.options.bucket_mode is BucketMode.POSTPONE
        if not is_append and kind is not CommitKind.OVERWRITE and not shows_later:
            return None
        merge = files.merge_spec
        is_last_wins = merge.engine is MergeEngine.DEDUPLICATE and not merge.sequence_fields
        if is_append and is_keyed and is_last_wins and not shows_later:
            return written_plan(files, [after], IncrementalMode.DELTA, None, streamed=True)
        before = self._snapshot(after.id - 1)
        if is_append and not is_keyed and before.index_manifest == after.index_manifest:
            return written_plan(files, [after], IncrementalMode.DELTA, None, streamed=True)
        return difference_plan(files, before, after, None)

    def _publish(self, reader: Any, splits: Sequence[Any], snapshot: Snapshot) -> int:
        headers = [(SNAPSHOT, str(snapshot.id).encode())]
        headers.append((COMMIT, snapshot.delta_manifest_list.encode()))
        each = pa.scalar(headers, _OF_HEADERS)
        count = 0

        def written() -> Iterator[list[Record] | None]:
            nonlocal count
            for split in splits:
                for rows in filter(len, reader.read(split)):
                    count += rows.num_rows
                    told = rows.append_column(HEADERS, pa.repeat(each, rows.num_rows))
                    yield self._sink.write(iter(self._planned.taken.for_sink(told).to_batches()))

        self._sink.commit(written())
        return int(count > 0)


def _check_columns(then: TableSchema, now: TableSchema, stale: Stale) -> None:
    """Readers know columns by their names, so these may be added alone."""
    present = {field.id: field for field in now.fields}
    for field in then.fields:
        found = present.get(field.id)
        if found is None or found.name != field.name or _loose(found) != _loose(field):
            raise stale(
                f"column {field.name} of the log was dropped, renamed or given another type"
            )


def _loose(field: DataField) -> DataType:
    return replace(field.type, nullable=True)
