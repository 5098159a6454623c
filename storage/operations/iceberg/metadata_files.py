"""The files of a table's Iceberg metadata: where they lie, and what the current version says.

<folder>/v<N>.metadata.json   the version whose current snapshot is N, as Java names it
<folder>/version-hint.text    the number of the current version
<folder>/…                    manifests, their lists, and position deletes, under names used once
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from lakewright.storage.env import FileStatus
from lakewright.storage.errors import FileMissing, UnsupportedError
from lakewright.storage.files.external_files import external_uri, own_file_path
from lakewright.storage.files.paths import DATABASE_SUFFIX
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.state.branch_files import on_branch
from lakewright.storage.spec.data_types import OpaqueType
from lakewright.storage.spec.options import IN_CATALOG, NOT_PUBLISHED
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.supported_options import check_readable

# Which snapshot a snapshot of Iceberg is, in its summary: by us, and by Java.
DELTA_LIST, JAVA_IDENTITY = "lakewright.delta-list", "paimon-commit-identity"
RETIRED = "lakewright.retired"
_VERSION = re.compile(r"v(\d+)\.metadata\.json")
_HINT = "version-hint.text"


@dataclass(frozen=True)
class MetadataFiles:
    """The folder of a table's Iceberg metadata; `files` is the table on its main branch."""

    files: TableFiles
    folder: str

    @classmethod
    def of(cls, files: TableFiles) -> MetadataFiles:
        """The folder that the table's options name, by default one in the table.

        Raises:
            UnsupportedError: it would be named after a database, and the table lies in none.
        """
        files = on_branch(files, "")
        root = files.paths.root
        storage, location = files.options.iceberg_storage, files.options.iceberg_location
        if location != IN_CATALOG and (location or storage in (NOT_PUBLISHED, "table-location")):
            return cls(files, f"{root}/metadata")
        place, _, table = root.rpartition("/")
        warehouse, _, database = place.rpartition("/")
        if not database.endswith(DATABASE_SUFFIX):
            raise UnsupportedError(
                f"{files.name} lies at {root}, in no folder <database>{DATABASE_SUFFIX}, so it has "
                "no place in a catalog of Iceberg; set metadata.iceberg.storage=table-location"
            )
        name = database.removesuffix(DATABASE_SUFFIX)
        return cls(files, f"{warehouse}/iceberg/{name}/{table}/metadata")

    @property
    def is_inside(self) -> bool:
        """Whether the folder is one of the table's own."""
        return self.folder.startswith(f"{self.files.paths.root}/")

    def path(self, name: str) -> str:
        return f"{self.folder}/{name}"

    def version_path(self, version: int) -> str:
        return self.path(f"v{version}.metadata.json")

    def listed(self) -> list[FileStatus]:
        """Every file of the folder."""
        return self.files.fs.list_dir(self.folder)

    def hint(self) -> int | None:
        """The version that readers take, or from which on they look for a later one."""
        with suppress(FileMissing, ValueError):
            return int(self.files.fs.read_bytes(self.path(_HINT)))
        return None

    def set_hint(self, version: int) -> None:
        self.files.fs.replace(self.path(_HINT), str(version).encode())

    def read(self, version: int) -> bytes | None:
        """The bytes of a version; None if it is gone."""
        with suppress(FileMissing):
            return self.files.fs.read_bytes(self.version_path(version))
        return None

    def location(self, written: str | None) -> str:
        """The table's place as manifests name it: as the current version does, if it means this.

        Java names local files without a scheme, and finds files by that text.
        """
        fs, root = self.files.fs, self.files.paths.root
        if written is not None and own_file_path(fs, f"{written}/x", root=root) == f"{root}/x":
            return written
        uri = external_uri(fs, root)
        return uri.removeprefix("file:")


def versions_of(listed: list[FileStatus]) -> dict[int, FileStatus]:
    """The versions among some files, in order."""
    found = {int(match[1]): each for each in listed if (match := _VERSION.fullmatch(each.name))}
    return dict(sorted(found.items()))


def is_published(files: TableFiles) -> bool:
    """Whether an option asks for Iceberg metadata after each commit, of the main branch."""
    return not files.paths.branch and files.options.iceberg_storage != NOT_PUBLISHED


