"""Tables whose distribution changes time and again hold the rows of the model in their buckets."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.storage import Table, TableDistribution
from lakewright.storage.codec.bucket_hash import buckets_of
from lakewright.storage.errors import UnsupportedError
from tests.support.tables.builders import compact, expire, new_table, rows
from tests.support.tables.fixtures import empty_memory, memory_catalog

COLUMNS = {"p": "INT", "a": "INT", "b": "STRING", "v": "INT"}
Key = tuple[int, int, str]

KEYS = st.tuples(st.integers(0, 1), st.integers(0, 4), st.sampled_from("xyz"))
DISTRIBUTIONS = st.one_of(
    st.none(),
    st.integers(1, 4).map(TableDistribution.of_unknown),
    st.tuples(st.sampled_from([["a"], ["b"], ["b", "a"], ["a", "b"]]), st.integers(1, 4)).map(
        lambda each: TableDistribution.of_hash(*each)
    ),
)
STEPS = st.lists(
    st.one_of(
        st.lists(KEYS, min_size=1, max_size=6),
        DISTRIBUTIONS,
        st.sampled_from(["compact", "expire"]),
    ),
    min_size=3,
    max_size=10,
)


def check(table: Table, model: dict[Key, int]) -> None:
    """The rows, of each filter too, are those of the model, and lie in the bucket of their key."""
    for column, at in (("a", 1), ("b", 2)):
        for value in {key[at] for key in model}:
            where = f"{column} = {value!r}"
            found = {_key(each): each["v"] for each in table.read(where=where).to_pylist()}
            assert found == {key: v for key, v in model.items() if key[at] == value}
    scan, options = table.scan(), table.options
    fields = table.schema.fields_of(options.bucket_keys)
    read: list[dict[str, Any]] = []
    for split in scan.splits:
        for part in scan.reader.read(split):
            read += part.to_pylist()
            buckets = buckets_of(part, fields, options.bucket, options.bucket_function)
            assert set(buckets.tolist()) <= {split.bucket}
    assert len(read) == len(model)
    assert {_key(each): each["v"] for each in read} == model


def _key(row: dict[str, Any]) -> Key:
    return row["p"], row["a"], row["b"]


@pytest.mark.mission("BK8", "BK20")
@settings(max_examples=settings().max_examples // 2)
@given(STEPS)
def test_rows_are_those_of_the_model_after_every_change(steps: list[Any]) -> None:
    table = new_table(
        memory_catalog(), COLUMNS, partitions=["p"], keys=["p", "a", "b"], options={"bucket": "1"}
    )
    model: dict[Key, int] = {}
    kept: list[tuple[int, dict[Key, int]]] = []
    for number, step in enumerate(steps):
        match step:
            case [*keys]:
                model |= dict.fromkeys(keys, number)
                given_rows = [dict(zip("pabv", (*key, number), strict=True)) for key in {*keys}]
                table.write(rows(table, given_rows))
            case "compact":
                compact(table, full=True)
            case "expire":
                expire(table)
                kept.clear()
            case _:
                # Other bucket keys may have to wait.
                with suppress(UnsupportedError):
                    table = table.distribute(step)
                    assert step is None or table.options.bucket == step.bucket_count
        check(table, model)
        latest = table.table_files.snapshots.latest_id()
        if latest is not None:
            kept.append((latest, dict(model)))
        for snapshot, then in kept:
            found = table.at(snapshot=snapshot)
            for b in "xyz":
                expected = sorted(key for key in then if key[2] == b)
                assert sorted(map(_key, found.read(where=f"b = '{b}'").to_pylist())) == expected
    empty_memory()
