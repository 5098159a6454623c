"""Takes partitions over that other systems wrote: their files become part of an append table.

1. Plan: find the folders of partitions, leave out the files that the table has already, and read
   the footers of the others. Nothing is written.
2. Run: allow the table to read below the folder (option `data-file.external-paths`), read the
   footers again, and commit all files in one snapshot.

The files stay where they lie, and stay their owner's: no verb of this table deletes them. With
`copy` their bytes are copied below the table, and the copies are the table's own.
Decision: docs/decisions/0024-folders-of-other-systems.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from lakewright.storage.errors import (
    CommitOutcomeUnknownError,
    InvalidRequestError,
    PartitionExists,
    StalePlan,
    UnsupportedError,
)
from lakewright.storage.files.data_file import let_go, writing
from lakewright.storage.files.data_files import format_of_path
from lakewright.storage.files.external_files import (
    RealPlaces,
    external_uri,
    path_in_store,
    real_folder,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.register_files import Joins, commit_registered
from lakewright.storage.operations.partitions.external_folders import (
    FolderOptions,
    FolderQuestion,
    FoundPartition,
    check_no_strays,
    check_not_busy,
    find_partitions,
)
from lakewright.storage.operations.partitions.external_metas import ExternalFiles
from lakewright.storage.operations.references.sweep import sweep_after_failure
from lakewright.storage.operations.references.tags import tag_what_is_due
from lakewright.storage.operations.running.concurrency import map_concurrently
from lakewright.storage.operations.running.plan import Plan
from lakewright.storage.operations.running.verb_options import (
    FLAG,
    needed,
    option,
)
from lakewright.storage.operations.schema.alter import plan_alter, run_alter
from lakewright.storage.operations.state.store_clock import read_store_clock
from lakewright.storage.operations.state.table_state import state_at
from lakewright.storage.spec.arguments import list_or_none, text_argument, whole_number
from lakewright.storage.spec.manifest import DataFileMeta, FileKind, ManifestEntry
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.spec.partition import Partition
from lakewright.storage.spec.schema_change import SetOption
from lakewright.storage.spec.shown import Shown
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.supported_options import Use, check_supported

# A file that changed within this time may still be written.
AGE_MS = 60_000
_OPTION = "data-file.external-paths"
_COPY_PREFIX = "copied-"
_COPY_BYTES = 8 << 20
_UNAWARE_BUCKET, _UNAWARE_BUCKETS = 0, -1


@dataclass(frozen=True, slots=True)
class ExternalFile:
    """A file of a plan, by its path in the table's store."""

    path: str
    bytes: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedPartition:
    """A partition of a plan, and the files that it gets."""

    partition: dict[str, object]
    folder: str
    files: tuple[ExternalFile, ...]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsPlan(Plan["AddPartitionsResult"]):
    """What a table would take over; `known_files` are part of it already.

    `allows` is the path that readers of the table may read afterwards, if it is a new one.
    """

    table: str
    snapshot_id: int | None
    folder: str
    partitions: tuple[AddedPartition, ...]
    known_files: int = 0
    copy: bool = False
    into_existing: bool = False
    allows: str | None = None

    @property
    def files(self) -> int:
        return sum(len(partition.files) for partition in self.partitions)

    @property
    def rows(self) -> int:
        return sum(partition.rows for partition in self.partitions)

    @property
    def bytes(self) -> int:
        return sum(partition.bytes for partition in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsResult(Shown):
    """What a table took over; without a snapshot it had all of it."""

    snapshot: Snapshot | None
    partitions: int
    files: int
    rows: int
    bytes: int


# --- planning -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AddPartitionsOptions(FolderOptions):
    """What is taken over, and how."""

    copy_files: bool = option(
        FLAG,
        default=False,
        text="Copy the files below the table, instead of referring to them.",
        flag="--copy",
    )
    into_existing: bool = option(
        FLAG, default=False, text="Add to partitions that have other files, too."
    )


def plan_add_partitions(files: TableFiles, options: AddPartitionsOptions) -> AddPartitionsPlan:
    """Plan the takeover of a folder.

    `partition` fixes keys that no folder's name gives; with all of them, the folder is one
    partition. `keys` names the keys of folders that hold values alone. Partitions that have other
    files are refused, unless `into_existing`. A file younger than `age_ms`, by default a minute,
    is refused, since its writer may go on.

    Raises:
        InvalidRequestError: the folder, a file or an argument does not fit; nothing is to be added.
        PartitionExists: a partition has other files.
        UnsupportedError: the table has keys or buckets, or the folder lies in another store.
    """
    keys = list_or_none(options.keys, "keys", text_argument)
    check_takes_files(files)
    folder = needed(options.folder, f"say which folder {files.name} is to take over")
    root = folder_path(files, folder)
    age_ms = AGE_MS if options.age_ms is None else whole_number(options.age_ms, "age_ms", minimum=0)
    asked = FolderQuestion(
        root=root,
        given=options.partition or {},
        keys=keys,
        now_ms=read_store_clock(files) if age_ms else 0,
        age_ms=age_ms,
    )
    folders = find_partitions(files, asked)
    check_no_strays(folders)
    check_not_busy(files.name, root, folders)
    found = folders.partitions
    if not found:
        why = (
            f"holds no data files that {files.name} could take over"
            if files.fs.exists(root)
            else f"does not exist, so {files.name} can take nothing over from it; look at its path"
        )
        raise InvalidRequestError(f"folder {folder} {why}")
    snapshot = files.snapshots.latest()
    live = state_at(files, snapshot).entries
    unknown = files_to_add(files, found, live, into_existing=options.into_existing)
    described = ExternalFiles(files)
    partitions = tuple(
        described_partition(files, described, each) for each in unknown if each.files
    )
    return AddPartitionsPlan(
        table=files.name,
        snapshot_id=None if snapshot is None else snapshot.id,
        folder=external_uri(files.fs, root),
        partitions=partitions,
        known_files=sum(len(each.files) for each in found) - sum(len(x.files) for x in unknown),
        copy=options.copy_files,
        into_existing=options.into_existing,
        allows=None if options.copy_files or not partitions else path_to_allow(files, root),
    )


def check_takes_files(files: TableFiles) -> None:
    """Refuse tables whose files have an order or a place that other systems do not know.

    Raises:
        UnsupportedError: the table has a key or buckets, or an option that is not implemented.
    """
    check_supported(files.schema, Use.WRITE, table=files.name)
    if files.schema.is_keyed or files.options.bucket_mode is not BucketMode.UNAWARE:
        raise UnsupportedError(
            f"{files.name} has a primary key or buckets, and files of other systems are neither "
            "sorted by it nor divided into them; take them over into an append table with "
            "bucket=-1, and insert from there"
        )


def folder_path(files: TableFiles, folder: str) -> str:
    """The path of a folder that is taken over.

    Raises:
        InvalidRequestError: it lies in the table, or the table in it, or it is a Paimon table.
    """
    own = files.paths.root
    root = path_in_store(files.fs, folder, root=own, table=files.name)
    real, real_own = real_folder(files.fs, root), real_folder(files.fs, own)
    if f"{real}/".startswith(f"{real_own}/") or f"{real_own}/".startswith(f"{real}/"):
        raise InvalidRequestError(
            f"folder {folder} and table {files.name} lie in each other, and the table would take "
            "the files for its own and delete them some day; move the folder elsewhere"
        )
    if {"snapshot", "schema", "manifest"} <= set(files.fs.list_subdirs(root)):
        raise InvalidRequestError(
            f"folder {folder} is a Paimon table, whose files come and go with its snapshots; read "
            "it as a table"
        )
    return root


def path_to_allow(files: TableFiles, root: str) -> str | None:
    """The URI that the option for paths outside of the table has to get; None if it has it."""
    uri = external_uri(files.fs, root)
    for allowed in files.options.external_paths:
        path = path_in_store(files.fs, allowed, root=files.paths.root, table=files.name)
        if f"{root}/".startswith(f"{path}/"):
            return None
    if "," in uri:
        raise InvalidRequestError(
            f"the path {uri} has a comma, which option {_OPTION} cannot hold; rename the folder"
        )
    return uri


def files_to_add(
    files: TableFiles,
    found: Sequence[FoundPartition],
    live: Sequence[ManifestEntry],
    *,
    into_existing: bool,
) -> list[FoundPartition]:
    """The found partitions with the files that the table lacks.

    Raises:
        PartitionExists: a partition has other files.
        InvalidRequestError: a file is part of another partition.
    """
    places = RealPlaces()
    taken = {
        places.of(entry.file.external_path): entry.partition
        for entry in live
        if entry.file.external_path is not None
    }
    counts = Counter(entry.partition for entry in live)
    unknown = []
    for each in found:
        row = each.partition.row
        lies = {s.path: places.of(external_uri(files.fs, s.path)) for s in each.files}
        elsewhere = [p for p, place in lies.items() if taken.get(place, row) != row]
        if elsewhere:
            other = files.partitions.of_row(taken[lies[elsewhere[0]]])
            raise InvalidRequestError(
                f"file {elsewhere[0]} is part of {other.named} of {files.name} already, "
                f"and its rows would count again in {each.partition.words}; leave the folder out"
            )
        left = tuple(s for s in each.files if lies[s.path] not in taken)
        if left and counts[row] and not into_existing:
            raise PartitionExists(
                f"{each.partition.named} of {files.name} exists, with "
                f"{counts[row]} files, and {len(left)} of the {len(each.files)} files in "
                f"{each.folder} are not among them; if they hold further rows, add them into "
                "the existing partition (--into-existing, into_existing); if a compaction may "
                "have merged them, their rows are there already"
            )
        unknown.append(replace(each, files=left))
    return unknown


def described_partition(
    files: TableFiles, described: ExternalFiles, found: FoundPartition
) -> AddedPartition:
    """A found partition with the rows of its files, whose footers are read.

    Raises:
        InvalidRequestError: a file does not fit the table.
    """

    def read(path: str) -> DataFileMeta:
        return described.describe(found.partition, path, uri=None)

    paths = [status.path for status in found.files]
    metas = map_concurrently(files.env, read, paths)
    return AddedPartition(
        partition=found.partition.spec,
        folder=found.folder,
        files=tuple(
            ExternalFile(path, meta.file_size, meta.row_count)
            for path, meta in zip(paths, metas, strict=True)
        ),
    )


# --- running --------------------------------------------------------------------------------------


def run_add_partitions(files: TableFiles, plan: AddPartitionsPlan) -> AddPartitionsResult:
    """Carry a plan out: all of it in one snapshot.

    Raises:
        StalePlan: a file changed since the plan, or a partition got other files.
        CommitConflictError: the schema changed meanwhile.
        CommitOutcomeUnknownError: the store failed while the snapshot was created.
    """
    check_takes_files(files)
    if not plan.partitions:
        return AddPartitionsResult(snapshot=None, partitions=0, files=0, rows=0, bytes=0)
    if not plan.copy:
        files = allowing(files, folder_path(files, plan.folder))
    files = files.reading_once()
    write_id = files.env.new_id()
    metas = describe_planned(files, plan.partitions, copy=plan.copy, taking=write_id)
    base = plan.snapshot_id
    try:
        if plan.copy:
            metas = _copied(files, plan.partitions, metas, write_id)
        entries = entries_of(metas)
        result = commit_registered(
            files,
            entries,
            user=write_id,
            base_snapshot_id=base,
            joins=Joins.ANY if plan.into_existing else Joins.NONE,
        )
    except CommitOutcomeUnknownError:
        raise
    except BaseException:
        if plan.copy:
            sweep_after_failure(files, [write_id], since_snapshot_id=base)
        raise
    tag_what_is_due(files)
    added = [] if result.snapshot is None else entries
    return AddPartitionsResult(
        snapshot=result.snapshot,
        partitions=len({entry.partition for entry in added}),
        files=len(added),
        rows=sum(entry.file.row_count for entry in added),
        bytes=sum(entry.file.file_size for entry in added),
    )


def allowing(files: TableFiles, root: str) -> TableFiles:
    """The table, after its readers are allowed to read below a path."""
    uri = path_to_allow(files, root)
    if uri is None:
        return files
    paths = ",".join((*files.options.external_paths, uri))
    plan = plan_alter(files, [SetOption(_OPTION, paths)])
    return replace(files, schema=run_alter(files, plan).schema)


_Described = list[tuple[Partition, DataFileMeta]]


def describe_planned(
    files: TableFiles, partitions: Sequence[AddedPartition], *, copy: bool, taking: str
) -> _Described:
    """The metadata of planned files, read anew, under names of this takeover.

    Raises:
        StalePlan: a file is not the one that was planned.
    """
    described = ExternalFiles(files)

    def read(item: tuple[Partition, ExternalFile]) -> tuple[Partition, DataFileMeta]:
        partition, file = item
        uri = None if copy else external_uri(files.fs, file.path)
        meta = described.describe(partition, file.path, uri=uri, taking=taking, computes=copy)
        if (meta.file_size, meta.row_count) != (file.bytes, file.rows):
            raise StalePlan(
                f"file {file.path} had {file.bytes} bytes and {file.rows} rows when its takeover "
                f"was planned, and has {meta.file_size} and {meta.row_count}; plan again"
            )
        return partition, meta

    planned = [
        (files.partitions.planned(each.partition), file)
        for each in partitions
        for file in each.files
    ]
    return map_concurrently(files.env, read, planned)


def entries_of(metas: Iterable[tuple[Partition, DataFileMeta]]) -> list[ManifestEntry]:
    """Entries that add files to the one bucket of their partition."""
    return [
        ManifestEntry(
            kind=FileKind.ADD,
            partition=partition.row,
            bucket=_UNAWARE_BUCKET,
            total_buckets=_UNAWARE_BUCKETS,
            file=meta,
        )
        for partition, meta in metas
    ]


def _copied(
    files: TableFiles, partitions: Sequence[AddedPartition], metas: _Described, write_id: str
) -> _Described:
    """The metadata of copies, after all files are copied below the table."""
    sources = chain.from_iterable(each.files for each in partitions)
    copies = []
    for number, (source, (partition, meta)) in enumerate(zip(sources, metas, strict=True)):
        name = f"{_COPY_PREFIX}{write_id}-{number}.{format_of_path(source.path)}"
        (entry,) = entries_of([(partition, replace(meta, file_name=name))])
        _copy(files, source, files.data_file_path(entry.place, entry.file))
        copies.append((partition, entry.file))
    return copies


def _copy(files: TableFiles, source: ExternalFile, target: str) -> None:
    size = 0
    with files.fs.open_input(source.path) as read, writing(target):
        sink = files.fs.open_output(target)
        try:
            while piece := read.read(_COPY_BYTES):
                size += sink.write(piece)
        except BaseException:
            let_go(sink)
            raise
        sink.close()
    if size != source.bytes:
        raise StalePlan(
            f"file {source.path} has {size} bytes, and {source.bytes} were planned; plan again"
        )
