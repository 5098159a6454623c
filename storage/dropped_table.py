"""What a drop of a table leaves behind: files that lie outside of its folder."""

from __future__ import annotations

from dataclasses import dataclass

from lakewright.storage.env import Env, FileSystem
from lakewright.storage.errors import StorageError
from lakewright.storage.files.external_files import external_uri
from lakewright.storage.files.metadata_stores import SchemaStore
from lakewright.storage.files.paths import TablePaths
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.format_tables.format_spec import format_spec, is_format_table


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedTable:
    """What a drop did; it deleted no file in the folders of `stays`.

    The table can come back for `grace_ms`; with 0, it is gone permanently.
    """

    existed: bool = True
    grace_ms: int = 0
    stays: tuple[str, ...] = ()


def folders_outside(fs: FileSystem, path: str, env: Env, *, table: str) -> tuple[str, ...]:
    """The folders outside of its own in which a table reads files; empty without a schema."""
    paths = TablePaths(path)
    try:
        files = TableFiles(table, fs, paths, SchemaStore(fs, paths).latest(table=table), env)
        if not is_format_table(files.schema):
            return files.options.external_paths
        location = format_spec(files).location
    except StorageError:
        return ()
    return () if f"{location}/".startswith(f"{path}/") else (external_uri(fs, location),)
