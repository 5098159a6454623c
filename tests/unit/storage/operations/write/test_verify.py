"""Nothing is published before it is proved: which level of proof finds which fault.

Each fault is planted on the way from merging to the store, for every rewrite there is. Where a
level is to find it, the rewrite stops and the table is as it was, with nothing left behind. Where
it is not, the rewrite goes through: what a level cannot see is said here, too.
"""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewright.storage import Catalog, Table, VerifyLevel
from lakewright.storage.errors import InvalidRequestError, UnfitValues, VerificationFailed
from lakewright.storage.files import parquet_files
from tests.support.stores import planted
from tests.support.stores.planted import ROW_FAULTS, Once
from tests.support.tables.builders import (
    compact,
    comparable,
    content,
    events,
    new_table,
    rows,
    values_of,
)
from tests.support.tables.invariants import assert_only_reachable_files
from tests.support.tally import tally

COLUMNS = {"id": "BIGINT", "n": "BIGINT", "v": "STRING", "day": "STRING"}
COUNTS, CHECKSUMS, FULL = VerifyLevel.COUNTS, VerifyLevel.CHECKSUMS, VerifyLevel.FULL
# Faults that leave the number of rows as it is.
SILENT = {
    "a row in the place of another",
    "a changed value",
    "values swapped between rows",
    "a value become null",
}


def numbered(first: int, last: int, *, v: str = "v") -> list[dict[str, Any]]:
    return [{**each, "n": each["id"] * 7} for each in events(first, last, v=v)]


def keyed(catalog: Catalog, **options: str) -> Table:
    """Two buckets in overlapping runs, with deletions."""
    named = {"bucket": "2", **{key.replace("_", "-"): text for key, text in options.items()}}
    table = new_table(catalog, COLUMNS, keys=["id"], options=named)
    for number in range(3):
        table.write(rows(table, numbered(number, 60, v=f"{number}-")))
    table.write(rows(table, numbered(5, 9), ["-D"] * 4))
    return table


def appended(catalog: Catalog, **options: str) -> Table:
    named = {key.replace("_", "-"): text for key, text in options.items()}
    table = new_table(catalog, COLUMNS, options=named)
    for number in range(4):
        table.write(rows(table, numbered(10 * number, 10 * number + 10)))
    return table


def fixed(catalog: Catalog) -> Table:
    return appended(catalog, bucket="2", bucket_key="id")


def postponed(catalog: Catalog) -> Table:
    options = {"bucket": "-2", "postpone.default-bucket-num": "3"}
    table = new_table(catalog, COLUMNS, keys=["id"], options=options)
    table.write(rows(table, numbered(0, 60)))
    return table


def in_place(change: Callable[[pa.Table], pa.Table]) -> planted.Deal:
    return lambda bucket, part: (bucket, change(part))


def astray(bucket: int, part: pa.Table) -> tuple[int, pa.Table]:
    """All rows one bucket further."""
    return (bucket + 1) % 3, part


Rewrite = Callable[[Table, Callable[[pa.Table], pa.Table], VerifyLevel], object]
# What rewrites rows: a table for it, and the rewrite with a fault in it.
REWRITES: dict[str, tuple[Callable[[Catalog], Table], Rewrite]] = {
    "compaction of levels": (keyed, planted.compact_levels),
    "compaction of appended files": (appended, planted.compact_append),
    "compaction of an ordered bucket": (fixed, planted.compact_append),
    "sort compaction": (appended, planted.compact_and_sort),
    "rescale of keyed rows": (
        keyed,
        lambda table, fault, level: planted.rescale(table, in_place(fault), level),
    ),
    "rescale of appended rows": (
        fixed,
        lambda table, fault, level: planted.rescale(table, in_place(fault), level),
    ),
    "buckets for postponed rows": (
        postponed,
        lambda table, fault, level: planted.settle(table, in_place(fault), level),
    ),
}


def refused(table: Table, attempt: Callable[[], object]) -> VerificationFailed:
    """The error of a rewrite that is stopped, after which everything is as it was."""
    before = table.history.latest_snapshot(), content(table), table.at().files()
    with pytest.raises(VerificationFailed, match=r"nothing was (committed|published)") as caught:
        attempt()
    assert (table.history.latest_snapshot(), content(table), table.at().files()) == before
    assert_only_reachable_files(table)
    tally("planted faults found before they were published")
    return caught.value