def check_publishable(files: TableFiles) -> None:
    """Check that Iceberg readers would see the right rows of a table's files.

    Raises:
        UnsupportedError: says why not.
    """
    check_readable(files.schema, table=files.name)
    if files.schema.counts_rows:
        raise UnsupportedError(
            f"{files.name} cannot be published for Iceberg readers: its files count equal rows"
        )
    if files.options.data_evolution_enabled:
        raise UnsupportedError(
            f"{files.name} cannot be published for Iceberg readers: columns of a row may lie in "
            "several files, as data-evolution.enabled says"
        )
    for field in files.schema.fields:
        if isinstance(field.type, OpaqueType):
            raise UnsupportedError(
                f"{files.name} cannot be published for Iceberg readers: column {field.name} is "
                f"{field.type}, which Iceberg's format version 2 has no type for"
            )


def java_identity(snapshot: Snapshot) -> str:
    """What tells a snapshot from another of its id, as Java writes it."""
    own = f"{snapshot.commit_user}:{snapshot.commit_identifier}:{snapshot.time_millis}"
    return snapshot.uuid or own


def is_made_of(said: Mapping[str, Any], snapshot: Snapshot) -> bool:
    """Whether the summary of an Iceberg snapshot proves that it was made of this snapshot."""
    if said.get(DELTA_LIST) is not None:
        return bool(said[DELTA_LIST] == snapshot.delta_manifest_list)
    return bool(said.get(JAVA_IDENTITY) == java_identity(snapshot))


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergStatus:
    """What Iceberg readers see of a table: a snapshot, and how far it is behind.

    `unseen_since_ms` is the time of the first commit that they do not see, None if there is none.
    `merged_ms` is the time of the last full compaction that they see, of a table whose later rows
    they do not see. `refused` says why nothing of it can be published.
    """

    location: str
    snapshot_id: int | None
    latest_id: int | None
    unseen_since_ms: int | None = None
    shows_merged: bool = False
    merged_ms: int | None = None
    refused: str | None = None


def shows_merged(files: TableFiles) -> bool:
    """Whether readers see rows only after a full compaction."""
    return files.schema.has_primary_key and not files.options.deletion_vectors_enabled


def read_status(files: TableFiles) -> IcebergStatus | None:
    """What Iceberg readers see of the latest snapshots; None if there is no metadata.

    It reads the hint, one version, and the first snapshot that readers do not see.
    """
    own = MetadataFiles.of(files)
    files, version = own.files, own.hint()
    data = None if version is None else own.read(version)
    found = _object(data)
    if data is None and not is_published(files):
        return None
    current = found.get("current-snapshot-id")
    snapshots = [each for each in found.get("snapshots", ()) if isinstance(each, dict)]
    at = next((each for each in snapshots if each.get("snapshot-id") == current), {})
    latest = files.snapshots.latest()
    unseen_since_ms = None
    if latest is not None and not is_made_of(_summary(at), latest):
        later = [each for each in files.snapshots.ids() if each > (current or 0)]
        first = files.snapshots.read(later[0]) if later else latest
        unseen_since_ms = first.time_millis
    # Rows of these appear by compactions alone.
    merged = shows_merged(files)
    changes = [
        each
        for each in snapshots
        if any(
            int(_summary(each).get(name, 0)) for name in ("added-data-files", "deleted-data-files")
        )
    ]
    merged_ms = max((int(each["timestamp-ms"]) for each in changes), default=None)
    return IcebergStatus(
        location=files.fs.uri(own.folder),
        snapshot_id=current if isinstance(current, int) else None,
        latest_id=None if latest is None else latest.id,
        unseen_since_ms=unseen_since_ms,
        shows_merged=merged,
        merged_ms=merged_ms if merged else None,
    )


def unpublished(files: TableFiles) -> IcebergStatus:
    """What Iceberg readers see of a table without metadata: nothing since its first snapshot."""
    files = on_branch(files, "")
    ids = files.snapshots.ids()
    return IcebergStatus(
        location=files.paths.root,
        snapshot_id=None,
        latest_id=ids[-1] if ids else None,
        unseen_since_ms=files.snapshots.read(ids[0]).time_millis if ids else None,
    )


def _object(data: bytes | None) -> dict[str, Any]:
    with suppress(ValueError):
        found = {} if data is None else json.loads(data)
        return found if isinstance(found, dict) else {}
    return {}


def _summary(snapshot: dict[str, Any]) -> dict[str, Any]:
    summary = snapshot.get("summary")
    return summary if isinstance(summary, dict) else {}
