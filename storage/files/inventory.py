"""A store's inventory: files in which the store, or a scheduled job, has listed all objects.

CSV, also compressed, or Parquet, with the columns `key`, `size` and `last_modified`, as the S3
Inventory has them. Keys may be URIs, paths in the store, or paths in the bucket.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote_plus

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from lakewright.storage.env import FileStatus
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.arguments import place_argument

_KINDS = (".csv", ".csv.gz", ".csv.bz2", ".csv.zst", ".parquet")
_COLUMNS = {
    "key": ("key",),
    "size": ("size",),
    "last_modified": ("last_modified", "lastmodified", "lastmodifieddate", "last_modified_date"),
}
_PREFIX = r"^[a-zA-Z][a-zA-Z0-9+.-]*://"


def read_inventory(source: str, root: str, *, table: str) -> Iterator[FileStatus]:
    """The files below a table's root that an inventory names; `source` is a file or a folder.

    A key that may be URL-encoded, as the S3 Inventory writes keys into CSV, comes in both forms.

    Raises:
        InvalidRequestError: the inventory cannot be read, lacks a column, or names no file of the
            table.
    """
    prefixes = _prefixes(root)
    first, is_empty = "", True
    for path in _parts(place_argument(source, "inventory")):
        try:
            for batch in _batches(path):
                named = _named(batch, path)
                first = first or str(named.column(0)[0].as_py() if named.num_rows else "")
                for prefix in prefixes:
                    own = named.filter(pc.starts_with(named.column(0), prefix))
                    is_empty = is_empty and not own.num_rows
                    yield from _statuses(own, prefix, root, encoded=".csv" in path.suffixes)
        except (pa.ArrowException, OSError) as error:
            raise InvalidRequestError(f"inventory {path} cannot be read: {error}") from error
    if is_empty:
        raise InvalidRequestError(
            f"inventory {source} names no file of {table}, whose keys begin with "
            f"{' or '.join(prefixes)}; its first key is {first or 'none'}"
        )


def _prefixes(root: str) -> tuple[str, ...]:
    """What the keys of a table's files begin with: a path in the store, or in its bucket."""
    path = root.lstrip("/")
    inside = path.partition("/")[2]
    return tuple(dict.fromkeys(f"{each}/" for each in (root, path, inside) if each))


def _parts(source: str) -> list[Path]:
    path = Path(source)
    try:
        if not path.is_dir():
            return [path]
        found = sorted(each for each in path.iterdir() if each.name.endswith(_KINDS))
    except OSError as error:
        raise InvalidRequestError(f"inventory {source} cannot be read: {error}") from error
    if not found:
        raise InvalidRequestError(f"folder {source} holds no inventory ({', '.join(_KINDS)})")
    return found


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    if path.suffix == ".parquet":
        with pq.ParquetFile(path) as parquet:
            names = [name for name in parquet.schema_arrow.names if _meaning(name)]
            yield from parquet.iter_batches(columns=names)
        return
    with pacsv.open_csv(path) as head:
        types = dict.fromkeys(head.schema.names, pa.string())
    chosen = pacsv.ConvertOptions(
        column_types=types, include_columns=[each for each in types if _meaning(each)]
    )
    with pacsv.open_csv(path, convert_options=chosen) as rows:
        yield from rows


def _meaning(column: str) -> str | None:
    spelled = column.strip().lower()
    return next((name for name, known in _COLUMNS.items() if spelled in known), None)


def _named(batch: pa.RecordBatch, path: Path) -> pa.Table:
    """The key without its scheme, the size and the time in milliseconds of each row."""
    columns = {_meaning(name): batch.column(name) for name in batch.schema.names}
    missing = _COLUMNS.keys() - columns.keys()
    if missing:
        raise InvalidRequestError(
            f"inventory {path} has no column {' and '.join(sorted(missing))}; its first line must "
            "name key, size and last_modified"
        )
    keys = pc.replace_substring_regex(columns["key"].cast(pa.string()), _PREFIX, "")
    times = columns["last_modified"]
    if pa.types.is_string(times.type) or pa.types.is_large_string(times.type):
        times = pc.replace_substring_regex(times.cast(pa.string()), r"(Z|[+]00:?00)$", "")
    elif not pa.types.is_timestamp(times.type):
        raise InvalidRequestError(
            f"inventory {path} has last_modified of type {times.type}; write times such as "
            "2026-11-23T04:00:00Z"
        )
    moments = times.cast(pa.timestamp("ns")).cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
    sizes = pc.fill_null(columns["size"].cast(pa.int64()), 0)
    return pa.table({"key": keys, "size": sizes, "modified_ms": moments}).drop_null()


def _statuses(rows: pa.Table, prefix: str, root: str, *, encoded: bool) -> Iterator[FileStatus]:
    for batch in rows.to_batches():
        for key, size, modified_ms in zip(*(each.to_pylist() for each in batch), strict=True):
            below = key[len(prefix) :]
            for spelled in {below, unquote_plus(below)} if encoded else {below}:
                yield FileStatus(f"{root}/{spelled}", size, modified_ms)
