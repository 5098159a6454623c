"""Lookups with a cache: rows of keys that were asked for before are given again, for a while."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence

import pyarrow as pa

from lakewright.connectors.runtime import AsyncLookup, Lookup
from lakewright.storage.env import Env


class CachedLookup(Lookup):
    """A lookup that keeps the rows of the latest keys, also that a key has none.

    `max_rows` rows at most, each as old as `expire_ms` at most. An asynchronous lookup is awaited.
    """

    def __init__(
        self, lookup: Lookup | AsyncLookup, env: Env, *, max_rows: int, expire_ms: int | None
    ) -> None:
        self._lookup, self._env = lookup, env
        self._max_rows, self._expire_ms = max_rows, expire_ms
        self._held: OrderedDict[tuple[object, ...], tuple[int, pa.Table]] = OrderedDict()
        self._rows = 0

    def lookup(self, keys: pa.Table) -> pa.Table:
        asked = [tuple(row.values()) for row in keys.to_pylist()]
        now = self._env.now_ms()
        places = {key: at for at, key in enumerate(asked)}
        missing = sorted(at for key, at in places.items() if not self._has(key, now))
        given = {key: self._held[key][1] for key in places if key in self._held}
        if missing or not places:
            found = looked_up(self._lookup, keys.take(pa.array(missing, pa.int64())))
            for at in missing:
                given[asked[at]] = _of_key(found, keys.column_names, asked[at])
                self._keep(asked[at], given[asked[at]], now)
            if not places:
                return found
        return pa.concat_tables(given[key] for key in places)

    def _has(self, key: tuple[object, ...], now: int) -> bool:
        held = self._held.get(key)
        if held is None:
            return False
        if self._expire_ms is not None and now - held[0] >= self._expire_ms:
            self._drop(key)
            return False
        self._held.move_to_end(key)
        return True

    def _keep(self, key: tuple[object, ...], rows: pa.Table, now: int) -> None:
        if key in self._held:
            self._drop(key)
        self._held[key] = now, rows
        self._rows += max(1, rows.num_rows)
        while self._rows > self._max_rows and self._held:
            self._drop(next(iter(self._held)))

    def _drop(self, key: tuple[object, ...]) -> None:
        _, rows = self._held.pop(key)
        self._rows -= max(1, rows.num_rows)


def looked_up(lookup: Lookup | AsyncLookup, keys: pa.Table) -> pa.Table:
    """The rows of keys; an asynchronous lookup is awaited."""
    if isinstance(lookup, Lookup):
        return lookup.lookup(keys)
    return asyncio.run(lookup.lookup(keys))


def _of_key(rows: pa.Table, names: Sequence[str], key: tuple[object, ...]) -> pa.Table:
    columns = [rows.column(name).to_pylist() for name in names]
    kept = [at for at, values in enumerate(zip(*columns, strict=True)) if values == key]
    return rows.take(pa.array(kept, pa.int64()))
