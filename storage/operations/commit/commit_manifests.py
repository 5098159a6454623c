"""Writes what a commit needs before its snapshot: manifests, manifest lists, index manifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from lakewright.storage.errors import SchemaMoved, StorageError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.check_rows_fit import check_rows_fit
from lakewright.storage.operations.commit.keys_gate import waiting_properties
from lakewright.storage.operations.commit.merge_manifests import (
    entries_of_a_manifest,
    merge_manifests,
    write_base,
    write_group,
)
from lakewright.storage.operations.state.rewrite_schema import check_keys_stay
from lakewright.storage.operations.state.store_clock import is_ahead, read_store_clock
from lakewright.storage.operations.state.table_state import TableState
from lakewright.storage.spec.bucketing import have_same_bucket_keys
from lakewright.storage.spec.commit import Change, Committable
from lakewright.storage.spec.index import IndexEntry, check_known_indexes
from lakewright.storage.spec.manifest import FileKind, ManifestEntry, ManifestFileMeta
from lakewright.storage.spec.options import read_options
from lakewright.storage.spec.row_tracking import tracked_entries
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.snapshot import (
    FIRST_SNAPSHOT_ID,
    FOLLOWS_PROPERTY,
    STREAMS_PROPERTY,
    CommitKind,
    Snapshot,
    check_known_fields,
)
from lakewright.storage.spec.supported_options import Use, check_supported

# The schema before the entries of a manifest takes about as much as so many entries.
_FEW_ENTRIES = 100


def write_manifests(
    state: TableState,
    change: Change,
    committable: Committable,
    written: list[str],
    *,
    merges: bool = True,
) -> Snapshot:
    """Write all metadata files that the new snapshot names, and return that snapshot.

    Without `merges`, the manifests of the state stay as they are. Each name is added to
    `written` before its file is created, so that a failed attempt can delete every file.

    Raises:
        SchemaMoved: rows were written under an older schema, and do not fit the latest one.
    """
    files, latest = state.files, state.snapshot
    schema_id = files.schemas.latest_id(table=files.name)
    # Not one that was read before: a fast-forward may have replaced it.
    schema = files.schema if schema_id == files.schema.id else files.schemas.read(schema_id)
    check_keys_stay(files, schema)
    _check_buckets_stay(files, schema)
    _check_supported_state(state, schema, committable)
    _check_added_rows(files, schema, change, committable)
    base, base_size = _write_base_list(state, change, written, merges)
    prepared = () if change.delta is None else change.delta.manifests
    snapshot_id = FIRST_SNAPSHOT_ID if latest is None else latest.id + 1
    entries, next_row_id = change.entries, None if latest is None else latest.next_row_id
    if read_options(schema, table=files.name).row_tracking_enabled:
        entries, next_row_id = tracked_entries(
            entries, snapshot_id=snapshot_id, next_row_id=next_row_id or 0
        )
    delta, delta_size = _write_entries(files, entries, written, prepared)
    changelog, changelog_size = None, None
    if change.changelog:
        changelog, changelog_size = _write_entries(files, change.changelog, written)
    index_manifest = _write_index_manifest(state, change, written)
    delta_rows = sum(
        entry.file.row_count if entry.kind is FileKind.ADD else -entry.file.row_count
        for entry in change.entries
    )
    if change.delta is not None:
        delta_rows += change.delta.rows
    total_before = rows_before = 0 if latest is None else latest.total_record_count
    if change.prepared is not None:
        rows_before = change.prepared.rows
    elif change.base is not None and change.base.rows is not None:
        rows_before = change.base.rows
    return Snapshot(
        id=snapshot_id,
        schema_id=schema_id,
        base_manifest_list=base,
        base_manifest_list_size=base_size,
        delta_manifest_list=delta,
        delta_manifest_list_size=delta_size,
        changelog_manifest_list=changelog,
        changelog_manifest_list_size=changelog_size,
        changelog_record_count=sum(entry.file.row_count for entry in change.changelog),
        index_manifest=index_manifest,
        commit_user=committable.user,
        commit_identifier=committable.identifier,
        commit_kind=committable.kind,
        time_millis=_commit_time(files, latest),
        total_record_count=rows_before + delta_rows,
        delta_record_count=rows_before + delta_rows - total_before,
        watermark=_later(change.watermark, None if latest is None else latest.watermark),
        statistics=change.statistics or _inherited_statistics(latest, schema_id),
        properties=_properties(files, latest, change),
        uuid=None if files.server is None else files.env.new_id(),
        next_row_id=next_row_id,
    )


def _properties(
    files: TableFiles, latest: Snapshot | None, change: Change
) -> Mapping[str, str] | None:
    """What a snapshot says besides its files; where streams stand is said again each time.

    A base that is restated has no manifest of the snapshot before; so the new one names it.
    """
    found = {**(change.properties or {}), **waiting_properties(files)}
    before = {} if latest is None else latest.properties or {}
    streams = change.streams or before.get(STREAMS_PROPERTY)
    if streams is not None:
        found[STREAMS_PROPERTY] = streams
    if latest is not None and (change.base is not None or change.prepared is not None):
        found[FOLLOWS_PROPERTY] = latest.delta_manifest_list
    return found or change.properties


def still_fits(
    files: TableFiles, snapshot: Snapshot, change: Change, committable: Committable
) -> bool:
    """Whether the rows of a snapshot fit the schemas that came after the one it was checked by.

    An alter may come between that check and the snapshot. It judges the latest snapshot again after
    its schema file is there, and a committer looks for schema files after its snapshot is there. So
    one sees the other.
    """
    if committable.kind is CommitKind.COMPACT or not files.schemas.exists(snapshot.schema_id + 1):
        return True
    try:
        schema = files.schemas.latest(table=files.name)
        _check_buckets_stay(files, schema)
        _check_added_rows(files, schema, change, committable)
    except SchemaMoved:
        return False
    return True


def _check_added_rows(
    files: TableFiles, schema: TableSchema, change: Change, committable: Committable
) -> None:
    if committable.kind is not CommitKind.COMPACT:
        added = (entry.file for entry in change.entries if entry.kind is FileKind.ADD)
        check_rows_fit(files, schema, added)


def _write_base_list(
    state: TableState, change: Change, written: list[str], merges: bool
) -> tuple[str, int]:
    """The name and the size of the list of the manifests that the change begins with."""
    files = state.files
    if change.prepared is not None:
        return change.prepared.list_name, change.prepared.list_size
    merged: Sequence[ManifestFileMeta]
    if change.manifests is not None:
        merged = change.manifests
    elif change.base is not None:
        merged = write_base(files, change.base, written)
    else:
        before = state.manifests
        merged = merge_manifests(files, before, written) if merges else before
    return files.manifests.write_list(
        merged, compression=files.options.manifest_compression, written=written
    )


def _check_buckets_stay(files: TableFiles, schema: TableSchema) -> None:
    if not have_same_bucket_keys(schema, files.schema):
        raise SchemaMoved(
            f"{files.name} has other bucket keys now (schema {schema.id}) than when it was opened "
            f"(schema {files.schema.id}); open the table, and stage the rows or plan again"
        )


_USES = {CommitKind.COMPACT: Use.COMPACT, CommitKind.ANALYZE: Use.TAG}


def _check_supported_state(
    state: TableState, schema: TableSchema, committable: Committable
) -> None:
    """Check that this version may commit on top of the latest snapshot and schema.

    Another client may have changed either since the rows were staged.

    Raises:
        UnsupportedError: an option, a snapshot field or an index kind is not implemented.
    """
    files = state.files
    if schema.id != files.schema.id:
        check_supported(schema, _USES.get(committable.kind, Use.WRITE), table=files.name)
    if state.snapshot is not None:
        check_known_fields(state.snapshot, table=files.name)
        check_known_indexes(state.indexes, table=files.name)


def named_files(files: TableFiles, change: Change) -> set[str]:
    """Paths of the data, changelog, index and statistics files that a change adds or copies."""
    added = [entry for entry in change.entries if entry.kind is FileKind.ADD]
    paths = {path for entry in (*added, *change.changelog) for path in files.entry_paths(entry)}
    indexes = [*change.new_indexes, *(() if change.base is None else change.base.indexes)]
    paths |= {files.paths.index(entry.file.file_name) for entry in indexes}
    if change.statistics is not None:
        paths.add(files.paths.statistics(change.statistics))
    return paths


def _write_entries(
    files: TableFiles,
    entries: Sequence[ManifestEntry],
    written: list[str],
    prepared: Sequence[ManifestFileMeta] = (),
) -> tuple[str, int]:
    """Write manifests of one set of partition keys each, and a list of them; name and size of it.

    The entries of one commit are divided by partition if they are too many for a manifest, so that
    a reader of one partition opens one of them.
    """
    compression = files.options.manifest_compression
    metas: list[ManifestFileMeta] = []
    for keys, group in files.partitions.by_keys(entries):
        if len(group) > max(_FEW_ENTRIES, entries_of_a_manifest(files)):
            ordered = sorted(group, key=lambda entry: files.partitions.of_entry(entry).order)
            metas += write_group(files, keys, ordered, written)
        else:
            one = files.manifests.write_manifest(
                group, keys=keys, compression=compression, written=written
            )
            metas.append(one)
    metas += prepared
    return files.manifests.write_list(metas, compression=compression, written=written)


def _write_index_manifest(state: TableState, change: Change, written: list[str]) -> str | None:
    """The name of the index manifest after the change; the present one if no entry changes."""
    files, latest = state.files, state.snapshot
    if change.base is not None:
        return _written_indexes(files, change.base.indexes, written)
    if set(change.new_indexes) == set(change.removed_indexes):
        return None if latest is None else latest.index_manifest
    removed = set(change.removed_indexes)
    kept = [entry for entry in state.indexes if entry not in removed]
    return _written_indexes(files, [*kept, *change.new_indexes], written)


def _written_indexes(
    files: TableFiles, entries: Sequence[IndexEntry], written: list[str]
) -> str | None:
    if not entries:
        return None
    return files.manifests.write_index_manifest(
        entries, compression=files.options.manifest_compression, written=written
    )


def _commit_time(files: TableFiles, latest: Snapshot | None) -> int:
    """The time of a commit: not earlier than the previous snapshot, even if a clock is wrong.

    Time travel and expiry by age require that commit times never decrease. A snapshot that is from
    the future by the store's clock is no measure: it was committed under a clock that was ahead,
    and no snapshot could expire by its age for as long.
    """
    now_ms = files.env.now_ms()
    if latest is None or latest.time_millis <= now_ms:
        return now_ms
    if is_ahead(latest.time_millis, now_ms):
        with suppress(StorageError):
            store_ms = read_store_clock(files)
            if is_ahead(latest.time_millis, store_ms):
                return store_ms
    return latest.time_millis


def _later(watermark: int | None, present: int | None) -> int | None:
    known = [each for each in (watermark, present) if each is not None]
    return max(known, default=None)


def _inherited_statistics(latest: Snapshot | None, schema_id: int) -> str | None:
    return latest.statistics if latest is not None and latest.schema_id == schema_id else None
