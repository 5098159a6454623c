"""Whether live files have the table's partition keys, while these change and long after.

An entry of a manifest has a partition row, whose length tells how many keys it has, and its file's
schema tells which ones. Two kinds of entries have others than the table's.

* During a change of the keys, rows have more values than the table has keys. Those of a primary-key
  table are bridged (`commit/bridged_base.py`): more values than the table has keys before or after,
  and bounds of no keys. Bridged files share no key, so they are read without a merge.
* A client that opened the table before its keys changed writes under the former ones. Its entries
  are late (`respec/late_files.py`, `late_appends.py`).

Other rooms ask `TableState` (`table_state.py`). This module is for it, and for what carries a
change out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, partial
from threading import Lock

import numpy as np

from lakewright.storage.codec.binary_row import row_arity
from lakewright.storage.errors import CorruptionError, SchemaNotFound
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.running.concurrency import map_concurrently
from lakewright.storage.operations.state.live_columns import live_columns
from lakewright.storage.operations.state.partition_filter import PartitionFilter
from lakewright.storage.spec.manifest import ManifestEntry, ManifestFileMeta

# --- entries that fit -------------------------------------------------------------------------


def keys_fit(files: TableFiles, metas: Sequence[ManifestFileMeta]) -> bool:
    """Whether the rows of all manifests have the table's keys: as many, and the same ones.

    Manifests with as many other keys come from a client that opened the table before its keys were
    replaced.
    """
    return rows_fit(files, (meta.partition_stats.min_values for meta in metas)) and not any(
        _has_other_keys(files, each) for each in {meta.schema_id for meta in metas}
    )


def files_fit(files: TableFiles, metas: Sequence[ManifestFileMeta]) -> bool:
    """`keys_fit`, and of a table whose keys ever changed, of each live file.

    Any client may merge manifests. One with the present keys then writes those of a late client
    into a manifest of its own, whose bounds and schema say nothing of other keys.
    """
    if not keys_fit(files, metas):
        return False
    if not _ever_had_other_keys(files):
        return True
    unknown = [meta for meta in metas if not FITTING.get(files, meta.file_name)]
    if _entries_of_fit(files, unknown):
        for each in unknown:
            FITTING.put(files, each.file_name, fits=True)
        return True
    # What one manifest adds another one may have removed.
    return _entries_of_fit(files, metas)


def schemas_fit(files: TableFiles, schema_ids: Iterable[int]) -> bool:
    """Whether files with these schemas, and with rows that fit, have the table's keys.

    A restated entry names a schema with keys with which the table's begin. A late one has a row, or
    a schema, of other keys.
    """
    return all(_begin_with_keys_of(files, schema_id) for schema_id in schema_ids)


def entries_of_other_keys(
    files: TableFiles, entries: Iterable[ManifestEntry]
) -> list[ManifestEntry]:
    """The entries whose rows or schemas have other keys than the table's."""
    own = len(files.schema.partition_keys)
    fits = cache(partial(_begin_with_keys_of, files))
    return [
        entry
        for entry in entries
        if row_arity(entry.partition) != own or not fits(entry.file.schema_id)
    ]


def rows_fit(files: TableFiles, rows: Iterable[bytes]) -> bool:
    """Whether partition rows have one value for each of the table's keys."""
    own = len(files.schema.partition_keys)
    return all(row_arity(row) == own for row in rows)


def _entries_of_fit(files: TableFiles, metas: Sequence[ManifestFileMeta]) -> bool:
    live = live_columns(files, metas, PartitionFilter(files))
    schema_ids = np.unique(live.numbers("_FILE._SCHEMA_ID", live.rows)).tolist()
    rows = live.texts("_PARTITION", live.rows).unique().to_pylist()
    return rows_fit(files, rows) and schemas_fit(files, schema_ids)


def _begin_with_keys_of(files: TableFiles, schema_id: int) -> bool:
    try:
        keys = files.at_schema(schema_id).schema.partition_keys
    except SchemaNotFound:
        # As of a manifest.
        return True
    return files.schema.partition_keys[: len(keys)] == keys


