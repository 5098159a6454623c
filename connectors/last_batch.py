"""The last batch that a sink has of a stream, and which ones may follow it.

A sink that cannot commit the position of its source keeps this beside the rows. The checkpoint of
the stream, which is elsewhere, may be deleted, or be an older copy; its sink may be one, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakewright.storage.errors import InvalidRequestError


@dataclass(frozen=True, slots=True)
class LastBatch:
    """A batch: of which stream, its number, and from where to where it reads, or a digest of it.

    The span is empty if it is not known.
    """

    stream: str
    number: int
    span: str


def check_follows(
    batch: LastBatch, last: LastBatch, *, sink: str, checkpoint: str, empty: str
) -> None:
    """Check that a batch comes after the last one of a checkpoint, or is that one again.

    `empty` is how the sink forgets the stream.

    Raises:
        InvalidRequestError: rows would be lost, or be there twice.
    """
    begin = (
        "give the stream a checkpoint at another place, if its source begins where the rows of "
        "the sink end, or if rows may come twice"
    )
    if batch.stream != last.stream:
        raise InvalidRequestError(
            f"{sink} has batches 0 to {last.number} of an earlier stream with the checkpoint "
            f"{checkpoint}, which was deleted: this one begins at batch {batch.number}, and would "
            f"write its rows again; nothing was written; put the checkpoint back, or {empty}, or "
            f"{begin}"
        )
    if batch.number == last.number and last.span in ("", batch.span):
        return
    if batch.number <= last.number:
        raise InvalidRequestError(
            f"{sink} has batches 0 to {last.number} of stream {batch.stream}, and its checkpoint "
            f"{checkpoint} is an older one, which is at batch {batch.number}: the rows of this "
            "batch would be lost, or be there twice; nothing was written; put the newer checkpoint "
            f"back, or {empty} and begin a new checkpoint, or {begin}"
        )
    if batch.number > last.number + 1:
        raise InvalidRequestError(
            f"{sink} has batches 0 to {last.number} of stream {batch.stream}, and its checkpoint "
            f"{checkpoint} is at batch {batch.number}: the sink was put back to an earlier state, "
            "so rows of the batches between are not in it; nothing was written; put the newer "
            f"state of the sink back, or {empty} and begin a new checkpoint"
        )
