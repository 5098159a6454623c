"""Makes splits of the files that snapshots wrote: their deltas or their changelogs."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from lakewright.storage.errors import CorruptionError, InvalidRequestError, UnsupportedError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.changes.change_plan import (
    ChangePlan,
    ChangeSource,
    ChangeSplit,
    IncrementalMode,
)
from lakewright.storage.operations.read.expired_reads import told_if_expired
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.state.live_files import grouped_by_bucket
from lakewright.storage.operations.state.partition_filter import PartitionFilter
from lakewright.storage.spec.manifest import DataFileMeta, FileKind, ManifestEntry
from lakewright.storage.spec.option_values import MIB
from lakewright.storage.spec.partition import Place
from lakewright.storage.spec.partition_words import describe_partition
from lakewright.storage.spec.predicate import Predicate
from lakewright.storage.spec.snapshot import CommitKind, Snapshot
from lakewright.storage.spec.untold_partitions import is_untold, untold_partitions

_LOG = logging.getLogger(__name__)
# The size of a read task for files that need no merge.
_TASK_BYTES = 128 * MIB


def writes_changelogs(files: TableFiles) -> bool:
    """Whether commits of the table write changelog files."""
    return files.schema.options.get("changelog-producer", "none").lower() != "none"


def written_plan(
    files: TableFiles,
    snapshots: Sequence[Snapshot],
    mode: IncrementalMode,
    predicate: Predicate | None,
    *,
    streamed: bool = False,
) -> ChangePlan:
    """Plan the files that the snapshots added, in commit order.

    A stream takes rows of postponed buckets as they are written, if no changelog will tell them,
    and the files of those overwrites that an option wants.
    """
    entries: list[ManifestEntry] = []
    untold: set[str] = set()
    if mode is IncrementalMode.CHANGELOG:
        if not streamed:
            snapshots = [each for each in snapshots if each.commit_kind is not CommitKind.OVERWRITE]
        _check_changelogs(files, snapshots)
        lists = [(each, each.changelog_manifest_list) for each in snapshots]
    else:
        kinds = {CommitKind.APPEND}
        if streamed and not files.schema.is_keyed and files.options.streaming_read_append_overwrite:
            kinds.add(CommitKind.OVERWRITE)
        snapshots = [each for each in snapshots if each.commit_kind in kinds]
        lists = [(each, each.delta_manifest_list) for each in snapshots]
    for snapshot, name in lists:
        if name is not None:
            with told_if_expired(files, snapshot.id, changes=True):
                found = list(files.manifests.entries(files.manifests.read_list(name)))
            if snapshot.commit_kind is CommitKind.OVERWRITE:
                found = [entry for entry in found if entry.kind is FileKind.ADD]
            _check_only_added(files, snapshot.id, found)
            entries += _told(files, snapshot, found, untold)
    warn_of_untold(files, untold)
    wanted = PartitionFilter(files, predicate=predicate)
    # Readers see rows of postponed buckets only after a compaction.
    sees_all = streamed and mode is IncrementalMode.DELTA
    chosen = [entry for entry in entries if (sees_all or entry.bucket >= 0) and wanted.takes(entry)]
    splits = list(written_splits(chosen))
    schema_ids = {entry.file.schema_id for entry in chosen}
    check_key_stands(files, schema_ids)
    keys = {files.at_schema(schema_id).schema.partition_keys for schema_id in schema_ids}
    if files.schema.has_primary_key and len(keys) > 1:
        # A primary key lies elsewhere since the keys changed, and its changes stay in order.
        splits.sort(key=lambda each: each.turns[0])
    return ChangePlan(
        table=files.name,
        mode=mode,
        snapshot_ids=tuple(each.id for each in snapshots),
        splits=tuple(splits),
    )


def _told(
    files: TableFiles, snapshot: Snapshot, found: Sequence[ManifestEntry], untold: set[str]
) -> Iterator[ManifestEntry]:
    """The entries of partitions whose changes were tracked when a snapshot was committed."""
    options = files.at_schema(snapshot.schema_id).schema.options
    off = untold_partitions(options, table=files.name)
    for entry in found:
        if off and is_untold(partition := files.partitions.of_entry(entry), off):
            untold.add(describe_partition(partition.spec))
        else:
            yield entry


def warn_of_untold(files: TableFiles, untold: Collection[str]) -> None:
    """Say which partitions a reader of changes passes over."""
    if untold:
        _LOG.warning(
            "changes of %s in %s are passed over: change tracking is off there",
            files.name,
            "; ".join(sorted(untold)),
        )


def check_key_stands(files: TableFiles, schema_ids: Iterable[int]) -> None:
    """Check that rows of these schemas have a primary key if the table has one.

    Raises:
        UnsupportedError: the table got its primary key since.
    """
    if any(
        files.at_schema(schema_id).schema.is_keyed != files.schema.is_keyed
        for schema_id in schema_ids
    ):
        raise UnsupportedError(
            f"{files.name} got its primary key during these changes, and rows of before have none; "
            "read what came before by a snapshot, and the changes after the key"
        )


def _check_changelogs(files: TableFiles, snapshots: Sequence[Snapshot]) -> None:
    if writes_changelogs(files) or any(snapshot.changelog_manifest_list for snapshot in snapshots):
        return
    raise InvalidRequestError(
        f"{files.name} writes no changelogs (option changelog-producer), and there are none "
        "between those snapshots; read with mode delta or diff"
    )


def _check_only_added(files: TableFiles, snapshot_id: int, found: Iterable[ManifestEntry]) -> None:
    removed = [entry.file.file_name for entry in found if entry.kind is not FileKind.ADD]
    if removed:
        raise CorruptionError(
            f"snapshot {snapshot_id} of {files.name} removes {removed[0]} where it should only "
            "add files; read with mode diff"
        )


def written_splits(entries: Iterable[ManifestEntry]) -> Iterator[ChangeSplit]:
    """Splits of each bucket of about the task size; entries come in the order of writing."""
    entries = list(entries)
    turns = {entry.identity: turn for turn, entry in enumerate(entries)}
    for place, group in grouped_by_bucket(entries).items():
        chosen: dict[int, DataFileMeta] = {}
        size = 0
        for entry in group:
            chosen[turns[entry.identity]] = entry.file
            size += entry.file.file_size
            if size >= _TASK_BYTES:
                yield _written_split(place, chosen)
                chosen, size = {}, 0
        if chosen:
            yield _written_split(place, chosen)


def _written_split(place: Place, chosen: Mapping[int, DataFileMeta]) -> ChangeSplit:
    """A split of files by their turns."""
    split = DataSplit(
        partition=place.partition, bucket=place.bucket, files=tuple(chosen.values()), merge=False
    )
    return ChangeSplit(source=ChangeSource.WRITTEN, after=(split,), turns=tuple(chosen))
