"""After any operation on a table, it has the rows of its stream once, or the stream stops."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from lakewright.connectors.managed_stream import TableStream
from lakewright.connectors.runtime import NextBatch, Offset
from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidRequestError, StorageError
from tests.support.stores.watched_files import Crashed, Fault, watched
from tests.support.tables.builders import compact, expire, new_table, remove_orphans
from tests.support.tables.environment import FixedEnv
from tests.support.tables.fixtures import empty_memory, memory_uri
from tests.support.tables.invariants import assert_only_reachable_files

KINDS: dict[str, dict[str, Any]] = {
    "append": {},
    "keyed": {"keys": ["id"], "options": {"bucket": "2"}},
    "dynamic": {"keys": ["id"], "options": {"bucket": "-1"}},
    "partitioned": {"partitions": ["day"]},
}
DAYS = "ab"


@pytest.fixture(autouse=True)
def _empty_memory() -> Any:
    yield
    empty_memory()


class Source:
    """Numbers that count up; an offset is how many are read."""

    def __init__(self) -> None:
        self.count = 0

    def batch(self, table: Table, start: Offset, end: Offset) -> list[pa.RecordBatch]:
        ids = list(range(start["at"], end["at"]))
        rows = {"id": ids, "day": [DAYS[each % 2] for each in ids], "v": ["s"] * len(ids)}
        return pa.table(rows, schema=table.arrow_schema).to_batches()


def drain(table: Table, source: Source, size: int) -> None:
    stream = TableStream(table).of_stream("", "/checkpoint")
    batch = stream.stand("numbers", lambda: {"at": 0})
    while batch.start["at"] < source.count:
        end = {"at": min(batch.start["at"] + size, source.count)}
        written = [stream.write(iter(source.batch(table, batch.start, end)))]
        is_kept = stream.commit_until(written, batch, end)
        batch = NextBatch(batch.number + is_kept, end)


def by_another_client(table: Table, number: int) -> None:
    """A commit that says nothing of streams, as other clients make them."""
    rows = {"id": [-number], "day": ["a"], "v": ["other"]}
    table.write(pa.table(rows, schema=table.arrow_schema))
    latest, files = table.history.latest_snapshot(), table.table_files
    assert latest is not None
    path = files.paths.snapshot(latest.id)
    read = json.loads(files.fs.read_bytes(path))
    read.pop("properties", None)
    files.fs.replace(path, json.dumps(read).encode())


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("arrive"), st.integers(1, 4)),
        st.tuples(st.just("drain"), st.integers(1, 3)),
        st.tuples(st.just("dies"), st.integers(1, 40)),
        st.tuples(st.just("rollback"), st.integers(0, 3)),
        st.tuples(st.just("tag"), st.just(0)),
        st.tuples(st.just("to tag"), st.just(0)),
        st.tuples(st.just("expire"), st.integers(1, 3)),
        st.tuples(st.just("compact"), st.just(0)),
        st.tuples(st.just("other"), st.integers(1, 10**6)),
    ),
    min_size=4,
    max_size=14,
)


def do(table: Table, source: Source, step: tuple[str, int]) -> None:
    name, number = step
    history = table.history
    ids = [each.id for each in history.snapshots()]
    match name:
        case "arrive":
            source.count += number
        case "drain":
            drain(table, source, number)
        case "dies":
            process, _ = watched(
                table, fail_at=number, fault=Fault.DIES_BEFORE, counts=lambda call: call.changes
            )
            with suppress(Crashed):
                drain(process, source, 2)
        case "rollback" if len(ids) > 1:
            history.rollback(snapshot=ids[-2 - number % (len(ids) - 1)], grace_ms=0)
        case "tag" if ids and not history.tags():
            history.create_tag("t")
        case "to tag" if history.tags():
            # Nothing may be later than the tag.
            with suppress(InvalidRequestError):
                history.rollback(tag="t", grace_ms=0)
        case "expire" if ids:
            expire(table, keep=number)
        case "compact" if ids:
            compact(table, full=True)
        case "other":
            by_another_client(table, number)


@settings(max_examples=settings().max_examples * 2, suppress_health_check=[HealthCheck.too_slow])
@given(kind=st.sampled_from(sorted(KINDS)), steps=STEPS)
def test_each_row_is_there_once_after_any_history(kind: str, steps: list[tuple[str, int]]) -> None:
    catalog = Catalog.open(memory_uri(), env=FixedEnv())
    table, source = new_table(catalog, **KINDS[kind]), Source()
    source.count = 2
    try:
        for step in steps:
            do(table, source, step)
        drain(table, source, 3)
    except InvalidRequestError as error:
        # The snapshots that said where the stream stands went with a rollback behind them, or with
        # an expiry after it.
        assert "lakewright stream forget" in error.message  # noqa: PT017
        assert {name for name, _ in steps} & {"rollback", "to tag"}
        event("asked")
    else:
        found = sorted(each for each in table.read().column("id").to_pylist() if each >= 0)
        assert found == list(range(source.count))
        event("each row once")
    with suppress(StorageError):
        remove_orphans(table)
    assert_only_reachable_files(table)
