"""Deletes, updates and merges: what they open and write, what they refuse, what takes them back."""

from __future__ import annotations

import datetime as dt
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from lakewright.storage import Catalog, ChangeDefault, Table
from lakewright.storage.errors import (
    CommitConflictError,
    InvalidRequestError,
    InvalidRows,
    StalePlan,
    UnsupportedError,
)
from lakewright.storage.operations.row_changes.delete_rows import DeleteRowsPlan
from lakewright.storage.operations.row_changes.expressions import query_rows, sql_over
from lakewright.storage.operations.running.engine import LocalEngine
from lakewright.storage.spec.snapshot import CommitKind
from tests.support.tables.builders import compact, content, events, expire, new_table, rows
from tests.support.tables.invariants import assert_only_reachable_files

COLUMNS = {"id": "INT NOT NULL", "day": "STRING", "price": "DECIMAL(10, 2)", "v": "STRING"}
KEYED: dict[str, Any] = {"keys": ("id", "day"), "partitions": ("day",)}


def of_days(catalog: Catalog, *days: str, **made: Any) -> Table:
    table = new_table(catalog, partitions=("day",), **made)
    for day in days:
        table.write(rows(table, events(0, 10, day=day)))
    return table


def ids(table: Table, where: str | None = None) -> list[int]:
    return sorted(row["id"] for row in table.scan(where).read().to_pylist())


# --- what is opened and written --------------------------------------------------------------


def test_whole_partitions_and_files_go_unread(catalog: Catalog) -> None:
    table = of_days(catalog, "a", "b")
    table.write(rows(table, events(100, 110, day="b")))
    plan = table.delete("day = 'a'", dry_run=True)
    assert (plan.rows, plan.files_opened, plan.files_rewritten) == (10, 0, 0)
    by_bounds = table.delete("id >= 100", dry_run=True)
    assert (by_bounds.rows, by_bounds.files_opened, by_bounds.files_rewritten) == (10, 0, 0)
    done = table.delete("id >= 100")
    assert (done.deleted, done.files_removed, done.files_written) == (10, 1, 0)
    assert ids(table) == sorted([*range(10)] * 2)


def test_a_null_keeps_a_file_from_being_taken_whole(catalog: Catalog) -> None:
    table = new_table(catalog)
    table.write(rows(table, [{"id": 1, "v": "x"}, {"id": None, "v": "y"}]))
    assert table.delete("id > 0", dry_run=True).files_opened == 1
    assert table.delete("id > 0").deleted == 1
    assert table.read().to_pylist() == [{"id": None, "day": None, "v": "y"}]


def test_only_files_with_a_match_are_written_again(catalog: Catalog) -> None:
    table = of_days(catalog, "a", "b")
    kept = {each.file.file_name for each in table.at().files() if each.partition == {"day": "b"}}
    plan = table.delete("day = 'a' AND id = 3", dry_run=True)
    (bucket,) = plan.buckets
    assert (bucket.partition, bucket.rows, len(bucket.files)) == ({"day": "a"}, 1, 1)
    assert table.delete("day = 'a' AND id = 3").files_written == 1
    assert kept < {each.file.file_name for each in table.at().files()}


def test_deletion_vectors_leave_the_files(catalog: Catalog) -> None:
    table = of_days(catalog, "a", options={"deletion-vectors.enabled": "true"})
    before = [each.file.file_name for each in table.at().files()]
    done = table.delete("id IN (2, 3)")
    table.delete("id = 4")
    assert (done.files_removed, done.files_written) == (0, 0)
    assert [each.file.file_name for each in table.at().files()] == before
    assert ids(table) == [0, 1, 5, 6, 7, 8, 9]
    compact(table, full=True)
    assert ids(table) == [0, 1, 5, 6, 7, 8, 9]


def test_a_statement_without_a_match_makes_no_snapshot(catalog: Catalog) -> None:
    table = of_days(catalog, "a")
    assert table.delete("id = 1000").snapshot is None
    assert table.update({"v": "'x'"}, "id = 1000").snapshot is None
    assert len(table.history.snapshots()) == 1


