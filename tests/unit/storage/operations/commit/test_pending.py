"""Staged batches that are kept: they outlive their writer, and are committed once, in order."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakewright.storage import Catalog, Column, SchemaSpec, StagedWrite, Table
from lakewright.storage.codec.sealed_json import sealed
from lakewright.storage.errors import (
    BucketCountChanged,
    CorruptionError,
    FilesGone,
    InvalidRequestError,
    UnsupportedError,
)
from lakewright.storage.spec.data_types import parse_data_type
from tests.support.tables.builders import events, expire, new_table, remove_orphans, rows, values_of
from tests.support.tables.invariants import RawTable, assert_only_reachable_files


def staged(table: Table, number: int, new: list[dict[str, Any]] | None = None) -> StagedWrite:
    """A batch of its own key."""
    return table.stage(
        rows(table, events(number, number + 1) if new is None else new),
        commit_user="job",
        commit_identifier=number,
    )


@pytest.fixture
def table(catalog: Catalog) -> Table:
    made: Table = new_table(catalog, keys=["id"], options={"bucket": "2"})
    return made


@pytest.mark.mission("PT54", "RS9")
def test_every_batch_that_is_kept_is_there_after_a_restart_and_not_only_the_last(
    catalog: Catalog, table: Table
) -> None:
    made = [table.keep_pending(staged(table, number)) for number in (1, 2, 10)]
    assert table.read().num_rows == 0
    again = catalog.table("db.t")
    assert list(again.pending_batches("job")) == made
    assert again.pending_batches("another") == ()


@pytest.mark.mission("PT54")
def test_batches_up_to_an_identifier_are_committed_in_order_and_once(table: Table) -> None:
    for number in (1, 2, 3):
        table.keep_pending(staged(table, number))
    first = table.commit_pending("job", up_to=2)
    assert [each.snapshot.commit_identifier for each in first if each.snapshot] == [1, 2]
    assert values_of(table, "id") == [1, 2]
    assert table.commit_pending("job", up_to=2) == ()
    table.commit_pending("job")
    assert values_of(table, "id") == [1, 2, 3]
    assert table.pending_batches("job") == ()
    assert table.commit_pending("job") == ()
    assert_only_reachable_files(table)


@pytest.mark.mission("PT54")
def test_a_batch_that_was_committed_before_a_crash_is_not_committed_again(table: Table) -> None:
    kept = table.keep_pending(staged(table, 1))
    table.commit(kept)
    (found,) = table.commit_pending("job")
    assert found.already_committed
    assert values_of(table, "id") == [1]
    assert table.pending_batches("job") == ()
    assert_only_reachable_files(table)


def test_the_later_of_two_batches_that_change_a_key_wins(table: Table) -> None:
    for number in (1, 2):
        table.keep_pending(staged(table, number, events(7, 8, v=f"batch {number} ")))
    table.commit_pending("job")
    assert values_of(table, "v") == ["batch 2 7"]
    assert_only_reachable_files(table)


@pytest.mark.mission("PT54")
def test_of_two_batches_of_one_identifier_the_first_counts(table: Table) -> None:
    first = table.keep_pending(staged(table, 1, events(1, 2, v="first")))
    second = table.keep_pending(staged(table, 1, events(1, 2, v="second")))
    assert second == first
    assert table.keep_pending(first) == first
    table.commit_pending("job")
    assert values_of(table, "v") == ["first1"]
    assert_only_reachable_files(table)


def test_an_aborted_batch_is_forgotten_with_its_files(table: Table) -> None:
    kept = table.keep_pending(staged(table, 1))
    other = table.keep_pending(staged(table, 2))
    assert table.abort(kept) == kept.file_count
    assert table.pending_batches("job") == (other,)
    table.abort(other)
    assert table.pending_batches("job") == ()
    assert_only_reachable_files(table)


def test_aborting_what_was_not_kept_leaves_the_batch_that_is(table: Table) -> None:
    kept = table.keep_pending(staged(table, 1))
    table.abort(staged(table, 1))
    assert table.pending_batches("job") == (kept,)
    table.commit_pending("job")
    assert values_of(table, "id") == [1]
    assert_only_reachable_files(table)


@pytest.mark.mission("PT54", "RS9")
def test_the_removal_of_orphans_leaves_kept_batches_alone(table: Table) -> None:
    table.keep_pending(staged(table, 1))
    staged(table, 2)
    assert remove_orphans(table, grace_ms=None).files_condemned == 1
    table.commit_pending("job")
    assert values_of(table, "id") == [1]


def test_a_batch_kept_while_orphans_are_removed_is_left_alone(table: Table) -> None:
    """Kept between the plan and the run."""
    for grace_ms in (1, 0):
        made = staged(table, 1 + grace_ms)
        plan = table.upkeep.plan_remove_orphans(
            older_than_ms=0, even_recent=True, grace_ms=grace_ms
        )
        assert plan.files
        table.keep_pending(made)
        done = table.upkeep.run(plan)
        assert (done.files_deleted, done.files_condemned) == (0, 0)
    table.commit_pending("job")
    assert values_of(table, "id") == [1, 2]
    assert_only_reachable_files(table)


def test_condemned_files_of_a_batch_that_is_kept_later_are_not_collected(table: Table) -> None:
    made = staged(table, 1)
    assert remove_orphans(table, grace_ms=None).files_condemned == made.file_count
    table.keep_pending(made)
    assert table.upkeep.collect(early=True).files_deleted == 0
    table.commit_pending("job")
    assert values_of(table, "id") == [1]
    assert_only_reachable_files(table)


def test_a_branch_keeps_batches_of_its_own(table: Table) -> None:
    table.write(rows(table, events(0, 1)))
    seen = table.history.create_branch("b")
    seen.keep_pending(staged(seen, 5))
    table.keep_pending(staged(table, 6))
    remove_orphans(table, grace_ms=None)
    seen.commit_pending("job")
    table.commit_pending("job")
    assert (values_of(seen, "id"), values_of(table, "id")) == ([5], [0, 6])
    assert_only_reachable_files(table)


def test_a_write_without_an_identifier_cannot_be_kept(table: Table) -> None:
    made = table.stage(rows(table, events(0, 1)))
    with pytest.raises(InvalidRequestError, match="needs a commit_identifier"):
        table.keep_pending(made)
    table.abort(made)
    assert_only_reachable_files(table)


def test_a_batch_that_fits_no_more_stops_those_after_it_and_is_kept(table: Table) -> None:
    for number in (1, 2):
        table.keep_pending(staged(table, number))
    table.commit_pending("job", up_to=1)
    table.upkeep.run(table.upkeep.plan_rescale(3))
    with pytest.raises(BucketCountChanged):
        table.commit_pending("job")
    (kept,) = table.pending_batches("job")
    table.abort(kept)
    assert values_of(table, "id") == [1]
    expire(table)
    assert_only_reachable_files(table)


def test_a_batch_whose_files_are_gone_is_told(table: Table) -> None:
    kept = table.keep_pending(staged(table, 1))
    (path,) = data_files(table, kept)
    table.table_files.fs.delete(path)
    with pytest.raises(FilesGone):
        table.commit_pending("job")
    table.abort(kept)
    assert_only_reachable_files(table)


def data_files(table: Table, kept: StagedWrite) -> list[str]:
    return [
        table.table_files.data_file_path(message.place, file)
        for message in kept.messages
        for file in message.new_files
    ]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"no json", CorruptionError),
        (b'{"version": 2}', CorruptionError),
        (json.dumps(sealed({"version": 3})).encode(), UnsupportedError),
    ],
    ids=["damaged", "unsealed", "later"],
)
def test_a_batch_that_cannot_be_read_is_told_and_nothing_is_removed(
    table: Table, text: bytes, error: type[Exception]
) -> None:
    table.write(rows(table, events(0, 1)))
    staged(table, 1)
    path = table.table_files.paths.pending("job", 1)
    table.table_files.fs.write_bytes(path, text)
    before = RawTable(table).paths
    for attempt in (
        lambda: table.pending_batches("job"),
        lambda: remove_orphans(table, grace_ms=None),
    ):
        with pytest.raises(error, match="batch-1"):
            attempt()
    assert RawTable(table).paths == before
    # The way out that the error names.
    table.table_files.fs.delete(path)
    assert remove_orphans(table, grace_ms=None).files_condemned == 1
    assert_only_reachable_files(table)


def test_users_and_values_of_any_kind_are_kept(catalog: Catalog) -> None:
    """A user's name may be a path's; overwritten partitions are of any type."""
    columns = {
        "i": "BIGINT",
        "d": "DATE",
        "n": "DECIMAL(10, 2)",
        "s": "STRING",
        "b": "BOOLEAN",
        "t": "TIMESTAMP(6)",
    }
    spec = SchemaSpec(
        columns=(
            *(Column(name, parse_data_type(kind)) for name, kind in columns.items()),
            Column("v", parse_data_type("INT")),
        ),
        partition_keys=tuple(columns),
    )
    made = catalog.create_table("db.wide", spec)
    fixed = {
        "i": -5,
        "d": dt.date(2024, 2, 29),
        "n": Decimal("1.20"),
        "s": "a/b=c",
        "b": True,
        "t": dt.datetime(2024, 1, 1, 0, 0, 0, 1),
    }
    for number in (1, 2):
        kept = made.keep_pending(
            made.stage(
                pa.table({"v": pa.array([number], pa.int32())}),
                mode="overwrite",
                partition=fixed,
                commit_user="../job %",
                commit_identifier=number,
            )
        )
        assert made.pending_batches("../job %")[-1] == kept
    made.commit_pending("../job %")
    assert made.read().to_pylist() == [{**fixed, "v": 2}]
    expire(made)
    assert_only_reachable_files(made)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), -0.0])
@pytest.mark.parametrize("bare", [False, True])
def test_an_overwrite_of_a_partition_that_is_no_finite_number_is_committed(
    catalog: Catalog, value: float, *, bare: bool
) -> None:
    table = new_table(catalog, {"id": "INT", "p": "DOUBLE"}, partitions=["p"])
    for number in (1, 2):
        one = table.stage(
            rows(table, [{"id": number, "p": value}]),
            mode="overwrite",
            partition={"p": value},
            commit_user="job",
            commit_identifier=number,
        )
        table.keep_pending(one)
    if bare:
        for path in table.table_files.pending.files("job"):
            # A batch of before has no checksum either.
            old = {**json.loads(Path(path).read_bytes()), "version": 1}
            del old["crc32"]
            kept = json.dumps(old).encode()
            for name, text in {"nan": b"NaN", "inf": b"Infinity", "-inf": b"-Infinity"}.items():
                kept = kept.replace(b'{"float": "%s"}' % name.encode(), text)
            Path(path).write_bytes(kept)
    assert [each.commit_identifier for each in table.pending_batches("job")] == [1, 2]
    remove_orphans(table, grace_ms=None)
    table.commit_pending("job")
    assert values_of(table, "id") == [2]
