"""What a rewrite must find as it left it: its files, their deletions, its bucket's index."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakewright.storage.operations.commit.commit_conflicts import still_applies
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.index import (
    DELETION_VECTORS_INDEX,
    HASH_INDEX,
    DeletionVectorRange,
    IndexEntry,
    IndexFileMeta,
)
from lakewright.storage.spec.manifest import DataFileMeta

HERE, ELSEWHERE = b"partition-a", b"partition-b"


def data(name: str, level: int = 0) -> DataFileMeta:
    return DataFileMeta(
        file_name=name,
        file_size=100,
        row_count=10,
        min_sequence_number=0,
        max_sequence_number=9,
        schema_id=0,
        level=level,
    )


def vectors(name: str, **deleted: int) -> IndexFileMeta:
    """An index file that says of each data file how many rows are gone."""
    ranges = tuple(
        DeletionVectorRange(data_file=file, offset=1, length=24, cardinality=rows)
        for file, rows in deleted.items()
    )
    return IndexFileMeta(
        index_type=DELETION_VECTORS_INDEX,
        file_name=name,
        file_size=30,
        row_count=len(ranges),
        deletion_vectors=ranges,
    )


def hashes(name: str) -> IndexFileMeta:
    return IndexFileMeta(index_type=HASH_INDEX, file_name=name, file_size=8, row_count=2)


def listed(file: IndexFileMeta, partition: bytes = HERE, bucket: int = 0) -> IndexEntry:
    return IndexEntry(partition=partition, bucket=bucket, file=file)


def rewrite(**changes: tuple[DataFileMeta | IndexFileMeta, ...]) -> CommitMessage:
    """A rewrite of files a and b, which become c."""
    message = CommitMessage(
        partition=HERE,
        bucket=0,
        total_buckets=2,
        compact_before=(data("a"), data("b")),
        compact_after=(data("c", level=5),),
    )
    return replace(message, **changes)


def applies(message: CommitMessage, *indexes: IndexEntry, beside: str = "") -> bool:
    """Whether it does where its files are live, `beside` too, and these indexes are listed."""
    files = (*message.compact_before, *([data(beside)] if beside else []))
    return still_applies(message, {each.identity for each in message.entries(files)}, indexes)


def test_a_rewrite_applies_while_its_files_are_live_as_they_were_read() -> None:
    message = rewrite()
    assert applies(message)
    live = {each.identity for each in message.entries(message.compact_before)}
    assert not still_applies(message, live - {message.entries([data("b")])[0].identity}, [])
    # A file that moved to another level meanwhile is another to the process that replaces it.
    moved = {each.identity for each in message.entries([data("a"), data("b", level=5)])}
    assert not still_applies(message, moved, [])


def test_rows_deleted_meanwhile_do_not_come_back_by_a_rewrite() -> None:
    assert not applies(rewrite(), listed(vectors("v", a=3)))
    # Nor do those deleted in addition to what the rewrite left out.
    read = vectors("v", a=3)
    message = rewrite(removed_indexes=(read,))
    assert applies(message, listed(read))
    assert not applies(message, listed(read), listed(vectors("w", b=1)))


def test_a_rewrite_may_leave_out_only_rows_that_are_deleted() -> None:
    assert not applies(rewrite(removed_indexes=(vectors("v", a=3),)))


@pytest.mark.parametrize(
    "other",
    [
        listed(vectors("v", a=3), bucket=1),
        listed(vectors("v", a=3), partition=ELSEWHERE),
        listed(vectors("v", z=3)),
        listed(hashes("h")),
    ],
    ids=["bucket", "partition", "file", "index"],
)
def test_deletions_of_another_bucket_partition_or_file_do_not_matter(other: IndexEntry) -> None:
    assert applies(rewrite(), other)


def test_a_file_that_only_moves_keeps_its_deletions() -> None:
    message = rewrite(compact_before=(data("a"),), compact_after=(data("a", level=5),))
    assert applies(message, listed(vectors("v", a=3)))


def test_deletions_are_written_only_for_files_that_are_there() -> None:
    marking = rewrite(
        compact_before=(), compact_after=(), new_indexes=(vectors("v", z=3), hashes("h"))
    )
    assert applies(marking, beside="z")
    assert not applies(marking, beside="y")
    # A file of that name in another bucket or partition is another.
    for place in ({"bucket": 1}, {"partition": ELSEWHERE}):
        other = replace(marking, **place).entries([data("z")])
        assert not still_applies(marking, {each.identity for each in other}, [])
    # What the rewrite itself writes is there when it is committed.
    assert applies(rewrite(new_indexes=(vectors("v", c=1),)))
    assert not applies(rewrite(new_indexes=(vectors("v", c=1, z=1),)))


def test_an_index_is_replaced_only_by_whom_has_read_it() -> None:
    old, new = hashes("old"), hashes("new")
    message = rewrite(new_indexes=(new,), removed_indexes=(old,))
    assert applies(message, listed(old))
    assert applies(message, listed(old), listed(hashes("other"), bucket=1))
    assert not applies(message, listed(hashes("another")))
    assert not applies(message)
    # Two of a kind in one bucket would be one too many.
    assert not applies(rewrite(new_indexes=(new,)), listed(old))
    assert applies(rewrite(new_indexes=(new,)), listed(vectors("v", z=1)))
