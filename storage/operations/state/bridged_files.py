"""Files of a primary-key table while its partition keys change.

For that moment the entries of all files are bridged (`operations/commit/bridged_base.py`): each has
a partition row with more values than the table has keys before or after, and bounds of no keys.
The files share no key, so they are read without a merge.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, partial
from typing import NoReturn

import numpy as np

from lakewright.storage.codec.binary_row import row_arity
from lakewright.storage.errors import SchemaMoved, UnsupportedError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.state.live_columns import LiveColumns
from lakewright.storage.spec.manifest import ManifestEntry, ManifestFileMeta


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
    keys_of = cache(partial(_keys_of, files))
    return [
        each
        for each in entries
        if keys_of(each.file.schema_id) != own
        and not is_bridged_row(files, each.partition, each.file.schema_id)
    ]


def check_keys_of_files(files: TableFiles, live: LiveColumns, *, bridged: bool) -> None:
    """Check that no client wrote files of a primary-key table under former partition keys.

    Their rows replace rows in other partitions, which no merge would find.

    Raises:
        SchemaMoved: the keys changed since the table was opened.
        UnsupportedError: names the keys.
    """
    if not files.schema.has_primary_key:
        return
    ids = np.unique(live.numbers("_FILE._SCHEMA_ID", live.rows)).tolist()
    foreign = [each for each in ids if _keys_of(files, each) != files.schema.partition_keys]
    if bridged:
        rows = live.texts("_PARTITION", live.rows).to_pylist()
        own = live.numbers("_FILE._SCHEMA_ID", live.rows).tolist()
        others = {
            schema_id
            for row, schema_id in {*zip(rows, own, strict=True)}
            if not is_bridged_row(files, row, schema_id)
        }
        if not others:
            return
        if others.isdisjoint(foreign):
            raise UnsupportedError(
                f"a change of the partition keys of {files.name} is under way or was stopped, and "
                "another client committed rows meanwhile, which may replace others; the next "
                f"commit to the table ends the change, or lakewright respec {files.name} --keys "
                f"{','.join(files.schema.partition_keys)!r}",
                table=files.name,
            )
    if foreign:
        _refuse_files_of(files, foreign)


def _refuse_files_of(files: TableFiles, foreign: Sequence[int]) -> NoReturn:
    """Refuse files of schemas with other partition keys than the table's; their ids ascend."""
    if foreign[-1] > files.schema.id:
        raise SchemaMoved(
            f"the partition keys of {files.name} changed since it was opened (schema "
            f"{files.schema.id}; files have schema {foreign[-1]}); open the table again",
            table=files.name,
        )
    raise UnsupportedError(
        f"data files of {files.name} have the partition keys "
        f"{', '.join(_keys_of(files, foreign[0])) or 'none'} (schema {foreign[0]}), and the table "
        f"has {', '.join(files.schema.partition_keys) or 'none'}: a client that opened the table "
        f"before its keys changed wrote them, and their rows may replace others; {ways_out(files)}",
        table=files.name,
    )


def ways_out(files: TableFiles) -> str:
    """What to do about files of former keys, as the end of a message."""
    keys = ",".join(files.schema.partition_keys)
    return (
        f"move them to the present keys (lakewright respec {files.name} --keys {keys!r}), or roll "
        "back to the snapshot before that commit, and write its rows again"
    )


def check_looked_up(files: TableFiles, live: Sequence[ManifestEntry]) -> None:
    """Check that keys can be looked up by their partitions and bounds.

    Bridged entries have no bounds of keys, and files of other partition keys lie elsewhere.

    Raises:
        SchemaMoved: the partition keys are changing, or changed since the table was opened.
        UnsupportedError: a client wrote files under former keys.
    """
    if any(is_bridged_row(files, each.partition, each.file.schema_id) for each in live):
        raise SchemaMoved(
            f"the partition keys of {files.name} are changing, which takes a moment; open the "
            "table and look the keys up again, or read it with a filter",
            table=files.name,
        )
    foreign = {each.file.schema_id for each in late_entries(files, live)}
    if foreign:
        _refuse_files_of(files, sorted(foreign))


def _keys_of(files: TableFiles, schema_id: int) -> tuple[str, ...]:
    return files.at_schema(schema_id).schema.partition_keys
