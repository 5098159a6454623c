"""Repairs partitions that were taken over: their folders may change without the table's knowledge.

1. Plan: list each folder that the table took over, and compare its files with the latest snapshot.
   Files that the table lacks may be added, and entries whose files are gone may be dropped. What
   must stay as it is has a reason. Nothing is written.
2. Run: check the files again, and commit what the mode asks for in one snapshot.

Files of the table's own folders are not looked at: the removal of orphans finds those that no
snapshot names. The file is long since it gives each folder and file its reason to be added, dropped
or left, and checks the same reasons again in the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain, permutations

from lakewright.storage.env import FileStatus
from lakewright.storage.errors import (
    CorruptionError,
    InvalidRequestError,
    StalePlan,
    UnsupportedError,
)
from lakewright.storage.files.external_files import RealPlaces, external_uri, path_in_store
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.register_files import Joins, commit_registered
from lakewright.storage.operations.leases.leases import list_leases
from lakewright.storage.operations.partitions.add_partitions import (
    AGE_MS,
    AddedPartition,
    allowing,
    check_takes_files,
    describe_planned,
    described_partition,
    entries_of,
    folder_path,
)
from lakewright.storage.operations.partitions.external_folders import (
    FolderOptions,
    FolderQuestion,
    FoundFolders,
    FoundPartition,
    StrayFolder,
    find_partitions,
)
from lakewright.storage.operations.partitions.external_metas import ExternalFiles
from lakewright.storage.operations.running.concurrency import map_concurrently
from lakewright.storage.operations.running.plan import Plan
from lakewright.storage.operations.running.verb_options import (
    choice,
    option,
)
from lakewright.storage.operations.state.store_clock import read_store_clock
from lakewright.storage.operations.state.table_state import state_at
from lakewright.storage.spec.arguments import list_or_none, text_argument, whole_number
from lakewright.storage.spec.lease import LeaseKind
from lakewright.storage.spec.manifest import ManifestEntry
from lakewright.storage.spec.partition import Partition
from lakewright.storage.spec.shown import Shown
from lakewright.storage.spec.snapshot import Snapshot


class RepairMode(Enum):
    """What a repair changes: `add` what is found, `drop` what is gone, `sync` both."""

    ADD = "add"
    DROP = "drop"
    SYNC = "sync"


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneFiles:
    """Files of a partition that the table refers to and that are not there any more."""

    partition: dict[str, object]
    files: tuple[str, ...]
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftFolder:
    """A folder that differs from the table and that no repair changes, with the reason.

    `partition` is empty for a folder that is none.
    """

    partition: dict[str, object]
    folder: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairPlan(Plan["RepairResult"]):
    """The drift between a table and the folders that it took over.

    A run adds `found` and drops `gone`, as far as the mode asks for it.
    """

    table: str
    snapshot_id: int | None
    mode: RepairMode
    folders: tuple[str, ...]
    found: tuple[AddedPartition, ...]
    gone: tuple[GoneFiles, ...]
    left: tuple[LeftFolder, ...]
    known_files: int

    @property
    def to_add(self) -> tuple[AddedPartition, ...]:
        """The found partitions, if the mode adds them."""
        return () if self.mode is RepairMode.DROP else self.found

    @property
    def to_drop(self) -> tuple[GoneFiles, ...]:
        """The files that are gone, if the mode drops them."""
        return () if self.mode is RepairMode.ADD else self.gone


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairResult(Shown):
    """What a repair changed; without a snapshot nothing was to change."""

    snapshot: Snapshot | None
    files_added: int
    rows_added: int
    files_dropped: int
    rows_dropped: int


# --- planning -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RepairOptions(FolderOptions):
    """What is compared, and what is done about it."""

    mode: str | RepairMode = option(
        choice(RepairMode),
        RepairMode.ADD,
        "What to change: add what is found, drop what is gone, or sync: both.",
    )


def plan_repair_partitions(files: TableFiles, options: RepairOptions) -> RepairPlan:
    """Compare the table with a folder, by default with all that it took over.

    `partition`, `keys` and `age_ms` are those of `add_partitions`. Without `keys`, folders that
    hold values alone are read as the files that the table has there. A folder that the table took
    over is skipped if no file and no name says its partitions, and so is one that is no
    partition beside others that are.

    Raises:
        InvalidRequestError: nothing was taken over, none of the folders is a partition, or a
            folder is empty, as where its disk is not mounted.
        UnsupportedError: the table has keys or buckets, or the folder lies in another store.
    """
    keys = list_or_none(options.keys, "keys", text_argument)
    check_takes_files(files)
    mode = repair_mode(options.mode)
    age_ms = AGE_MS if options.age_ms is None else whole_number(options.age_ms, "age_ms", minimum=0)
    snapshot = files.snapshots.latest()
    live = state_at(files, snapshot).entries
    roots = _roots(files, options.folder)
    now_ms = read_store_clock(files) if age_ms else 0
    report = _Drift(files, live, _leased_partitions(files))
    for root in roots:
        asked = FolderQuestion(
            root=root, given=options.partition or {}, keys=keys, now_ms=now_ms, age_ms=age_ms
        )
        if keys is None and not options.partition:
            below = report.below(root)
            asked = replace(asked, given=_partition_of(files, root, below))
            if not asked.given:
                asked = replace(asked, keys=_keys_of_values(files, asked, below))
            if options.folder is None and not below:
                report.compare_without_files(asked)
                continue
        report.compare(asked)
    return RepairPlan(
        table=files.name,
        snapshot_id=None if snapshot is None else snapshot.id,
        mode=mode,
        folders=tuple(external_uri(files.fs, root) for root in roots),
        found=tuple(report.found),
        gone=tuple(report.gone),
        left=tuple(report.left),
        known_files=report.known_files,
    )


def repair_mode(mode: str | RepairMode) -> RepairMode:
    """The mode of a name.

    Raises:
        InvalidRequestError: there is none.
    """
    try:
        return RepairMode(mode)
    except ValueError:
        names = ", ".join(each.value for each in RepairMode)
        raise InvalidRequestError(f"mode is {mode!r:.100}; it is one of {names}") from None


def _roots(files: TableFiles, folder: str | None) -> list[str]:
    if folder is not None:
        return [folder_path(files, folder)]
    allowed = files.options.external_paths
    if not allowed:
        raise InvalidRequestError(
            f"{files.name} took no folder over, so there is none to compare it with; name a "
            "folder, or take one over with add-partitions"
        )
    root = files.paths.root
    return [path_in_store(files.fs, each, root=root, table=files.name) for each in allowed]


def _leased_partitions(files: TableFiles) -> dict[str, str]:
    """Who writes to partitions, by their path texts; the empty text is the whole table."""
    found: dict[str, str] = {}
    for lease in list_leases(files):
        if lease.kind is LeaseKind.EXPIRE or lease.scope.branch != files.paths.branch:
            continue
        for path in ("",) if lease.scope.all_but else lease.scope.partitions:
            found[path] = lease.holder
    return found


def _partition_of(
    files: TableFiles, root: str, live: Sequence[tuple[str, ManifestEntry]]
) -> Mapping[str, object]:
    """The partition that a folder was taken over as, if it is one itself; otherwise empty."""
    if any("/" in path.removeprefix(f"{root}/") for path, _ in live):
        return {}
    partitions = {files.partitions.of_entry(entry) for _, entry in live}
    return partitions.pop().spec if len(partitions) == 1 else {}


def _keys_of_values(
    files: TableFiles, asked: FolderQuestion, live: Sequence[tuple[str, ManifestEntry]]
) -> Sequence[str] | None:
    """The keys of folders that hold values alone, as the table's files there show them."""
    parts = [path.removeprefix(f"{asked.root}/").split("/")[:-1] for path, _ in live]
    if all("=" in part for each in parts for part in each):
        return None
    # Folders without `=` beside such as are read were taken over as single partitions.
    if any(asked.decodes(files, *each) for each in live):
        return None
    fitting = []
    for keys in permutations(files.schema.partition_keys):
        question = replace(asked, keys=keys)
        if all(question.decodes(files, *each) for each in live):
            fitting.append(keys)
    if len(fitting) != 1:
        raise InvalidRequestError(
            f"the folders below {asked.root} hold values alone, and the files that {files.name} "
            f"has there fit {len(fitting)} orders of its partition keys; name the folder and its "
            "keys"
        )
    return fitting[0]


