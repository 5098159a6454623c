"""Chooses the snapshot of a read by id, tag, time, watermark or version.

Source: Paimon specification, chapter Time Travel; `TimeTravelUtil`.
"""

from __future__ import annotations

import datetime as dt
from contextlib import suppress

from lakewright.storage.errors import InvalidRequestError, SnapshotNotFound
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spec.arguments import text_argument, whole_number
from lakewright.storage.spec.snapshot import Snapshot

_WATERMARK_VERSION = "watermark-"
_NO_WATERMARK = -(2**63)
_MOST_DIGITS = 19
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

# Milliseconds since the epoch, or a datetime or its ISO text (UTC if it has no zone).
Time = int | dt.datetime | str


def time_ms(time: Time) -> int:
    """A time in milliseconds since the epoch; a time without a zone is UTC.

    Raises:
        InvalidRequestError: it is no time.
    """
    given = time
    if isinstance(time, int):
        return time
    if isinstance(time, str):
        with suppress(ValueError):
            time = dt.datetime.fromisoformat(time)
    if not isinstance(time, dt.datetime):
        raise InvalidRequestError(
            f"{given!r} is no time; give a datetime, ISO text such as 2024-01-31 or "
            "2024-01-31T13:45:00+01:00, or milliseconds since 1970"
        )
    moment = time.replace(tzinfo=dt.UTC) if time.tzinfo is None else time
    return (moment - _EPOCH) // dt.timedelta(milliseconds=1)


def choose_snapshot(
    files: TableFiles,
    *,
    snapshot_id: int | None = None,
    as_of_ms: int | None = None,
    tag: str | None = None,
    watermark_ms: int | None = None,
    version: str | None = None,
) -> Snapshot | None:
    """The chosen snapshot, the latest by default; None if the table has no snapshot.

    `as_of_ms` chooses the last snapshot not later than the time. `watermark_ms` chooses the first
    snapshot whose watermark is at least that value. `version` is a tag's name, `watermark-` and a
    number, or an id. An id also finds an expired snapshot that a tag keeps.

    Raises:
        InvalidRequestError: more than one choice is given, or one of another type.
        TagNotFound: the tag does not exist; the message lists the existing tags.
        SnapshotNotFound: the snapshot does not exist, or history does not reach that far back.
    """
    choices = {
        "snapshot": snapshot_id,
        "time": as_of_ms,
        "tag": tag,
        "watermark": watermark_ms,
        "version": version,
    }
    asked = [name for name, value in choices.items() if value is not None]
    if len(asked) > 1:
        raise InvalidRequestError(
            f"{' and '.join(asked)} are given, and each names a state of the table; give one of "
            "them"
        )
    if version is not None:
        return _of_version(files, text_argument(version, "version"))
    if snapshot_id is not None:
        return _of_id(files, whole_number(snapshot_id, "snapshot"))
    if tag is not None:
        return files.references.tag(text_argument(tag, "tag")).snapshot
    if watermark_ms is not None:
        return _of_watermark(files, watermark_ms)
    if as_of_ms is not None:
        return _of_time(files, as_of_ms)
    return files.snapshots.latest()


def _of_version(files: TableFiles, version: str) -> Snapshot | None:
    if version in files.references.tag_names():
        return files.references.tag(version).snapshot
    if is_number(version):
        return _of_id(files, int(version))
    number = version.removeprefix(_WATERMARK_VERSION)
    if number != version and is_number(number.removeprefix("-")):
        return _of_watermark(files, int(number))
    return files.references.tag(version).snapshot


def is_number(text: str) -> bool:
    """Whether a caller's text is a whole number of 64 bits at most, and so no tag's name."""
    return text.isdecimal() and len(text) <= _MOST_DIGITS


def _of_id(files: TableFiles, snapshot_id: int) -> Snapshot:
    try:
        return files.snapshots.read(snapshot_id)
    except SnapshotNotFound:
        for held in files.references.tags().values():
            if held.snapshot.id == snapshot_id:
                return held.snapshot
        raise


def _of_time(files: TableFiles, as_of_ms: int) -> Snapshot | None:
    for snapshot in files.snapshots.newest_first():
        if snapshot.time_millis <= as_of_ms:
            return snapshot
    earliest = files.snapshots.earliest_id()
    if earliest is None:
        return None
    raise SnapshotNotFound(
        f"{files.name} has no snapshot at or before {moment_text(as_of_ms)}; its earliest is "
        f"snapshot {earliest}, of {moment_text(files.snapshots.read(earliest).time_millis)}"
    )


def _of_watermark(files: TableFiles, watermark_ms: int) -> Snapshot | None:
    found: Snapshot | None = None
    highest: int | None = None
    for snapshot in files.snapshots.newest_first():
        if snapshot.watermark in (None, _NO_WATERMARK):
            continue
        highest = max(highest or snapshot.watermark or 0, snapshot.watermark or 0)
        if (snapshot.watermark or 0) < watermark_ms:
            break
        found = snapshot
    if found is None and files.snapshots.latest_id() is not None:
        have = "no snapshot has a watermark" if highest is None else f"the highest is {highest}"
        raise SnapshotNotFound(
            f"no snapshot of {files.name} has reached watermark {watermark_ms}; {have}"
        )
    return found


def moment_text(time_ms: int) -> str:
    """A time as readable text, in UTC."""
    moment = dt.datetime.fromtimestamp(time_ms / 1000, dt.UTC)
    return moment.isoformat(sep=" ", timespec="milliseconds")