def test_a_change_is_one_snapshot_of_the_kind_that_readers_of_changes_leave_out(
    catalog: Catalog,
) -> None:
    table = of_days(catalog, "a")
    done = table.update({"day": "'z'"}, "id < 2")
    assert done.snapshot is not None
    assert done.snapshot.commit_kind is CommitKind.OVERWRITE
    assert len(table.history.snapshots()) == 2
    assert ids(table, "day = 'z'") == [0, 1]


def test_a_plan_goes_through_json(catalog: Catalog) -> None:
    table = of_days(catalog, "a")
    plan = DeleteRowsPlan.from_json(table.delete("id = 3", dry_run=True).to_json())
    assert table.upkeep.run(plan).deleted == 1


# --- others at work --------------------------------------------------------------------------


def test_a_compaction_meanwhile_makes_the_statement_plan_anew(catalog: Catalog) -> None:
    table = of_days(catalog, "a", "a")
    plan = table.delete("id = 3", dry_run=True)
    compact(table, full=True)
    done = table.upkeep.run(plan)
    assert done.deleted == 2
    assert_only_reachable_files(table)


def test_a_snapshot_that_expires_meanwhile_makes_the_statement_begin_again(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakewright.storage.operations.row_changes import statement

    table = of_days(catalog, "a", "b")
    original, calls = statement.remove_rows, []

    def late(files: Any, snapshot: Any, *given: Any) -> Any:
        calls.append(snapshot.id)
        if len(calls) == 1:
            other = catalog.table("db.t")
            other.write(rows(other, events(20, 21, day="a")))
            expire(other, keep=1)
        return original(files, snapshot, *given)

    monkeypatch.setattr(statement, "remove_rows", late)
    assert table.delete("id = 3").attempts == 2
    assert calls == [2, 3]
    assert 3 not in ids(table)
    assert_only_reachable_files(table)


def test_a_plan_of_a_table_that_was_rolled_back_is_refused(catalog: Catalog) -> None:
    table = of_days(catalog, "a", "b")
    plan = table.delete("id = 3", dry_run=True)
    table.history.rollback(snapshot=1, grace_ms=0)
    with pytest.raises(StalePlan, match="rolled back"):
        table.upkeep.run(plan)


def test_a_staged_removal_conflicts_with_another_of_the_same_file(catalog: Catalog) -> None:
    from lakewright.storage.operations.row_changes import statement

    table = of_days(catalog, "a")
    attempts = []
    original = statement.commit_or_abort

    def beaten(files: Any, write: Any, **how: Any) -> Any:
        attempts.append(write)
        if len(attempts) == 1:
            # As another process would, between our reading and our commit.
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(statement, "commit_or_abort", original)
                catalog.table("db.t").delete("id = 9")
        return original(files, write, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statement, "commit_or_abort", beaten)
        done = table.delete("id = 3")
    assert (done.attempts, done.deleted) == (2, 1)
    assert ids(table) == [0, 1, 2, 4, 5, 6, 7, 8]
    assert_only_reachable_files(table)


# --- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"merge-engine": "first-row"}, "first-row keeps the first row"),
        ({"merge-engine": "partial-update"}, "partial-update.remove-record-on-delete=true"),
        (
            {"merge-engine": "aggregation", "fields.v.aggregate-function": "last_value"},
            "aggregation.remove-record-on-delete=true",
        ),
        ({"ignore-delete": "true"}, "ignore-delete=true"),
        ({"rowkind.field": "v"}, "rowkind.field"),
        ({"bucket": "-2"}, "bucket=-2"),
    ],
)
def test_what_an_engine_cannot_delete_is_refused_by_name(
    catalog: Catalog, options: dict[str, str], says: str
) -> None:
    table = new_table(catalog, **KEYED, options={"bucket": "1", **options})
    with pytest.raises(UnsupportedError, match=says):
        table.delete("id = 1", dry_run=True)
    with pytest.raises(UnsupportedError, match=says):
        table.delete("id = 1")


def test_an_update_that_an_engine_would_not_take_is_refused(catalog: Catalog) -> None:
    table = new_table(
        catalog,
        COLUMNS,
        **KEYED,
        options={
            "bucket": "1",
            "merge-engine": "aggregation",
            "fields.price.aggregate-function": "sum",
        },
    )
    with pytest.raises(UnsupportedError, match="aggregation does not take a new value"):
        table.update({"price": "price * 2"})
    keyed = new_table(catalog, COLUMNS, name="db.k", **KEYED, options={"bucket": "1"})
    with pytest.raises(InvalidRequestError, match="id is in the primary key"):
        keyed.update({"id": "id + 1"})