@pytest.mark.parametrize("fault", ROW_FAULTS)
@pytest.mark.parametrize("rewrite", REWRITES)
@pytest.mark.sampled(4)
def test_rows_that_change_on_the_way_are_never_published(
    catalog: Catalog, rewrite: str, fault: str
) -> None:
    make, run = REWRITES[rewrite]
    table = make(catalog)
    for level in (CHECKSUMS, FULL):
        change = Once(ROW_FAULTS[fault])
        error = refused(table, lambda: run(table, change, level))  # noqa: B023
        assert change.done
        assert table.name in str(error)
        told = error.details
        # A key that comes to stand in two places is found before sums are compared.
        is_counted = "due" in told
        assert not is_counted or told["due"] != told["found"] or told["differs"] == "rows"
    run(table, lambda same: same, FULL)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("fault", ROW_FAULTS)
@pytest.mark.parametrize("rewrite", ["compaction of levels", "compaction of appended files"])
def test_counting_rows_finds_what_changes_their_number_and_nothing_else(
    unchecked_catalog: Catalog, rewrite: str, fault: str
) -> None:
    make, run = REWRITES[rewrite]
    table = make(unchecked_catalog)
    before = content(table)
    change = Once(ROW_FAULTS[fault])
    if fault not in SILENT:
        refused(table, lambda: run(table, change, COUNTS))
        return
    run(table, change, COUNTS)
    assert change.done
    assert content(table) != before


@pytest.mark.parametrize("level", [CHECKSUMS, FULL])
@pytest.mark.parametrize("make", [keyed, fixed, postponed])
def test_rows_in_a_bucket_where_nobody_looks_for_them_are_never_published(
    catalog: Catalog, make: Callable[[Catalog], Table], level: VerifyLevel
) -> None:
    table = make(catalog)
    run = planted.settle if make is postponed else planted.rescale
    error = refused(table, lambda: run(table, astray, level))
    assert "rows belong to another of 3 buckets" in str(error)
    run(table, lambda bucket, part: (bucket, part), level)


def test_a_changelog_that_tells_something_else_is_never_published(catalog: Catalog) -> None:
    table = keyed(catalog, changelog_producer="full-compaction")
    for fault in ROW_FAULTS.values():
        change = Once(fault)
        error = refused(
            table,
            lambda: planted.compact_levels(table, change, CHECKSUMS, in_changelog=True),  # noqa: B023
        )
        assert str(error).startswith("changelog of bucket")


@pytest.mark.parametrize("level", list(VerifyLevel))
@pytest.mark.parametrize(
    "damage",
    [
        planted.cut_short,
        planted.cut_in_the_middle,
        planted.rewritten(planted.lost),
        planted.rewritten(planted.doubled),
        planted.rewritten(planted.other_key),
    ],
    ids=["cut short", "cut in the middle", "a row less", "a row more", "another key"],
)
@pytest.mark.sampled(each="damage")
def test_a_file_that_is_not_what_its_metadata_says_is_never_published(
    catalog: Catalog, damage: planted.ChangeBytes, level: VerifyLevel
) -> None:
    table = keyed(catalog, **{"file.compression": "none"})
    broken, fs = planted.damaged(table, damage)
    refused(table, lambda: broken.upkeep.run(broken.upkeep.plan_compact(full=True), verify=level))
    assert fs.done
    assert compact(table, full=True).snapshot is not None


@pytest.mark.parametrize(
    ("damage", "noticed"),
    [(planted.flipped, "cannot be read"), (planted.rewritten(planted.other_number), "n differ")],
    ids=["a bit", "a value"],
)
def test_only_reading_back_finds_what_changed_within_a_file(
    unchecked_catalog: Catalog, damage: planted.ChangeBytes, noticed: str
) -> None:
    table = keyed(unchecked_catalog, **{"file.compression": "none"})
    broken, fs = planted.damaged(table, damage)
    plan = broken.upkeep.plan_compact(full=True)
    error = refused(table, lambda: broken.upkeep.run(plan, verify="full"))
    assert noticed in str(error)
    assert fs.before == fs.after, "or the length would give it away"
    broken, fs = planted.damaged(table, damage)
    assert broken.upkeep.run(plan, verify="checksums").snapshot is not None
    assert fs.done


