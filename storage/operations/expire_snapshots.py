"""Expiry: old snapshots go, and with them the files that only they needed.

1. Choose the range [earliest, end): beyond the count and the age to retain, and
   before the first snapshot that a consumer still wants.
2. Candidates: data files that a delta after the first expired snapshot removed,
   and the manifests, lists, changelogs, index and statistics files of the range.
3. Keep whatever `end`, a later snapshot, a tag, a branch or a changelog reaches;
   what cannot be read keeps everything it might name, so nothing is deleted then.
4. Run: point EARLIEST at `end`, delete data files, then manifests, then the lists
   that name them, then snapshot files, oldest first. Stopped halfway, the next run
   finds the same range, and takes a manifest that is gone for one whose files are.

A file that no DELETE entry names is never deleted here. Source: Paimon
`ExpireSnapshotsImpl`, `SnapshotDeletion`.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace

from lakewright.storage.errors import InvalidRequestError, StalePlan
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.delete_files import delete_files, remove_empty_folders
from lakewright.storage.operations.scan import live_entries
from lakewright.storage.spec.manifest import FileKind, ManifestFileMeta
from lakewright.storage.spec.options import Use, check_supported
from lakewright.storage.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ExpiredFile:
    """A file to delete; a path below the table's root."""

    path: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpirePlan:
    """Snapshots to expire and the files that go with them; `reasons` says what bounds the range."""

    table: str
    snapshot_ids: tuple[int, ...]
    end_id: int | None
    files: tuple[ExpiredFile, ...]
    reasons: tuple[str, ...]

    @property
    def bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    def to_json(self) -> str:
        """The plan as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ExpirePlan:
        """The inverse of `to_json`."""
        data = json.loads(text)
        return cls(
            table=data["table"],
            snapshot_ids=tuple(data["snapshot_ids"]),
            end_id=data["end_id"],
            files=tuple(ExpiredFile(**file) for file in data["files"]),
            reasons=tuple(data["reasons"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireResult:
    """What an expiry deleted."""

    expired: tuple[int, ...]
    files_deleted: int
    bytes_deleted: int
    duration_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How much history to keep; `limit` bounds how many snapshots one run expires."""

    retain_min: int
    retain_max: int
    time_retained_ms: int
    limit: int


def plan_expire_snapshots(
    files: TableFiles,
    *,
    retain_min: int | None = None,
    retain_max: int | None = None,
    time_retained_ms: int | None = None,
    max_deletes: int | None = None,
) -> ExpirePlan:
    """What may go; what is not given is taken from the table's options.

    Raises:
        InvalidRequestError: `retain_min` is below 1 or above `retain_max`.
        CorruptionError: something that must be read to be sure cannot be.
    """
    check_supported(files.schema, Use.WRITE, table=files.name)
    options = files.options
    retention = Retention(
        retain_min=options.snapshot_num_retained_min if retain_min is None else retain_min,
        retain_max=options.snapshot_num_retained_max if retain_max is None else retain_max,
        time_retained_ms=(
            options.snapshot_time_retained_ms if time_retained_ms is None else time_retained_ms
        ),
        limit=options.snapshot_expire_limit if max_deletes is None else max_deletes,
    )
    _check_retention(retention, files.name)
    ids = files.snapshots.ids()
    if not ids:
        return _nothing(files, None, "the table has no snapshot")
    end, reasons = _end_of_range(files, ids, retention)
    expired = [snapshot_id for snapshot_id in ids if snapshot_id < end]
    if not expired:
        return _nothing(files, ids[0], *reasons)
    found = _files_of_range(files, [files.snapshots.read(each) for each in expired], end)
    return ExpirePlan(
        table=files.name,
        snapshot_ids=tuple(expired),
        end_id=end,
        files=tuple(found),
        reasons=tuple(reasons),
    )


def _check_retention(retention: Retention, table: str) -> None:
    if retention.retain_min < 1:
        raise InvalidRequestError(
            f"retain_min is {retention.retain_min}; at least 1 snapshot of {table} must stay"
        )
    if retention.retain_max < retention.retain_min:
        raise InvalidRequestError(
            f"retain_max ({retention.retain_max}) is below retain_min ({retention.retain_min})"
        )
    if retention.time_retained_ms < 0 or retention.limit < 1:
        raise InvalidRequestError("time_retained_ms must not be negative, max_deletes not below 1")


