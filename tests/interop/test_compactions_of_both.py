"""What our compactions leave, other clients read; what they tell, a follower of Java hears."""

from __future__ import annotations

import base64
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lakewright.storage import Catalog, Table
from tests.oracles.client import JavaOracle, Oracle
from tests.support.tables.builders import compact, content, new_table, rows

COLUMNS = {"id": "BIGINT", "v": "STRING"}
Row = dict[str, Any]

SETTINGS: dict[str, dict[str, str]] = {
    "plain": {},
    "told in full": {"changelog-producer": "full-compaction"},
    "told by lookup": {"changelog-producer": "lookup"},
    "vectors": {"deletion-vectors.enabled": "true"},
    "vectors, told": {"deletion-vectors.enabled": "true", "changelog-producer": "lookup"},
}


def change(table: Table, rng: random.Random, step: int) -> None:
    ids = rng.sample(range(30), rng.randint(1, 12))
    kinds = ["-D" if rng.random() < 0.3 else "+I" for _ in ids]
    table.write(rows(table, [{"id": each, "v": f"{step}-{each}"} for each in ids], kinds))


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
@pytest.mark.mission("FS7", "FS12")
@pytest.mark.sampled(1)
def test_others_read_what_any_compaction_of_ours_leaves(
    catalog: Catalog,
    java: JavaOracle,
    rust: Oracle,
    released_pypaimon: Oracle,
    settings: dict[str, str],
) -> None:
    rng = random.Random(str(settings))
    options = {
        "bucket": "1",
        "num-sorted-run.compaction-trigger": "3",
        "target-file-size": "1 kb",
        **settings,
    }
    table = new_table(catalog, COLUMNS, keys=["id"], options=options)
    table.write(rows(table, [{"id": each, "v": "old"} for each in range(1000)]))
    compact(table, full=True)
    seen = set()
    for step in range(12):
        change(table, rng, step)
        if step % 2 == 1:
            compact(table, full=step == 7)
            seen |= {entry.file.level for entry in table.at().files()}
        if step % 4 == 0:
            continue
        for reader in (java, rust, released_pypaimon):
            theirs = reader.read(catalog.root, table.name)
            assert sorted(json.dumps(row, sort_keys=True) for row in theirs) == content(table)
    assert len(seen - {0}) > 1


FULL = {"changelog-producer": "full-compaction"}
LOOKUP = {"changelog-producer": "lookup"}
SUM = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}
TOLD: dict[str, dict[str, str]] = {
    "in full": FULL,
    "in full, changes only": {**FULL, "changelog-producer.row-deduplicate": "true"},
    "by lookup": LOOKUP,
    "by lookup, changes only": {**LOOKUP, "changelog-producer.row-deduplicate": "true"},
    "sums in full": {**SUM, **FULL},
    "sums by lookup": {**SUM, **LOOKUP},
    "partial by lookup": {"merge-engine": "partial-update", **LOOKUP},
    "first by lookup": {"merge-engine": "first-row", **LOOKUP},
    "latest by lookup": {"sequence.field": "n", **LOOKUP},
}


@pytest.mark.parametrize("settings", TOLD.values(), ids=TOLD.keys())
@pytest.mark.mission("FS2", "FS7")
@pytest.mark.sampled(1)
def test_a_follower_hears_what_our_compactions_tell(
    catalog: Catalog, java: JavaOracle, settings: dict[str, str]
) -> None:
    """Both of us take a table of our own through the same history."""
    rng = random.Random(str(settings))
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "3", **settings}
    columns = {**COLUMNS, "n": "BIGINT"}
    table = new_table(catalog, columns, keys=["id"], options=options)
    java.create(
        catalog.root,
        "db.twin",
        {"id": "BIGINT NOT NULL", "v": "STRING", "n": "BIGINT"},
        primary_keys=["id"],
        options={**options, "write-only": "true"},
    )
    # With a sequence field, how long a deletion counts depends on the level it has reached.
    inserts_only = "merge-engine" in settings or "sequence.field" in settings
    latest = None
    for step in range(7):
        ids = rng.sample(range(12), rng.randint(1, 8)) if step else list(range(6, 300))
        values = [
            {"id": each, "v": rng.choice([None, "a", "b"]), "n": rng.randrange(5)} for each in ids
        ]
        kinds = ["+I" if inserts_only or rng.random() < 0.7 else "-D" for _ in ids]
        table.write(rows(table, values, kinds))
        java.write(catalog.root, "db.twin", values, kinds=kinds)
        # A lookup tells of every row of level 0, whatever level it goes to.
        full = step == 0 or settings["changelog-producer"] == "full-compaction"
        compact(table, full=full)
        latest = java.compact(catalog.root, "db.twin", full=full)
    snapshot = table.history.latest_snapshot()
    assert snapshot is not None
    assert latest is not None
    ours = java.changes(catalog.root, table.name, 1, snapshot.id)
    theirs = java.changes(catalog.root, "db.twin", 1, latest)
    assert ours == theirs
    assert len(ours) > 200


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
@pytest.mark.mission("FS7", "FS12")
@pytest.mark.sampled(1)
def test_a_table_is_compacted_by_both_in_turn(
    catalog: Catalog, java: JavaOracle, settings: dict[str, str]
) -> None:
    """What one leaves at some level, with deletion vectors, the other goes on from."""
    rng = random.Random(f"turns {settings}")
    options = {
        "bucket": "1",
        "num-sorted-run.compaction-trigger": "3",
        "target-file-size": "1 kb",
        "write-only": "true",
        **settings,
    }
    table = new_table(catalog, COLUMNS, keys=["id"], options=options)
    expected = dict.fromkeys(range(500), "old")
    table.write(rows(table, [{"id": each, "v": "old"} for each in expected]))
    compact(table, full=True)
    for step in range(10):
        ids = rng.sample(range(30), rng.randint(1, 12))
        kinds = ["-D" if rng.random() < 0.3 else "+I" for _ in ids]
        values = [{"id": each, "v": f"{step}-{each}"} for each in ids]
        for row, kind in zip(values, kinds, strict=True):
            expected.pop(row["id"], None)
            if kind == "+I":
                expected[row["id"]] = str(row["v"])
        if rng.random() < 0.5:
            table.write(rows(table, values, kinds))
        else:
            java.write(catalog.root, table.name, values, kinds=kinds)
        if step % 2:
            continue
        if step % 4:
            java.compact(catalog.root, table.name, full=step == 6)
        else:
            compact(table, full=step == 8)
        theirs = java.read(catalog.root, table.name)
        assert {row["id"]: row["v"] for row in theirs} == expected
        read = table.read().to_pylist()
        assert {row["id"]: row["v"] for row in read} == expected
        assert len(read) == len(theirs) == len(expected)


