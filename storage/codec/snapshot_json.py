"""Snapshot files: JSON ↔ `Snapshot`. Source: Paimon specification, chapter Snapshot."""

from __future__ import annotations

import json
from typing import Any

from lakewright.storage.errors import CorruptionError, UnsupportedError
from lakewright.storage.spec.snapshot import SNAPSHOT_VERSION, CommitKind, Snapshot

# Attribute of `Snapshot` for each JSON key; `properties` and the commit kind are set apart.
_KEYS = {
    "version": "version",
    "id": "id",
    "schemaId": "schema_id",
    "baseManifestList": "base_manifest_list",
    "baseManifestListSize": "base_manifest_list_size",
    "deltaManifestList": "delta_manifest_list",
    "deltaManifestListSize": "delta_manifest_list_size",
    "changelogManifestList": "changelog_manifest_list",
    "changelogManifestListSize": "changelog_manifest_list_size",
    "indexManifest": "index_manifest",
    "commitUser": "commit_user",
    "commitIdentifier": "commit_identifier",
    "timeMillis": "time_millis",
    "totalRecordCount": "total_record_count",
    "deltaRecordCount": "delta_record_count",
    "changelogRecordCount": "changelog_record_count",
    "watermark": "watermark",
    "statistics": "statistics",
    "properties": "properties",
    "nextRowId": "next_row_id",
}


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """The snapshot file; what is unknown is left out."""
    data: dict[str, Any] = {}
    for key, attribute in _KEYS.items():
        value = getattr(snapshot, attribute)
        if value is not None:
            data[key] = dict(value) if attribute == "properties" else value
        if key == "commitIdentifier":
            data["commitKind"] = snapshot.commit_kind.value
    return json.dumps(data, indent=2).encode()


def decode_snapshot(data: bytes, *, name: str) -> Snapshot:
    """Read a snapshot file (or a tag, which is one with more keys).

    Raises:
        UnsupportedError: it is of a version after ours.
        CorruptionError: it is no snapshot.
    """
    try:
        read = json.loads(data)
        values = {attribute: read.get(key) for key, attribute in _KEYS.items()}
        values["version"] = int(read.get("version") or 1)
        if values["version"] > SNAPSHOT_VERSION:
            raise UnsupportedError(
                f"{name} is of version {values['version']}, known are 1 to {SNAPSHOT_VERSION}; "
                "upgrade lakewright"
            )
        for required in ("id", "schema_id", "time_millis", "commit_identifier"):
            values[required] = int(values[required])
        for text in ("base_manifest_list", "delta_manifest_list", "commit_user"):
            if not isinstance(values[text], str):
                raise KeyError(text)
        for number in ("total_record_count", "delta_record_count"):
            values[number] = int(values[number] or 0)
        return Snapshot(commit_kind=CommitKind(read["commitKind"]), **values)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptionError(f"{name} is no snapshot: {error!r}") from error