def _nothing(files: TableFiles, end: int | None, *reasons: str) -> ExpirePlan:
    return ExpirePlan(table=files.name, snapshot_ids=(), end_id=end, files=(), reasons=reasons)


def _end_of_range(files: TableFiles, ids: list[int], retention: Retention) -> tuple[int, list[str]]:
    """The first snapshot that stays, and why it is that one."""
    earliest, latest = ids[0], ids[-1]
    first = max(latest - retention.retain_max + 1, earliest)
    end = min(latest - retention.retain_min + 1, earliest + retention.limit)
    reasons = [f"of {len(ids)} snapshots at least {retention.retain_min} are retained"]
    consumers = files.references.consumers()
    for name, position in consumers.items():
        if position < end:
            end = position
            reasons.append(f"consumer {name} wants to read from snapshot {position}")
    oldest_kept = files.env.now_ms() - retention.time_retained_ms
    for snapshot_id in (each for each in ids if first <= each < end):
        following = next((each for each in ids if each > snapshot_id), None)
        # A snapshot is in use until its successor is older than the time to retain.
        if following is None or files.snapshots.read(following).time_millis >= oldest_kept:
            end = snapshot_id
            reasons.append(
                f"snapshot {snapshot_id} was current within the last "
                f"{retention.time_retained_ms // 1000} s"
            )
            break
    end = max(end, earliest)
    if end > earliest and end not in ids:
        end = min(each for each in ids if each > end)
    return end, reasons


def _files_of_range(files: TableFiles, expired: list[Snapshot], end: int) -> list[ExpiredFile]:
    survivors = _snapshots_from(files, end)
    roots = [(files, survivors[0]), *_referenced(files)]
    kept_data = {path for table, root in roots for path in _state_paths(table, root)}
    # What later snapshots added need not be in the state of the first one that stays.
    for snapshot in survivors[1:]:
        kept_data |= {path for path, _ in _delta_paths(files, snapshot, FileKind.ADD)}
    sizes = {each.path: each.size for each in files.fs.list_dir(files.paths.manifest_dir)}
    data: dict[str, int] = {}
    # The delta of a snapshot removes what the one before it still needs, hence the shift by one.
    for snapshot in [*expired[1:], survivors[0]]:
        left = None if snapshot is survivors[0] else sizes.keys()
        removed = _delta_paths(files, snapshot, FileKind.DELETE, left=left)
        data |= {path: size for path, size in removed if path not in kept_data}

    kept_metadata: set[str] = set()
    for snapshot in survivors:
        kept_metadata |= _metadata_paths(files, snapshot)
    for table, root in roots:
        kept_metadata |= _metadata_paths(table, root)
    for changelog in files.references.changelogs():
        kept_metadata |= _metadata_paths(files, changelog)
    gone: set[str] = set()
    for snapshot in expired:
        gone |= _metadata_paths(files, snapshot, left=sizes.keys())
    in_order = sorted(gone - kept_metadata, key=lambda path: (_is_list(path), path))
    metadata = {path: sizes.get(path, 0) for path in in_order}
    root_folder = files.paths.root + "/"
    return [
        ExpiredFile(path.removeprefix(root_folder), size)
        for path, size in {**data, **metadata}.items()
    ]


def _snapshots_from(files: TableFiles, first: int) -> list[Snapshot]:
    return [files.snapshots.read(each) for each in files.snapshots.ids() if each >= first]


def _referenced(files: TableFiles) -> list[tuple[TableFiles, Snapshot]]:
    """Snapshots that tags and branches keep, each with the table as it is seen from there."""
    found = [(files, tag.snapshot) for tag in files.references.tags().values()]
    for paths in files.references.branches().values():
        branch = replace(files, paths=paths)
        found += [(branch, snapshot) for snapshot in _snapshots_from(branch, 0)]
        found += [(branch, tag.snapshot) for tag in branch.references.tags().values()]
    return found


def _state_paths(files: TableFiles, snapshot: Snapshot) -> set[str]:
    seen = files.at_schema(snapshot.schema_id)
    return {path for entry in live_entries(seen, snapshot) for path in seen.entry_paths(entry)}


def _is_list(path: str) -> bool:
    return path.rsplit("/", 1)[-1].startswith(("manifest-list-", "index-manifest-"))


