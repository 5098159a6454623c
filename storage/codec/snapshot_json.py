"""Snapshot and tag files: JSON ↔ `Snapshot` and `Tag`.

A tag is the text of its snapshot, with two keys more when it shall expire by itself.
Source: Paimon specification, chapters Snapshot and Tag.
"""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from lakewright.storage.errors import CorruptionError, UnsupportedError
from lakewright.storage.spec.snapshot import SNAPSHOT_VERSION, CommitKind, Snapshot
from lakewright.storage.spec.tag import Tag

_TAG_CREATE_TIME = "tagCreateTime"
_TAG_TIME_RETAINED = "tagTimeRetained"

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
    "operation": "operation",
    "writerVersion": "writer_version",
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


def encode_tag(
    snapshot_file: bytes, *, create_time: dt.datetime, time_retained_ms: int | None
) -> bytes:
    """The tag file of a snapshot file, whose keys all stay, known here or not."""
    if time_retained_ms is None:
        # Readers of Paimon 0.7 and before know no tags with keys of their own.
        return snapshot_file
    data = json.loads(snapshot_file)
    data[_TAG_CREATE_TIME] = _time_array(create_time)
    data[_TAG_TIME_RETAINED] = time_retained_ms / 1000
    return json.dumps(data, indent=2).encode()


def snapshot_file_of_tag(tag_file: bytes, *, has_changelog: bool) -> bytes:
    """The snapshot file that a tag was made of, without its changelog if that is gone."""
    data = json.loads(tag_file)
    left_out = {_TAG_CREATE_TIME, _TAG_TIME_RETAINED}
    if not has_changelog:
        left_out |= {key for key in data if key.startswith("changelog")}
    if not left_out & data.keys():
        return tag_file
    kept = {key: value for key, value in data.items() if key not in left_out}
    return json.dumps(kept, indent=2).encode()


def decode_tag(data: bytes, *, tag_name: str, name: str) -> Tag:
    """Read a tag file.

    Raises:
        UnsupportedError: it is of a version after ours.
        CorruptionError: it is no tag.
    """
    snapshot = decode_snapshot(data, name=name)
    read = json.loads(data)
    try:
        created, retained = read.get(_TAG_CREATE_TIME), read.get(_TAG_TIME_RETAINED)
        return Tag(
            name=tag_name,
            snapshot=snapshot,
            create_time=None if created is None else _array_time(created),
            time_retained_ms=None if retained is None else round(float(retained) * 1000),
        )
    except (ValueError, TypeError, OverflowError) as error:
        raise CorruptionError(f"{name} is no tag: {error!r}") from error


def _time_array(time: dt.datetime) -> list[int]:
    """Year to minute, then seconds and nanoseconds; trailing zeros are left out."""
    parts = [time.year, time.month, time.day, time.hour, time.minute]
    nanos = time.microsecond * 1000
    if time.second or nanos:
        parts.append(time.second)
    return [*parts, nanos] if nanos else parts


def _array_time(parts: list[int]) -> dt.datetime:
    year, month, day, hour, minute, second, nanos = [*parts, 0, 0][:7]
    return dt.datetime(year, month, day, hour, minute, second, nanos // 1000)
