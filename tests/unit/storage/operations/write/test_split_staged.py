"""Staged writes that are split by partition: one part is published, the other leaves no trace."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from lakewright.storage import Catalog
from lakewright.storage.operations.commit.commits_of_user import (
    commits_of_user,
    partitions_of_commit,
)
from lakewright.storage.operations.write.split_staged import split_staged
from tests.support.tables.builders import new_table, rows
from tests.support.tables.invariants import assert_only_reachable_files

KEYED = ["day", "id"]


@pytest.mark.parametrize(
    ("keys", "options"),
    [
        ([], {}),
        (KEYED, {"bucket": "2", "changelog-producer": "input"}),
        (KEYED, {"bucket": "-1", "dynamic-bucket.target-row-num": "3"}),
        (KEYED, {"bucket": "-2"}),
    ],
    ids=["append", "changelog", "dynamic buckets", "postponed"],
)
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_the_part_in_some_partitions_is_published_and_the_other_is_gone(
    catalog: Catalog, keys: list[str], options: Mapping[str, str], mode: str
) -> None:
    table = new_table(catalog, partitions=["day"], keys=keys, options=dict(options))
    held = [{"day": day, "id": 1} for day in ("a", "b")]
    table.write(rows(table, held))
    given = [{"day": day, "id": number} for day in ("a", "b", "c") for number in range(2, 9)]
    staged = table.stage(rows(table, given), mode=mode, commit_user="run", commit_identifier=7)

    wanted, others = split_staged(table.table_files, staged, lambda spec: spec["day"] != "b")
    assert sorted(each.spec["day"] for each in wanted.partitions) == ["a", "c"]
    assert [each.spec["day"] for each in others.partitions] == ["b"]
    assert wanted.row_count + others.row_count == staged.row_count
    table.commit(wanted)
    assert table.abort(others)

    assert_only_reachable_files(table)
    (commit,) = commits_of_user(table.table_files, "run")
    changed = partitions_of_commit(table.table_files, commit)
    assert {each.spec["day"] for each in changed} == {"a", "c"}
    if options.get("bucket") != "-2":
        # Rows without a bucket are seen by no reader before a compaction.
        days = [row["day"] for row in table.read().to_pylist()]
        kept = 7 if mode == "overwrite" else 8
        assert [days.count(day) for day in ("a", "b", "c")] == [kept, 1, 7]
