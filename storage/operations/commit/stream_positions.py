"""Where the streams into a table stand: the snapshots say it, and nothing else does.

Each batch is a commit, and the record of its stream is in the properties of its snapshot: rows and
position are one write. Each later commit of this library repeats the records of all streams, so
expiry loses none, and a rollback takes a record back with its rows. After commits of other
clients, which do not repeat them, the records are in the last snapshot that has some; an expiry
that would delete it says them again first (`carry_streams`).

A small file beside the table says how each stream began (`StreamStart`). Of a stream that the
snapshots do not know, it tells whether a rollback took all of its batches away, or an expiry of
another client took the snapshots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from lakewright.storage.codec.stream_json import decode_streams, encode_streams
from lakewright.storage.errors import InvalidRequestError, NotFoundError, SnapshotNotFound
from lakewright.storage.files.stream_store import place_of
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.commit_loop import commit_change
from lakewright.storage.operations.running.delete_files import delete_files
from lakewright.storage.operations.state.table_state import TableState
from lakewright.storage.spec.arguments import text_argument
from lakewright.storage.spec.commit import Change, Committable
from lakewright.storage.spec.snapshot import STREAMS_PROPERTY, CommitKind, Snapshot
from lakewright.storage.spec.stream import StreamRecord, StreamStart

Streams = dict[str, StreamRecord]


def streams_of(files: TableFiles) -> Streams:
    """The streams that the table holds, by their ids."""
    return streams_at(files, files.snapshots.latest())


def streams_at(files: TableFiles, snapshot: Snapshot | None) -> Streams:
    """The streams that a table holds at one of its snapshots."""
    earlier = () if snapshot is None else files.snapshots.back_from(snapshot)
    return next((found for each in earlier if (found := _said(files, each)) is not None), {})


def _said(files: TableFiles, snapshot: Snapshot) -> Streams | None:
    text = (snapshot.properties or {}).get(STREAMS_PROPERTY)
    if text is None:
        return None
    return decode_streams(text, name=files.paths.snapshot(snapshot.id))


def list_streams(files: TableFiles) -> tuple[StreamRecord, ...]:
    """The streams that wrote into the table, the last writer first."""
    found = streams_of(files).values()
    return tuple(sorted(found, key=lambda record: (-record.time_ms, record.stream)))


def forget_stream(files: TableFiles, stream: str) -> StreamRecord:
    """Let the table forget a stream that does not run any more; its rows stay.

    Raises:
        NotFoundError: no stream of that id has written into the table.
    """
    stream = text_argument(stream, "stream")
    known, start = streams_of(files), files.streams.read(stream)
    record = known.get(stream)
    if record is not None:
        _say(files, lambda now: {name: each for name, each in now.items() if name != stream})
    elif start is None:
        ids = [*known, *(each.stream for each in files.streams.all())]
        raise NotFoundError(
            f"no stream {stream} has written into {files.name}; there are "
            f"{', '.join(dict.fromkeys(ids)) or 'none'}"
        )
    else:
        record = StreamRecord(stream=stream, checkpoint=start.checkpoint, batch=-1, time_ms=0)
    delete_files(files.fs, [files.paths.stream(stream)])
    return record


def carry_streams(files: TableFiles, expired: Sequence[int], end_id: int) -> None:
    """Say again where streams stand, if only snapshots say it that are about to be expired.

    `end_id` is the first snapshot that stays. A stream that has begun and has no batch yet begins
    after the snapshots that are there.
    """
    latest = files.snapshots.latest()
    if latest is None:
        return
    if _any_says(files, reversed(expired)) and _said(files, files.snapshots.read(end_id)) is None:
        history = files.snapshots.back_from(latest)
        if not any(_said(files, each) for each in history if each.id > end_id):
            _say(files, lambda now: now or None)
    starts = files.streams.all()
    known = streams_of(files) if starts else {}
    for start in starts:
        is_whole = expired[0] <= start.base_id + 1
        if start.stream not in known and is_whole and start.base_id < latest.id:
            files.streams.put(replace(start, base_id=latest.id))


def _any_says(files: TableFiles, ids: Iterable[int]) -> bool:
    for snapshot_id in ids:
        # An earlier try of the expiry may have deleted it.
        with suppress(SnapshotNotFound):
            if _said(files, files.snapshots.read(snapshot_id)):
                return True
    return False


def carry_into(branch: TableFiles, files: TableFiles) -> None:
    """Say on a new branch where streams stand, if its snapshot is of a client that does not."""
    snapshot = branch.snapshots.latest()
    if snapshot is None or _said(branch, snapshot) is not None or not files.streams.all():
        return
    streams = streams_at(files, snapshot)
    if streams:
        _say(branch, lambda now: now or streams)


def _say(files: TableFiles, change: Callable[[Streams], Streams | None]) -> None:
    """Commit where streams stand, made of what the latest snapshot says."""

    def build(state: TableState) -> Change | None:
        streams = change(streams_at(state.files, state.snapshot))
        return None if streams is None else Change(streams=encode_streams(streams))

    committable = Committable(
        user=files.env.new_id(), kind=CommitKind.APPEND, base_id=files.snapshots.latest_id()
    )
    commit_change(files, build, committable)


def checkpoint_name(files: TableFiles, checkpoint: str) -> str:
    """The name of a checkpoint in records; that of the table's own stays when it is renamed."""
    place, own = place_of(checkpoint), files.paths.checkpoint
    if place != place_of(files.fs.uri(own)):
        return place
    return own.removeprefix(f"{files.paths.root}/")


def stream_with(
    files: TableFiles, checkpoint: str
) -> tuple[StreamRecord | None, StreamStart | None]:
    """The stream of a checkpoint that keeps its position in the table, and how it began.

    Raises:
        InvalidRequestError: another client expired the snapshots that said where it stands.
    """
    for record in streams_of(files).values():
        if record.checkpoint == checkpoint and record.position is not None:
            return record, files.streams.read(record.stream)
    for start in files.streams.all():
        if start.checkpoint == checkpoint and start.source is not None:
            return None, start_of(files, start.stream)
    return None, None


def start_of(files: TableFiles, stream: str) -> StreamStart | None:
    """How a stream began whose batches a rollback has taken away; None if it is new.

    Raises:
        InvalidRequestError: another client expired the snapshots that said where it stands.
    """
    start = files.streams.read(stream)
    if start is None:
        return None
    earliest = files.snapshots.earliest_id()
    if earliest is None or earliest <= start.base_id + 1:
        return start
    raise InvalidRequestError(
        f"the snapshots of {files.name} that said where stream {stream} stands are not there: "
        f"another client expired them, or a rollback went behind snapshot {start.base_id}, after "
        f"which the stream began; look how far its rows go, let the table forget it (lakewright "
        f"stream forget {files.name} {stream}), and begin where they end"
    )
