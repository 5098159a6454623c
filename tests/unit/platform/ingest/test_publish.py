"""Publishing: what is on disk and what readers see, whatever goes wrong in between."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakewright.platform.ingest.publication import AlreadyPublished, Published, Rejected
from lakewright.platform.ingest.publish import WriteOrder, publish
from lakewright.platform.tables.declarations import TableDeclaration, WriteKind
from lakewright.platform.tables.source_declarations import SourceDeclaration
from lakewright.storage import AddColumn, Catalog, RenameColumn, Table
from lakewright.storage.errors import InvalidRequestError, InvalidRows, SchemaMoved
from lakewright.storage.spec.data_types import parse_data_type
from lakewright.storage.spec.extra_columns import ExtraColumns
from lakewright.storage.spec.schema import Column
from tests.support.tables.builders import expire
from tests.support.tables.invariants import assert_sound

DECLARATION = TableDeclaration.model_validate(
    {
        "table": "shop.events",
        "columns": [{"name": "dt", "type": "STRING"}, {"name": "id", "type": "INT"}],
        "partition_keys": ["dt"],
        "source": {"python": "a:b"},
        "expectations": [
            {"expect": "expect_column_values_to_be_between", "column": "id", "min_value": 0}
        ],
    }
)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog.open(str(tmp_path / "warehouse"))


@pytest.fixture
def table(catalog: Catalog) -> Iterator[Table]:
    created = catalog.create_table("shop.events", DECLARATION.schema_spec)
    yield created
    assert_sound(created)


def no_spark() -> Any:
    raise AssertionError("Spark was asked for")


def order(*days: str, **more: Any) -> WriteOrder:
    partitions: tuple[Mapping[str, object], ...] | None = tuple({"dt": day} for day in days) or None
    settings = {
        "declaration": DECLARATION,
        "partitions": partitions,
        "commit_user": "run-1",
        "kind": WriteKind.OVERWRITE,
        "session": no_spark,
    }
    return WriteOrder(**{**settings, **more})


def rows(*pairs: tuple[str, int]) -> pa.Table:
    return pa.table(
        {
            "dt": pa.array([dt for dt, _ in pairs], pa.string()),
            "id": pa.array([number for _, number in pairs], pa.int32()),
        }
    )


def content(table: Table) -> list[tuple[str, int]]:
    return sorted((row["dt"], row["id"]) for row in table.read().to_pylist())


def test_rows_of_one_key_fail_a_run_that_refuses_them_and_leave_the_table_as_it_was(
    catalog: Catalog,
) -> None:
    declaration = TableDeclaration.model_validate(
        {
            **DECLARATION.model_dump(mode="json", exclude_unset=True),
            "table": "shop.keyed",
            "primary_key": ["dt", "id"],
            "write": {"on_duplicate": "refuse"},
        }
    )
    keyed = catalog.create_table("shop.keyed", declaration.schema_spec)
    asked = order("a", declaration=declaration, kind=WriteKind.UPSERT)
    publish(keyed, lambda: rows(("a", 1), ("a", 2)), asked)
    again = replace(asked, commit_user="run-2")
    with pytest.raises(InvalidRows, match="dt='a', id=3 in 2 rows"):
        publish(keyed, lambda: rows(("a", 3), ("a", 4), ("a", 3)), again)
    assert content(keyed) == [("a", 1), ("a", 2)]
    assert_sound(keyed)


def test_published_rows_are_counted_by_partition(table: Table) -> None:
    outcome = publish(table, lambda: rows(("a", 1), ("a", 2), ("b", 3)), order("a", "b"))
    assert isinstance(outcome, Published)
    assert {each.spec["dt"]: each.row_count for each in outcome.partitions} == {"a": 2, "b": 1}
    assert (outcome.row_count, outcome.commits, outcome.engine) == (3, 1, "local")
    assert outcome.snapshot == table.history.latest_snapshot()


def test_the_same_run_publishes_once_and_does_not_read_its_source_again(table: Table) -> None:
    publish(table, lambda: rows(("a", 1)), order("a", kind=WriteKind.APPEND))

    def untouched() -> pa.Table:
        raise AssertionError("the source was read")

    again = publish(table, untouched, order("a", kind=WriteKind.APPEND))
    assert isinstance(again, AlreadyPublished)
    assert content(table) == [("a", 1)]


def test_another_run_publishes_again(table: Table) -> None:
    for run in ("run-1", "run-2"):
        publish(table, lambda: rows(("a", 1)), order("a", kind=WriteKind.APPEND, commit_user=run))
    assert content(table) == [("a", 1), ("a", 1)]


def test_a_retry_appends_nothing_if_the_commits_of_earlier_attempts_may_have_expired(
    catalog: Catalog, table: Table
) -> None:
    begun_ms = catalog.env.now_ms() - 1
    for run in ("run-1", "run-2"):
        publish(table, lambda: rows(("a", 1)), order("a", kind=WriteKind.APPEND, commit_user=run))
    expire(table)
    retried = order("a", kind=WriteKind.APPEND, tried_since_ms=begun_ms)
    with pytest.raises(InvalidRequestError, match=r"not known: snapshots since then have expired"):
        publish(table, lambda: rows(("a", 1)), retried)
    assert content(table) == [("a", 1), ("a", 1)]
    # What was tried since the oldest snapshot is known, and an overwrite counts once anyway.
    now_ms = catalog.env.now_ms()
    publish(table, lambda: rows(("a", 2)), replace(retried, tried_since_ms=now_ms))
    assert content(table) == [("a", 1), ("a", 1), ("a", 2)]
    publish(table, lambda: rows(("a", 3)), order("a", commit_user="run-3", tried_since_ms=begun_ms))
    assert content(table) == [("a", 3)]


def filled_meanwhile(table: Table, value: str | None) -> pa.Table:
    """The rows of a source, during which another client adds a column and writes a row."""
    ahead = table.alter(AddColumn("city", "STRING"))
    theirs = [{"dt": "a", "id": 1, "city": value}]
    ahead.write(pa.Table.from_pylist(theirs, ahead.arrow_schema))
    return rows(("a", 1))


def test_values_that_another_client_writes_meanwhile_are_not_replaced(
    catalog: Catalog, table: Table
) -> None:
    publish(table, lambda: rows(("a", 1), ("b", 1)), order("a", "b"))
    with pytest.raises(SchemaMoved, match="column city, which another client added or filled"):
        publish(table, lambda: filled_meanwhile(table, "Oslo"), order("a", commit_user="run-2"))
    left = catalog.table(table.name).read().to_pylist()
    assert sorted(str(row["city"]) for row in left) == ["None", "None", "Oslo"]


def test_a_column_without_values_that_appears_meanwhile_stops_nothing(table: Table) -> None:
    publish(table, lambda: filled_meanwhile(table, None), order("a"))
    assert content(table) == [("a", 1)]


def test_appended_rows_replace_no_values_that_appear_meanwhile(table: Table) -> None:
    appended = order("a", kind=WriteKind.APPEND)
    publish(table, lambda: filled_meanwhile(table, "Oslo"), appended)
    assert content(table) == [("a", 1), ("a", 1)]


def test_a_renamed_column_of_staged_rows_stops_nothing(table: Table) -> None:
    publish(table, lambda: rows(("a", 1)), order("a"))

    def given() -> pa.Table:
        table.alter(RenameColumn("id", "number"))
        return rows(("a", 2))

    publish(table, given, order("a", commit_user="run-2"))
    assert content(table) == [("a", 2)]


def test_rejected_rows_leave_no_trace(table: Table) -> None:
    outcome = publish(table, lambda: rows(("a", 1), ("a", -1)), order("a", "b"))
    assert isinstance(outcome, Rejected)
    assert outcome.report.blocking[0].unexpected_by_partition == {"dt=a": 1}
    assert table.history.latest_snapshot() is None


@pytest.mark.parametrize("kind", [WriteKind.OVERWRITE, WriteKind.APPEND])
@pytest.mark.parametrize("days", [("a", "b", "c"), ()])
def test_a_partition_that_does_not_meet_an_expectation_is_left_out(
    table: Table, kind: WriteKind, days: tuple[str, ...]
) -> None:
    publish(table, lambda: rows(("b", 7)), order("b", commit_user="before"))
    given = rows(("a", 1), ("b", -1), ("b", 2), ("c", 3))
    outcome = publish(table, lambda: given, order(*days, kind=kind))
    assert isinstance(outcome, Published)
    (rejected,) = outcome.rejected
    assert (rejected.spec, rejected.row_count) == ({"dt": "b"}, 2)
    assert rejected.not_met == {"id_between": "1 failing row"}
    assert [each.spec["dt"] for each in outcome.partitions] == ["a", "c"]
    assert content(table) == [("a", 1), ("b", 7), ("c", 3)]
    assert len(table.history.snapshots()) == 2


def test_a_retry_writes_only_the_partitions_that_were_left_out(table: Table) -> None:
    days = order("a", "b", "c", kind=WriteKind.APPEND)
    publish(table, lambda: rows(("a", 1), ("b", -1), ("c", -1)), days)
    assert content(table) == [("a", 1)]

    second = publish(table, lambda: rows(("a", 1), ("b", 2), ("c", -1)), days)
    assert isinstance(second, Published)
    assert [each.spec["dt"] for each in second.rejected] == ["c"]
    assert content(table) == [("a", 1), ("b", 2)]

    third = publish(table, lambda: rows(("a", 1), ("b", 2), ("c", 3)), days)
    assert isinstance(third, Published)
    assert third.rejected == ()
    assert sorted(each["dt"] for each in third.earlier) == ["a", "b"]
    assert content(table) == [("a", 1), ("b", 2), ("c", 3)]
    assert isinstance(publish(table, lambda: rows(("a", 9)), days), AlreadyPublished)


def expecting(**expectation: Any) -> TableDeclaration:
    return TableDeclaration.model_validate(
        {**DECLARATION.model_dump(exclude_unset=True), "expectations": [expectation]}
    )


def test_a_partition_is_judged_by_its_own_numbers(table: Table) -> None:
    mean = expecting(expect="expect_column_mean_to_be_between", column="id", max_value=10)
    given = rows(("a", 1), ("b", 90), ("c", 5))
    outcome = publish(table, lambda: given, order("a", "b", "c", declaration=mean))
    assert isinstance(outcome, Published)
    assert [each.spec["dt"] for each in outcome.rejected] == ["b"]
    assert content(table) == [("a", 1), ("c", 5)]


@pytest.mark.parametrize(
    "expectation",
    [
        {"expect": "expect_column_values_to_be_unique", "column": "id"},
        # It cannot be evaluated: no row tells a partition from another.
        {"expect": "expect_column_values_to_match_regex", "column": "id", "regex": "("},
    ],
)
def test_partitions_that_fail_only_together_are_all_rejected(
    table: Table, expectation: dict[str, Any]
) -> None:
    declared = expecting(**expectation)
    given = rows(("a", 1), ("b", 1), ("c", 2))
    outcome = publish(table, lambda: given, order("a", "b", "c", declaration=declared))
    assert isinstance(outcome, Rejected)
    assert table.history.latest_snapshot() is None


def test_rows_of_partitions_not_asked_for_are_refused_and_deleted(table: Table) -> None:
    publish(table, lambda: rows(("c", 7)), order("c"))
    with pytest.raises(InvalidRows, match="1 rows of 1 partitions that were not requested"):
        publish(table, lambda: rows(("a", 1), ("c", 2)), order("a", "b", commit_user="run-2"))
    assert content(table) == [("c", 7)]


@pytest.mark.parametrize("kind", [WriteKind.OVERWRITE, WriteKind.APPEND])
@pytest.mark.parametrize("days", [("a",), ("a", "b"), ()])
def test_rows_without_a_declared_column_are_refused(
    table: Table, kind: WriteKind, days: tuple[str, ...]
) -> None:
    given = rows(("a", 1)).drop_columns(["id"])
    with pytest.raises(InvalidRows, match="lack column id; the rows have dt; the table declares"):
        publish(table, lambda: given, order(*days, kind=kind))
    assert table.history.latest_snapshot() is None


def test_rows_may_leave_out_the_partition_of_the_run_and_undeclared_columns(tmp_path: Path) -> None:
    spec = DECLARATION.schema_spec
    more = replace(spec, columns=(*spec.columns, Column("later", parse_data_type("INT"))))
    created = Catalog.open(str(tmp_path / "warehouse")).create_table("shop.events", more)
    publish(created, lambda: rows(("a", 1)).drop_columns(["dt"]), order("a"))
    assert created.read().to_pylist() == [{"dt": "a", "id": 1, "later": None}]
    several = order("a", "b", commit_user="run-2")
    with pytest.raises(InvalidRows, match="lack column dt"):
        publish(created, lambda: rows(("a", 1)).drop_columns(["dt"]), several)


def test_partitions_that_lost_their_rows_are_emptied_at_every_try(table: Table) -> None:
    publish(table, lambda: rows(("a", 1), ("b", 2), ("c", 3)), order("a", "b", "c"))
    # A try that stopped after it had emptied the first of two partitions.
    table.write(
        table.arrow_schema.empty_table(),
        mode="overwrite",
        partition={"dt": "a"},
        commit_user="run-2",
        commit_identifier=0,
    )
    assert content(table) == [("b", 2), ("c", 3)]

    again = {"commit_user": "run-2", "allow_empty": True}
    publish(table, lambda: rows(("c", 9)), order("a", "b", "c", **again))

    assert content(table) == [("c", 9)]


def test_without_partitions_asked_for_those_in_the_rows_are_replaced(table: Table) -> None:
    publish(table, lambda: rows(("a", 1), ("b", 2)), order())
    publish(table, lambda: rows(("b", 3)), order(commit_user="run-2"))
    assert content(table) == [("a", 1), ("b", 3)]


def test_a_commit_that_fails_leaves_no_files(tmp_path: Path) -> None:
    class Unlucky(Table):
        def commit(self, staged: Any) -> Any:
            raise InvalidRows("the table moved on")

    catalog = Catalog.open(str(tmp_path / "warehouse"))
    created = catalog.create_table("shop.events", DECLARATION.schema_spec)
    with pytest.raises(InvalidRows):
        publish(Unlucky(created.table_files), lambda: rows(("a", 1)), order("a"))
    assert_sound(created)


def test_no_rows_at_all_are_a_write_too_where_they_are_meant(table: Table) -> None:
    publish(table, lambda: rows(("a", 1)), order("a"))
    with pytest.raises(InvalidRows, match="returned no rows of dt=a; nothing was written"):
        publish(table, rows, order("a", commit_user="run-2"))
    assert content(table) == [("a", 1)]
    outcome = publish(table, rows, order("a", commit_user="run-2", allow_empty=True))
    assert isinstance(outcome, Published)
    assert content(table) == []


def test_small_work_starts_no_spark(table: Table) -> None:
    # `no_spark` fails the test when a session is asked for.
    publish(table, lambda: rows(("a", 1)), replace(order("a"), session=no_spark))
    assert content(table) == [("a", 1)]


def test_partitions_of_floating_numbers_are_told_apart(tmp_path: Path) -> None:
    declaration = TableDeclaration.model_validate(
        {
            "table": "shop.readings",
            "columns": [{"name": "p", "type": "DOUBLE"}, {"name": "id", "type": "INT"}],
            "partition_keys": ["p"],
            "source": {"python": "a:b"},
        }
    )
    catalog = Catalog.open(str(tmp_path / "warehouse"))
    readings = catalog.create_table("shop.readings", declaration.schema_spec)
    nan = float("nan")

    def written(run: str, held: list[float], asked: list[float], **more: Any) -> Any:
        given = pa.table({"p": held, "id": pa.array(range(len(held)), pa.int32())})
        wanted = tuple({"p": value} for value in asked)
        settings = {"declaration": declaration, "partitions": wanted, "commit_user": run}
        return publish(readings, lambda: given, order(**settings, **more))

    outcome = written("run-1", [0.0, -0.0, nan], [-0.0, float("nan"), 0.0])
    assert [repr(each.spec["p"]) for each in outcome.partitions] == ["0.0", "-0.0", "nan"]
    # The partition of -0.0 was asked for and gets no rows, so it is emptied; that of 0.0 was not.
    (missed,) = written("run-1b", [nan], [-0.0, float("nan")]).rejected
    assert repr(missed.spec["p"]) == "-0.0"
    assert missed.not_met == {"rows": "no rows came, and it has rows in the table"}
    written("run-2", [nan], [-0.0, float("nan")], allow_empty=True)
    assert sorted(repr(each.spec["p"]) for each in readings.at().partitions()) == ["0.0", "nan"]
    with pytest.raises(InvalidRows, match=r"that were not requested, such as p=-0\.0"):
        written("run-3", [-0.0, 1.0], [0.0, 1.0])
    (missed,) = written("run-4", [0.0], [0.0, float("nan")]).rejected
    assert repr(missed.spec["p"]) == "nan"
    # Of -0.0 there is nothing to be lost.
    written("run-5", [nan], [-0.0, float("nan")])
    assert sorted(repr(each.spec["p"]) for each in readings.at().partitions()) == ["0.0", "nan"]
    assert_sound(readings)


# --- rows that come in parts ----------------------------------------------------------------------


def batches(*parts: pa.Table) -> Iterator[pa.RecordBatch]:
    for part in parts:
        yield from part.to_batches()


PARTS = (rows(("a", 1), ("b", 2)), rows(("a", 3)))
DICTS = [row for part in PARTS for row in part.to_pylist()]


@pytest.mark.parametrize(
    "given",
    [
        lambda: batches(*PARTS),
        lambda: pa.RecordBatchReader.from_batches(PARTS[0].schema, batches(*PARTS)),
        lambda: iter(DICTS),
        lambda: pa.concat_tables(PARTS).to_pandas(),
        lambda: iter(pa.concat_tables(PARTS).to_pandas() for _ in range(1)),
    ],
    ids=["generator", "reader", "dicts", "pandas", "DataFrames"],
)
def test_a_source_may_give_its_rows_in_parts(table: Table, given: Any) -> None:
    outcome = publish(table, given, order("a", "b"))
    assert isinstance(outcome, Published)
    assert content(table) == [("a", 1), ("a", 3), ("b", 2)]
    assert outcome.commits == 1


def test_a_part_is_taken_when_the_one_before_is_written(table: Table) -> None:
    alive: list[weakref.ref[pa.Table]] = []
    most = 0

    def parts() -> Iterator[pa.Table]:
        nonlocal most
        for number in range(20):
            part = rows(*(("a", number) for _ in range(1000)))
            alive.append(weakref.ref(part))
            yield part
            del part
            most = max(most, sum(each() is not None for each in alive))

    publish(table, parts, order("a"))
    assert table.read().num_rows == 20_000
    assert most <= 2


def test_a_source_that_fails_midway_publishes_nothing_and_leaves_no_file(table: Table) -> None:
    publish(table, lambda: rows(("a", 1)), order("a"))

    def failing() -> Iterator[pa.Table]:
        yield rows(("a", 2), ("b", 2))
        raise ZeroDivisionError("the upstream is gone")

    with pytest.raises(ZeroDivisionError, match="the upstream is gone") as failed:
        publish(table, failing, order("a", "b", commit_user="run-2"))
    (note,) = failed.value.__notes__
    assert note == "while the source of shop.events was read; nothing was published"
    assert content(table) == [("a", 1)]
    assert len(list(Path(table.table_files.paths.root).rglob("*.parquet"))) == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([{"dt": "a", "id": 1}, {"dt": "a", "id": "x"}], "row 2: column id is INT, and 'x'"),
        ([{"dt": "a"}], "rows that lack column id"),
        ([{"id": 1}], r"rows that lack column dt \(a partition column\)"),
        ([PARTS[0], PARTS[1].drop_columns(["id"])], "rows that lack column id"),
        ([PARTS[0], 7], "the source of shop.events: 7 is no rows; give an Arrow table"),
        ([{"dt": "a", "id": 1, "more": 2}], "unknown column more"),
        ("abc", "returned a str; return a pyarrow.Table"),
        ({"dt": ["a"], "id": [1]}, "returned a dict; return a pyarrow.Table"),
    ],
)
def test_parts_that_do_not_fit_are_refused_and_deleted(table: Table, given: Any, said: str) -> None:
    with pytest.raises(InvalidRows, match=said):
        publish(table, lambda: given, order("a", "b"))
    assert not table.history.snapshots()


def test_columns_that_the_table_has_not_are_ignored_if_that_is_declared(table: Table) -> None:
    source = SourceDeclaration(python="a:b", extra_columns=ExtraColumns.IGNORE)
    declaration = DECLARATION.model_copy(update={"source": source})
    extra = PARTS[0].append_column("more", pa.array([1, 2]))
    ignoring = order("a", "b", declaration=declaration)
    publish(table, lambda: iter([extra, {"dt": "a", "id": 3, "other": object()}]), ignoring)
    assert content(table) == [("a", 1), ("a", 3), ("b", 2)]