def test_a_sequence_field_that_falls_and_a_null_of_a_partial_update_are_refused(
    catalog: Catalog,
) -> None:
    table = new_table(catalog, COLUMNS, **KEYED, options={"bucket": "1", "sequence.field": "price"})
    table.write(rows(table, [{"id": 1, "day": "a", "v": "x"}]))
    table.update({"price": "5"})
    with pytest.raises(InvalidRows, match=r"sequence.field price of db.t would fall in 1 rows"):
        table.update({"price": "4", "v": "'lost'"})
    assert table.update({"v": "'kept'"}).updated == 1
    partly = new_table(
        catalog, name="db.p", **KEYED, options={"bucket": "1", "merge-engine": "partial-update"}
    )
    partly.write(rows(partly, events(0, 2)))
    with pytest.raises(InvalidRows, match=r"column v of db.p would become null"):
        partly.update({"v": None}, "id = 1")
    assert_only_reachable_files(partly)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"price": "'abc'"}, "'abc' is not: it is not a number"),
        ({"price": "1e12"}, "DECIMAL"),
        ({"price": "nope + 1"}, '"nope" not found'),
        ({"price": "(SELECT max(x) FROM other)"}, "sees a row alone, and not the table other"),
        # A table of the row's own name would be the rows that happen to be read together.
        ({"price": "(SELECT max(price) FROM t)"}, "not the table t"),
        ({"price": "sum(price)"}, "not one for each row"),
        ({"price": "unnest([1, 2])"}, "not one for each row"),
        ({"price": "row_number() OVER ()"}, "no window of rows"),
        ({"price": "1), (2"}, "not one expression"),
        ({"price": "1) FROM t WHERE (1 = 1"}, "not one expression"),
        ({"price": "1 +"}, "syntax error"),
        ({"price": "1" + " + 1" * 900}, "nested too deeply|depth"),
        ({"nope": "1"}, "has no column nope; it has id, day"),
        ({"id": "NULL"}, "id"),
        ({}, "no column gets a value"),
        ({"v": object()}, "is <object"),
    ],
)
def test_a_wrong_value_names_its_column_and_leaves_nothing(
    catalog: Catalog, values: dict[str, object], says: str
) -> None:
    table = new_table(catalog, COLUMNS)
    table.write(rows(table, [{"id": 1, "day": "a", "price": None, "v": "x"}]))
    before = content(table)
    with pytest.raises(InvalidRequestError, match=says):
        table.update(values)
    assert content(table) == before
    assert_only_reachable_files(table)


