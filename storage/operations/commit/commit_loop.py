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
7. Update the hints.

Source: Paimon specification, chapter Snapshot; `FileStoreCommitImpl`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
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
    UnsupportedError,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.bridged_base import ended, fenced
from lakewright.storage.operations.commit.commit_conflicts import check_conflicts
from lakewright.storage.operations.commit.commit_manifests import (
    check_keys_stay,
    named_files,
    still_fits,
    write_manifests,
)
from lakewright.storage.operations.commit.restamp import stem_of
from lakewright.storage.operations.commit.restated_base import (
    Restatement,
    files_fit,
    keys_fit,
    known_values,
    schemas_with_keys,
)
from lakewright.storage.operations.references.commit_standing import (
    Trace,
    is_followed,
    is_on_top,
    remove_stray,
)
from lakewright.storage.operations.running.delete_files import discard_files, take_files
from lakewright.storage.operations.running.engine import LocalEngine
from lakewright.storage.operations.state.latest import is_latest, read_latest
from lakewright.storage.operations.state.live_files import LiveFiles, live_entries, standing_entries
from lakewright.storage.spec.arguments import text_argument, whole_number
from lakewright.storage.spec.commit import Change, CommitResult, Committable
from lakewright.storage.spec.manifest import FileKind
from lakewright.storage.spec.snapshot import (
    BATCH_COMMIT_IDENTIFIER,
    KEYS_CHANGE_PROPERTY,
    CommitKind,
    Snapshot,
)

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


# A process that changes the partition keys needs far less from its first snapshot to its last.
# After this time it counts as dead, and a committer ends the change.
_KEYS_CHANGE_WITHIN_MS = 10_000
_KEYS_POLL_MS = 250

# Builds the change on the latest snapshot; None if there is nothing to change.
BuildChange = Callable[[Snapshot | None, LiveFiles], Change | None]


def commit_change(files: TableFiles, build: BuildChange, committable: Committable) -> CommitResult:
    """Build a change on the latest snapshot and commit it; retry while other commits win."""
    committable = _named_after_run(files, committable)
    live_files = LiveFiles(files)
    durable: set[str] = set()
    waited_ms = 0.0
    for attempt in count():
        started_ms = files.env.now_ms()
        keys_change = False
        latest = files.snapshots.latest()
        earlier = _committed_before(files, committable, latest)
        if earlier is not None:
            return CommitResult(snapshot=earlier, attempts=attempt, already_committed=True)
        try:
            if (
                latest is None
                or committable.restates
                or (
                    _keys_stand(files, latest, live_files, committable.kind)
                    and not _is_held(files, latest, waited_ms)
                )
            ):
                change = build(latest, live_files)
                if change is None or change.is_empty:
                    return CommitResult(snapshot=None, attempts=attempt)
                check_conflicts(files, latest, change, committable, live_files)
                is_free = latest is None or remove_stray(files, latest)
                merges = attempt < _MERGING_TRIES
                snapshot = (
                    _try_commit(files, latest, change, committable, live_files, durable, merges)
                    if is_free
                    else None
                )
            else:
                snapshot, keys_change = None, True
                if _is_over(files, latest, waited_ms):
                    end_change_of_keys(files)
        except CorruptionError:
            # A rollback or an expiry may have removed the snapshot during this attempt.
            if is_latest(files, latest):
                raise
            snapshot = None
        if snapshot is not None:
            return CommitResult(snapshot=snapshot, attempts=attempt + 1)
        if _is_hopeless(files, attempt, waited_ms):
            break
        if latest is not None:
            committable = replace(committable, base_commit=latest.delta_manifest_list)
        wait_ms = _wait_ms(files.env, attempt, files.env.now_ms() - started_ms)
        if keys_change:
            wait_ms = max(wait_ms, _KEYS_POLL_MS)
        files.env.sleep_ms(wait_ms)
        waited_ms += wait_ms
    raise RetriesExhausted(
        f"commit to {files.name} by {committable.user} lost the race for the next snapshot "
        f"{attempt + 1} times, and waited {waited_ms / 1000:.0f} s in all; try again, or raise "
        "commit.max-retries",
        table=files.name,
    )


def _named_after_run(files: TableFiles, committable: Committable) -> Committable:
    """The commit under the name of the run that makes it; a series has its own name."""
    user, run = committable.user, files.run
    if run is None or committable.in_series or user.startswith(run):
        return committable
    return replace(committable, user=f"{run}-{user}")


