"""Reading: files of older schemas, snapshots of the past, and what plans leave out."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakewright.storage import Catalog, Table, parse_data_type
from lakewright.storage.errors import InvalidSchema, SnapshotNotFound, UnsupportedError
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.predicate import And, Leaf, Operator
from lakewright.storage.spec.schema import TableSchema
from tests.support.stores.watched_files import watched
from tests.support.tables.builders import compact, content, events, new_table, rows, values_of
from tests.support.tables.environment import FixedEnv

KEYED: dict[str, Any] = {"keys": ["k"], "options": {"bucket": "1"}}
kinds = pytest.mark.parametrize("settings", [{}, KEYED], ids=["append", "keyed"])


def altered(catalog: Catalog, table: Table, change: Callable[[TableSchema], TableSchema]) -> Table:
    """The table after somebody put the next version of its schema."""
    latest = catalog.table(table.name)
    changed = replace(change(latest.schema), id=latest.schema.id + 1)
    assert latest.table_files.schemas.put_schema(changed)
    return catalog.table(table.name)


def without(schema: TableSchema, name: str) -> TableSchema:
    return replace(schema, fields=tuple(f for f in schema.fields if f.name != name))


def plus(schema: TableSchema, name: str, type_name: str) -> TableSchema:
    number = schema.highest_field_id + 1
    field = DataField(number, name, parse_data_type(type_name))
    return replace(schema, fields=(*schema.fields, field), highest_field_id=number)


def renamed(schema: TableSchema, old: str, new: str) -> TableSchema:
    fields = (replace(f, name=new) if f.name == old else f for f in schema.fields)
    return replace(schema, fields=tuple(fields))


def retyped(schema: TableSchema, name: str, type_name: str) -> TableSchema:
    new = parse_data_type(type_name)
    fields = (replace(f, type=new) if f.name == name else f for f in schema.fields)
    return replace(schema, fields=tuple(fields))


def listed(table: Table, **read: Any) -> list[dict[str, Any]]:
    return sorted(table.read(**read).to_pylist(), key=lambda row: row["k"])


@kinds
@pytest.mark.parametrize("compacted", [False, True], ids=["as written", "compacted"])
@pytest.mark.mission("SE8", "SE12", "SE14", "SE22", "SE24", "SE26", "SE27", "SE33")
def test_a_column_dropped_and_added_again_is_another_column(
    catalog: Catalog, settings: dict[str, Any], compacted: bool
) -> None:
    table = new_table(
        catalog, {"k": "INT", "a": "STRING", "b": "STRING", "c": "STRING"}, **settings
    )
    table.write(rows(table, [{"k": 1, "a": "a1", "b": "b1", "c": "c1"}]))
    altered(catalog, table, lambda schema: without(schema, "c"))
    table = altered(catalog, table, lambda schema: plus(schema, "c", "STRING"))
    table.write(rows(table, [{"k": 2, "a": "a2", "b": "b2", "c": "c2"}]))
    if compacted:
        compact(table, full=True)
    assert listed(table) == [
        {"k": 1, "a": "a1", "b": "b1", "c": None},
        {"k": 2, "a": "a2", "b": "b2", "c": "c2"},
    ]
    assert table.schema.field("c").id == 4
    # And the filter knows which is which.
    assert values_of(table, "k", where=Leaf("c", Operator.EQ, ("c1",))) == []
    assert values_of(table, "k", where=Leaf("c", Operator.IS_NULL)) == [1]


@kinds
@pytest.mark.mission("SE10", "SE12", "SE13", "SE31")
def test_added_dropped_and_renamed_columns_are_read_by_id(
    catalog: Catalog, settings: dict[str, Any]
) -> None:
    table = new_table(catalog, {"k": "INT", "a": "STRING", "b": "STRING", "c": "INT"}, **settings)
    table.write(rows(table, [{"k": 1, "a": "x", "b": "y", "c": 3}]))
    # a becomes b while b becomes a: only ids tell them apart.
    swapped = altered(
        catalog,
        table,
        lambda schema: renamed(renamed(renamed(schema, "a", "_"), "b", "a"), "_", "b"),
    )
    swapped = altered(catalog, swapped, lambda schema: plus(schema, "d", "ARRAY<INT>"))
    swapped = altered(catalog, swapped, lambda schema: without(schema, "c"))
    swapped.write(rows(swapped, [{"k": 2, "a": "new a", "b": "new b", "d": [1]}]))
    expected = [
        {"k": 1, "b": "x", "a": "y", "d": None},
        {"k": 2, "b": "new b", "a": "new a", "d": [1]},
    ]
    assert listed(swapped) == expected
    assert swapped.read(columns=["a"]).column("a").null_count == 0
    assert values_of(swapped, "k", where=Leaf("a", Operator.EQ, ("y",))) == [1]
    assert values_of(swapped, "k", where=Leaf("d", Operator.IS_NULL)) == [1]
    compact(swapped, full=True)
    assert listed(swapped) == expected
    # A reader that holds the old schema reads by it.
    assert [row["k"] for row in listed(table)] == [1, 2]


@kinds
@pytest.mark.mission("SE11", "SE37")
def test_a_widened_column_is_cast_and_prunes_nothing_falsely(
    catalog: Catalog, settings: dict[str, Any]
) -> None:
    table = new_table(catalog, {"k": "INT", "n": "INT", "d": "DATE"}, **settings)
    table.write(rows(table, [{"k": 1, "n": 7, "d": dt.date(2024, 1, 2)}]))
    table = altered(catalog, table, lambda schema: retyped(schema, "n", "BIGINT"))
    table = altered(catalog, table, lambda schema: retyped(schema, "d", "TIMESTAMP(6)"))
    table.write(rows(table, [{"k": 2, "n": 2**40, "d": dt.datetime(2024, 1, 3)}]))
    assert [(row["n"], row["d"]) for row in listed(table)] == [
        (7, dt.datetime(2024, 1, 2)),
        (2**40, dt.datetime(2024, 1, 3)),
    ]
    assert values_of(table, "k", where=Leaf("n", Operator.EQ, (7,))) == [1]
    assert values_of(table, "k", where=Leaf("n", Operator.GT, (7,))) == [2]


RETYPED = (
    r"primary key 'k' has the type BIGINT, and live files hold it as INT NOT NULL \(schema 0\)"
)


def retyped_key(catalog: Catalog, bucket: str) -> Table:
    """A table whose primary key another client retyped."""
    columns = {"k": "INT", "n": "INT"}
    table = new_table(catalog, columns, keys=["k"], options={"bucket": bucket})
    table.write(rows(table, [{"k": -5, "n": 1}, {"k": -1, "n": 1}]))
    return altered(catalog, table, lambda schema: retyped(schema, "k", "BIGINT"))


USES: dict[str, Callable[[Table], object]] = {
    "read": lambda table: table.read(),
    "read a key": lambda table: table.read(Leaf("k", Operator.EQ, (-5,))),
    "lookup": lambda table: table.lookup(pa.table({"k": [-5]})),
    "compact": lambda table: table.upkeep.plan_compact(full=True),
    "rescale": lambda table: table.upkeep.plan_rescale(3),
}


@pytest.mark.parametrize("use", USES)
def test_a_primary_key_that_another_client_retyped_is_refused_not_read_wrongly(
    unchecked_catalog: Catalog, use: str
) -> None:
    table = retyped_key(unchecked_catalog, "4")
    with pytest.raises(UnsupportedError, match=RETYPED):
        USES[use](table)


@pytest.mark.parametrize("bucket", ["4", "-1", "-2"])
def test_no_rows_are_written_beside_keys_of_another_type(
    unchecked_catalog: Catalog, bucket: str
) -> None:
    table = retyped_key(unchecked_catalog, bucket)
    for compact_too in (False, True):
        with pytest.raises(UnsupportedError, match=RETYPED):
            table.write(rows(table, [{"k": 7, "n": 1}]), compact=compact_too)
    assert len(table.history.snapshots()) == 1
    if bucket == "-2":
        with pytest.raises(UnsupportedError, match=RETYPED):
            table.upkeep.plan_postpone_compact()


def test_a_primary_key_of_text_that_was_made_longer_stays_the_key_it_was(catalog: Catalog) -> None:
    table = new_table(catalog, {"k": "VARCHAR(3)", "n": "INT"}, keys=["k"], options={"bucket": "4"})
    table.write(rows(table, [{"k": "a", "n": 1}, {"k": "abc", "n": 1}]))
    table = altered(catalog, table, lambda schema: retyped(schema, "k", "VARCHAR(9)"))
    table.write(rows(table, [{"k": "abc", "n": 2}, {"k": "abcdefgh", "n": 2}]))
    due = [{"k": "a", "n": 1}, {"k": "abc", "n": 2}, {"k": "abcdefgh", "n": 2}]
    for _ in range(2):
        assert listed(table) == due
        assert table.lookup(pa.table({"k": ["abc"]})).to_pylist() == due[1:2]
        assert listed(table, where=Leaf("k", Operator.EQ, ("a",))) == due[:1]
        compact(table, full=True)


def test_a_primary_key_of_text_that_was_made_shorter_is_refused(unchecked_catalog: Catalog) -> None:
    table = new_table(
        unchecked_catalog, {"k": "VARCHAR(9)", "n": "INT"}, keys=["k"], options={"bucket": "4"}
    )
    table.write(rows(table, [{"k": "abcd", "n": 1}]))
    table = altered(unchecked_catalog, table, lambda schema: retyped(schema, "k", "VARCHAR(3)"))
    with pytest.raises(UnsupportedError, match="primary key 'k' has the type"):
        table.read()


def test_a_change_of_type_that_values_do_not_survive_is_refused(unchecked_catalog: Catalog) -> None:
    table = new_table(unchecked_catalog, {"k": "INT", "s": "STRING"})
    table.write(rows(table, [{"k": 1, "s": "no number"}]))
    table = altered(unchecked_catalog, table, lambda schema: retyped(schema, "s", "INT"))
    with pytest.raises(UnsupportedError, match=r"column s of data file .* cannot be read as INT"):
        table.read()
    assert values_of(table, "k") == [1]


def test_a_table_of_new_columns_alone_still_counts_its_rows(catalog: Catalog) -> None:
    table = new_table(catalog, {"a": "INT"})
    table.write(rows(table, [{"a": 1}, {"a": 2}]))
    table = altered(catalog, table, lambda schema: without(plus(schema, "b", "STRING"), "a"))
    assert table.read().to_pylist() == [{"b": None}, {"b": None}]


def test_a_column_finer_than_its_older_files_is_read(catalog: Catalog) -> None:
    """Once a column holds nanoseconds, files keep all timestamps in another form."""
    for settings in ({}, {"keys": ["t"], "options": {"bucket": "1"}}):
        name = f"db.t{len(settings)}"
        table = new_table(catalog, {"t": "TIMESTAMP(6)", "k": "INT"}, name=name, **settings)  # type: ignore[arg-type]
        table.write(rows(table, [{"t": 1, "k": 1}]))
        table = altered(catalog, table, lambda schema: plus(schema, "n", "TIMESTAMP(9)"))
        table.write(rows(table, [{"t": 2, "k": 2, "n": 5}, {"t": 1, "k": 3, "n": 6}]))
        expected = [2, 3] if settings else [1, 2, 3]
        assert values_of(table, "k") == expected
        compact(table, full=True)
        assert values_of(table, "k") == expected


# --- the past -----------------------------------------------------------------------------------


@pytest.mark.mission("FS19")
def test_snapshots_are_read_by_id_and_by_time(any_catalog: Catalog, env: FixedEnv) -> None:
    table = new_table(any_catalog, keys=["id"], options={"bucket": "1"})
    moments = []
    for number in range(3):
        table.write(rows(table, events(number, number + 2, v=str(number))))
        moments.append(table.history.snapshots()[-1].time_millis)
        env.clock.advance(1000)
    compact(table, full=True)
    for index, moment in enumerate(moments):
        expected = content(table.at(snapshot=index + 1))
        assert len(expected) == index + 2
        assert content(table.at(time=moment)) == expected
        assert content(table.at(time=moment + 999)) == expected
    assert content(table.at(time=moments[-1] + 10**6)) == content(table)
    with pytest.raises(SnapshotNotFound, match="has no snapshot at or before"):
        table.at(time=moments[0] - 1).read()
    assert [each.row_count for each in table.at(snapshot=1).partitions()] == [2]


@pytest.mark.mission("SE25", "SE31")
def test_the_past_is_read_with_the_schema_it_had(catalog: Catalog) -> None:
    table = new_table(catalog, {"k": "INT", "a": "STRING"})
    table.write(rows(table, [{"k": 1, "a": "x"}]))
    table = altered(catalog, table, lambda schema: plus(renamed(schema, "a", "b"), "c", "INT"))
    table.write(rows(table, [{"k": 2, "b": "y", "c": 3}]))
    assert table.at(snapshot=1).read().to_pylist() == [{"k": 1, "a": "x"}]
    assert table.at(snapshot=2).read().column_names == ["k", "b", "c"]
    where = Leaf("a", Operator.EQ, ("x",))
    assert values_of(table.at(snapshot=1), "k", where=where) == [1]
    with pytest.raises(InvalidSchema, match="no column 'c'"):
        table.at(snapshot=1).read(columns=["c"])


# --- plans --------------------------------------------------------------------------------------


def opened(table: Table, **read: Any) -> tuple[int, int]:
    """How many data files and manifests a read opens."""
    watching, fs = watched(table)
    watching.read(**read)
    manifests = [
        call
        for call in fs.calls
        if call.name == "read_bytes" and Path(call.path).name.startswith("manifest-0")
    ]
    return len([call for call in fs.calls if call.name == "open_input"]), len(manifests)


@pytest.mark.mission("PT8", "PT23", "PT39", "FS13", "SQ24", "RS7")
def test_partitions_and_their_manifests_are_skipped_without_being_opened(catalog: Catalog) -> None:
    table = new_table(catalog, partitions=["day"])
    for day in "abcdef":
        table.write(rows(table, events(0, 3, day=day)))
    where = Leaf("day", Operator.EQ, ("c",))
    plan = table.scan(where).plan
    assert (len(plan.splits), plan.files_read) == (1, 1)
    assert (plan.manifests_read, plan.manifests_total) == (1, 6)
    assert opened(table, where=where)[0] == 1
    assert opened(table)[0] == 6
    assert len(content(table, where=where)) == 3
    assert table.scan(Leaf("day", Operator.EQ, ("zzz",))).plan.splits == ()


@pytest.mark.mission("FS19")
def test_statistics_spare_files_of_append_tables(catalog: Catalog) -> None:
    table = new_table(catalog)
    for first in (0, 10, 20):
        table.write(rows(table, events(first, first + 5)))
    assert opened(table, where=Leaf("id", Operator.GE, (20,)))[0] == 1
    assert opened(table, where=Leaf("v", Operator.STARTS_WITH, ("v1",)))[0] == 2
    none = new_table(catalog, name="db.none", options={"metadata.stats-mode": "none"})
    for first in (0, 10, 20):
        none.write(rows(none, events(first, first + 5)))
    assert opened(none, where=Leaf("id", Operator.GE, (20,)))[0] == 3


@pytest.mark.mission("FS13", "FS19")
def test_a_key_names_its_bucket_and_its_files(catalog: Catalog) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "8"})
    table.write(rows(table, events(0, 100)))
    one = Leaf("id", Operator.EQ, (42,))
    assert table.scan(one).plan.files_read == 1
    assert values_of(table, "id", where=one) == [42]
    some = Leaf("id", Operator.IN, (1, 2, 3))
    assert values_of(table, "id", where=some) == [1, 2, 3]
    assert table.scan(some).plan.files_read <= 3
    both = And((one, Leaf("v", Operator.EQ, ("v42",))))
    assert table.scan(both).plan.files_read == 1


def test_older_versions_of_a_key_are_not_pruned_back_to_life(catalog: Catalog) -> None:
    """The file with the newest version of a row may hold nothing that matches."""
    table = new_table(catalog, keys=["id"], options={"bucket": "1"})
    table.write(rows(table, events(0, 5, v="a")))
    table.write(rows(table, events(0, 5, v="b")))
    table.write(rows(table, events(3, 4), ["-D"]))
    assert values_of(table, "id", where=Leaf("v", Operator.EQ, ("a1",))) == []
    assert values_of(table, "id", where=Leaf("v", Operator.LT, ("b",))) == []
    assert values_of(table, "id", where=Leaf("id", Operator.EQ, (3,))) == []
    assert values_of(table, "id", where=Leaf("v", Operator.EQ, ("b1",))) == [1]


def test_a_limit_ends_the_read(catalog: Catalog) -> None:
    table = new_table(catalog)
    for first in (0, 10, 20):
        table.write(rows(table, events(first, first + 5)))
    assert table.read(limit=7).num_rows == 7
    assert table.read(limit=0).num_rows == 0
    assert table.read(limit=99).num_rows == 15
    watching, fs = watched(table)
    watching.read(limit=3)
    assert len([call for call in fs.calls if call.name == "open_input"]) == 1


def test_rows_come_piece_by_piece_too(catalog: Catalog) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "4"})
    table.write(rows(table, events(0, 40)))
    pieces = list(table.scan(columns=["id"]).batches())
    assert len(pieces) == 4
    assert sorted(n for piece in pieces for n in piece.column("id").to_pylist()) == list(range(40))


def test_unknown_columns_are_told_before_anything_is_read(catalog: Catalog) -> None:
    table = new_table(catalog)
    with pytest.raises(InvalidSchema, match="no column 'x'; there are id, day, v"):
        table.read(columns=["x"])


@pytest.mark.mission("CT7")
def test_partitions_are_counted_from_metadata_in_the_order_of_their_values(
    catalog: Catalog,
) -> None:
    table = new_table(catalog, {"id": "INT", "p": "INT"}, partitions=["p"])
    for value in (10, 9, None, -1, 100):
        table.write(rows(table, [{"id": 1, "p": value}, {"id": 2, "p": value}]))
    table.write(rows(table, [{"id": 3, "p": 9}]))
    watching, fs = watched(table)
    found = watching.at().partitions()
    assert [each.spec["p"] for each in found] == [None, -1, 9, 10, 100]
    assert [(each.row_count, each.file_count) for each in found][2] == (3, 2)
    assert all(call.name != "open_input" for call in fs.calls)
    (nine,) = table.at().partitions(Leaf("p", Operator.EQ, (9,)))
    assert (nine.small_file_count, nine.buckets[0].sorted_run_count) == (2, 2)
    assert nine.last_file_creation_ms is not None
    assert nine.size_bytes == sum(bucket.size_bytes for bucket in nine.buckets)


def test_health_of_keyed_buckets_counts_runs_and_levels(catalog: Catalog) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "1"})
    for _ in range(3):
        table.write(rows(table, events(0, 3)))
    compact(table, full=True)
    table.write(rows(table, events(0, 1)))
    (bucket,) = table.at().partitions()[0].buckets
    assert (bucket.file_count, bucket.level0_count, bucket.sorted_run_count) == (2, 1, 2)
    assert bucket.row_count == 4