def test_an_expression_reads_nothing_of_the_machine(catalog: Catalog, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("hidden\n")
    table = of_days(catalog, "a")
    for expression in (
        f"(SELECT column0 FROM read_csv('{tmp_path}/secret.csv'))",
        f"(SELECT content FROM read_text('{tmp_path}/secret.csv'))",
        f"(SELECT * FROM '{tmp_path}/secret.csv')",
        "getenv('HOME')",
    ):
        with pytest.raises(InvalidRequestError):
            table.update({"v": expression})
    assert "hidden" not in "".join(content(table))


def test_a_query_sees_no_table_of_another_one_beside_it() -> None:
    one, other = (pa.table({"x": [number]}) for number in (1, 2))
    with (
        sql_over([("db.t", one), ("s", one)], {}) as first,
        sql_over([("db.t", other)], {}) as second,
    ):
        assert query_rows(first, "FROM db.t", "db.t").equals(one)
        assert query_rows(second, "FROM db.t", "db.t").equals(other)
        with pytest.raises(InvalidRequestError, match="s does not exist"):
            query_rows(second, "FROM s", "db.t")
    with sql_over([], {}) as later:
        databases = query_rows(later, "FROM duckdb_databases() WHERE NOT internal", "db.t")
        assert databases.num_rows == 2


def test_columns_that_differ_by_case_alone_have_no_expressions(catalog: Catalog) -> None:
    table = new_table(catalog, {"a": "INT", "A": "INT"})
    table.write(rows(table, [{"a": 1, "A": 2}]))
    for change in (
        lambda: table.update({"a": "5"}),
        lambda: table.merge([{"a": 1}], on="a", when_matched="delete"),
    ):
        with pytest.raises(UnsupportedError, match="columns a and A"):
            change()
    assert table.delete("A = 2").deleted == 1


def test_a_null_that_was_there_does_not_become_the_default(catalog: Catalog) -> None:
    table = new_table(catalog, {"id": "INT", "a": "INT", "b": "STRING"})
    table.write(rows(table, [{"id": 1}, {"id": 2}]))
    table = table.alter(ChangeDefault("a", "7"))
    table.update({"b": "'x'"}, "id = 1")
    table.merge(
        [{"id": 2, "b": "y"}, {"id": 3, "b": "z"}],
        on="id",
        when_matched="update",
        when_not_matched="insert",
    )
    found = {row["id"]: row["a"] for row in table.read().to_pylist()}
    assert found == {1: None, 2: None, 3: 7}


@pytest.mark.parametrize("zone", ["America/New_York", "UTC"])
def test_expressions_read_moments_in_utc(
    catalog: Catalog, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    table = new_table(
        catalog, {"id": "INT", "moment": "TIMESTAMP(6) WITH LOCAL TIME ZONE", "v": "STRING"}
    )
    moment = dt.datetime(2024, 1, 1, 3, tzinfo=dt.UTC)
    table.write(rows(table, [{"id": 1, "moment": moment}]))
    table.update({"v": "CAST(hour(moment) AS VARCHAR)"})
    assert table.read().to_pylist()[0]["v"] == "3"
    monkeypatch.undo()
    time.tzset()


def test_columns_of_a_source_match_in_any_case(catalog: Catalog) -> None:
    table = new_table(catalog, {"id": "INT", "i": "INT"})
    done = table.merge([{"ID": 2, "I": 5}], on={"id": "ID"}, when_not_matched="insert")
    assert done.inserted == 1
    assert table.read().to_pylist() == [{"id": 2, "i": 5}]


def test_columns_of_a_source_come_as_they_are_whatever_type_of_arrow_holds_them(
    catalog: Catalog,
) -> None:
    table = new_table(catalog, {"id": "INT", "v": "STRING", "m": "MAP<STRING, INT>"})
    source = pa.table(
        {
            "id": pa.array([1], pa.int64()),
            "v": pa.array(["viewed"], pa.string_view()),
            "m": pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64())),
        }
    )
    for how in ({"when_not_matched": "insert"}, {"when_matched": "update"}):
        table.merge(source, on="id", **how)
        assert table.read().to_pylist() == [{"id": 1, "v": "viewed", "m": [("a", 1), ("a", 2)]}]


def test_expressions_read_columns_of_mappings_that_the_table_has_not(catalog: Catalog) -> None:
    table = new_table(catalog, {"id": "INT", "at": "TIMESTAMP(9)"})
    moment = pd.Timestamp("2024-01-31 00:00:00.123456789")
    source = [{"id": 1, "seen": moment, "n": 2}]
    table.merge(source, on="id", when_not_matched={"id": "s.n - 1", "at": "s.seen"})
    assert table.read().to_pylist() == [{"id": 1, "at": moment}]


# --- merges ----------------------------------------------------------------------------------


def test_a_row_that_matches_twice_is_an_error_unless_one_clause_holds(catalog: Catalog) -> None:
    table = of_days(catalog, "a")
    source = [{"id": 1, "day": "a", "v": "x", "n": 1}, {"id": 1, "day": "a", "v": "y", "n": 2}]
    with pytest.raises(InvalidRows, match=r"1 rows of db.t match several rows of the source"):
        table.merge(source, on=["id", "day"], when_matched="update")
    done = table.merge(source, on=["id", "day"], when_matched=[("s.n = 2", "update")])
    assert done.updated == 1
    assert table.scan("id = 1").read().to_pylist()[0]["v"] == "y"


def test_null_matches_nothing(catalog: Catalog) -> None:
    table = new_table(catalog)
    table.write(rows(table, [{"id": None, "v": "x"}]))
    done = table.merge(
        [{"id": None, "v": "y"}], on="id", when_matched="update", when_not_matched="insert"
    )
    assert (done.updated, done.inserted) == (0, 1)