def _delta_paths(
    files: TableFiles, snapshot: Snapshot, kind: FileKind, *, left: Collection[str] | None = None
) -> list[tuple[str, int]]:
    """Paths that a snapshot's delta added, or removed for good; with their sizes in bytes.

    `left` are the manifests there are, given where an earlier expiry may have deleted others:
    it deleted the data files they name before.
    """
    seen = files.at_schema(snapshot.schema_id)
    metas = _listed(files, snapshot.delta_manifest_list, left)
    if left is not None:
        metas = tuple(meta for meta in metas if files.paths.manifest(meta.file_name) in left)
    entries = list(files.manifests.entries(metas))
    # Moving a file to another level removes and adds the same file.
    added = {path for e in entries if e.kind is FileKind.ADD for path in seen.entry_paths(e)}
    return [
        (path, entry.file.file_size)
        for entry in entries
        if entry.kind is kind
        for path in seen.entry_paths(entry)
        if kind is FileKind.ADD or path not in added
    ]


def _listed(
    files: TableFiles, list_name: str, left: Collection[str] | None
) -> tuple[ManifestFileMeta, ...]:
    if left is not None and files.paths.manifest(list_name) not in left:
        return ()
    return files.manifests.read_list(list_name)


def _metadata_paths(
    files: TableFiles, snapshot: Snapshot, *, left: Collection[str] | None = None
) -> set[str]:
    """Manifest lists, manifests, index and statistics files that a snapshot names."""
    paths = files.paths
    found = {paths.manifest(name) for name in snapshot.manifest_lists}
    for name in snapshot.manifest_lists:
        found |= {paths.manifest(meta.file_name) for meta in _listed(files, name, left)}
    if snapshot.index_manifest is not None:
        index_manifest = paths.manifest(snapshot.index_manifest)
        found.add(index_manifest)
        if left is None or index_manifest in left:
            index_files = files.manifests.read_index_manifest(snapshot.index_manifest)
            found |= {paths.index(entry.file.file_name) for entry in index_files}
    if snapshot.statistics is not None:
        found.add(paths.statistics(snapshot.statistics))
    return found


def run_expire_snapshots(files: TableFiles, plan: ExpirePlan) -> ExpireResult:
    """Carry a plan out.

    Raises:
        StalePlan: snapshots came or went so that the plan's range is not the earliest any more,
            or something refers to what it deletes.
    """
    check_supported(files.schema, Use.WRITE, table=files.name)
    started = files.env.now_ms()
    if not plan.snapshot_ids or plan.end_id is None:
        return ExpireResult(expired=(), files_deleted=0, bytes_deleted=0, duration_ms=0)
    _check_current(files, plan)
    files.snapshots.hint_earliest(plan.end_id)
    root = files.paths.root
    paths = [f"{root}/{file.path}" for file in plan.files]
    deleted = delete_files(files.fs, paths)
    delete_files(files.fs, [files.paths.snapshot(each) for each in plan.snapshot_ids])
    if files.options.snapshot_clean_empty_directories:
        folders = {path.rsplit("/", 1)[0] for path in paths if "/bucket-" in path}
        remove_empty_folders(files.fs, folders, below=root)
    return ExpireResult(
        expired=plan.snapshot_ids,
        files_deleted=deleted,
        bytes_deleted=plan.bytes,
        duration_ms=files.env.now_ms() - started,
    )


def _check_current(files: TableFiles, plan: ExpirePlan) -> None:
    """The range must still be the earliest, and what is to go still unreachable."""
    ids = files.snapshots.ids()
    planned = set(plan.snapshot_ids)
    if plan.end_id not in ids or not {each for each in ids if each < plan.end_id} <= planned:
        raise StalePlan(
            f"the plan expires snapshots {plan.snapshot_ids[0]} to {plan.snapshot_ids[-1]} of "
            f"{files.name}, which now has {ids[0] if ids else 'none'} to "
            f"{ids[-1] if ids else 'none'}; plan again",
            table=files.name,
        )
    present = [files.snapshots.read(each) for each in plan.snapshot_ids if each in ids]
    fresh = (
        {file.path for file in _files_of_range(files, present, plan.end_id)} if present else set()
    )
    still_used = [file.path for file in plan.files if file.path not in fresh]
    if still_used:
        raise StalePlan(
            f"the plan deletes {still_used[0]} (and {len(still_used) - 1} more) of {files.name}, "
            "which something refers to by now; plan again",
            table=files.name,
        )
