"""A verb that fails at one of its IO calls, again and again, and what must hold afterwards.

1. Make a table once and keep what is on disk, which each try begins with.
2. Run the verb on a file system that fails at its k-th call, for every k there is.
3. A reader now sees the table before the verb or after it.
4. Try again, as a process that begins anew. Then remove orphans: every row is there once, all
   history can be read, and the files there are are those that something refers to.
5. The same with the orphans removed before anybody tries again.

Many failures leave the same files behind. What follows from them is checked once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from fsspec.implementations.memory import MemoryFileSystem

from lakewright.storage import Catalog, StagedWrite, Table
from lakewright.storage.errors import (
    CommitOutcomeUnknownError,
    HistoryGap,
    SnapshotNotFound,
    StorageError,
)
from lakewright.storage.operations.format_tables.format_spec import TABLE_TYPES
from tests.faults.verbs import EVERY_ORPHAN, KINDS, NAME, Case, Kind, Place, make_table
from tests.support.sampling import sampled
from tests.support.stores.watched_files import Call, Crashed, Fault, WatchedFiles, looked_at
from tests.support.tables.builders import comparable, content, events, rows
from tests.support.tables.environment import START_MS, FixedClock, FixedEnv, SeededIds
from tests.support.tables.invariants import (
    assert_nothing_missing,
    assert_only_reachable_files,
    assert_readable_history,
    unreachable_files,
)

WAREHOUSE = "memory://points-of-failure"
HOUR_MS = 3_600_000
# What a reader sees, by what it is called: rows, tags, branches, consumers.
Seen = Mapping[str, Any]
ABSENT = "absent"

# What fails where. Calls that only read leave nothing behind, whatever becomes of them.
FAULTS: dict[Fault, Callable[[Call], bool]] = {
    Fault.FAILS_BEFORE: lambda call: True,
    Fault.FAILS_AFTER: lambda call: call.changes,
    Fault.FAILS_HALFWAY: lambda call: call.can_be_half_done,
    Fault.GOES_AWAY: lambda call: call.changes,
    Fault.DIES_BEFORE: lambda call: call.changes,
    Fault.DIES_AFTER: lambda call: call.changes,
    Fault.DIES_HALFWAY: lambda call: call.can_be_half_done,
}


@dataclass(frozen=True)
class Disk:
    """What was in memory at a moment; a file is never changed, another takes its place."""

    files: dict[str, Any]
    folders: list[str]

    @classmethod
    def now(cls) -> Disk:
        return cls(dict(MemoryFileSystem.store), list(MemoryFileSystem.pseudo_dirs))

    def restore(self) -> None:
        MemoryFileSystem.store.clear()
        MemoryFileSystem.store.update(self.files)
        MemoryFileSystem.pseudo_dirs[:] = self.folders

    @cached_property
    def key(self) -> frozenset[tuple[str, bytes | int]]:
        """Two moments with the same key have the same databases, and files with the same bytes.

        But for the marks between the blocks of Avro files, which are drawn by chance. A database
        is a folder; other folders are nothing that a reader sees.
        """
        databases = {(folder, 0) for folder in self.folders if folder.endswith(".db")}
        return frozenset((path, _told_apart(file)) for path, file in self.files.items()) | databases


def _told_apart(file: Any) -> bytes | int:
    data: bytes = file.getvalue()
    return len(data) if data.startswith(b"Obj\x01") else data


@dataclass(frozen=True)
class Point:
    """Where a verb failed, and whether it said so."""

    fault: Fault
    call: Call
    error: BaseException | None
    disk: Disk

    def __str__(self) -> str:
        told = "told nothing" if self.error is None else f"told {self.error!r}"
        return f"{self.fault.value} at {self.call.name} of {self.call.path}, {told}"

    @property
    def may_clean_up(self) -> bool:
        """Whether the process lives, and may delete what it wrote.

        Once a snapshot may have been created nothing it names is touched, and a deletion that
        fails is one that no later run makes up for.
        """
        if self.error is None and self.call.name == "put_if_absent":
            return False
        return (
            self.fault in (Fault.FAILS_BEFORE, Fault.FAILS_AFTER, Fault.FAILS_HALFWAY)
            and not isinstance(self.error, CommitOutcomeUnknownError)
            and self.call.name not in ("delete", "delete_tree")
        )


def opened(run: int) -> Catalog:
    """The warehouse as a process sees it that begins anew; what it does is always the same."""
    clock = FixedClock(now_ms=START_MS + run * HOUR_MS)
    env = FixedEnv(clock, SeededIds(_numbers=itertools.count(1 + run * 0x100000)))
    return Catalog.open(WAREHOUSE, env=env)


MAKES, TRIES, TRIES_AGAIN, SETTLES, REMOVES_ORPHANS, READS, WRITES_ON = range(1, 8)


def made_ready(case: Case, kind: str) -> Any:
    """Make the table of a kind in memory, where nothing else is then, and what the verb needs."""
    Disk({}, [""]).restore()
    catalog = opened(MAKES)
    make_table(catalog, kind, **case.options)
    return case.ready(catalog.table(NAME)) if kind in KINDS else None


@dataclass
class Trial:
    """A verb on a kind of table, tried at all points of failure."""

    case: Case
    kind: str
    states: dict[object, Seen] = field(default_factory=dict)
    tried_again: set[object] = field(default_factory=set)
    left_alone: set[object] = field(default_factory=set)
    done: set[object] = field(default_factory=set)
    sound: dict[object, Seen] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ready = made_ready(self.case, self.kind)
        self.start = Disk.now()
        self.before = seen(opened(READS))
        self.steps = _states(opened(READS))
        self.case.verb(Place(opened(TRIES), self.ready))
        self.after = seen(opened(READS))
        self.steps += _states(opened(READS))
        self.settle()
        self.expected = {**seen(opened(READS)), **_history(opened(READS))}

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """What the verb asks of the store where nothing fails."""
        self.start.restore()
        catalog = opened(TRIES)
        fs = WatchedFiles(catalog.fs)
        self.case.verb(Place(replace(catalog, fs=fs), self.ready))
        return tuple(fs.calls)

    def some_numbers(self, fault: Fault, most: int) -> list[int]:
        """Which of the calls that can fail so are tried: some by chance, and all of snapshots."""
        calls = [call for call in self.calls if FAULTS[fault](call)]
        return sampled(
            range(1, len(calls) + 1),
            most,
            seed=f"{self.case.name} {self.kind} {fault.value}",
            always=lambda number: (
                calls[number - 1].changes and "/snapshot/snapshot-" in calls[number - 1].path
            ),
        )

    def points(self, fault: Fault, most: int | None = None) -> Iterator[Point]:
        """Every point at which the verb can fail so, or some of them."""
        counts = FAULTS[fault]
        for number in range(1, 2000) if most is None else self.some_numbers(fault, most):
            self.start.restore()
            catalog = opened(TRIES)
            fs = WatchedFiles(catalog.fs, fail_at=number, fault=fault, counts=counts)
            error: BaseException | None = None
            try:
                self.case.verb(Place(replace(catalog, fs=fs), self.ready))
            except (Crashed, StorageError) as raised:
                error = raised
            if fs.failed is None:
                assert error is None, f"the verb fails where nothing does: {error!r}"
                assert most is None, "the verb makes fewer calls than before"
                return
            yield Point(fault, fs.failed, error, Disk.now())
        assert most is not None, "the verb makes too many calls"

    def check(self, point: Point) -> None:
        """All that must hold where a verb failed."""
        found = self.seen_in(point.disk)
        self.check_whole(found)
        if point.error is None:
            self.check_all_there(found)
        if point.may_clean_up and self.case.cleans_up:
            point.disk.restore()
            left = [each for table in _tables(opened(READS)) for each in unreachable_files(table)]
            # An unfinished file under a hidden name is the store's to clean up.
            left = [each for each in left if not each.endswith(".tmp")]
            assert not left, "a process that lived on left files"
        self.try_again(point.disk)
        self.leave_alone(point.disk, found)

    def check_all_there(self, found: Seen) -> None:
        """What must hold where the verb told nothing."""
        lacks = {name for name, each in self.after.items() if found.get(name, ABSENT) != each}
        may_lack = KINDS.get(self.kind, Kind()).may_lack or NAME + "-"
        assert all(name.startswith(may_lack) for name in lacks), (
            f"the verb told nothing, and did not do its work: {lacks}"
        )

    def seen_in(self, disk: Disk) -> Seen:
        if disk.key not in self.states:
            disk.restore()
            self.states[disk.key] = seen(opened(READS))
        return self.states[disk.key]

    def check_whole(self, found: Seen) -> None:
        """Each thing is as it was before or as it will be after."""
        for name in {*self.before, *self.after, *found}:
            possible = [each.get(name, ABSENT) for each in (self.before, self.after)]
            if name == NAME and self.case.steps:
                possible += self.steps
            assert found.get(name, ABSENT) in possible, f"{name} is half done"

    def try_again(self, disk: Disk) -> None:
        if disk.key in self.tried_again:
            return
        self.tried_again.add(disk.key)
        disk.restore()
        try:
            self.case.verb(Place(opened(TRIES_AGAIN), self.ready))
        except self.case.done as error:
            if self.seen_in(disk) != self.after:
                raise AssertionError("the second try refuses, and it is not done") from error
        self.settle()
        remove_orphans(opened(REMOVES_ORPHANS))
        assert_nobody_left_files(opened(READS))
        done = Disk.now()
        if done.key not in self.done:
            self.done.add(done.key)
            self.check_done(self.checked_in(done, mixed=False))
            done.restore()
            write_on(opened(WRITES_ON))

    def check_done(self, found: Seen) -> None:
        """The table is what it is where nothing fails."""
        for name in {*found, *self.expected}:
            if self.case.repeats and name.startswith("snapshot "):
                # One more of them, so those that follow have other ids.
                states = [each for of, each in self.expected.items() if of.startswith("snapshot ")]
                assert found[name] in [found[NAME], *states], f"{name} after the second try"
            else:
                assert found.get(name) == self.expected.get(name), f"{name} after the second try"

    def leave_alone(self, disk: Disk, found: Seen) -> None:
        """No retry comes before orphans are removed."""
        if disk.key in self.left_alone:
            return
        self.left_alone.add(disk.key)
        disk.restore()
        remove_orphans(opened(REMOVES_ORPHANS))
        cleaned = Disk.now()
        left = self.checked_in(cleaned, mixed=self.case.mixes)
        assert {name: left[name] for name in found} == dict(found), "orphans, and more, went"
        if isinstance(self.ready, StagedWrite):
            self.try_without_files(cleaned)
        else:
            self.try_again(cleaned)

    def try_without_files(self, disk: Disk) -> None:
        """What was staged went with the orphans: it is refused, unless it was committed before."""
        disk.restore()
        with suppress(StorageError):
            self.case.verb(Place(opened(TRIES_AGAIN), self.ready))
        tried = Disk.now()
        self.checked_in(tried, mixed=False)
        self.check_whole(self.seen_in(tried))

    def checked_in(self, disk: Disk, *, mixed: bool) -> Seen:
        """What a reader sees of a table that must be sound, with all of its history."""
        key = (disk.key, mixed)
        if key not in self.sound:
            disk.restore()
            for table in _tables(opened(READS)):
                assert_only_reachable_files(table)
                assert_readable_history(table, mixed=mixed)
            self.sound[key] = {**seen(opened(READS)), **_history(opened(READS))}
        return self.sound[key]

    def settle(self) -> None:
        """Let readers see what they do not see at once."""
        kind = KINDS.get(self.kind, Kind())
        for table in _tables(opened(SETTLES)):
            kind.settle(table)

    def look_at_every_moment(self) -> int:
        """A reader looks after every call of a verb that changes something; how many there are."""
        self.start.restore()
        moments: list[tuple[Call, Disk]] = []
        catalog = opened(TRIES)
        look = looked_at(lambda call: moments.append((call, Disk.now())))
        fs = WatchedFiles(catalog.fs, after=look)
        self.case.verb(Place(replace(catalog, fs=fs), self.ready))
        assert seen(opened(READS)) == self.after
        for call, disk in moments:
            try:
                self.check_whole(self.seen_in(disk))
            except Exception as error:
                error.add_note(f"{self.case.name}: after {call.name} of {call.path}")
                raise
        return len(moments)


# --- what is seen -------------------------------------------------------------------------------


def seen(catalog: Catalog) -> dict[str, Any]:
    """What a reader sees of a warehouse now."""
    found: dict[str, Any] = {f"database {name}": "there" for name in catalog.list_databases()}
    found |= _format_tables(catalog)
    for table in _tables(catalog):
        name = table.name
        found[name] = content(table)
        found[f"{name} buckets"] = table.options.bucket
        for tag in table.history.tags():
            found[f"{name} tag {tag.name}"] = content(table.at(tag=tag.name))
        for branch in table.history.branches():
            found[f"{name} branch {branch.name}"] = content(table.history.at_branch(branch.name))
        for consumer in table.history.consumers():
            found[f"{name} consumer {consumer.name}"] = consumer.next_snapshot_id
        for lease in table.upkeep.leases():
            found[f"{name} lease {lease.id}"] = lease.holder
        statistics = table.at().statistics()
        if statistics is not None:
            found[f"{name} statistics"] = statistics.merged_record_count
    return found


def _tables(catalog: Catalog) -> list[Table]:
    """The tables with snapshots."""
    return [each for each in _all_tables(catalog) if not _is_plain(each)]


def _all_tables(catalog: Catalog) -> list[Table]:
    return [
        catalog.table(f"{database}.{name}")
        for database in catalog.list_databases()
        for name in catalog.list_tables(database)
    ]


def _is_plain(table: Table) -> bool:
    return table.schema.options.get("type") in TABLE_TYPES


def _format_tables(catalog: Catalog) -> dict[str, Any]:
    """The rows of the tables of plain files."""
    return {
        each.name: comparable(catalog.format_table(each.name).read())
        for each in _all_tables(catalog)
        if _is_plain(each)
    }


def _history(catalog: Catalog) -> dict[str, Any]:
    """What each snapshot holds, the changes they tell of, and the live files."""
    found: dict[str, Any] = {}
    for table in _tables(catalog):
        kept = table.table_files.snapshots.ids()
        for each in kept:
            found[f"snapshot {each} of {table.name}"] = content(table.at(snapshot=each))
        found[f"files of {table.name}"] = sorted(
            (
                str(table.table_files.partitions.of_entry(entry).spec),
                (entry.bucket, entry.total_buckets, entry.file.level, entry.file.row_count),
            )
            for entry in table.at().files()
        )
        if table.schema.options.get("changelog-producer", "none") != "none" and len(kept) > 1:
            try:
                changes = table.read_changes(kept[0], kept[-1], mode="changelog")
                found[f"changes of {table.name}"] = comparable(changes)
            except (HistoryGap, SnapshotNotFound):
                # A rollback that is half done has deleted all snapshots but the latest.
                assert kept[-1] - kept[0] >= len(kept)
    return found


def _states(catalog: Catalog) -> list[Any]:
    """The rows of every snapshot."""
    found = _history(catalog)
    return [each for name, each in found.items() if name.startswith("snapshot ")]


def assert_nobody_left_files(catalog: Catalog) -> None:
    """Every file is of a table that is there, once what was dropped is collected."""
    catalog.collect_dropped_tables(early=True)
    roots = tuple(f"{table.table_files.paths.root}/" for table in _all_tables(catalog))
    paths = [status.path for status in catalog.fs.list_tree(catalog.root)]
    homeless = [path for path in paths if not path.startswith(roots)]
    assert not homeless, f"files of no table: {homeless}"


def write_on(catalog: Catalog) -> None:
    """The next write takes the next id, and nothing it builds on is missing."""
    for table in _tables(catalog):
        before = [each.id for each in table.history.snapshots()]
        result = table.write(rows(table, events(90, 92)))
        assert result.snapshot is not None
        assert result.snapshot.id == max(before, default=0) + 1
        assert_nothing_missing(table)


def remove_orphans(catalog: Catalog) -> None:
    """Delete what dead verbs condemned, and what nothing refers to, however young."""
    for table in _tables(catalog):
        table.upkeep.collect(under_way=True)
        table.upkeep.remove_orphans(**EVERY_ORPHAN, grace_ms=0)