@pytest.mark.parametrize(
    "settings", [{}, {"deletion-vectors.enabled": "true"}], ids=["plain", "vectors"]
)
@pytest.mark.mission("FS12")
@pytest.mark.sampled(1)
def test_we_pick_what_java_picks(
    catalog: Catalog, java: JavaOracle, settings: dict[str, str]
) -> None:
    """Of the same files, copied before each compaction, both merge the same runs."""
    rng = random.Random(f"picks {settings}")
    options = {
        "bucket": "1",
        "num-sorted-run.compaction-trigger": "3",
        "num-levels": "6",
        "write-only": "true",
        **settings,
    }
    table = new_table(catalog, COLUMNS, keys=["id"], options=options)
    picked = 0
    for step in range(20):
        count = rng.choice([1, 3, 10, 30, 100, 300, 1000, 3000])
        first = rng.randrange(5000)
        values = [{"id": each, "v": f"{step}-{each}"} for each in range(first, first + count)]
        table.write(rows(table, values))
        # A table of its own, so that Java sees the very same files.
        copy = f"db.copy{step}"
        root = Path(table.table_files.paths.root)
        shutil.copytree(root, root.with_name(f"copy{step}"))
        java.compact(catalog.root, copy, full=False)
        picked += compact(table).snapshot is not None
        assert shape(catalog.table(copy)) == shape(table), f"step {step}"
        shutil.rmtree(root.with_name(f"copy{step}"))
    assert 5 < picked < 20 or settings


def shape(table: Table) -> list[tuple[int, int, int | None]]:
    """Level, rows and deletions of each file."""
    files = [entry.file for entry in table.at().files()]
    return sorted((file.level, file.row_count, file.delete_row_count) for file in files)


@pytest.mark.mission("FS7")
def test_others_read_sorted_tables(
    catalog: Catalog, java: JavaOracle, rust: Oracle, released_pypaimon: Oracle
) -> None:
    table = new_table(catalog, {**COLUMNS, "p": "STRING"}, partitions=["p"])
    for first in (50, 0, 100):
        values = [
            {"id": each, "v": f"v{each * 7919 % 997}", "p": "a" if each % 2 else "b"}
            for each in range(first, first + 50)
        ]
        table.write(rows(table, values))
    table.upkeep.run(table.upkeep.plan_sort_compact(["v", "id"], order="zorder"))
    table.write(rows(table, [{"id": 1000, "v": "later", "p": "a"}]))
    for reader in (java, rust, released_pypaimon):
        theirs = reader.read(catalog.root, table.name)
        assert sorted(json.dumps(row, sort_keys=True) for row in theirs) == content(table)
    java.compact(catalog.root, table.name)
    assert table.read().num_rows == 151


@pytest.mark.mission("FS7")
@pytest.mark.sampled(1)
@pytest.mark.parametrize("writer", ["ours", "java", "java_latest"])
def test_row_groups_that_we_copy_are_read_by_all(
    catalog: Catalog,
    java: JavaOracle,
    java_latest: JavaOracle,
    rust: Oracle,
    released_pypaimon: Oracle,
    writer: str,
) -> None:
    rng = random.Random(writer)
    table = new_table(catalog, {"id": "INT", "v": "STRING"}, options={"file.format": "parquet"})
    for first in (0, 1_200):
        # Large enough that a row group is worth copying.
        some = [
            {"id": number, "v": base64.b85encode(rng.randbytes(4_000)).decode()}
            for number in range(first, first + 1_200)
        ]
        if writer == "ours":
            table.write(rows(table, some))
        else:
            {"java": java, "java_latest": java_latest}[writer].write(catalog.root, "db.t", some)
    before = content(table)
    assert compact(table, full=True).files_after == 1
    (entry,) = table.at().files()
    path = table.table_files.data_file_path(entry.place, entry.file)
    metadata = pq.read_metadata(path)
    assert [metadata.row_group(each).num_rows for each in range(metadata.num_row_groups)] == [
        1_200,
        1_200,
    ]
    assert ("parquet-mr" in metadata.created_by) == (writer != "ours")
    assert content(table) == before
    # pypaimon reads no manifest of Java 0.9.
    readers = [java, java_latest, rust, *([] if writer == "java" else [released_pypaimon])]
    for reader in readers:
        theirs = reader.read(catalog.root, table.name)
        assert sorted(json.dumps(row, sort_keys=True) for row in theirs) == before
        later = reader.read(catalog.root, table.name, where=[("id", ">=", 2_300)])
        assert sorted(row["id"] for row in later if row["id"] >= 2_300) == list(range(2_300, 2_400))
