"""What changed between two states: which files are read, and the rows that come out."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidRequestError, SnapshotNotFound, TagNotFound
from lakewright.storage.operations.changes.change_plan import IncrementalMode
from lakewright.storage.operations.changes.change_read import ChangeReader, collect_changes
from lakewright.storage.sql import parse_where
from lakewright.storage.table_at import TableAt
from tests.support.tables.builders import compact, events, expire, new_table, rows
from tests.support.tables.environment import FixedEnv

KEYED: dict[str, Any] = {
    "columns": {"id": "BIGINT", "day": "STRING", "v": "STRING"},
    "partitions": ("day",),
    "keys": ("day", "id"),
    "options": {"bucket": "2"},
}
Change = tuple[str, str, int, Any]


def changes(found: pa.Table) -> list[Change]:
    """Changes of rows of `EVENTS` as tuples, sorted."""
    return sorted(
        (row["_rowkind"], row["day"], row["id"], row["v"] or "") for row in found.to_pylist()
    )


def tag(table: Table, name: str, snapshot_id: int | None = None) -> None:
    table.history.create_tag(name, snapshot=snapshot_id)


def state(table: Table | TableAt, **when: Any) -> dict[tuple[str, int], str]:
    found = table.read(**when).to_pylist()
    return {(row["day"], row["id"]): row["v"] or "" for row in found}


def apply(
    before: dict[tuple[str, int], str], found: Iterable[Change]
) -> dict[tuple[str, int], str]:
    after = dict(before)
    for kind, day, number, v in found:
        if kind in ("-D", "-U"):
            after.pop((day, number), None)
        else:
            after[day, number] = v
    return after


def history(catalog: Catalog, **options: str) -> Table:
    """Snapshots: 1, 2 upserts, 3 deletes, 4 compacts, 5 upserts, 6 overwrites, 7 deletes."""
    table = new_table(catalog, **{**KEYED, "options": {"bucket": "2", **options}})
    table.write(rows(table, [*events(0, 10), *events(0, 3, day="b")]))
    table.write(rows(table, events(5, 12, v="new")))
    table.write(rows(table, events(0, 2), ["-D", "-D"]))
    compact(table, full=True)
    table.write(rows(table, events(0, 1, v="again")))
    table.write(rows(table, events(7, 9, day="b", v="over")), mode="overwrite")
    table.write(rows(table, [{"id": 7, "day": "b"}], ["-D"]))
    return table


# Of the first two appends of `history` after snapshot 1.
CAME_IN = [
    *(("+I", "a", number, f"new{number}") for number in range(5, 12)),
    ("-D", "a", 0, "v0"),
    ("-D", "a", 1, "v1"),
]


@pytest.mark.mission("FS1", "CN20", "CN21")
def test_a_delta_holds_every_row_of_the_appends_with_its_kind(catalog: Catalog) -> None:
    found = changes(history(catalog).read_changes(1, 5, mode="delta"))
    assert found == sorted([*CAME_IN, ("+I", "a", 0, "again0")])


def test_a_changelog_holds_the_rows_that_came_in(catalog: Catalog) -> None:
    table = history(catalog, **{"changelog-producer": "input"})
    assert changes(table.read_changes(1, 3, mode="changelog")) == sorted(CAME_IN)
    assert table.scan_changes(1, 3).plan.mode is IncrementalMode.CHANGELOG


def test_a_delta_leaves_compactions_and_overwrites_out(catalog: Catalog) -> None:
    table = history(catalog)
    assert changes(table.read_changes(3, 4, mode="delta")) == []
    assert changes(table.read_changes(5, 6, mode="delta")) == []
    plan = table.scan_changes(0, 7, mode="delta").plan
    assert plan.snapshot_ids == (1, 2, 3, 5, 7)
    assert (plan.mode, plan.rows) == (IncrementalMode.DELTA, 13 + 7 + 2 + 1 + 1)


def test_a_key_written_twice_is_in_a_delta_twice_in_the_order_of_the_commits(
    catalog: Catalog,
) -> None:
    table = new_table(catalog, **KEYED)
    for v in ("first", "second", "third"):
        table.write(rows(table, events(1, 2, v=v)))
    found = table.read_changes(0, 3, mode="delta").column("v").to_pylist()
    assert found == ["first1", "second1", "third1"]


@pytest.mark.parametrize("kind", ["keyed", "append", "append in buckets"])
def test_the_deltas_of_all_appends_are_the_rows_that_were_written(
    catalog: Catalog, kind: str
) -> None:
    settings: dict[str, dict[str, Any]] = {
        "keyed": KEYED,
        "append": {"partitions": ("day",)},
        "append in buckets": {"options": {"bucket": "2", "bucket-key": "id"}},
    }
    table = new_table(catalog, **settings[kind])
    written: list[Change] = []
    for number in range(4):
        batch = events(number * 3, number * 3 + 5, day="ab"[number % 2], v=f"w{number}-")
        table.write(rows(table, batch))
        written += [("+I", row["day"], row["id"], row["v"]) for row in batch]
    compact(table, full=True)
    assert changes(table.read_changes(0, 5, mode="delta")) == sorted(written)


def test_changelogs_are_read_that_outlive_their_snapshots(catalog: Catalog, env: FixedEnv) -> None:
    long_lived = {"changelog.num-retained.min": "20", "changelog.time-retained": "10 h"}
    table = history(catalog, **{"changelog-producer": "input"}, **long_lived)
    everything = changes(table.read_changes(0, 7))
    times = [
        dt.datetime.fromtimestamp(each.time_millis / 1000, dt.UTC)
        for each in table.history.snapshots()
    ]
    expire(table)
    assert [snapshot.id for snapshot in table.history.snapshots()] == [7]
    assert changes(table.read_changes(0, 7)) == everything != []
    assert table.read_changes(1, 2).num_rows == 7
    assert table.read_changes(times[0], times[1]).num_rows == 7
    with pytest.raises(SnapshotNotFound, match="name bounds from 0 to 7"):
        table.read_changes(-1, 7)
    # Of the data files of those snapshots nothing is left.
    with pytest.raises(SnapshotNotFound, match="name bounds from 6 to 7"):
        table.read_changes(0, 7, mode="delta")


def test_without_a_changelog_auto_reads_deltas_and_changelog_is_refused(catalog: Catalog) -> None:
    table = history(catalog)
    assert table.scan_changes(1, 3).plan.mode is IncrementalMode.DELTA
    with pytest.raises(InvalidRequestError, match=r"writes no changelogs.*delta or diff"):
        table.read_changes(1, 3, mode="changelog")


ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "sequence": {"sequence.field": "v"},
    "partial-update": {"merge-engine": "partial-update", "ignore-delete": "true"},
    "first-row": {"merge-engine": "first-row", "ignore-delete": "true"},
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("engine", list(ENGINES))
@pytest.mark.mission("FS1", "FS19")
def test_a_difference_leads_from_one_state_to_the_other(catalog: Catalog, engine: str) -> None:
    table = new_table(catalog, **{**KEYED, "options": {"bucket": "2", **ENGINES[engine]}})
    table.write(rows(table, [*events(0, 10, v="m"), *events(0, 3, day="b", v="m")]))
    compact(table, full=True)
    table.write(rows(table, events(5, 12, v="z")))
    table.write(rows(table, [{"id": 3, "day": "a"}, *events(4, 5, v="a")]))
    if engine == "deduplicate":
        table.write(rows(table, events(0, 2), ["-D", "-D"]))
    compact(table, full=True)
    table.write(rows(table, events(20, 22, day="c", v="q")), mode="overwrite")
    ids = [snapshot.id for snapshot in table.history.snapshots()]
    for first in ids:
        for last in ids[first:]:
            before, after = state(table.at(snapshot=first)), state(table.at(snapshot=last))
            found = changes(table.read_changes(first, last, mode="diff"))
            assert apply(before, found) == after, f"{engine}: {first} to {last}"


@pytest.mark.parametrize("partitions", [(), ("day",)])
def test_a_difference_of_an_append_table_survives_its_compaction(
    catalog: Catalog, partitions: tuple[str, ...]
) -> None:
    table = new_table(catalog, partitions=partitions)
    table.write(rows(table, [*events(0, 3), *events(0, 3)]))
    table.write(rows(table, events(3, 6)))
    compact(table, full=True)
    table.write(rows(table, [*events(6, 7), *events(0, 1)]))
    compact(table, full=True)
    expected = [("+I", "a", 0, "v0"), *(("+I", "a", n, f"v{n}") for n in (3, 4, 5, 6))]
    assert changes(table.read_changes(1, 5, mode="diff")) == expected
    table.write(rows(table, events(6, 9, day="a", v="w")), mode="overwrite")
    found = changes(table.read_changes(5, 6, mode="diff"))
    assert found == sorted(
        [
            *(("-D", "a", n, f"v{n}") for n in (0, 0, 0, 1, 1, 2, 2, 3, 4, 5, 6)),
            *(("+I", "a", n, f"w{n}") for n in (6, 7, 8)),
        ]
    )


@pytest.mark.mission("FS16")
def test_states_larger_than_memory_differ_in_the_same_rows(catalog: Catalog) -> None:
    columns = {"id": "BIGINT", "day": "STRING", "v": "STRING", "x": "DOUBLE", "many": "ARRAY<INT>"}
    table = new_table(catalog, columns)

    def numbered(first: int, end: int) -> list[dict[str, Any]]:
        x = [0.0, -0.0, float("nan"), None]
        return [
            {"id": n, "day": None if n % 7 else "a", "v": f"v{n}", "x": x[n % 4], "many": [n]}
            for n in range(first, end)
        ]

    table.write(rows(table, [*numbered(0, 300), *numbered(0, 20)]))
    table.write(rows(table, [*numbered(10, 250), *numbered(290, 400)]), mode="overwrite")
    plan = table.scan_changes(1, 2, mode="diff").plan
    at_once, in_heaps = (
        collect_changes(
            ChangeReader(
                table.table_files, columns=None, predicate=None, compared_bytes=most_bytes
            ),
            plan.splits,
        )
        for most_bytes in (2**30, 4_000)
    )
    told, expected = (
        sorted((row["_rowkind"], row["id"]) for row in found.to_pylist())
        for found in (in_heaps, at_once)
    )
    assert told == expected
    gone = [*range(10), *range(20), *range(250, 290)]
    assert told == sorted([*(("-D", n) for n in gone), *(("+I", n) for n in range(300, 400))])


def test_a_difference_says_what_a_deleted_row_was(catalog: Catalog) -> None:
    table = new_table(catalog, **KEYED)
    table.write(rows(table, events(0, 3)))
    compact(table, full=True)
    table.write(rows(table, [{"id": 1, "day": "a"}], ["-D"]))
    compact(table, full=True)
    assert changes(table.read_changes(2, 4, mode="diff")) == [("-D", "a", 1, "v1")]


@pytest.mark.parametrize("engine", ["deduplicate", "first-row"])
def test_a_difference_follows_keys_into_other_buckets(catalog: Catalog, engine: str) -> None:
    options = {"bucket": "1", **ENGINES[engine]}
    table = new_table(catalog, **{**KEYED, "options": options})
    table.write(rows(table, [*events(0, 10), *events(0, 3, day="b")]))
    compact(table, full=True)
    before = state(table)
    table.upkeep.run(table.upkeep.plan_rescale(3))
    later = catalog.table(table.name)
    assert changes(later.read_changes(2, 3, mode="diff")) == []
    later.write(rows(later, events(8, 12, v="new")))
    compact(later, full=True)
    last = later.history.snapshots()[-1].id
    found = changes(later.read_changes(2, last, mode="diff"))
    assert apply(before, found) == state(later)
    assert {change[2] for change in found} == (
        {10, 11} if engine == "first-row" else {8, 9, 10, 11}
    )


def test_a_key_that_an_overwrite_puts_into_another_dynamic_bucket_changes_once(
    catalog: Catalog,
) -> None:
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "2"}
    table = new_table(catalog, **{**KEYED, "options": options})
    table.write(rows(table, events(0, 8)))
    table.write(rows(table, events(4, 8, v="over")), mode="overwrite")
    places = {}
    for snapshot_id in (1, 2):
        found = table.at(snapshot=snapshot_id).inspect.table("files").to_pylist()
        places[snapshot_id] = {(row["bucket"], row["min_key"]) for row in found}
    assert not places[1] & places[2], "the test needs keys that move"
    assert changes(table.read_changes(1, 2, mode="diff")) == sorted(
        [
            *(("-D", "a", number, f"v{number}") for number in range(4)),
            *(("+I", "a", number, f"over{number}") for number in range(4, 8)),
        ]
    )


def test_rows_that_a_deletion_vector_takes_away_are_gone_in_a_difference(catalog: Catalog) -> None:
    options = {"bucket": "1", "deletion-vectors.enabled": "true"}
    table = new_table(catalog, **{**KEYED, "options": options})
    table.write(rows(table, events(0, 6)))
    compact(table, full=True)
    table.write(rows(table, [{"id": 1, "day": "a"}, {"id": 2, "day": "a", "v": "x"}], ["-D", "+U"]))
    compact(table, full=True)
    first, last = 2, table.history.snapshots()[-1].id
    found = changes(table.read_changes(first, last, mode="diff"))
    assert apply(state(table.at(snapshot=first)), found) == state(table)
    assert {change[:3] for change in found} in (
        {("-D", "a", 1), ("+I", "a", 2)},
        {("-D", "a", 1), ("+U", "a", 2)},
    )


def test_a_difference_reads_only_the_files_that_differ(catalog: Catalog) -> None:
    table = new_table(catalog, **KEYED)
    table.write(rows(table, [*events(0, 100), *events(0, 100, day="b")]))
    table.write(rows(table, events(0, 2, v="new")))
    plan = table.scan_changes(1, 2, mode="diff").plan
    assert plan.rows == 2
    assert changes(table.read_changes(1, 2, mode="diff")) == [
        ("+I", "a", 0, "new0"),
        ("+I", "a", 1, "new1"),
    ]


@pytest.mark.mission("FS19")
def test_between_tags_the_difference_is_read_also_when_their_snapshots_are_gone(
    catalog: Catalog,
) -> None:
    table = history(catalog)
    tag(table, "monday", 3)
    tag(table, "friday", 7)
    expected = changes(table.read_changes(3, 7, mode="diff"))
    expire(table)
    assert [snapshot.id for snapshot in table.history.snapshots()] == [7]
    found = table.read_changes("monday", "friday")
    assert changes(found) == expected != []
    assert changes(table.read_changes("friday", "friday")) == []
    with pytest.raises(SnapshotNotFound, match="snapshots 7 to 7"):
        table.read_changes("monday", "friday", mode="delta")


def test_between_tags_the_appends_are_read_when_that_is_asked_for(catalog: Catalog) -> None:
    table = history(catalog)
    tag(table, "monday", 1)
    tag(table, "friday", 3)
    expected = changes(table.read_changes(1, 3, mode="delta"))
    assert changes(table.read_changes("monday", "friday", mode="delta")) == expected


def test_a_text_of_digits_is_a_tag_where_both_bounds_are_tags_and_else_a_snapshot(
    catalog: Catalog,
) -> None:
    table = new_table(catalog, **KEYED)
    for number in range(3):
        table.write(rows(table, events(number, number + 1)))
    assert len(changes(table.read_changes("1", "3"))) == 2
    tag(table, "1", 1)
    tag(table, "3", 2)
    assert changes(table.read_changes("1", "3")) == [("+I", "a", 1, "v1")]
    assert len(changes(table.read_changes(1, 3))) == 2


def test_between_times_the_first_is_exclusive_and_the_last_inclusive(
    catalog: Catalog, env: FixedEnv
) -> None:
    table = new_table(catalog, **KEYED)
    for number in range(4):
        env.clock.advance(60_000)
        table.write(rows(table, events(number, number + 1)))
    moments = [
        dt.datetime.fromtimestamp(each.time_millis / 1000, dt.UTC)
        for each in table.history.snapshots()
    ]
    second = dt.timedelta(seconds=1)

    def between(start: dt.datetime, end: dt.datetime, mode: str = "delta") -> list[int]:
        return [change[2] for change in changes(table.read_changes(start, end, mode=mode))]

    assert between(moments[0], moments[2]) == [1, 2]
    assert between(moments[0] - second, moments[2]) == [0, 1, 2]
    assert between(moments[0], moments[2] - second) == [1]
    assert between(moments[0] - second, moments[1], mode="diff") == [0, 1]
    assert between(moments[1], moments[3], mode="diff") == [2, 3]
    assert between(moments[3] + second, moments[3] + 2 * second) == []
    assert between(moments[0] - 2 * second, moments[0] - second) == []
    naive = [moment.replace(tzinfo=None) for moment in moments]
    assert between(naive[0], naive[2]) == [1, 2]
    with pytest.raises(InvalidRequestError, match="earlier time first"):
        between(moments[2], moments[1])


def test_a_filter_and_columns_are_applied_to_the_changes(catalog: Catalog) -> None:
    table = history(catalog)
    where = parse_where("v LIKE 'new%' AND id > 9 AND day = 'a'", table.schema)
    for mode in ("delta", "diff"):
        found = table.read_changes(1, 5, mode=mode, where=where, columns=["id"])
        assert found.column_names == ["_rowkind", "id"]
        assert sorted(found.column("id").to_pylist()) == [10, 11]
    elsewhere = parse_where("day = 'b'", table.schema)
    assert table.scan_changes(1, 5, mode="delta", where=elsewhere).plan.files == 0


def test_a_limit_ends_the_reading(catalog: Catalog) -> None:
    table = history(catalog)
    assert table.read_changes(0, 7, mode="delta", limit=4).num_rows == 4
    assert table.read_changes(0, 7, mode="delta", limit=0).num_rows == 0
    assert table.read_changes(0, 7, mode="delta", limit=999).num_rows == 24


def test_rows_of_an_older_schema_are_read_under_the_present_one(catalog: Catalog) -> None:
    table = new_table(catalog, {"id": "INT", "v": "STRING"}, keys=("id",), options={"bucket": "1"})
    table.write(pa.table({"id": pa.array([1], pa.int32()), "v": ["x"]}))
    table.write(pa.table({"id": pa.array([2], pa.int32()), "v": ["y"]}))
    for mode in ("delta", "diff"):
        assert table.read_changes(1, 2, mode=mode).to_pylist() == [
            {"_rowkind": "+I", "id": 2, "v": "y"}
        ]


NESTED = {"id": "INT", "list": "ARRAY<DOUBLE>", "inner": "ROW<a INT>", "x": "DOUBLE"}


def test_values_of_any_type_are_compared(catalog: Catalog) -> None:
    table = new_table(catalog, NESTED, keys=("id",), options={"bucket": "1"})
    nan = float("nan")
    before = [
        {"id": 1, "list": [1.0, None], "inner": {"a": 1}, "x": nan},
        {"id": 2, "list": None, "inner": None, "x": 0.0},
        {"id": 3, "list": [nan], "inner": {"a": None}, "x": None},
    ]
    table.write(rows(table, before))
    compact(table, full=True)
    table.write(rows(table, [before[0], {**before[1], "x": -0.0}, {**before[2], "list": []}]))
    compact(table, full=True)
    found = table.read_changes(2, 4, mode="diff").column("id").to_pylist()
    assert sorted(found) == [2, 3]


def test_an_empty_range_and_an_empty_table_have_no_changes(catalog: Catalog) -> None:
    table = new_table(catalog, **KEYED)
    assert table.read_changes(0, 4).num_rows == 0
    table.write(rows(table, events(0, 1)))
    assert table.read_changes(1, 1).num_rows == 0
    assert table.read_changes(1, 1, mode="diff").column_names == ["_rowkind", "id", "day", "v"]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("start", "end", "error", "message"),
    [
        (3, 1, InvalidRequestError, "from snapshot 3 to 1 cannot be read: name the earlier one"),
        (0, 9, SnapshotNotFound, "snapshots 1 to 7; name bounds from 0 to 7"),
        (-1, 2, SnapshotNotFound, "name bounds from 0 to 7"),
        ("friday", "monday", InvalidRequestError, "snapshot 1, before tag friday"),
        ("friday", "sunday", TagNotFound, "no tag 'sunday'.*friday, monday"),
        ("friday", "7", InvalidRequestError, "name two tags"),
        ("monday", 3, InvalidRequestError, "name two tags"),
        (1, dt.datetime(2024, 1, 1), InvalidRequestError, "two snapshots, two tags or two times"),
    ],
)
def test_bounds_that_make_no_range_are_refused(
    catalog: Catalog, start: Any, end: Any, error: type[Exception], message: str
) -> None:
    table = history(catalog)
    tag(table, "monday", 1)
    tag(table, "friday", 3)
    with pytest.raises(error, match=message):
        table.read_changes(start, end)


def test_an_unknown_mode_is_refused_with_those_there_are(catalog: Catalog) -> None:
    table = new_table(catalog, **KEYED)
    with pytest.raises(
        InvalidRequestError, match="'both' is not one of auto, delta, changelog, diff"
    ):
        table.read_changes(1, 2, mode="both")
