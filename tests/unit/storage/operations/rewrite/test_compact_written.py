"""Writers that compact as they go."""

from __future__ import annotations

import pytest

from lakewright.storage import Catalog, LocalEngine, Table
from lakewright.storage.errors import InvalidRequestError, StorageError
from lakewright.storage.spec.snapshot import CommitKind
from tests.support.stores.watched_files import Fault, watched
from tests.support.tables.builders import content, events, new_table, rows


def table_with_small_files(catalog: Catalog) -> Table:
    table = new_table(
        catalog, partitions=("day",), options={"bucket": "-1", "compaction.min.file-num": "3"}
    )
    for _ in range(2):
        table.write(rows(table, [*events(0, 2, day="a"), *events(0, 2, day="b")]))
    return table


@pytest.mark.mission("FS11")
def test_a_writer_compacts_what_is_due_in_the_partitions_it_wrote_to(catalog: Catalog) -> None:
    table = table_with_small_files(catalog)
    asked_nothing = table.write(rows(table, events(9, 10, day="b")))
    assert asked_nothing.compaction is None

    result = table.write(rows(table, events(2, 3, day="a")), compact=True)

    assert result.compaction is not None
    assert result.compaction.result is not None
    assert (result.compaction.result.files_before, result.compaction.result.files_after) == (3, 1)
    kinds = [snapshot.commit_kind for snapshot in table.history.snapshots()]
    assert kinds[-2:] == [CommitKind.APPEND, CommitKind.COMPACT]
    files = {str(stats.spec["day"]): stats.file_count for stats in table.at().partitions()}
    assert files == {"a": 1, "b": 3}


@pytest.mark.mission("FS11")
def test_a_writer_with_a_key_compacts_once_there_are_enough_runs(catalog: Catalog) -> None:
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "3"}
    table = new_table(catalog, keys=("id",), options=options)
    came = []
    for number in range(6):
        written = table.write(rows(table, events(0, 4, v=str(number))), compact=True)
        assert written.compaction is not None
        came.append(written.compaction.result is not None)
    assert any(came)
    assert not all(came)
    assert len(table.at().files()) < 6
    assert {row["v"][0] for row in table.read().to_pylist()} == {"5"}


def test_a_table_that_leaves_compaction_to_others_says_so_before_anything_is_written(
    catalog: Catalog,
) -> None:
    table = new_table(catalog, options={"bucket": "-1", "write-only": "true"})
    with pytest.raises(InvalidRequestError, match="write-only=true"):
        table.write(rows(table, events(0, 2)), compact=True)
    assert table.history.latest_snapshot() is None


def test_rows_stay_published_when_their_compaction_fails(catalog: Catalog) -> None:
    table = table_with_small_files(catalog)
    new = rows(table, events(2, 3, day="a"))
    commits = 0

    def of_the_compaction(call: object) -> bool:
        nonlocal commits
        commits += getattr(call, "name", "") == "put_if_absent"
        return commits > 0 and getattr(call, "name", "") == "open_output"

    broken, _ = watched(table, fail_at=1, fault=Fault.FAILS_BEFORE, counts=of_the_compaction)
    result = broken.write(new, compact=True)

    assert result.snapshot is not None
    assert result.compaction is not None
    assert isinstance(result.compaction.failure, StorageError)
    assert len(content(table)) == 9


def test_no_failure_of_an_engine_looks_like_a_write_that_failed(catalog: Catalog) -> None:
    class Lost(LocalEngine):
        """An executor that went away."""

        def map(self, *_: object) -> list[object]:  # type: ignore[override]
            raise RuntimeError("executor lost")

    table = table_with_small_files(catalog)
    table.write(rows(table, events(2, 3, day="a")))
    came = table.upkeep.compact_written([{"day": "a"}], lambda _: Lost(env=table.table_files.env))
    assert isinstance(came.failure, RuntimeError)
    assert len(content(table)) == 9


def test_postponed_rows_of_a_writer_that_compacts_are_seen_at_once(catalog: Catalog) -> None:
    table = new_table(
        catalog,
        partitions=["day"],
        keys=["day", "id"],
        options={"bucket": "-2", "postpone.default-bucket-num": "2"},
    )
    table.write(rows(table, events(0, 3, day="b")))
    result = table.write(rows(table, events(0, 5, day="a")), compact=True)
    assert result.compaction is not None
    assert result.compaction.failure is None
    assert result.compaction.postponed is not None
    assert result.compaction.postponed.rows_before == 5
    assert {row["day"] for row in table.read().to_pylist()} == {"a"}
    assert len(content(table)) == 5
