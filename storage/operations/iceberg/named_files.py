"""The files that Iceberg metadata names in its folder, read without pyiceberg.

Orphan removal and publications keep these; other files of such names died with their publication.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from io import BytesIO
from typing import Any

import fastavro

from lakewright.storage.errors import FileMissing, UnsupportedError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.iceberg.metadata_files import (
    RETIRED,
    MetadataFiles,
    versions_of,
)

# Names that we give files, Java's of manifests and their lists, and those of unfinished files.
OWN_NAME = r"(?:m-|snap-|deletes-)[^/]+\.(?:avro|parquet)|[0-9a-f-]{36}-m\d+\.avro|\.[^/]+\.tmp"
_OWN = re.compile(OWN_NAME)
_DELETES = 1


def unnamed_files(own: MetadataFiles) -> list[str] | None:
    """Names of files that no version names; None if a version cannot be read."""
    listed = own.listed()
    named = _named(own, list(versions_of(listed)))
    if named is None:
        return None
    return [each.name for each in listed if _OWN.fullmatch(each.name) and each.name not in named]


def named_below(files: TableFiles) -> set[str]:
    """Paths, below the table, of files in its folder of metadata that are no orphans."""
    try:
        own = MetadataFiles.of(files)
    except UnsupportedError:
        return set()
    if not own.is_inside:
        return set()
    unnamed = unnamed_files(own)
    lost = set() if unnamed is None else set(unnamed)
    below = own.folder.removeprefix(f"{own.files.paths.root}/")
    return {f"{below}/{each.name}" for each in own.listed() if each.name not in lost}


def _named(own: MetadataFiles, versions: list[int]) -> set[str] | None:
    found: set[str] = set()
    lists: set[str] = set()
    try:
        for version in versions:
            metadata = json.loads(own.read(version) or b"{}")
            found |= json.loads(metadata.get("properties", {}).get(RETIRED, "{}")).keys()
            lists |= {_name(each["manifest-list"]) for each in metadata.get("snapshots", ())}
        for name in lists - found:
            # A former version may name what was deleted since.
            with suppress(FileMissing):
                found |= _named_by_list(own, name)
    except Exception:  # noqa: BLE001  # whatever cannot be read, nothing is taken for lost
        return None
    return found | lists


def _named_by_list(own: MetadataFiles, name: str) -> set[str]:
    found = set()
    for manifest in _records(own, name):
        path = _name(manifest["manifest_path"])
        found.add(path)
        if manifest["content"] == _DELETES:
            found |= {_name(each["data_file"]["file_path"]) for each in _records(own, path)}
    return found


def _records(own: MetadataFiles, name: str) -> list[dict[str, Any]]:
    data = BytesIO(own.files.fs.read_bytes(own.path(name)))
    return [each for each in fastavro.reader(data) if isinstance(each, dict)]


def _name(location: str) -> str:
    return location.rpartition("/")[2]