def test_a_merge_opens_the_files_that_may_match_alone(catalog: Catalog) -> None:
    table = of_days(catalog, "a", "b", "c")
    plan = table.merge(
        [{"id": 1, "day": "b", "v": "x"}], on=["id", "day"], when_matched="update", dry_run=True
    )
    assert (plan.files_opened, plan.updated, plan.files_rewritten) == (1, 1, 1)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"on": "id"}, "say what happens"),
        ({"on": "nope", "when_matched": "update"}, "no column nope to match on"),
        ({"on": "id", "when_matched": "insert"}, "'update' or 'delete'"),
        ({"on": "id", "when_not_matched": "delete"}, "'insert'"),
        ({"on": "id", "when_not_matched_by_source": "update"}, "'delete'"),
        ({"on": "id", "when_matched": {"v": "s.nope"}}, "nope"),
        ({"on": [], "when_matched": "update"}, "name the columns"),
        ({"on": {"id": "gone"}, "when_matched": "update"}, "has no column gone"),
        ({"on": ["id", "day", "v"], "when_matched": "update"}, "no column gets a value"),
        ({"on": "id", "when_matched": [("sum(t.id) > 1", "delete")]}, "sees a row alone"),
    ],
)
def test_a_wrong_merge_is_refused_before_a_file_is_written(
    catalog: Catalog, asked: dict[str, Any], says: str
) -> None:
    table = of_days(catalog, "a")
    with pytest.raises(InvalidRequestError, match=says):
        table.merge([{"id": 1, "day": "a", "v": "x"}], **asked)
    assert_only_reachable_files(table)


@pytest.mark.parametrize(
    "source",
    [
        pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"]),
        pd.DataFrame([[1, 2]], columns=["id", "id"]),
        [pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"])] * 2,
        [{1: 1, "1": 2, "id": 1}],
    ],
    ids=["table", "pandas", "batches", "dicts"],
)
def test_a_source_that_has_a_column_twice_is_refused_by_its_name(
    catalog: Catalog, source: Any
) -> None:
    table = of_days(catalog, "a")
    with pytest.raises(InvalidRequestError, match=r"the source has two columns (id|1),"):
        table.merge(source, on="id", when_matched="delete")
    assert len(table.history.snapshots()) == 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"on": None}, "on is None, which is not a list"),
        ({"on": ["id", "id"]}, "on names id more than once"),
        ({"on": {"id": 5}}, r"on\['id'\] is 5, which is not text"),
        ({"on": [5]}, r"on\[0\] is 5, which is not text"),
        ({"when_matched": 5}, "when_matched is 5, which is not a list"),
        ({"when_matched": []}, "when_matched is an empty list"),
        ({"when_matched": ["delete"]}, r"when_matched\[0\] is 'delete'; give a condition or None"),
        ({"when_matched": [(5, "delete")]}, r"condition of when_matched\[0\] is 5"),
        ({"when_matched": [("true", 5)]}, "when_matched is 5; give 'update' or 'delete'"),
    ],
)
def test_a_merge_that_a_caller_asks_for_wrongly_says_what_to_give(
    catalog: Catalog, change: dict[str, Any], says: str
) -> None:
    table = of_days(catalog, "a")
    asked: dict[str, Any] = {"on": "id", "when_matched": "delete", **change}
    for how in ({}, {"dry_run": True}):
        with pytest.raises(InvalidRequestError, match=says):
            table.merge([{"id": 1}], **asked, **how)
    assert len(table.history.snapshots()) == 1


@pytest.mark.parametrize("engine", ["spark", 0, LocalEngine])
@pytest.mark.parametrize(
    "verb",
    [
        lambda table, engine: table.update({"v": "'x'"}, engine=engine),
        lambda table, engine: table.delete("id = 1", engine=engine),
        lambda table, engine: table.upkeep.compact(full=True, engine=engine),
        lambda table, engine: table.upkeep.plan_respec((), engine=engine),
        lambda table, engine: table.upkeep.run(table.upkeep.plan_compact(full=True), engine),
    ],
    ids=["update", "delete", "compact", "respec", "run"],
)
def test_what_is_no_engine_is_refused(catalog: Catalog, verb: Any, engine: object) -> None:
    table = of_days(catalog, "a", "b")
    with pytest.raises(InvalidRequestError, match=r"engine is .*, which runs no tasks"):
        verb(table, engine)
    assert len(table.history.snapshots()) == 2
    verb(table, None)


