"""Snapshot and tag files: JSON ↔ `Snapshot` and `Tag`.

A tag file is its snapshot file; a tag with a retention time has two more keys.
Source: Paimon specification, chapters Snapshot and Tag.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from typing import Any, TypeVar

from lakewright.storage.codec.json_values import (
    as_list,
    as_moment_ms,
    as_object,
    as_text,
    as_whole,
    check_readable,
    read_object,
)
from lakewright.storage.errors import CorruptionError, UnsupportedError
from lakewright.storage.spec.file_names import plain_name
from lakewright.storage.spec.snapshot import (
    FIRST_SNAPSHOT_ID,
    SNAPSHOT_VERSION,
    CommitKind,
    Snapshot,
)
from lakewright.storage.spec.tag import Tag

_T = TypeVar("_T")

_TAG_CREATE_TIME = "tagCreateTime"
_TAG_TIME_RETAINED = "tagTimeRetained"

# Attribute of `Snapshot` for each JSON key; `properties` and the commit kind are handled apart.
_KEYS = {
    "version": "version",
    "uuid": "uuid",
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
# Fields that repeat what other fields state, or that no reader needs: a commit may omit them.
_LEFT_OUT = frozenset({"logOffsets", "totalFileSize", "totalDataFiles"})
_KNOWN_FIELDS = _KEYS.keys() | _LEFT_OUT | {"commitKind", _TAG_CREATE_TIME, _TAG_TIME_RETAINED}
_REQUIRED_NUMBERS = ("id", "schema_id", "commit_identifier")
_OTHER_NUMBERS = (
    "base_manifest_list_size",
    "delta_manifest_list_size",
    "changelog_manifest_list_size",
    "changelog_record_count",
    "watermark",
    "next_row_id",
)
_REQUIRED_FILES = ("base_manifest_list", "delta_manifest_list")
_OTHER_FILES = ("changelog_manifest_list", "index_manifest", "statistics")
_OTHER_TEXTS = ("operation", "writer_version", "uuid")
# A rollback reads the snapshots that it deletes, so it is no way out here.
_WAY_OUT = (
    "; restore it from a copy, or, if it is the latest snapshot and there is no copy, delete it, "
    "which loses its commit"
)


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """The snapshot file, with the fields that are known here.

    Raises:
        InvalidRequestError: a value is one that `decode_snapshot` refuses.
    """
    data: dict[str, Any] = {}
    for key, attribute in _KEYS.items():
        value = getattr(snapshot, attribute)
        if value is not None:
            data[key] = dict(value) if attribute == "properties" else value
        if key == "commitIdentifier":
            data["commitKind"] = snapshot.commit_kind.value
    encoded = json.dumps(data, indent=2).encode()
    return check_readable(
        lambda read: decode_snapshot(read, name="it", way_out=""),
        encoded,
        f"snapshot {snapshot.id}",
    )


def decode_snapshot(
    data: bytes, *, name: str, snapshot_id: int | None = None, way_out: str = _WAY_OUT
) -> Snapshot:
    """Read a snapshot file (or a tag, which is one with more keys).

    `snapshot_id` is the id in the file's name; a tag's name holds none. `way_out` ends the message
    of a file that is no snapshot.

    Raises:
        UnsupportedError: the file has a later version of the format.
        CorruptionError: the file is not a snapshot, names a file outside of its folder, or its id
            differs from the one in its name.
    """
    try:
        read = read_object(data)
        values: dict[str, Any] = {attribute: read.get(key) for key, attribute in _KEYS.items()}
        values["version"] = as_whole(read.get("version") or 1)
        if values["version"] > SNAPSHOT_VERSION:
            raise UnsupportedError(
                f"{name} is of version {values['version']}, and this release reads 1 to "
                f"{SNAPSHOT_VERSION}; upgrade lakewright"
            )
        _check_values(values)
        unknown = tuple(sorted(read.keys() - _KNOWN_FIELDS))
        kind = CommitKind(read["commitKind"])
        snapshot = Snapshot(commit_kind=kind, unknown_fields=unknown, **values)
    except (ValueError, KeyError) as error:
        why = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise CorruptionError(f"{name} is not a snapshot: {why}{way_out}", path=name) from error
    if snapshot.id < FIRST_SNAPSHOT_ID or snapshot_id not in (None, snapshot.id):
        raise CorruptionError(
            f"{name} holds the id {snapshot.id}, which contradicts its name; restore it from a "
            "copy",
            path=name,
        )
    return snapshot


def _check_values(values: dict[str, Any]) -> None:
    """Check the types of a snapshot's values, and set missing record counts to zero."""
    for number in _REQUIRED_NUMBERS:
        _named(number, as_whole, values[number])
    for count in ("total_record_count", "delta_record_count"):
        values[count] = _named(count, as_whole, values[count] or 0)
    for each in _REQUIRED_FILES:
        _named(each, plain_name, values[each])
    _named("time_millis", as_moment_ms, values["time_millis"])
    _named("commit_user", as_text, values["commit_user"])
    optional = (
        *((each, as_whole) for each in _OTHER_NUMBERS),
        *((each, plain_name) for each in _OTHER_FILES),
        *((each, as_text) for each in _OTHER_TEXTS),
    )
    for each, check in optional:
        if values[each] is not None:
            _named(each, check, values[each])
    if values["properties"] is not None:
        for text in as_object(values["properties"]).values():
            _named("properties", as_text, text)


def _named(attribute: str, check: Callable[[object], _T], value: object) -> _T:
    """Run a check on a value; its error names the attribute."""
    try:
        return check(value)
    except ValueError as error:
        raise ValueError(f"{attribute}: {error}") from None


def encode_tag(
    snapshot_file: bytes, *, create_time: dt.datetime, time_retained_ms: int | None
) -> bytes:
    """The tag file of a snapshot file; unknown keys stay.

    Raises:
        InvalidRequestError: a value is one that `decode_tag` refuses.
    """
    if time_retained_ms is None:
        # Readers of Paimon 0.7 and before cannot read tags with keys of their own.
        return snapshot_file
    data = json.loads(snapshot_file)
    data[_TAG_CREATE_TIME] = _time_array(create_time)
    data[_TAG_TIME_RETAINED] = time_retained_ms / 1000
    encoded = json.dumps(data, indent=2).encode()
    return check_readable(lambda read: decode_tag(read, tag_name="", name="it"), encoded, "the tag")


def snapshot_file_of_tag(tag_file: bytes, *, has_changelog: bool) -> bytes:
    """The snapshot file in a tag file, without the changelog unless `has_changelog`."""
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
        UnsupportedError: the file has a later version of the format.
        CorruptionError: the file is not a tag.
    """
    snapshot = decode_snapshot(data, name=name)
    read = read_object(data)
    try:
        created, retained = read.get(_TAG_CREATE_TIME), read.get(_TAG_TIME_RETAINED)
        return Tag(
            name=tag_name,
            snapshot=snapshot,
            create_time=None if created is None else _array_time(as_list(created)),
            time_retained_ms=None if retained is None else round(float(retained) * 1000),
        )
    except (ValueError, TypeError, OverflowError) as error:
        raise CorruptionError(f"{name} is not a tag: {error!r}", path=name) from error


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
