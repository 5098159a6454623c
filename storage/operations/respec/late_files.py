"""Moves rows that other clients committed under former partition keys to the present ones.

A client that opened a primary-key table before its keys changed does not ask for the schema when it
commits. Its files, called late here, lie in partitions and buckets of the former keys, so their
rows replace none. Readers refuse them (`state/keys_of_files.py`) until this module has moved them.

1. Find the late files by their commits, and check that no rows of the present keys followed: the
   numbers of both would not tell which came later. A caller may say that late rows are the latest.
2. Write their rows to level 0 of the present partitions and buckets. Rows keep their kinds. Their
   sequence numbers follow those of all other files, and those of earlier late commits.
3. Commit: the new files replace the late ones. A second snapshot leaves out the removals, whose
   rows of former keys other clients would misread.

No file is added again that was removed: each attempt names its files by a run of its own, and what
it removes comes back only by a rollback, which takes the removal away as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from lakewright.storage.errors import CommitConflictError, FilesGone, UnsupportedError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.bridged_base import without_removals
from lakewright.storage.operations.commit.commit_loop import commit_bridging
from lakewright.storage.operations.references.sweep import swept_after_failure
from lakewright.storage.operations.respec.cut_over import keys_stand
from lakewright.storage.operations.respec.move_partitions import Move, move_partition
from lakewright.storage.operations.respec.new_places import NewPlaces
from lakewright.storage.operations.respec.respec_plan import Rewritten
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.state.keys_of_files import late_entries
from lakewright.storage.operations.state.live_files import by_partition, index_entries
from lakewright.storage.operations.state.table_state import ANY_KEYS, TableState, latest_state
from lakewright.storage.operations.write.verify import VerifyLevel
from lakewright.storage.spec.bridge_record import BridgeRecord
from lakewright.storage.spec.commit import Change
from lakewright.storage.spec.index import HASH_INDEX, IndexEntry
from lakewright.storage.spec.manifest import FileKind, ManifestEntry
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.spec.snapshot import CommitKind, Snapshot

# How often files that others commit meanwhile are moved, too, before a run gives up.
_MOST_ROUNDS = 10
_REWRITES = (CommitKind.COMPACT, CommitKind.ANALYZE)


@dataclass
class LateFiles:
    """The late files of a table; what is done about them is added to the sums given.

    With `late_rows_win` their rows count as the latest where it is unknown which came later.
    """

    files: TableFiles
    engine: Engine
    verify: VerifyLevel
    late_rows_win: bool
    rewritten: Rewritten
    snapshot_ids: list[int]
    _run_ids: list[str] = field(default_factory=list)

    def move(self) -> None:
        """Move all late files, if there are any.

        Raises:
            UnsupportedError: rows were committed after late files; names the way back.
            CommitConflictError: other clients commit faster than their files are moved.
            VerificationFailed: rows written differ from rows read.
        """
        base_id = self.files.snapshots.latest_id()
        with swept_after_failure(self.files, self._run_ids, base_id):
            self._move()

    def _move(self) -> None:
        files = self.files
        for _ in range(_MOST_ROUNDS):
            state = latest_state(files, takes=ANY_KEYS)
            late = late_entries(files, state.entries)
            if state.snapshot is None or (not late and keys_stand(files)):
                return
            if files.schemas.latest_id(table=files.name) != files.schema.id:
                # The keys changed again, and other files are late now.
                return
            try:
                if late:
                    self._replace(state.snapshot, state.entries, late)
                done = commit_bridging(files, self._without_removals)
            except FilesGone:
                continue
            if done.snapshot is not None:
                self.snapshot_ids.append(done.snapshot.id)
            return
        raise CommitConflictError(
            f"clients that opened {files.name} before its partition keys changed committed to it "
            f"{_MOST_ROUNDS} times while their files were moved; stop them, or let them open the "
            "table again, and run it again"
        )

    def _replace(
        self, snapshot: Snapshot, entries: Sequence[ManifestEntry], late: Sequence[ManifestEntry]
    ) -> None:
        files = self.files
        names = {each.file.file_name for each in late}
        _check_same_primary_key(files, snapshot, late)
        _check_rows_stay_in_partitions(files, snapshot, late)
        commits = _late_commits(files, snapshot, entries, late, rows_win=self.late_rows_win)
        run_id = files.env.new_id()
        self._run_ids.append(run_id)
        is_dynamic = files.options.bucket_mode is BucketMode.DYNAMIC
        standing = _hash_indexes_before(files, snapshot, names) if is_dynamic else ()
        places = NewPlaces(files, present=by_partition(standing))
        staged: list[ManifestEntry] = []
        following = _number_after(entry for entry in entries if entry.file.file_name not in names)
        for commit in commits:
            ahead = max(following - min(each.file.min_sequence_number for each in commit), 0)
            following = max(following, _number_after(commit) + ahead)
            for former, moves in _moves(files, commit):
                write = partial(
                    move_partition, former, places, run_id, 0, self.verify, late_by=ahead
                )
                # Tasks that choose dynamic buckets know what those before them chose.
                for moved in map(write, moves) if is_dynamic else self.engine.map(write, moves):
                    own = [each.entry for each in moved.staged]
                    staged += own
                    self.rewritten.wrote((each.file for each in own), moved.nulled_values)
        grown = places.write_indexes(f"index-{run_id}")
        slots = {each.place for each in grown}
        indexes = [*(each for each in standing if each.place not in slots), *grown]

        def build(state: TableState) -> Change:
            latest = state.snapshot
            if latest is None or latest.delta_manifest_list != snapshot.delta_manifest_list:
                raise FilesGone(
                    f"another client committed to {files.name} while late files were moved"
                )
            hashes = [index for index in state.indexes if index.file.index_type == HASH_INDEX]
            return Change(
                entries=[*(each.removed() for each in late), *staged],
                new_indexes=indexes,
                removed_indexes=hashes,
                statistics=latest.statistics,
            )

        done = commit_bridging(files, build)
        assert done.snapshot is not None
        self.snapshot_ids.append(done.snapshot.id)
        self.rewritten.read(each.file for each in late)

    def _without_removals(self, state: TableState) -> Change | None:
        """The same files under the present keys."""
        if state.snapshot is None:
            return None
        if late_entries(self.files, state.entries):
            raise FilesGone(f"more late files came to {self.files.name}")
        return without_removals(state)


def _late_commits(
    files: TableFiles,
    latest: Snapshot,
    entries: Sequence[ManifestEntry],
    late: Sequence[ManifestEntry],
    *,
    rows_win: bool,
) -> list[list[ManifestEntry]]:
    """The late files by their commits, in their order; those of commits that are gone come first.

    A late client that compacts has joined rows of several commits. Then all late files are one
    group, whose rows keep the numbers that this client gave them.

    Raises:
        UnsupportedError: rows of the present keys were committed after late ones, or may have been;
            names the ways out.
    """
    history = _LateHistory.read(files, latest, late)
    if not rows_win:
        history.check_none_followed(files)
        if history.gone:
            _check_none_may_have_followed(files, entries, history.gone)
    if history.is_compacted:
        return [list(late)]
    return [*([history.gone] if history.gone else ()), *history.commits]


@dataclass(frozen=True, slots=True, kw_only=True)
class _LateHistory:
    """What kept snapshots tell of late files since the change of keys, or since others were moved.

    `commits` has the live ones by their commits, oldest first, and `gone` those of which none is
    kept. `followed` is a late commit, if it is kept, and one of the present keys after it.
    `is_compacted` says that a late client compacted, which may have joined rows from before a
    follower.
    """

    commits: tuple[list[ManifestEntry], ...]
    gone: list[ManifestEntry]
    followed: tuple[int | None, int] | None
    is_compacted: bool

    @classmethod
    def read(
        cls, files: TableFiles, latest: Snapshot, late: Sequence[ManifestEntry]
    ) -> _LateHistory:
        waiting = {each.file.file_name: each for each in late}
        commits: list[list[ManifestEntry]] = []
        followed: tuple[int | None, int] | None = None
        follower, is_compacted, is_whole = None, False, False
        for snapshot in files.snapshots.back_from(latest):
            if not (waiting or is_compacted):
                break
            delta = [*files.manifests.entries(files.manifests.read_delta_list(snapshot))]
            came = late_entries(files, (e for e in delta if e.kind is FileKind.ADD))
            went = late_entries(files, (e for e in delta if e.kind is FileKind.DELETE))
            is_rewrite = snapshot.commit_kind in _REWRITES
            is_whole = BridgeRecord.of(snapshot) is not None or bool(
                is_rewrite and went and not came
            )
            if is_whole:
                break
            if came and follower is not None:
                followed = followed or (snapshot.id, follower)
            names = [each.file.file_name for each in came]
            own = [waiting.pop(name) for name in names if name in waiting]
            is_compacted = is_compacted or bool(own and is_rewrite)
            if own:
                commits.append(own)
            if not is_rewrite and any(e.kind is FileKind.ADD for e in delta) and not came:
                follower = snapshot.id
        if is_compacted and follower is not None and not is_whole:
            # What the compaction joined may have been committed before the follower.
            followed = followed or (None, follower)
        return cls(
            commits=tuple(reversed(commits)),
            gone=list(waiting.values()),
            followed=followed,
            is_compacted=is_compacted,
        )

    def check_none_followed(self, files: TableFiles) -> None:
        """Check that no rows of the present keys were committed after late ones."""
        if self.followed is None:
            return
        late, follower = self.followed
        if late is None:
            raise UnsupportedError(
                f"a client that opened {files.name} before its partition keys changed compacted "
                f"its rows after snapshot {follower}, and those from before may have expired, so "
                "it is unknown which rows came later; roll back to a tag of before, or "
                f"{_late_rows_win(files)}"
            )
        raise UnsupportedError(
            f"snapshot {late} of {files.name} holds rows of a client that opened the table before "
            f"its partition keys changed, and snapshot {follower} was committed after it, so "
            "it is unknown which of their rows came later; roll back (lakewright rollback "
            f"{files.name} --snapshot {late - 1}), and write the rows of both again, or "
            f"{_late_rows_win(files)}"
        )


def _check_none_may_have_followed(
    files: TableFiles, entries: Sequence[ManifestEntry], late: Sequence[ManifestEntry]
) -> None:
    """Check that no file of the present keys is younger than late files whose commits are gone."""
    names = {entry.file.file_name for entry in late_entries(files, entries)}
    since = min((each.file.creation_time or 0 for each in late), default=0)
    for entry in entries:
        if entry.file.file_name not in names and (entry.file.creation_time or 0) > since:
            raise UnsupportedError(
                f"clients that opened {files.name} before its partition keys changed committed "
                f"{len(late)} files, in snapshots that have expired, and data file "
                f"{entry.file.file_name} was written after them, so it is unknown which of their "
                f"rows came later; roll back to a tag of before, or {_late_rows_win(files)}"
            )


def _late_rows_win(files: TableFiles) -> str:
    keys = ",".join(files.schema.partition_keys)
    return (
        "say that the late rows are the latest "
        f"(lakewright respec {files.name} --keys {keys!r} --late-rows-win)"
    )


def _hash_indexes_before(
    files: TableFiles, latest: Snapshot, late: Iterable[str]
) -> tuple[IndexEntry, ...]:
    """The hash indexes of the present keys, as they were before late files came.

    A commit of pypaimon writes the rows of all of them anew, by the keys that it knows.
    """
    names = set(late)
    for snapshot in files.snapshots.back_from(latest):
        added = files.manifests.entries(files.manifests.read_delta_list(snapshot))
        if not any(each.file.file_name in names for each in added):
            found = index_entries(files, snapshot)
            return tuple(each for each in found if each.file.index_type == HASH_INDEX)
    raise UnsupportedError(
        f"all snapshots of {files.name} hold rows that a client committed under former partition "
        "keys, and none is left that shows the buckets of the present ones; roll back to a tag of "
        "before, or write the rows to a new table"
    )


def _check_same_primary_key(
    files: TableFiles, latest: Snapshot, late: Sequence[ManifestEntry]
) -> None:
    """Refuse rows that replaced others by another primary key."""
    for entry in late:
        own = files.at_schema(entry.file.schema_id).schema.primary_keys
        if set(own) != set(files.schema.primary_keys):
            raise UnsupportedError(
                f"a client that opened {files.name} before its keys changed committed rows by the "
                f"primary key ({', '.join(own)}), and it is "
                f"({', '.join(files.schema.primary_keys)}) now, so they replace other rows; roll "
                "back to the snapshot before that commit, and write its rows again (the latest is "
                f"{latest.id})"
            )


def _check_rows_stay_in_partitions(
    files: TableFiles, latest: Snapshot, late: Sequence[ManifestEntry]
) -> None:
    """Refuse late rows of tables whose rows move between partitions.

    A row that moved is a deletion in one partition and a row in another. Their numbers do not tell
    which came later.
    """
    schemas = {each.file.schema_id: files.at_schema(each.file.schema_id).schema for each in late}
    schemas[files.schema.id] = files.schema
    crossing = next((schema for schema in schemas.values() if schema.crosses_partitions), None)
    if crossing is not None:
        raise UnsupportedError(
            f"a client that opened {files.name} before its keys changed committed {len(late)} "
            f"files, and under the partition keys ({', '.join(crossing.partition_keys)}), which "
            f"the primary key ({', '.join(crossing.primary_keys)}) lacks, rows move between "
            "partitions, so it is unknown which of two rows of a key came later; roll back to the "
            f"snapshot before that commit, and write its rows again (the latest is {latest.id})"
        )


def _number_after(entries: Iterable[ManifestEntry]) -> int:
    """The sequence number that follows those of all rows."""
    return max((entry.file.max_sequence_number for entry in entries), default=-1) + 1


def _moves(
    files: TableFiles, late: Sequence[ManifestEntry]
) -> Iterable[tuple[TableFiles, list[Move]]]:
    """The late files by their keys: the table under these, and its partitions."""
    by_keys: dict[tuple[str, ...], list[ManifestEntry]] = defaultdict(list)
    for entry in late:
        by_keys[files.at_schema(entry.file.schema_id).schema.partition_keys].append(entry)
    for keys, entries in by_keys.items():
        former = replace(files, schema=replace(files.schema, partition_keys=keys))
        yield (former, [Move.of(row, held) for row, held in by_partition(entries).items()])
