"""A run of a stream: takes what is new, and of a continuous one what comes in the next while.

1. The drain commits what is there.
2. A bucket that its table stops writers at slows a drain down. If the table leaves compaction to
   others, the run waits for the one that the upkeep sensor asks for, up to the time that rows may
   be late, and then goes on; else the drain compacts it.
3. A run that the stream's sensor asked for stays up to the time that rows may be late, as long as
   each look finds more at the source. It looks a few times only, since each commit leaves files.
4. It ends early if another run waits for a place, such as a compaction, or if another process runs
   the stream: a run of another Dagster, or one that a second daemon launched for the same tick.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import dagster as dg

from lakewright.connectors.managed_stream import has_full_buckets
from lakewright.connectors.runtime import Offset
from lakewright.platform.ingest.drain_stream import StreamDrain
from lakewright.platform.ingest.publication import Published, Rejected
from lakewright.platform.ingest.stream_lag import StreamLag, committed_offset, read_lag
from lakewright.platform.orchestration.names import CONTINUOUS_TAG, TableNames
from lakewright.platform.orchestration.stream_reports import (
    lag_metadata,
    lag_result,
    read_version,
    shown_offset,
    source_key,
    source_observation,
    unreachable,
)
from lakewright.storage.errors import StorageError, StreamRunsElsewhere

# So many looks at the source in the time that a run stays.
_LOOKS = 4
_STEP_MS = 2_000
_QUEUED = dg.RunsFilter(statuses=[dg.DagsterRunStatus.QUEUED])


@dataclass
class Following:
    """The drains of one run, and how far the table is behind its source after them."""

    context: dg.AssetExecutionContext
    drain: StreamDrain
    began: Offset | None = None
    # None of files, and of a source that could not be asked.
    lag: StreamLag | None = None
    waited_ms: int = 0
    # Why the other process is known to go on with the stream; empty if there is none.
    elsewhere: str = ""

    def run(self) -> Published | Rejected:
        """Drain once, or for the declared delay; `Rejected` is the batch at which it ends."""
        drain, stream = self.drain, self.drain.declaration.stream
        assert stream is not None
        if not stream.files:
            self.began = committed_offset(drain.declaration, drain.table)
        until_ms = drain.env.now_ms() + self._stays_ms
        self._wait_for_compaction(until_ms)
        outcome = self._drain()
        self._look()
        pause_ms = self._stays_ms / _LOOKS
        while isinstance(outcome, Published) and drain.env.now_ms() + pause_ms < until_ms:
            if self.elsewhere:
                break
            if self._is_waited_for(pause_ms) or not self._look():
                break
            if not self._wait_for_compaction(until_ms):
                break
            outcome = self._drain()
            self._look()
        return outcome

    def _drain(self) -> Published | Rejected:
        """What is committed; the other process goes on with what is not."""
        try:
            return self.drain.run()
        except StreamRunsElsewhere as error:
            self.elsewhere = error.message
            return self.drain.published

    @property
    def _stays_ms(self) -> int:
        """A person who starts a run waits for its end."""
        is_asked_for = CONTINUOUS_TAG in self.context.run.tags
        return (self.drain.declaration.continuous_ms or 0) if is_asked_for else 0

    def metadata(self) -> Mapping[str, Any]:
        """Where the table stood before the run and after it, and how far it is behind."""
        found: dict[str, Any] = {}
        if self.waited_ms:
            found["lakewright/waited_seconds"] = self.waited_ms / 1000
        if self.began is not None:
            found["lakewright/began_at"] = shown_offset(self.began)
        now_ms = self.drain.env.now_ms()
        return found if self.lag is None else {**found, **lag_metadata(self.lag, now_ms)}

    def lag_results(self) -> Iterator[dg.AssetCheckResult]:
        """The check `lag` after the run, if the stream has it."""
        declaration, lag = self.drain.declaration, self.lag
        if declaration.continuous_ms is None:
            return
        if lag is None:
            yield unreachable(declaration, 0, "the run warns of the reason")
        else:
            yield lag_result(declaration, lag, lag.seconds(self.drain.env.now_ms()))

    def observe_source(self, names: TableNames) -> Mapping[str, str]:
        """Report the end of the source, and tell by tags how far the table has read it."""
        key = source_key(self.drain.declaration, names)
        if key is None or self.lag is None:
            return {}
        self.context.log_event(source_observation(key, self.lag))
        return read_version(key, self.lag)

    def _wait_for_compaction(self, until_ms: float) -> bool:
        """Whether the table takes more, now or before a moment."""
        env, table = self.drain.env, self.drain.table
        begun_ms = env.now_ms()
        while is_full := table.options.write_only and has_full_buckets(table):
            if env.now_ms() >= until_ms or self._is_waited_for(_STEP_MS):
                break
        self.waited_ms += env.now_ms() - begun_ms
        return not is_full

    def _is_waited_for(self, pause_ms: float) -> bool:
        """Pause, unless other runs wait for the end of this one."""
        while pause_ms > 0 and not self.context.instance.get_runs_count(_QUEUED):
            self.drain.env.sleep_ms(min(pause_ms, _STEP_MS))
            pause_ms -= _STEP_MS
        return pause_ms > 0

    def _look(self) -> bool:
        """Whether the source has more; rows that are committed stay so if it cannot answer."""
        declaration = self.drain.declaration
        if declaration.stream is None or declaration.stream.files:
            return False
        try:
            self.lag = read_lag(declaration, self.drain.catalog)
        except StorageError as error:
            self.lag = None
            self.context.log.warning(
                "it is unknown how far %s is behind its source: %s", declaration.table, error
            )
        return self.lag is not None and self.lag.is_behind