class _Drift:
    """Gathers how folders differ from the live files of a table."""

    def __init__(
        self, files: TableFiles, live: Sequence[ManifestEntry], leased: Mapping[str, str]
    ) -> None:
        self._files = files
        self._leased = leased
        self._described = ExternalFiles(files)
        self._places = RealPlaces()
        self._foreign = [
            (entry.file.external_path, entry)
            for entry in live
            if entry.file.external_path is not None and files.is_foreign(entry.file)
        ]
        self._by_place = {self._places.of(uri): entry for uri, entry in self._foreign}
        self._owned = {entry.partition for entry in live if not files.is_foreign(entry.file)}
        self.found: list[AddedPartition] = []
        self.gone: list[GoneFiles] = []
        self.left: list[LeftFolder] = []
        self.known_files = 0

    def below(self, root: str) -> list[tuple[str, ManifestEntry]]:
        """The live files below a folder, with their paths."""
        start = external_uri(self._files.fs, root)
        return [
            (root + uri.removeprefix(start), entry)
            for uri, entry in self._foreign
            if uri.startswith(f"{start}/")
        ]

    def compare(self, asked: FolderQuestion) -> None:
        """Compare one folder."""
        folders = find_partitions(self._files, asked)
        live = self.below(asked.root)
        held = [partition.files for partition in folders.partitions]
        held += [each.files for each in folders.strays]
        seen = {status.path for status in chain.from_iterable(held)}
        gone = [(path, entry) for path, entry in live if path not in seen]
        if not folders.partitions:
            self._check_holds_any(asked, folders, live, gone)
        for partition in folders.partitions:
            self._compare_partition(partition)
        for stray in folders.strays:
            self._compare_stray(stray)
        self._note_gone(asked.root, gone, folders)

    def _check_holds_any(
        self,
        asked: FolderQuestion,
        folders: FoundFolders,
        live: Sequence[tuple[str, ManifestEntry]],
        gone: Sequence[tuple[str, ManifestEntry]],
    ) -> None:
        """Refuse a place without any partition."""
        stray = folders.strays[0] if folders.strays else None
        if stray is not None and not live:
            raise stray.error
        if live and len(gone) == len(live):
            what = "at all" if stray is None else f"of partitions, since {stray.error.message}"
            raise InvalidRequestError(
                f"folder {asked.root} holds no data files {what}, and {self._files.name} refers to "
                f"{len(live)} files there; look whether its disk is mounted, or drop the "
                "partitions if their files were deleted"
            )

    def compare_without_files(self, asked: FolderQuestion) -> None:
        """Compare one folder of which the table refers to no file.

        It may be one partition that was dropped, renamed or compacted; only files say its values.
        """
        try:
            self.compare(asked)
        except InvalidRequestError as error:
            reason = f"the table refers to no file there, and {error.message}"
            self.left.append(LeftFolder(partition={}, folder=asked.root, reason=reason))

    def _compare_partition(self, found: FoundPartition) -> None:
        unknown = []
        for status in found.files:
            uri = external_uri(self._files.fs, status.path)
            entry = self._by_place.get(self._places.of(uri))
            if entry is None:
                unknown.append(status)
            elif entry.partition != found.partition.row:
                part = self._files.partitions.of_entry(entry).named
                self._leave(found, f"file {status.name} is part of {part}")
                return
            elif entry.file.file_size != status.size:
                self._leave(found, _written_over(status, entry))
                return
            else:
                self.known_files += 1
        if not unknown:
            return
        reason = self._reason_to_leave(found, len(unknown))
        if reason is not None:
            self._leave(found, reason)
            return
        chosen = replace(found, files=tuple(unknown))
        try:
            self.found.append(described_partition(self._files, self._described, chosen))
        except (InvalidRequestError, CorruptionError, UnsupportedError) as error:
            self._leave(found, str(error))

    def _compare_stray(self, stray: StrayFolder) -> None:
        reason = None
        for status in stray.files:
            uri = external_uri(self._files.fs, status.path)
            entry = self._by_place.get(self._places.of(uri))
            if entry is None:
                reason = stray.error.message
            elif entry.file.file_size != status.size:
                reason = reason or f"in {stray.folder}, {_written_over(status, entry)}"
            else:
                self.known_files += 1
        # A folder whose files are all known was taken over as a single partition.
        if reason is not None:
            self.left.append(LeftFolder(partition={}, folder=stray.folder, reason=reason))

    def _reason_to_leave(self, found: FoundPartition, unknown: int) -> str | None:
        holder = self._leased.get("") or self._leased.get(found.partition.path)
        if found.busy is not None:
            return f"{found.busy}: it may be being written"
        if holder is not None:
            return f"{holder} has a lease on the partition"
        if found.partition.row in self._owned:
            return (
                f"{unknown} files are unknown, and the partition has files of the table's own, "
                "which may hold their rows already, as after a compaction; if they do not, use "
                "add-partitions --into-existing"
            )
        return None

    def _leave(self, found: FoundPartition, reason: str) -> None:
        self.left.append(
            LeftFolder(partition=found.partition.spec, folder=found.folder, reason=reason)
        )

    def _note_gone(
        self, root: str, gone: Sequence[tuple[str, ManifestEntry]], folders: FoundFolders
    ) -> None:
        # The rows of a partition may move from one of its folders to another.
        written = {each.partition.row: each.busy for each in folders.partitions if each.busy}
        by_partition: dict[Partition, list[tuple[str, ManifestEntry]]] = {}
        for path, entry in gone:
            partition = self._files.partitions.of_entry(entry)
            by_partition.setdefault(partition, []).append((path, entry))
        for partition, files in by_partition.items():
            uris = tuple(str(entry.file.external_path) for _, entry in files)
            below = {path.removeprefix(f"{root}/").rpartition("/")[0] for path, _ in files}
            signs = filter(None, map(folders.sign_at, sorted(below)))
            sign = next(signs, None) or written.get(partition.row)
            holder = self._leased.get("") or self._leased.get(partition.path)
            if sign or holder:
                folder = uris[0].rpartition("/")[0]
                are = "file is" if len(uris) == 1 else "files are"
                why = sign or f"{holder} has a lease on it"
                reason = f"{len(uris)} {are} gone, and {why}"
                self.left.append(LeftFolder(partition=partition.spec, folder=folder, reason=reason))
            else:
                rows = sum(entry.file.row_count for _, entry in files)
                self.gone.append(GoneFiles(partition=partition.spec, files=uris, rows=rows))


