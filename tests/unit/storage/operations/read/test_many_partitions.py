"""A filter on one of very many partitions costs the metadata of few, and lists no folder."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.spec.commit import CommitMessage
from tests.support.stores.watched_files import WatchedFiles, watched
from tests.support.tables.builders import new_table, with_options

_PARTITIONS = 1_000


@pytest.fixture
def wide(unchecked_catalog: Catalog) -> Table:
    """A table whose one commit wrote a file to each of its partitions, in random order."""
    table = new_table(
        unchecked_catalog,
        {"id": "BIGINT", "part": "INT"},
        partitions=["part"],
        options={"manifest.target-file-size": "16 kb", "metadata.stats-mode": "none"},
    )
    staged = table.stage(pa.table({"id": [1], "part": pa.array([0], pa.int32())}))
    numbers = list(range(_PARTITIONS))
    Random(5).shuffle(numbers)
    messages = [_linked(table, staged.messages[0], number) for number in numbers]
    table.commit(replace(staged, messages=tuple(messages)))
    table.abort(staged)
    return table


def _linked(table: Table, message: CommitMessage, number: int) -> CommitMessage:
    """The message for another partition, whose file is the same one under another name."""
    inside, (file,) = table.table_files, message.new_files
    row = inside.partitions.of_values([number]).row
    named = replace(file, file_name=f"data-{Random(number).getrandbits(128):x}-{number}.parquet")
    moved = replace(message, partition=row, new_files=(named,))
    path = Path(inside.data_file_path(moved.place, named))
    path.parent.mkdir(parents=True, exist_ok=True)
    os.link(inside.data_file_path(message.place, file), path)
    return moved


def _cost(files: WatchedFiles) -> tuple[int, int]:
    """The files that were opened, and their bytes; asserts that no folder was listed."""
    assert not [call for call in files.calls if call.name.startswith("list_")]
    opened = [call.path for call in files.calls if call.name in ("read_bytes", "open_input")]
    return len(opened), sum(Path(path).stat().st_size for path in opened)


@pytest.mark.mission("PT23", "PT40", "PT41")
def test_a_filter_on_one_partition_opens_its_manifest_alone(wide: Table) -> None:
    costs = []
    for where in ("part = 77", None):
        table, files = watched(wide)
        plan = table.scan(where).plan
        assert plan.files_read == (1 if where else _PARTITIONS)
        assert where is None or (plan.manifests_read, plan.manifests_total > 5) == (1, True)
        costs.append(_cost(files))
    (opened, read), (_, all_bytes) = costs
    # The latest snapshot, its two lists and one manifest; and a pointer to the snapshot.
    assert opened == 5
    assert read < all_bytes / 4
    # Listing the partition costs the same.
    table, files = watched(wide)
    (found,) = table.at().partitions("part = 77")
    assert (found.row_count, _cost(files)[0]) == (1, 5)


def test_a_manifest_that_is_too_large_is_divided_by_a_rewrite(wide: Table) -> None:
    for target, most in (("1 mb", 1), ("4 kb", 100)):
        table = with_options(wide, manifest__target_file_size=target)
        table.upkeep.run(table.upkeep.plan_rewrite_manifests())
        plan = table.scan("part = 77").plan
        assert plan.manifests_total <= most
        assert (plan.manifests_read, plan.files_read) == (1, 1)
    assert plan.manifests_total > 5
    assert not table.upkeep.plan_rewrite_manifests().manifests
