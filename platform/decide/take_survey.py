"""Takes surveys: of one table, or of every table of a warehouse, from metadata alone.

1. Open each table; one that cannot be opened or read yields a survey that says why.
2. Read the latest snapshot's manifests as columns, one after the other, and sum up by bucket.
3. Count snapshots, tags, branches and schemas by the names in their folders.
4. List a few bucket folders, drawn by a seed, for files that the snapshot does not name.

Nothing is written, and no data file is opened.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import islice
from threading import Lock

import numpy as np

from lakewright.platform.decide.survey import (
    FileFigures,
    FileShape,
    HistoryFigures,
    LayoutFigures,
    ManifestFigures,
    OrphanFigures,
    TableSurvey,
)
from lakewright.platform.upkeep.health import partition_columns, partition_health
from lakewright.platform.upkeep.measures import empty_bytes
from lakewright.storage import (
    Catalog,
    HistorySpan,
    Layout,
    Snapshot,
    StorageError,
    Table,
    TableSchema,
    UnnamedFiles,
)
from lakewright.storage.codec.manifest_columns import NO_NUMBER
from lakewright.storage.errors import (
    InvalidOption,
    SnapshotNotFound,
    TableNotFound,
    UnsupportedError,
)
from lakewright.storage.inspection import Inspection
from lakewright.storage.spec.known_options import UPKEEP, Use
from lakewright.storage.spec.supported_options import (
    check_supported,
    without_clustering,
)

# Which folders are listed for orphans: equal surveys look into the same ones.
_SEED = 20_240_229
_MOST_FOLDERS = 8
# Stores answer slowly, and most of a survey waits for them.
_WORKERS = 8
# Tables with more bytes of manifests take turns.
_LARGE_BYTES = 16 << 20
_TURNS = Lock()
# An expiry may take the snapshot that is read; the next attempt reads a later one.
_ATTEMPTS = 3
_WITH_SNAPSHOTS = frozenset({"", "table", "materialized-table"})
_UPKEEP_OPTIONS = (
    "type",
    "bucket",
    "write-only",
    "target-file-size",
    "merge-engine",
    "changelog-producer",
    "deletion-vectors.enabled",
    "num-sorted-run.compaction-trigger",
    "num-sorted-run.stop-trigger",
    "compaction.min.file-num",
    "full-compaction.delta-commits",
    "snapshot.time-retained",
    "snapshot.num-retained.min",
    "snapshot.num-retained.max",
    "snapshot.expire.execution-mode",
    "changelog.time-retained",
    "partition.expiration-time",
    "tag.automatic-creation",
    "tag.default-time-retained",
    "consumer.expiration-time",
    "manifest.target-file-size",
)


def survey_warehouse(
    catalog: Catalog,
    *,
    pattern: str = "*",
    worst: int = 0,
    workers: int = _WORKERS,
    started: Callable[[int], object] = lambda folders: None,
    looked: Callable[[], object] = lambda: None,
) -> Iterator[TableSurvey]:
    """Surveys of all tables whose name `database.table` fits a pattern, in the order of names.

    `workers` tables are looked at at a time. `started` is told how many folders there are to look
    into, `looked` of each. No bad table raises: it yields a survey with its problem.

    Raises:
        StorageError: the warehouse itself cannot be listed.
    """
    names = tables_that_fit(catalog, pattern)
    started(len(names))
    with ThreadPoolExecutor(workers) as threads:
        following = iter(names)
        coming: deque[Future[TableSurvey | None]] = deque()

        def submit(count: int) -> None:
            for name in islice(following, count):
                coming.append(threads.submit(_survey_named, catalog, name, worst))

        submit(4 * workers)
        try:
            while coming:
                found = coming.popleft().result()
                submit(1)
                looked()
                if found is not None:
                    yield found
        finally:
            # A caller that stops does not wait for tables that no thread has begun with.
            for each in coming:
                each.cancel()


def survey_table(table: Table, *, worst: int = 0) -> TableSurvey:
    """The survey of a table's latest snapshot, with its worst partitions, as many as asked for.

    A table that cannot be read has a problem instead of figures.
    """
    return _survey_opened(table, worst)


def survey_written(table: Table, snapshot: Snapshot) -> TableSurvey | None:
    """The survey of a snapshot that was just written; None if it takes long to read, or is gone."""
    try:
        manifests = Inspection(table.table_files, snapshot).manifest_files()
        is_large = sum(manifest.file_size for manifest in manifests) > _LARGE_BYTES
        return None if is_large else survey_snapshot(table, snapshot)
    except StorageError:
        return None


def survey_snapshot(table: Table, snapshot: Snapshot, *, worst: int = 0) -> TableSurvey:
    """What a survey at the time of a snapshot that is kept would have shown.

    What expired since, tags, consumers and orphans are not known of that time.

    Raises:
        StorageError: the snapshot or its manifests cannot be read.
    """
    # Keys and options of that time: its partitions have values for no other keys.
    table = replace(table, table_files=table.table_files.at_schema(snapshot.schema_id))
    known = replace(_known(table), taken_ms=snapshot.time_millis)
    layout = Inspection(table.table_files, snapshot).layout()
    span = table.history.span()
    first = snapshot.id if span.earliest_snapshot is None else span.earliest_snapshot
    return replace(
        _laid_out(table, known, layout, worst),
        history=HistoryFigures(
            snapshots=snapshot.id - first + 1,
            earliest_snapshot=first,
            latest_snapshot=snapshot.id,
            earliest_ms=span.earliest_ms,
            latest_ms=snapshot.time_millis,
        ),
    )


def tables_that_fit(catalog: Catalog, pattern: str) -> list[str]:
    """The names that tables may have; which folders are tables is seen when they are opened."""
    found = (
        f"{database}.{name}"
        for database in catalog.list_databases()
        for name in catalog.list_table_folders(database)
    )
    return sorted(each for each in found if fnmatchcase(each, pattern))


def _survey_named(catalog: Catalog, name: str, worst: int) -> TableSurvey | None:
    """The survey of a table by its name; None if the folder is none, or no more."""
    problem: str
    try:
        return _survey_opened(catalog.table(name), worst)
    except TableNotFound as error:
        lost = error.details.get("lost")
        if lost is None:
            return None
        problem = str(lost)
    except StorageError as error:
        problem = error.message
    except Exception as error:  # noqa: BLE001 - whatever is wrong with one table hides no other
        problem = f"unexpected: {error!r}"
    return TableSurvey(table=name, uuid="", taken_ms=catalog.env.now_ms(), problem=problem)


def _survey_opened(table: Table, worst: int) -> TableSurvey:
    for attempt in range(_ATTEMPTS):
        try:
            return _survey(table, worst)
        except SnapshotNotFound as error:
            if attempt == _ATTEMPTS - 1:
                return replace(_known(table), problem=error.message)
        except StorageError as error:
            return replace(_known(table), problem=error.message)
    raise AssertionError(table.name)


def _known(table: Table) -> TableSurvey:
    """What the schema alone says."""
    schema, options = table.schema, table.schema.options
    return TableSurvey(
        table=table.name,
        uuid=table.uuid,
        taken_ms=table.table_files.env.now_ms(),
        keyed=schema.is_keyed,
        kind=_kind(schema),
        partition_keys=schema.partition_keys,
        primary_keys=schema.primary_keys,
        location=table.location,
        options={name: options[name] for name in _UPKEEP_OPTIONS if name in options},
    )


def _kind(schema: TableSchema) -> str:
    """`append`, the merge engine of a keyed table, or the type of a table of another one."""
    kind = schema.options.get("type", "").strip()
    if kind not in _WITH_SNAPSHOTS:
        return kind
    engine = schema.options.get("merge-engine", "deduplicate").strip().lower()
    return engine if schema.is_keyed else "append"


def _survey(table: Table, worst: int) -> TableSurvey:
    known = _known(table)
    if known.kind == table.schema.options.get("type"):
        what = f"it is a {known.kind}, without snapshots that upkeep could work on"
        return replace(known, read_only=what)
    snapshot = table.history.latest_snapshot()
    inspect = Inspection(table.table_files, snapshot)
    refused = inspect.refused_uses()
    span = table.history.span()
    # Large tables take turns, so that memory holds the numbers of one of them.
    manifests = inspect.manifest_files()
    is_large = sum(manifest.file_size for manifest in manifests) > _LARGE_BYTES
    with _TURNS if is_large else nullcontext():
        layout = inspect.layout(manifests)
        unnamed = inspect.unnamed_files(layout, most_folders=_MOST_FOLDERS, seed=_SEED)
        has_other_keys = not inspect.files_fit(layout)
        return replace(
            _laid_out(table, known, layout, worst),
            read_only=_read_only(refused),
            refused={use.value: reason for use, reason in refused.items()},
            history=_history(span, snapshot, len(layout.buckets.schema_ids)),
            orphans=_orphans(unnamed),
            has_other_keys=has_other_keys,
            late_writers=inspect.late_writers() if has_other_keys else (),
            sorts=_sorts(table),
        )


def _sorts(table: Table) -> bool:
    """Whether options let rows be sorted."""
    try:
        check_supported(without_clustering(table.schema), Use.COMPACT, table=table.name)
    except (UnsupportedError, InvalidOption):
        return False
    return True


def _read_only(refused: Mapping[Use, str]) -> str | None:
    """Why a table can be read, and nothing else."""
    return refused[Use.COMPACT] if refused.keys() == UPKEEP else None


def _laid_out(table: Table, known: TableSurvey, layout: Layout, worst: int) -> TableSurvey:
    """What the files and manifests of a snapshot say."""
    columns = partition_columns(table)
    return replace(
        known,
        bucket=table.options.bucket,
        target_bytes=table.options.target_file_size,
        empty_bytes=empty_bytes(table),
        files=_files(layout, keyed=known.keyed),
        layout=_layout(layout),
        manifests=ManifestFigures(
            manifests=layout.manifests,
            bytes=layout.manifest_bytes,
            small=layout.small_manifests,
        ),
        worst=tuple(
            partition_health(each, columns, keyed=known.keyed)
            for each in (layout.worst_partitions(worst) if worst else ())
        ),
    )


def _files(layout: Layout, *, keyed: bool) -> FileFigures:
    buckets = layout.buckets
    holds_more = layout.deletion_vectors or layout.files.options.data_evolution_enabled
    is_merged = buckets.is_merged.all() and not holds_more
    return FileFigures(
        files=_sum(buckets.file_count),
        rows=_sum(buckets.row_count),
        merged_rows=_sum(buckets.row_count) if is_merged else None,
        bytes=_sum(buckets.size_bytes),
        deletion_vectors=layout.deletion_vectors,
        small_files=_sum(buckets.small_file_count),
        small_bytes=_sum(buckets.small_bytes),
        sorted_runs=int(buckets.sorted_run_count.max(initial=0)) if keyed else 0,
        level0_files=_sum(buckets.level0_count),
        level0_bytes=_sum(buckets.level0_bytes),
        waiting_files=_sum(buckets.waiting_file_count),
        waiting_rows=_sum(buckets.waiting_row_count),
        mergeable_files=_sum(buckets.mergeable_count),
        mergeable_bytes=_sum(buckets.mergeable_bytes),
        away_files=buckets.away_files,
        away_bytes=buckets.away_bytes,
        most_in_bucket=int(buckets.mergeable_count.max(initial=0)),
        shapes=tuple(
            FileShape(level=level, least_bytes=least, files=files, bytes=size)
            for level, least, files, size in buckets.shapes
        ),
    )


def _layout(layout: Layout) -> LayoutFigures:
    buckets = layout.buckets
    largest, total = int(buckets.size_bytes.max(initial=0)), _sum(buckets.size_bytes)
    written = buckets.last_creation_ms[buckets.last_creation_ms != NO_NUMBER]
    return LayoutFigures(
        partitions=layout.partitions,
        buckets=len(buckets),
        largest_bucket_bytes=largest,
        skew=round(largest * len(buckets) / total, 2) if total else 1.0,
        left_behind=layout.left_behind,
        # Files without a time have none that is the first either.
        oldest_write_ms=int(buckets.first_creation_ms.min()) if len(written) else None,
        last_write_ms=int(written.max()) if len(written) else None,
    )


def _history(span: HistorySpan, latest: Snapshot | None, schemas_in_use: int) -> HistoryFigures:
    return HistoryFigures(
        snapshots=span.snapshots,
        earliest_snapshot=span.earliest_snapshot,
        latest_snapshot=None if latest is None else latest.id,
        earliest_ms=span.earliest_ms,
        latest_ms=None if latest is None else latest.time_millis,
        latest_kind="" if latest is None else latest.commit_kind.value,
        tags=span.tags,
        oldest_tag_ms=span.oldest_tag_ms,
        branches=span.branches,
        changelogs=span.changelogs,
        consumers=span.consumers,
        oldest_consumer_snapshot=span.oldest_consumer_snapshot,
        schemas=span.schemas,
        schemas_in_use=schemas_in_use,
    )


def _orphans(unnamed: UnnamedFiles) -> OrphanFigures:
    share = unnamed.of_folders / unnamed.folders if unnamed.folders else 0.0
    return OrphanFigures(
        folders=unnamed.folders,
        of_folders=unnamed.of_folders,
        unnamed_files=unnamed.count,
        unnamed_bytes=unnamed.size_bytes,
        estimated_files=round(unnamed.count * share),
        estimated_bytes=round(unnamed.size_bytes * share),
    )


def _sum(values: np.ndarray) -> int:
    return int(values.sum())
