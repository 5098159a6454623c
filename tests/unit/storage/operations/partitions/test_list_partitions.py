"""Partitions are listed by a filter or by values of their keys, with their statistics."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import pytest

from lakewright.storage import AddColumn, Catalog, Table
from lakewright.storage.errors import InvalidPredicate, InvalidRequestError
from lakewright.storage.operations.partitions.partition_properties import ColumnRange
from lakewright.storage.spec.snapshot import CommitKind
from tests.support.stores.watched_files import watched
from tests.support.tables.builders import compact, events, expire, new_table, rows, with_options

VIEWS = {"user": "STRING", "cnt": "INT", "date": "STRING", "country": "STRING"}


def views(catalog: Catalog) -> Table:
    table = new_table(catalog, VIEWS, partitions=("date", "country"))
    for date in ("2019-8-30", "2019-8-31"):
        for country in ("china", "italy", None):
            new = [{"user": "u", "cnt": 1, "date": date, "country": country}]
            table.write(rows(table, new))
    return table


def specs(table: Table, *args: Any, **asked: Any) -> list[dict[str, object]]:
    return [each.spec for each in table.at().partitions(*args, **asked)]


@pytest.mark.mission("PT30")
def test_a_static_insert_makes_the_partition_that_a_listing_then_shows(catalog: Catalog) -> None:
    table = new_table(catalog, VIEWS, partitions=("date", "country"))
    new = rows(table, [{"user": "u", "cnt": 3}]).select(["user", "cnt"])
    table.write(new, partition={"date": "2019-8-30", "country": "china"})
    (found,) = table.at().partitions()
    assert found.spec == {"date": "2019-8-30", "country": "china"}
    assert found.partition.text == "date=2019-8-30/country=china"


@pytest.mark.mission("PT43", "CT3")
@pytest.mark.parametrize(
    ("where", "count"),
    [
        ("date = '2019-8-30'", 3),
        ("country = 'china'", 2),
        ("country IS NULL", 2),
        ("date > '2019-8-30' AND country IN ('italy', 'france')", 1),
        ("NOT (country = 'china')", 2),
        ("country = 'france'", 0),
        (None, 6),
    ],
)
def test_a_filter_on_some_keys_selects_the_partitions(
    catalog: Catalog, where: str | None, count: int
) -> None:
    assert len(specs(views(catalog), where)) == count


@pytest.mark.mission("PT43")
def test_partitions_are_named_by_all_or_some_of_their_keys(catalog: Catalog) -> None:
    table = views(catalog)
    assert len(specs(table, named=[{"country": None}])) == 2
    assert specs(table, named=[{"date": "2019-8-30", "country": None}]) == [
        {"date": "2019-8-30", "country": None}
    ]
    two = [{"country": "china"}, {"date": "2019-8-31", "country": "italy"}]
    assert len(specs(table, named=two)) == 3
    assert len(specs(table, "date = '2019-8-31'", named=two)) == 2
    assert specs(table, named=[]) == []


def test_a_named_value_is_taken_exactly(catalog: Catalog) -> None:
    table = new_table(catalog, {"x": "INT", "p": "DOUBLE"}, partitions=("p",))
    for value in (0.0, -0.0, math.nan, 1.5):
        table.write(rows(table, [{"x": 1, "p": value}]))
    assert [repr(each["p"]) for each in specs(table, named=[{"p": -0.0}])] == ["-0.0"]
    assert [repr(each["p"]) for each in specs(table, named=[{"p": math.nan}])] == ["nan"]


@pytest.mark.mission("CT3")
def test_a_request_that_names_no_partitions_is_refused(catalog: Catalog) -> None:
    table, plain = views(catalog), new_table(catalog, name="db.plain")
    with pytest.raises(InvalidPredicate, match=r"looks at cnt, .* are date, country"):
        table.at().partitions("cnt = 1 AND date = 'x'")
    with pytest.raises(InvalidPredicate, match="none, it is not partitioned"):
        plain.at().partitions("day = 'a'")
    with pytest.raises(InvalidRequestError, match="'cnt' is not a partition key"):
        table.at().partitions(named=[{"cnt": 1}])
    with pytest.raises(InvalidRequestError, match=r"named is .* not a list"):
        table.at().partitions(named={"date": "x"})  # type: ignore[arg-type]
    dated = new_table(catalog, {"d": "DATE", "x": "INT"}, name="db.dated", partitions=("d",))
    with pytest.raises(InvalidRequestError, match="is not a valid DATE"):
        dated.at().partitions(named=[{"d": "soon"}])


@pytest.mark.mission("PT43")
def test_manifests_of_other_partitions_are_not_opened(catalog: Catalog) -> None:
    table = new_table(catalog, partitions=("day",), options={"manifest.merge-min-count": "100"})
    for day in "abcdefgh":
        table.write(rows(table, events(0, 1, day=day)))
    seen, files = watched(table)
    assert specs(seen, named=[{"day": "c"}]) == [{"day": "c"}]
    opened = {call.path for call in files.calls if "/manifest/manifest-" in str(call.path)}
    assert len([path for path in opened if "manifest-list" not in str(path)]) == 1


@pytest.mark.mission("PT62", "CT7")
def test_the_last_update_is_the_commit_that_last_changed_the_rows(catalog: Catalog) -> None:
    table = new_table(catalog, partitions=("day",))
    for day in "aabb":
        table.write(rows(table, events(0, 3, day=day)))
    compact(table, [{"day": "a"}], full=True)
    found = {each.spec["day"]: each for each in table.at().partitions(last_update=True)}
    updates = {day: each.last_update for day, each in found.items()}
    assert {day: each and each.id for day, each in updates.items()} == {"a": 2, "b": 4}
    assert updates["a"] is not None
    assert updates["a"].commit_kind is CommitKind.APPEND
    assert (found["a"].row_count, found["a"].file_count, found["b"].file_count) == (6, 1, 2)
    assert found["b"].size_bytes > 0

    expire(table, keep=1)
    found = {each.spec["day"]: each for each in table.at().partitions(last_update=True)}
    assert {day: each.last_update for day, each in found.items()} == {"a": None, "b": None}
    assert all(each.last_update is None for each in table.at().partitions())


@pytest.mark.mission("CT7")
def test_columns_of_a_partition_have_the_bounds_and_nulls_of_its_files(catalog: Catalog) -> None:
    table = new_table(catalog, {"id": "INT", "day": "DATE", "v": "STRING"}, partitions=["day"])
    days = [dt.date(2024, 1, 1), dt.date(2024, 1, 2)]
    for day, numbers in zip([*days, days[0]], ([1, 5], [7, 9], [3, 12]), strict=True):
        table.write(rows(table, [{"id": at, "day": day, "v": None} for at in numbers]))
    table = table.alter(AddColumn("note", "STRING"))
    table.write(rows(table, [{"id": None, "day": days[0], "note": "x"}]))
    ((_, found),) = table.at().partition_properties("day = '2024-01-01'")
    assert {each.name: (each.minimum, each.maximum, each.null_count) for each in found.columns} == {
        "id": (1, 12, 1),
        "day": (days[0], days[0], 0),
        "v": (None, None, 5),
        "note": ("x", "x", 4),
    }
    assert found.schema_ids == (0, 1)


def test_a_column_without_statistics_in_one_file_has_no_bounds(catalog: Catalog) -> None:
    table = new_table(catalog, {"id": "INT", "day": "STRING"}, partitions=["day"])
    table.write(rows(table, [{"id": 1, "day": "a"}]))
    none = with_options(table, metadata__stats_mode="none")
    none.write(rows(table, [{"id": 2, "day": "a"}]))
    ((_, found),) = table.at().partition_properties()
    assert found.columns[0] == ColumnRange(name="id", minimum=None, maximum=None, null_count=None)