def _written_over(status: FileStatus, entry: ManifestEntry) -> str:
    return (
        f"file {status.name} was written over: it has {status.size} bytes, and had "
        f"{entry.file.file_size}; drop the partition (drop-partitions) and add its folder again "
        "(add-partitions)"
    )


# --- running --------------------------------------------------------------------------------------


def run_repair_partitions(files: TableFiles, plan: RepairPlan) -> RepairResult:
    """Carry a plan out: what its mode asks for, in one snapshot.

    Raises:
        StalePlan: a file changed, or came back, or a partition got other files.
        CommitConflictError: the schema changed meanwhile.
        CommitOutcomeUnknownError: the store failed while the snapshot was created.
    """
    check_takes_files(files)
    if not plan.to_add and not plan.to_drop:
        return _result(None, [], [])
    for uri in plan.folders if plan.to_add else ():
        files = allowing(files, folder_path(files, uri))
    files = files.reading_once()
    write_id = files.env.new_id()
    added = entries_of(describe_planned(files, plan.to_add, copy=False, taking=write_id))
    removed = _live_of(files, {uri for each in plan.to_drop for uri in each.files})
    result = commit_registered(
        files, added, removed, user=write_id, base_snapshot_id=plan.snapshot_id, joins=Joins.FOREIGN
    )
    return _result(result.snapshot, added, removed)


def _live_of(files: TableFiles, uris: set[str]) -> list[ManifestEntry]:
    """The entries of files that are gone."""
    if not uris:
        return []
    entries = [
        entry
        for entry in state_at(files, files.snapshots.latest()).entries
        if entry.file.external_path in uris and files.is_foreign(entry.file)
    ]
    paths = [files.readable_path(entry.place, entry.file) for entry in entries]
    back = map_concurrently(files.env, files.fs.exists, paths)
    for path, is_back in zip(paths, back, strict=True):
        if is_back:
            raise StalePlan(
                f"file {path} was gone when the repair of {files.name} was planned, and is there "
                "now; plan again"
            )
    return entries


def _result(
    snapshot: Snapshot | None, added: Sequence[ManifestEntry], removed: Sequence[ManifestEntry]
) -> RepairResult:
    if snapshot is None:
        added = removed = ()
    return RepairResult(
        snapshot=snapshot,
        files_added=len(added),
        rows_added=sum(entry.file.row_count for entry in added),
        files_dropped=len(removed),
        rows_dropped=sum(entry.file.row_count for entry in removed),
    )