@pytest.mark.sampled(6)
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("rewrite", ["compact", "sort", "rescale"])
def test_what_every_format_gives_back_is_what_was_due(
    catalog: Catalog, rewrite: str, file_format: str
) -> None:
    make = {"compact": keyed, "sort": appended, "rescale": keyed}[rewrite]
    named = {"file.format": file_format}
    table = make(catalog, **named)
    before = comparable(table.read())
    if rewrite == "compact":
        table.upkeep.run(table.upkeep.plan_compact(full=True), verify="full")
    elif rewrite == "sort":
        table.upkeep.run(table.upkeep.plan_sort_compact(["v"]), verify="full")
    else:
        table.upkeep.run(table.upkeep.plan_rescale(3), verify="full")
        table = catalog.table(table.name)
    assert comparable(table.read()) == before


def test_a_failed_proof_crosses_processes_with_its_numbers() -> None:
    error = VerificationFailed("rows differ", partition={"day": "a"}, buckets=[1])
    again = pickle.loads(pickle.dumps(error))
    assert (again.message, again.details) == (error.message, error.details)


def test_a_level_that_there_is_not_is_refused(catalog: Catalog) -> None:
    table = appended(catalog)
    with pytest.raises(InvalidRequestError, match="'most' is not one of counts, checksums, full"):
        table.upkeep.run(table.upkeep.plan_compact(full=True), verify="most")


def test_a_write_that_is_numbered_again_is_proved_like_any_rewrite(catalog: Catalog) -> None:
    table = new_table(catalog, COLUMNS, keys=["id"], options={"bucket": "1"})
    table.write(rows(table, numbered(0, 9)))
    staged = table.stage(rows(table, numbered(0, 5, v="second")))
    table.write(rows(table, numbered(0, 7, v="first")))
    before = content(table)
    broken, fs = planted.damaged(table, planted.cut_short)
    with pytest.raises(VerificationFailed, match="cannot be read"):
        broken.commit(staged)
    assert fs.done
    assert content(table) == before
    table.commit(staged)
    later = [f"second{number}" for number in range(5)]
    assert values_of(table, "v") == sorted([*later, "first5", "first6", "v7", "v8"])


FAR = dt.datetime(9999, 12, 31)


def with_a_far_moment(catalog: Catalog) -> Table:
    """Two files, of which one holds a moment that nanoseconds of 64 bits do not reach."""
    table = new_table(catalog, {"id": "BIGINT", "t": "TIMESTAMP(9)"})
    for number in range(2):
        table.write(rows(table, [{"id": number, "t": dt.datetime(2024, 1, 31)}]))
    (first, *_) = table.at().files()
    path = table.table_files.readable_path(first.place, first.file)
    sink = BytesIO()
    far = pa.table({"id": [0], "t": pa.array([FAR], pa.timestamp("us"))})
    pq.write_table(far, sink, use_deprecated_int96_timestamps=True)
    table.table_files.fs.write_bytes(path, sink.getvalue())
    return table


def wrapped(array: pa.Array, kind: pa.TimestampType, *_: object, **__: object) -> pa.Array:
    """The fault of decoders that count nanoseconds in 64 bits."""
    raw = np.frombuffer(array.buffers()[1], np.dtype([("nanos", "<i8"), ("day", "<u4")]))
    days = raw["day"].astype(np.int64) - 2_440_588
    return pa.array(days * 86_400 * 10**9 + raw["nanos"], pa.int64()).view(kind)


def test_a_moment_that_wraps_on_the_way_is_refused_twice(
    unchecked_catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = with_a_far_moment(unchecked_catalog)
    before = table.at().files()
    with pytest.raises(UnfitValues, match="holds 9999-12-31 00:00:00"):
        compact(table, full=True)
    # With a reader at fault, both checksums would be of the same wrong values.
    monkeypatch.setattr(parquet_files, "decoded_int96", wrapped)
    assert min(values_of(table, "t")).year == 1816
    for level in (CHECKSUMS, FULL):
        with pytest.raises(VerificationFailed, match="column t has timestamps of other days"):
            table.upkeep.run(table.upkeep.plan_compact(full=True), verify=level)
    assert table.at().files() == before
    assert_only_reachable_files(table)
    tally("planted faults found before they were published")