def _ever_had_other_keys(files: TableFiles) -> bool:
    """Whether an earlier schema has other partition keys; true if one cannot be read."""
    if files.schema.id == 0:
        return False
    fits = FITTING.get(files, "schemas")
    if fits is None:
        earlier = [each for each in files.schemas.ids() if each < files.schema.id]
        fits = not any(map_concurrently(files.env, partial(_may_have_other_keys, files), earlier))
        FITTING.put(files, "schemas", fits=fits)
    return not fits


def _may_have_other_keys(files: TableFiles, schema_id: int) -> bool:
    try:
        return _has_other_keys(files, schema_id)
    except CorruptionError:
        return True


def _has_other_keys(files: TableFiles, schema_id: int) -> bool:
    try:
        return keys_of(files, schema_id) != files.schema.partition_keys
    except SchemaNotFound:
        # Of a branch that began late. Its first schema had the keys of the next ones.
        return False


class _Fitting:
    """Which manifests of tables fit, and whether all schemas do; the oldest goes if it is much.

    A process that commits again and again looks at new manifests only, and at no schema twice.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._lock = Lock()
        self._fits: dict[tuple[str, int, int, str], bool] = {}

    def get(self, files: TableFiles, name: str) -> bool | None:
        return self._fits.get(self._key(files, name))

    def put(self, files: TableFiles, name: str, *, fits: bool) -> None:
        with self._lock:
            self._fits[self._key(files, name)] = fits
            while len(self._fits) > self.most:
                del self._fits[next(iter(self._fits))]

    def _key(self, files: TableFiles, name: str) -> tuple[str, int, int, str]:
        # A table that was dropped and created again has a schema of another time.
        root = f"{files.paths.root}#{files.paths.branch}"
        return root, files.schema.id, files.schema.time_millis, name


FITTING = _Fitting(1 << 16)


# --- bridged and late entries -----------------------------------------------------------------


def is_bridged_row(files: TableFiles, row: bytes, schema_id: int) -> bool:
    """Whether a row of a file's partition has more values than any keys of the table."""
    if not files.schema.has_primary_key:
        return False
    arity = row_arity(row)
    if arity <= len(files.schema.partition_keys):
        return False
    return arity > len(files.at_schema(schema_id).schema.partition_keys)


def has_bridged_rows(files: TableFiles, metas: Iterable[ManifestFileMeta]) -> bool:
    """Whether a manifest holds bridged entries; then all live entries are."""
    return any(
        is_bridged_row(files, meta.partition_stats.min_values, meta.schema_id) for meta in metas
    )


def late_entries(files: TableFiles, entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Entries of a primary-key table that a client wrote under former partition keys.

    The client opened the table before its keys changed.
    """
    if not files.schema.has_primary_key:
        return []
    own = files.schema.partition_keys
    keys_of_schema = cache(partial(keys_of, files))
    return [
        entry
        for entry in entries
        if keys_of_schema(entry.file.schema_id) != own
        and not is_bridged_row(files, entry.partition, entry.file.schema_id)
    ]


def ways_out(files: TableFiles) -> str:
    """What to do about files of former keys, as the end of a message."""
    keys = ",".join(files.schema.partition_keys)
    return (
        f"move them to the present keys (lakewright respec {files.name} --keys {keys!r}), or roll "
        "back to the snapshot before that commit, and write its rows again"
    )


def keys_of(files: TableFiles, schema_id: int) -> tuple[str, ...]:
    """The partition keys of a schema."""
    return files.at_schema(schema_id).schema.partition_keys


def keys_since_ms(files: TableFiles) -> int:
    """When the table got its present partition keys."""
    since_ms = files.schema.time_millis
    for number in reversed([each for each in files.schemas.ids() if each < files.schema.id]):
        schema = files.at_schema(number).schema
        if schema.partition_keys != files.schema.partition_keys:
            break
        since_ms = schema.time_millis
    return since_ms
