"""A change becomes the next snapshot; a losing committer retries on the snapshot that won.

1. Read the latest snapshot. Search for a snapshot that an earlier attempt of this commit made.
   If a change of the partition keys is under way, wait; end it if its process died.
2. Build the change on the latest snapshot.
3. Check for conflicts: every file that the change removes must be live.
4. Write the base list (merged manifests), the delta manifest and its list, and those of the
   changelog and the index manifest if they change. Make these files, and all files that the
   change adds, durable.
5. If snapshot N-1 still exists, create snapshot N only if it is absent. If another commit took
   N: clean up, wait, and start again at 1. If the outcome is unknown: read snapshot N, and never
   delete files that it may name.
6. Check that no rollback removed the base (`references/commit_standing.py`), and that the rows fit
   a schema that an alter made meanwhile. Otherwise withdraw the snapshot, clean up, and start again
   at 1.
7. Update the hints. Publish Iceberg metadata, if the table's options ask for it.

Source: Paimon specification, chapter Snapshot; `FileStoreCommitImpl`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count

from lakewright.storage.env import Env
from lakewright.storage.errors import (
    CommitOutcomeUnknownError,
    CorruptionError,
    InvalidRequestError,
    NotWritten,
    RetriesExhausted,
    SnapshotNotFound,
    StalePlan,
    StorageError,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.commit_conflicts import check_conflicts
from lakewright.storage.operations.commit.commit_manifests import (
    named_files,
    still_fits,
    write_manifests,
)
from lakewright.storage.operations.commit.keys_gate import (
    KEYS_POLL_MS,
    BuildChange,
    Gate,
    ending_of_change,
    look_at_keys,
)
from lakewright.storage.operations.commit.partition_deltas import partition_deltas
from lakewright.storage.operations.commit.restamp import stem_of
from lakewright.storage.operations.iceberg.hooks import publish_after_commit
from lakewright.storage.operations.references.commit_standing import (
    Trace,
    is_followed,
    is_on_top,
    remove_stray,
)
from lakewright.storage.operations.running.delete_files import discard_files, take_files
from lakewright.storage.operations.state.latest import is_latest
from lakewright.storage.operations.state.live_files import KnownEntries
from lakewright.storage.operations.state.table_state import TableState
from lakewright.storage.spec.arguments import text_argument, whole_number
from lakewright.storage.spec.commit import Change, CommitResult, Committable
from lakewright.storage.spec.manifest import FileKind
from lakewright.storage.spec.snapshot import CommitKind, Snapshot

# A losing committer waits at most four times the duration of one attempt. A longer wait would let
# later committers win each time.
_LONGEST_WAIT_IN_TRIES = 4
_SHORTEST_WAIT_MS = 1
_SHORTEST_TRY_MS, _LONGEST_TRY_MS = 10, 2_000

# A merge of many manifests takes longer than other committers need for a commit. So a committer
# that has lost this often leaves the merge to later commits.
_MERGING_TRIES = 2

# Without `commit.max-retries`, a committer gives up after both limits: this many retries and
# this much waiting time.
_USUAL_RETRIES = 10
_USUAL_PATIENCE_MS = 60_000
# A rewrite races with writers, which never pause for it: a wait costs it time, and giving up all of
# its work. So it tries again at once, and more often.
_RETRIES_OF_A_REWRITE = 100


def commit_change(files: TableFiles, build: BuildChange, committable: Committable) -> CommitResult:
    """Build a change on the latest snapshot and commit it; retry while other commits win."""
    if files.paths.branch:
        files.check_unserved("commit to a branch")
    committable = _named_after_run(files, committable)
    known: KnownEntries = {}
    durable: set[str] = set()
    waited_ms = 0.0
    for attempt in count():
        started_ms = files.env.now_ms()
        gate = Gate.OPEN
        latest = files.snapshots.latest()
        state = TableState(files, latest, known)
        earlier = _committed_before(files, committable, latest)
        if earlier is not None:
            return CommitResult(snapshot=earlier, attempts=attempt, already_committed=True)
        snapshot = None
        try:
            if not committable.restates:
                gate = look_at_keys(state, committable.kind, waited_ms)
            if gate is Gate.OPEN:
                change = build(state)
                if change is None or change.is_empty:
                    return CommitResult(snapshot=None, attempts=attempt)
                check_conflicts(state, change, committable)
                if latest is None or remove_stray(files, latest):
                    merges = attempt < _MERGING_TRIES
                    snapshot = _try_commit(state, change, committable, durable, merges)
            elif gate is Gate.END:
                end_change_of_keys(files)
        except CorruptionError:
            # A rollback or an expiry may have removed the snapshot during this attempt.
            if is_latest(files, latest):
                raise
        if snapshot is not None:
            publish_after_commit(files)
            return CommitResult(snapshot=snapshot, attempts=attempt + 1)
        is_rewrite = committable.kind is CommitKind.COMPACT and not committable.restates
        if _is_hopeless(files, attempt, waited_ms, is_rewrite=is_rewrite):
            break
        if latest is not None:
            committable = replace(committable, base_commit=latest.delta_manifest_list)
        took_ms = 0 if is_rewrite else files.env.now_ms() - started_ms
        wait_ms = _wait_ms(files.env, 0 if is_rewrite else attempt, took_ms)
        if gate is not Gate.OPEN:
            wait_ms = max(wait_ms, KEYS_POLL_MS)
        files.env.sleep_ms(wait_ms)
        waited_ms += wait_ms
    raise RetriesExhausted(
        f"commit to {files.name} by {committable.user} lost the race for the next snapshot "
        f"{attempt + 1} times, and waited {waited_ms / 1000:.0f} s in all; try again, or raise "
        "commit.max-retries"
    )


def _named_after_run(files: TableFiles, committable: Committable) -> Committable:
    """The commit under the name of the run that makes it; a series has its own name."""
    user, run = committable.user, files.run
    if run is None or committable.in_series or user.startswith(run):
        return committable
    return replace(committable, user=f"{run}-{user}")


def end_change_of_keys(files: TableFiles) -> CommitResult:
    """Bring the latest state to the table's keys: a process or client left it with others.

    Raises:
        UnsupportedError: a file holds several values of a key, or a client that opened the table
            before the change committed after it.
    """
    files, build, user = ending_of_change(files)
    return commit_bridging(files, build, user=user)


def commit_bridging(
    files: TableFiles, build: BuildChange, *, user: str | None = None
) -> CommitResult:
    """Commit a step of a change of the partition keys; other commits wait until the last one."""
    committable = Committable(
        user=user or files.env.new_id(),
        kind=CommitKind.COMPACT,
        base_id=files.snapshots.latest_id(),
        restates=True,
    )
    return commit_change(files, build, committable)


def _is_hopeless(files: TableFiles, retries: int, waited_ms: float, *, is_rewrite: bool) -> bool:
    """Whether a losing committer has used all its retries."""
    most = files.options.commit_max_retries
    if most is not None:
        return retries >= most
    if is_rewrite:
        return retries >= _RETRIES_OF_A_REWRITE
    return retries >= _USUAL_RETRIES and waited_ms >= _USUAL_PATIENCE_MS


def _wait_ms(env: Env, retries: int, took_ms: int) -> float:
    """How long a committer waits after a lost attempt of a given duration."""
    tries = min(_LONGEST_WAIT_IN_TRIES, 1 + retries)
    longest_ms = tries * min(max(took_ms, _SHORTEST_TRY_MS), _LONGEST_TRY_MS)
    return max(_SHORTEST_WAIT_MS, longest_ms * env.jitter())


def _committed_before(
    files: TableFiles, committable: Committable, latest: Snapshot | None
) -> Snapshot | None:
    """The snapshot that an earlier attempt of the same commit made, or None.

    Its id may be smaller than that of the commit's base if the table was rolled back in between.
    Ids may be missing while a rollback is under way.
    """
    if committable.in_series:
        return find_committed(files, committable.user, committable.identifier, committable.kind)
    if latest is None:
        return None
    for snapshot in files.snapshots.back_from(latest):
        if _is_base(committable, snapshot):
            return None
        same = (snapshot.commit_user, snapshot.commit_identifier, snapshot.commit_kind) == (
            committable.user,
            committable.identifier,
            committable.kind,
        )
        if same and _adds(files, snapshot, committable.added_files):
            return snapshot
    return None


def _is_base(committable: Committable, snapshot: Snapshot) -> bool:
    if committable.base_commit is None:
        return snapshot.id <= (committable.base_id or 0)
    return snapshot.delta_manifest_list == committable.base_commit


def _adds(files: TableFiles, snapshot: Snapshot, stems: frozenset[str]) -> bool:
    """Whether a snapshot added one of the files; True if no files are given."""
    metas = files.manifests.read_delta_list(snapshot) if stems else ()
    return not stems or any(
        entry.kind is FileKind.ADD and stem_of(entry.file.file_name) in stems
        for entry in files.manifests.entries(metas)
    )


def _try_commit(
    state: TableState, change: Change, committable: Committable, durable: set[str], merges: bool
) -> Snapshot | None:
    """Make one attempt; None if it lost, and then none of its files remains."""
    files, latest = state.files, state.snapshot
    written: list[str] = []
    try:
        snapshot = write_manifests(state, change, committable, written, merges=merges)
        named = named_files(files, change) - durable
        manifests = map(files.paths.manifest, written)
        files.fs.make_durable([*named, *manifests], below=files.paths.root)
        durable |= named
        # A slow committer may find its id free again, if an expiry removed the winning snapshot
        # and the base.
        is_current = latest is None or files.snapshots.exists(latest.id)
    except BaseException:
        # A second store failure must not hide why the commit failed.
        with suppress(StorageError):
            _clean_up(files, written)
        raise
    if not is_current:
        _clean_up(files, written)
        return None
    try:
        # The store's answer proves nothing. A request that was sent twice finds its own file.
        # Other writers of the format rename over files, and may replace a new snapshot.
        deltas = () if files.server is None else partition_deltas(files, change.entries)
        created = files.snapshots.put_snapshot(snapshot, latest, deltas)
        try:
            ours = _is_ours(files, snapshot)
        except SnapshotNotFound:
            if created:
                # A rollback saw the snapshot after its creation, and deleted it with the others.
                return snapshot
            if files.server is None:
                raise
            # The server has another latest snapshot, of whatever id.
            ours = False
    except (NotWritten, InvalidRequestError):
        with suppress(StorageError):
            _clean_up(files, written)
        raise
    except StorageError as error:
        ours = _created_after_all(files, snapshot, error)
    trace = Trace.of(snapshot, written, change.entries, change.delta)
    if ours and not (
        _still_stands(files, latest, snapshot, trace)
        and _still_fits(files, snapshot, change, committable)
    ):
        if files.server is not None:
            raise _unfit(files, snapshot)
        if not _withdraw(files, latest, snapshot, trace):
            return snapshot
        _clean_up(files, written)
        return None
    if not ours:
        _clean_up(files, written)
        return None
    # The commit stands even if the hints cannot be written: a hint may always be wrong.
    with suppress(StorageError, OSError):
        files.snapshots.hint_latest(snapshot.id)
        if latest is None:
            files.snapshots.hint_earliest(snapshot.id)
    return snapshot


def _still_stands(
    files: TableFiles, base: Snapshot | None, snapshot: Snapshot, trace: Trace
) -> bool:
    try:
        if base is None or files.server is not None:
            # A server compares the base while it makes the snapshot.
            return True
        return is_on_top(files, base, snapshot, trace)
    except StorageError as error:
        raise _outcome_unknown(files, snapshot, error) from error


def _still_fits(
    files: TableFiles, snapshot: Snapshot, change: Change, committable: Committable
) -> bool:
    try:
        return still_fits(files, snapshot, change, committable)
    except StorageError as error:
        raise _outcome_unknown(files, snapshot, error) from error


def _withdraw(files: TableFiles, base: Snapshot | None, snapshot: Snapshot, trace: Trace) -> bool:
    """Delete a snapshot that does not stand; False if it was published after all.

    Raises:
        CommitOutcomeUnknownError: another commit followed it, or the store failed.
    """
    try:
        path = files.paths.snapshot(snapshot.id)
        data = take_files(files.fs, [path]).get(path)
        if data is None:
            # A rollback saw the snapshot, and deleted it with the others.
            return False
        if not is_followed(files, snapshot, trace):
            return True
        # The next snapshot names our manifests. If the rollback gave up, the base exists again.
        is_back = files.snapshots.put_back(snapshot.id, data)
        if is_back and (base is None or is_on_top(files, base, snapshot, trace)):
            return False
        raise StalePlan("others have committed on top of it, and the snapshot before it is gone")
    except StorageError as error:
        raise _outcome_unknown(files, snapshot, error) from error


def _clean_up(files: TableFiles, written: Sequence[str]) -> None:
    discard_files(files.fs, [files.paths.manifest(name) for name in written])


def _created_after_all(files: TableFiles, snapshot: Snapshot, error: StorageError) -> bool:
    """Whether a failed create took effect nevertheless."""
    try:
        if files.snapshots.exists(snapshot.id):
            ours = _is_ours(files, snapshot)
            if ours:
                # The failed step may have been the one that makes the snapshot durable.
                files.fs.make_durable([files.paths.snapshot(snapshot.id)])
            return ours
    except StorageError:
        pass
    raise _outcome_unknown(files, snapshot, error) from error


def _outcome_unknown(
    files: TableFiles, snapshot: Snapshot, error: StorageError
) -> CommitOutcomeUnknownError:
    return CommitOutcomeUnknownError(
        f"the store failed while snapshot {snapshot.id} of {files.name} was created: {error}; "
        f"look for commit user {snapshot.commit_user}, identifier {snapshot.commit_identifier}, "
        "before trying again"
    )


def _unfit(files: TableFiles, snapshot: Snapshot) -> CommitOutcomeUnknownError:
    return CommitOutcomeUnknownError(
        f"snapshot {snapshot.id} of {files.name} is committed, and another client altered the "
        "table at that moment, so that rows of it may not fit; a server of a REST catalog takes no "
        f"snapshot back: look at them, and revert snapshot {snapshot.id} if they do not"
    )


def _is_ours(files: TableFiles, snapshot: Snapshot) -> bool:
    return files.snapshots.read(snapshot.id).delta_manifest_list == snapshot.delta_manifest_list


def find_committed(
    files: TableFiles, user: str, identifier: int, kind: CommitKind | None = None
) -> Snapshot | None:
    """The snapshot that a (user, identifier) committed; None if it does not exist or has expired.

    Identifiers of one user increase, so the search ends at a smaller one.

    Raises:
        InvalidRequestError: the user is no text, or the identifier no whole number.
    """
    text_argument(user, "commit_user")
    identifier = whole_number(identifier, "commit_identifier")
    for snapshot in files.snapshots.newest_first():
        if snapshot.commit_user != user:
            continue
        if snapshot.commit_identifier == identifier and kind in (None, snapshot.commit_kind):
            return snapshot
        if snapshot.commit_identifier < identifier:
            return None
    return None