def _keys_stand(
    files: TableFiles, latest: Snapshot, live_files: LiveFiles, kind: CommitKind
) -> bool:
    """Whether no change of the partition keys is under way, and no file has other keys.

    An append to a table without a primary key leaves all files as they are, so it looks at
    manifests alone. With one, its rows would follow late ones, and nothing would tell which came
    later.

    Raises:
        SchemaMoved: the keys changed since the table was opened.
    """
    is_apart = kind is CommitKind.APPEND and not files.schema.has_primary_key
    fit = keys_fit if is_apart else files_fit
    if fit(files, live_files.manifests(latest)):
        return True
    check_keys_stay(files, files.schemas.latest(table=files.name))
    return False


def _is_held(files: TableFiles, latest: Snapshot, waited_ms: float) -> bool:
    """Whether another process is about to change the partition keys, and lets others wait.

    Its rows are right under the present keys, so nothing is to be ended if it died.

    Raises:
        SchemaMoved: the keys changed since the table was opened.
    """
    holder = (latest.properties or {}).get(KEYS_CHANGE_PROPERTY)
    if holder in (None, files.holding) or _is_over(files, latest, waited_ms):
        return False
    check_keys_stay(files, files.schemas.latest(table=files.name))
    # The snapshot by which a table got its primary key is of the schema before.
    then = files.at_schema(latest.schema_id).schema
    return then.has_primary_key == files.schema.has_primary_key


def _is_over(files: TableFiles, latest: Snapshot, waited_ms: float) -> bool:
    """Whether a change of the keys that began with a snapshot counts as dead."""
    since_ms = files.env.now_ms() - latest.time_millis
    return max(waited_ms, since_ms) >= _KEYS_CHANGE_WITHIN_MS


def end_change_of_keys(files: TableFiles) -> CommitResult:
    """Restate the latest state under the table's keys: a process or client left it with others.

    Raises:
        UnsupportedError: a file holds several values of a key.
    """
    if files.schema.has_primary_key:
        files = fenced(files)
        return commit_bridging(files, partial(ended, files))
    _, live = read_latest(files, partial(live_entries, files))
    schemas = schemas_with_keys(files, {entry.file.schema_id for entry in live})
    lacking = [each for each, alike in schemas.items() if alike is None]
    if lacking:
        raise UnsupportedError(
            f"data files of {files.name} have schema {lacking[0]}, with other partition keys, and "
            "no schema with the present keys has its columns: a client wrote them that opened the "
            "table long ago; run respec with the present keys",
            table=files.name,
        )
    how = Restatement(
        files=files,
        keys=files.partitions.keys,
        values_of=known_values(files, LocalEngine(env=files.env)),
        schemas={each: alike for each, alike in schemas.items() if alike is not None},
        run_id=files.env.new_id(),
    )
    return restate(files, how)


def restate(files: TableFiles, how: Restatement) -> CommitResult:
    """Commit the latest state with other partition rows.

    Raises:
        UnsupportedError: a file has no value for a key.
    """

    def build(latest: Snapshot | None, live_files: LiveFiles) -> Change | None:
        if latest is None:
            return None
        live = standing_entries(files, latest, live_files.entries(latest))
        return Change(base=how.base(latest, live), statistics=latest.statistics)

    return commit_bridging(files, build, user=how.run_id)


def commit_bridging(
    files: TableFiles, build: BuildChange, *, user: str | None = None
) -> CommitResult:
    """Commit a step of a change of the partition keys; other commits wait until the last one."""
    committable = Committable(
        user=user or files.env.new_id(),
        identifier=BATCH_COMMIT_IDENTIFIER,
        kind=CommitKind.COMPACT,
        base_id=files.snapshots.latest_id(),
        restates=True,
    )
    return commit_change(files, build, committable)


def _is_hopeless(files: TableFiles, retries: int, waited_ms: float) -> bool:
    """Whether a losing committer has used all its retries."""
    most = files.options.commit_max_retries
    if most is not None:
        return retries >= most
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
    files: TableFiles,
    latest: Snapshot | None,
    change: Change,
    committable: Committable,
    live_files: LiveFiles,
    durable: set[str],
    merges: bool,
) -> Snapshot | None:
    """Make one attempt; None if it lost, and then none of its files remains."""
    written: list[str] = []
    try:
        snapshot = write_manifests(
            files, latest, change, committable, live_files, written, merges=merges
        )
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
        created = files.snapshots.put_snapshot(snapshot)
        try:
            ours = _is_ours(files, snapshot)
        except SnapshotNotFound:
            if not created:
                raise
            # A rollback saw the snapshot after its creation, and deleted it with the others.
            return snapshot
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
        return base is None or is_on_top(files, base, snapshot, trace)
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
        "before trying again",
        table=files.name,
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
