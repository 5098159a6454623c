"""Follows a table in this process: the changes of each step, and where it stands then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from lakewright.storage.operations.streams.change_stream import ChangeStream, Position

# How long to wait where nothing new is there.
_PAUSE_MS = 100


@dataclass(frozen=True, slots=True)
class Followed:
    """Rows with their kinds in `_rowkind`, and the position behind them, which is JSON."""

    rows: pa.Table
    position: Position


def followed(
    stream: ChangeStream, position: Position | None, *, available_now: bool
) -> Iterator[Followed]:
    """The steps of a stream, each up to the latest snapshot; see `Table.follow`."""
    env = stream.files.env
    start: Position = stream.beginning if position is None else position
    while True:
        end = stream.reached(start)
        plan = stream.plan(start, end)
        if plan is None:
            if available_now:
                return
            env.sleep_ms(_PAUSE_MS)
            continue
        reader = stream.reader(plan.snapshot_ids, ordered=False)
        schema = pa.schema([field.with_nullable(True) for field in reader.arrow_schema])
        pieces = [piece.cast(schema) for split in plan.splits for piece in reader.read(split)]
        yield Followed(pa.concat_tables([schema.empty_table(), *pieces]), end)
        stream.move_consumer(end)
        start = end
