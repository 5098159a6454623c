"""Lookups with a cache: rows of keys that were asked for before are given again, for a while."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakewright.connectors.runtime import AsyncLookup, Lookup
from lakewright.storage.env import Env

_Key = tuple[object, ...]


@dataclass(slots=True)
class _Kept:
    """The rows of a key, when they were read, and when they were last asked for."""

    rows: pa.RecordBatch
    read_ms: int
    asked_ms: int


class CachedLookup(Lookup):
    """A lookup that keeps the rows of the latest keys.

    `max_rows` rows at most, for `expire_ms` after they were read and for `idle_ms` after they were
    asked for; with `keeps_missing`, also that a key has none. An asynchronous lookup is awaited.
    """

    def __init__(
        self,
        lookup: Lookup | AsyncLookup,
        env: Env,
        *,
        max_rows: int,
        expire_ms: int | None = None,
        idle_ms: int | None = None,
        keeps_missing: bool = True,
    ) -> None:
        self._lookup, self._env = lookup, env
        self._max_rows, self._expire_ms, self._idle_ms = max_rows, expire_ms, idle_ms
        self._keeps_missing = keeps_missing
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._rows = 0

    def lookup(self, keys: pa.Table) -> pa.Table:
        asked = {tuple(row.values()): at for at, row in enumerate(keys.to_pylist())}
        now = self._env.now_ms()
        known = {key: rows for key in asked if (rows := self._rows_of(key, now)) is not None}
        missing = {key: at for key, at in asked.items() if key not in known}
        given = [pa.Table.from_batches(known.values())] if known else []
        if missing or not known:
            found = looked_up(self._lookup, keys.take(pa.array(missing.values(), pa.int64())))
            self._keep_all(found, keys.column_names, missing, now)
            given.append(found)
        return pa.concat_tables(given).combine_chunks()

    def _keep_all(
        self, found: pa.Table, names: Sequence[str], keys: Iterable[_Key], now: int
    ) -> None:
        places: dict[_Key, list[int]] = {key: [] for key in keys}
        columns = (found.column(name).to_pylist() for name in names)
        for at, key in enumerate(zip(*columns, strict=True)):
            # The other system may hold other keys to be equal, too.
            if key in places:
                places[key].append(at)
        batches = found.combine_chunks().to_batches()
        whole = batches[0] if batches else pa.RecordBatch.from_pylist([], found.schema)
        for key, own in places.items():
            if own or self._keeps_missing:
                # A copy: a part would hold on to all that was found with it.
                self._keep(key, whole.take(pa.array(own, pa.int64())), now)

    def _rows_of(self, key: _Key, now: int) -> pa.RecordBatch | None:
        kept = self._kept.get(key)
        if kept is None:
            return None
        is_old = self._expire_ms is not None and now - kept.read_ms >= self._expire_ms
        is_idle = self._idle_ms is not None and now - kept.asked_ms >= self._idle_ms
        if is_old or is_idle:
            self._drop(key)
            return None
        kept.asked_ms = now
        self._kept.move_to_end(key)
        return kept.rows

    def _keep(self, key: _Key, rows: pa.RecordBatch, now: int) -> None:
        self._kept[key] = _Kept(rows, now, now)
        self._rows += max(1, rows.num_rows)
        while self._rows > self._max_rows and self._kept:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: _Key) -> None:
        self._rows -= max(1, self._kept.pop(key).rows.num_rows)


def looked_up(lookup: Lookup | AsyncLookup, keys: pa.Table) -> pa.Table:
    """The rows of keys; an asynchronous lookup is awaited."""
    if isinstance(lookup, Lookup):
        return lookup.lookup(keys)
    return asyncio.run(lookup.lookup(keys))