def test_rows_that_are_inserted_share_no_primary_key(catalog: Catalog) -> None:
    table = new_table(catalog, **KEYED, options={"bucket": "1"})
    twice = [{"id": 1, "day": "a", "v": each} for each in "xy"]
    with pytest.raises(InvalidRows, match=r"1 primary keys stand more than once.*'id': 1"):
        table.merge(twice, on=["id", "day"], when_not_matched="insert")
    assert table.history.snapshots() == ()
    sums = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}
    added = new_table(catalog, {"id": "INT", "n": "INT"}, name="db.s", keys=("id",), options=sums)
    added.merge([{"id": 1, "n": 2}, {"id": 1, "n": 3}], on="id", when_not_matched="insert")
    assert added.read().to_pylist() == [{"id": 1, "n": 5}]


def test_rows_to_insert_without_a_partition_are_refused_where_they_match_none(
    catalog: Catalog,
) -> None:
    table = of_days(catalog, "a")
    asked: dict[str, Any] = {"on": "id", "when_matched": "update", "when_not_matched": "insert"}
    assert table.merge([{"id": 1, "v": "x"}], **asked).updated == 1
    with pytest.raises(InvalidRows, match=r"1 rows of the source match none .* column day needs"):
        table.merge([{"id": 1, "v": "x"}, {"id": 100, "v": "x"}], **asked)


def test_a_merge_into_a_table_of_first_rows_sees_and_shows_every_row(catalog: Catalog) -> None:
    table = new_table(catalog, **KEYED, options={"bucket": "1", "merge-engine": "first-row"})
    table.write(rows(table, events(0, 1, day="a")))
    both = events(0, 2, day="a", v="new")
    assert table.merge(both, on=["id", "day"], when_not_matched="insert").inserted == 1
    assert ids(table) == [0, 1]


def test_columns_with_the_names_of_the_machinery_are_told_apart(catalog: Catalog) -> None:
    columns = {"t": "INT", "s": "STRING", "source": "STRING", "target": "STRING"}
    table = new_table(catalog, columns)
    table.write(rows(table, [{"t": 1, "s": "a", "source": "b", "target": "c"}]))
    table.update({"source": "s || target"}, "t = 1")
    done = table.merge([{"t": 1, "s": "new"}], on="t", when_matched={"s": "s.s || t.source"})
    assert done.updated == 1
    assert table.read().to_pylist() == [{"t": 1, "s": "newac", "source": "ac", "target": "c"}]


# --- taking back -----------------------------------------------------------------------------


@pytest.mark.parametrize("made", [{}, {"options": {"deletion-vectors.enabled": "true"}}, KEYED])
def test_a_change_is_taken_back(catalog: Catalog, made: dict[str, Any]) -> None:
    options = {"bucket": "1"} if made is KEYED else made.get("options", {})
    table = new_table(catalog, partitions=("day",), keys=made.get("keys", ()), options=options)
    table.write(rows(table, [*events(0, 5, day="a"), *events(0, 5, day="b")]))
    before = content(table)
    for change in (
        lambda: table.delete("id < 3"),
        lambda: table.update({"v": "'changed'"}, "id = 4"),
        lambda: table.merge([{"id": 77, "day": "c", "v": "n"}], on="id", when_not_matched="insert"),
    ):
        done = change()
        assert done.snapshot is not None
        assert content(table) != before
        table.history.revert(done.snapshot.id)
        assert content(table) == before


def test_five_attempts_that_others_beat_are_a_conflict(catalog: Catalog) -> None:
    from lakewright.storage.operations.row_changes import statement

    table = of_days(catalog, "a")
    original = statement.commit_or_abort
    left = list(range(10))

    def beaten(files: Any, write: Any, **how: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(statement, "commit_or_abort", original)
            left.pop()
            catalog.table("db.t").update({"v": "v || '.'"}, f"id = {len(left)}")
        return original(files, write, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statement, "commit_or_abort", beaten)
        with pytest.raises(CommitConflictError, match="run it again"):
            table.delete("id = 3")
    assert ids(table) == list(range(10))
    assert_only_reachable_files(table)
