"""Compaction: what is worth it, what it leaves, and what it does when others were faster."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import (
    CorruptionError,
    InvalidRequestError,
    StalePlan,
    VerificationFailed,
)
from lakewright.storage.operations.commit.commit import commit_compaction
from lakewright.storage.operations.read.file_rows import FileRows
from lakewright.storage.operations.rewrite.compaction_plan import CompactionPlan
from lakewright.storage.operations.rewrite.pick_units import pick_append
from lakewright.storage.operations.state.live_files import index_entries
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.manifest import FileSource
from lakewright.storage.spec.snapshot import CommitKind
from tests.support.stores.watched_files import watched
from tests.support.tables.builders import (
    compact,
    content,
    events,
    expire,
    new_table,
    rows,
    values_of,
)
from tests.support.tables.invariants import assert_only_reachable_files
from tests.support.tables.meddling import Meddling


def small_appends(table: Table, count: int, day: str = "a") -> None:
    for number in range(count):
        table.write(rows(table, events(number, number + 1, day=day)))


@pytest.mark.mission("FS7")
def test_small_files_of_an_append_table_become_one(any_catalog: Catalog) -> None:
    table = new_table(any_catalog, partitions=["day"])
    small_appends(table, 6)
    small_appends(table, 2, day="b")
    before = content(table)
    result = compact(table)
    assert (result.files_before, result.files_after) == (6, 1)
    assert (result.rows_before, result.rows_after) == (6, 6)
    assert len(result.file_sizes_before) == 6
    assert sum(result.file_sizes_after) == result.bytes_after < result.bytes_before
    assert result.snapshot is not None
    assert result.snapshot.commit_kind is CommitKind.COMPACT
    assert result.snapshot.total_record_count == 8
    assert result.snapshot.delta_record_count == 0
    assert content(table) == before
    sources = {entry.file.file_source for entry in table.at().files() if entry.file.row_count == 6}
    assert sources == {FileSource.COMPACT}


def test_a_second_compaction_finds_nothing_to_do(catalog: Catalog) -> None:
    for name, settings in (
        ("db.append", {"partitions": ["day"]}),
        ("db.buckets", {"options": {"bucket": "2", "bucket-key": "id"}}),
        ("db.keyed", {"keys": ["id"], "options": {"bucket": "2"}}),
    ):
        table = new_table(catalog, name=name, **settings)  # type: ignore[arg-type]
        small_appends(table, 8)
        assert compact(table, full=True).snapshot is not None
        plan = table.upkeep.plan_compact(full=True)
        assert plan.tasks == ()
        assert plan.skipped
        watching, fs = watched(table)
        result = watching.upkeep.run(watching.upkeep.plan_compact(full=True))
        assert (result.snapshot, result.files_before) == (None, 0)
        assert fs.changes == []


@pytest.mark.parametrize("how", [{"full": True}, {"min_files": 2}], ids=str)
@pytest.mark.sampled(1)
def test_files_that_shrink_when_joined_are_joined_at_once(
    catalog: Catalog, how: dict[str, Any]
) -> None:
    table = new_table(catalog, options={"target-file-size": "32 kb"})
    small_appends(table, 120)
    plan = table.upkeep.plan_compact(**how)
    # They weigh five times the target, and are a twentieth of it once they are one file.
    assert plan.bytes_before > 4 * 32_768
    result = table.upkeep.run(plan)
    assert [size < 3_000 for size in result.file_sizes_after] == [True]
    assert table.upkeep.plan_compact(**how).tasks == ()


@pytest.mark.parametrize("file_format", ["parquet", "avro"])
def test_groups_of_files_leave_no_small_files_behind(catalog: Catalog, file_format: str) -> None:
    table = new_table(catalog, options={"target-file-size": "128 kb", "file.format": file_format})
    texts = np.random.default_rng(7)
    for number in range(20):
        values = ({"id": each, "v": texts.bytes(900).hex()} for each in range(number, number + 20))
        table.write(rows(table, values))
    plan = table.upkeep.plan_compact(full=True)
    assert len(plan.tasks) > 1
    result = table.upkeep.run(plan)
    shares = [size / 131_072 for size in result.file_sizes_after]
    assert 0.7 <= min(shares) <= max(shares) <= 2
    assert table.upkeep.plan_compact(full=True).tasks == ()


def test_hundreds_of_tiny_files_become_one_at_once(catalog: Catalog) -> None:
    table = new_table(catalog, options={"target-file-size": "128 mb"})
    for at in range(150):
        table.write(rows(table, events(at, at + 1)))
    compact(table)
    assert len(table.at().files()) == 1
    assert not table.upkeep.plan_compact().tasks


def test_a_plan_says_what_why_and_how_much(catalog: Catalog) -> None:
    table = new_table(catalog, partitions=["day"])
    small_appends(table, 6)
    small_appends(table, 2, day="b")
    plan = table.upkeep.plan_compact()
    (task,) = plan.tasks
    assert task.partition == {"day": "a"}
    assert (len(task.files), task.rows, plan.files_before, plan.rows) == (6, 6, 6, 6)
    assert plan.bytes_before == sum(
        entry.file.file_size for entry in table.at().files() if entry.file.file_name in task.files
    )
    assert "6 small files of 6 become 1" in task.reason
    (skipped,) = plan.skipped
    assert (skipped.partition, skipped.files) == ({"day": "b"}, 2)
    assert "fewer than 5" in skipped.reason
    assert plan.snapshot_id == 8


def test_partitions_and_buckets_are_chosen_by_the_caller(catalog: Catalog) -> None:
    columns = {"id": "INT", "day": "DATE", "hour": "INT"}
    table = new_table(
        catalog, columns, partitions=["day", "hour"], options={"bucket": "2", "bucket-key": "id"}
    )
    days = [dt.date(2024, 1, 1), dt.date(2024, 1, 2)]
    for _ in range(2):
        table.write(
            rows(
                table,
                [{"id": n, "day": d, "hour": h} for n in range(8) for d in days for h in (1, 2)],
            )
        )

    def chosen(*args: Any, **kwargs: Any) -> set[tuple[object, object, int]]:
        plan = table.upkeep.plan_compact(*args, full=True, **kwargs)
        return {(t.partition["day"], t.partition["hour"], t.bucket) for t in plan.tasks}

    assert len(chosen()) == 8
    assert chosen([{"day": "2024-01-01"}]) == {(days[0], h, b) for h in (1, 2) for b in (0, 1)}
    assert chosen([{"hour": 2}, {"day": days[1]}], [1]) == {
        (days[0], 2, 1),
        (days[1], 1, 1),
        (days[1], 2, 1),
    }
    assert chosen([]) == set()
    with pytest.raises(InvalidRequestError, match="its partition keys are day, hour"):
        table.upkeep.plan_compact([{"id": 1}])
    with pytest.raises(InvalidRequestError, match="at least 2"):
        table.upkeep.plan_compact(min_files=1)


@pytest.mark.mission("FS7", "FS12")
def test_keyed_buckets_are_merged_into_the_top_level_without_deletions(
    any_catalog: Catalog,
) -> None:
    table = new_table(any_catalog, keys=["id"], options={"bucket": "1"})
    table.write(rows(table, events(0, 6)))
    table.write(rows(table, events(2, 4, v="new")))
    table.write(rows(table, events(4, 6), ["-D"] * 2))
    before = content(table)
    assert table.upkeep.plan_compact().tasks == ()
    assert "3 sorted runs, fewer than 5" in table.upkeep.plan_compact().skipped[0].reason
    result = compact(table, min_files=3)
    assert (result.rows_before, result.rows_after) == (10, 4)
    (entry,) = table.at().files()
    assert (entry.file.level, entry.file.row_count, entry.file.delete_row_count) == (5, 4, 0)
    assert content(table) == before
    assert not table.scan().plan.splits[0].merge


def test_a_bucket_whose_keys_were_all_deleted_is_left_empty(catalog: Catalog) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "1"})
    table.write(rows(table, events(0, 3)))
    table.write(rows(table, events(0, 3), ["-D"] * 3))
    result = compact(table, full=True)
    assert (result.files_after, result.rows_after) == (0, 0)
    assert table.at().files() == ()
    assert table.read().num_rows == 0
    table.write(rows(table, events(0, 1)))
    assert values_of(table, "id") == [0]
    expire(table)


def test_enough_sorted_runs_are_a_reason_by_themselves(catalog: Catalog) -> None:
    table = new_table(
        catalog, keys=["id"], options={"bucket": "1", "num-sorted-run.compaction-trigger": "2"}
    )
    table.write(rows(table, events(0, 3)))
    assert table.upkeep.plan_compact().tasks == ()
    table.write(rows(table, events(0, 3)))
    (task,) = table.upkeep.plan_compact().tasks
    assert task.reason == "2 sorted runs of 2 into level 2, of about one size"
    assert task.output_level == 2


def test_rows_of_a_bucketed_append_table_keep_their_order(catalog: Catalog) -> None:
    table = new_table(
        catalog, {"id": "INT", "k": "INT"}, options={"bucket": "1", "bucket-key": "k"}
    )
    for number in range(6):
        table.write(rows(table, [{"id": number, "k": 0}]))
    compact(table)
    table.write(rows(table, [{"id": 6, "k": 0}]))
    assert table.read().column("id").to_pylist() == list(range(7))


def test_a_large_file_is_left_alone(catalog: Catalog) -> None:
    table = new_table(catalog, options={"target-file-size": "3 kb"})
    table.write(rows(table, events(0, 3)))
    table.write(rows(table, [{"id": n, "v": f"{n * 7919:040d}"} for n in range(300)]))
    large = {e.file.file_name for e in table.at().files() if e.file.file_size > 2150}
    table.write(rows(table, events(3, 6)))
    assert large
    compact(table, full=True)
    assert large < {entry.file.file_name for entry in table.at().files()}
    assert table.read().num_rows == 306


# --- plans travel -------------------------------------------------------------------------------

PARTITION_VALUES: list[tuple[str, Any]] = [
    ("STRING", "a/b%c"),
    ("STRING", None),
    ("STRING", ""),
    ("INT", -5),
    ("BOOLEAN", True),
    ("DATE", dt.date(2024, 1, 2)),
    ("DECIMAL(30, 12)", Decimal("0.000000000001")),
    ("TIME", dt.time(1, 2, 3)),
    ("TIMESTAMP(3)", dt.datetime(2024, 1, 2, 3, 4, 5, 120000)),
    ("TIMESTAMP(6)", dt.datetime(2024, 1, 2, 3, 4, 5, 678901)),
    ("TIMESTAMP(9)", 1_704_164_645_678_901_234),
    ("TIMESTAMP(6) WITH LOCAL TIME ZONE", dt.datetime(2024, 1, 2, tzinfo=dt.UTC)),
    ("DOUBLE", 0.1),
    ("DOUBLE", float("nan")),
]


@pytest.mark.parametrize(
    ("type_name", "value"), PARTITION_VALUES, ids=[str(each) for each in PARTITION_VALUES]
)
def test_a_plan_read_back_from_json_is_carried_out(
    catalog: Catalog, type_name: str, value: Any
) -> None:
    table = new_table(catalog, {"id": "INT", "p": type_name}, partitions=["p"])
    for number in range(2):
        table.write(rows(table, [{"id": number, "p": value}]))
    plan = table.upkeep.plan_compact(full=True)
    text = plan.to_json()
    again = CompactionPlan.from_json(text)
    assert json.loads(again.to_json()) == json.loads(text)
    assert again.files_before == plan.files_before == 2
    result = table.upkeep.run(again)
    assert (result.files_before, result.files_after) == (2, 1)


@pytest.mark.parametrize(
    ("edit", "error", "message"),
    [
        ({"output_level": 99}, InvalidRequestError, "level 99, and .* levels 1 to 5"),
        ({"output_level": 0}, InvalidRequestError, "level 0, and .* levels 1 to 5"),
        ({"files": [0, 0, 2]}, InvalidRequestError, "replaces data file .* twice"),
        # The middle one of three: its row is newer than one of the merged, and older than another.
        ({"files": [0, 2]}, StalePlan, "changed all"),
    ],
)
def test_an_edited_plan_that_would_mix_up_rows_is_refused(
    catalog: Catalog, edit: dict[str, Any], error: type[Exception], message: str
) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "1"})
    small_appends(table, 3)
    before = content(table)
    data = json.loads(table.upkeep.plan_compact(full=True).to_json())
    (task,) = data["tasks"]
    if "files" in edit:
        edit = {name: [task[name][at] for at in edit["files"]] for name in ("files", "file_sizes")}
    data["tasks"] = [{**task, **edit}]
    with pytest.raises(error, match=message):
        table.upkeep.run(CompactionPlan.from_json(json.dumps(data)))
    assert content(table) == before
    assert_only_reachable_files(table)


def test_planning_changes_nothing(catalog: Catalog) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "2"})
    small_appends(table, 6)
    watching, fs = watched(table)
    watching.upkeep.plan_compact(full=True).to_json()
    watching.upkeep.plan_expire_snapshots(retain_min=1, time_retained_ms=0, grace_ms=0).to_json()
    assert fs.calls
    assert fs.changes == []


def test_a_plan_is_for_one_table(catalog: Catalog) -> None:
    first, second = new_table(catalog, name="db.a"), new_table(catalog, name="db.b")
    small_appends(first, 2)
    with pytest.raises(InvalidRequestError, match=r"the plan is for db\.a, and this is db\.b"):
        second.upkeep.run(first.upkeep.plan_compact(full=True))


# --- others were faster -------------------------------------------------------------------------


def test_a_plan_that_nothing_is_left_of_is_stale(catalog: Catalog) -> None:
    table = new_table(catalog)
    small_appends(table, 3)
    plan = table.upkeep.plan_compact(full=True)
    compact(table, full=True)
    with pytest.raises(
        StalePlan, match=r"other commits up to snapshot 4 changed all 3 files .*; plan again"
    ):
        table.upkeep.run(plan)
    assert_only_reachable_files(table)


@pytest.mark.parametrize("snapshots", [2, 3])
def test_a_plan_of_a_table_that_was_created_anew_since_is_stale(
    catalog: Catalog, snapshots: int
) -> None:
    table = new_table(catalog)
    small_appends(table, 3)
    plan = table.upkeep.plan_compact(full=True)
    catalog.drop_table("db.t")
    table = new_table(catalog)
    small_appends(table, snapshots)
    with pytest.raises(StalePlan, match=r"at snapshot 3, .*; plan again"):
        table.upkeep.run(plan)


def test_buckets_that_moved_on_are_left_out_and_the_rest_is_done(catalog: Catalog) -> None:
    table = new_table(catalog, partitions=["day"])
    small_appends(table, 2, day="a")
    small_appends(table, 2, day="b")
    plan = table.upkeep.plan_compact(full=True)
    table.write(rows(table, events(9, 10, day="a")), mode="overwrite")
    result = table.upkeep.run(plan)
    assert (result.dropped_tasks, result.files_before, result.files_after) == (1, 2, 1)
    assert values_of(table, "id") == [0, 1, 9]
    assert_only_reachable_files(table)


def test_rows_appended_since_the_plan_stay(catalog: Catalog) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "1"})
    table.write(rows(table, events(0, 3)))
    table.write(rows(table, events(0, 3, v="b")))
    plan = table.upkeep.plan_compact(full=True)
    table.write(rows(table, events(1, 2), ["-D"]))
    table.write(rows(table, events(2, 3, v="c")))
    table.upkeep.run(plan)
    assert values_of(table, "v") == ["b0", "c2"]


def test_a_compaction_that_would_lose_a_row_commits_nothing(unchecked_catalog: Catalog) -> None:
    """A data file whose manifest counts more rows than it has."""
    table = new_table(unchecked_catalog)
    small_appends(table, 3)
    before = content(table)
    paths = [
        Path(table.table_files.data_file_path(each.place, each.file)) for each in table.at().files()
    ]
    table.write(rows(table, events(0, 2)))
    entry = table.at().files()[-1]
    two_rows = Path(table.table_files.data_file_path(entry.place, entry.file))
    kept = two_rows.read_bytes()
    two_rows.write_bytes(paths[0].read_bytes())
    with pytest.raises(CorruptionError, match="holds 1 rows, its manifest says 2"):
        compact(table, full=True)
    assert len(table.history.snapshots()) == 4
    two_rows.write_bytes(kept)
    assert len(content(table)) == len(before) + 2
    assert_only_reachable_files(table)


def test_a_compaction_checks_the_footers_of_what_it_wrote(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that drops a row on the way."""
    from lakewright.storage.operations.rewrite import compact_append as module

    class Forgetful(module.RollingWriter):
        def write(self, new: Any) -> None:
            super().write(new.slice(1))

    table = new_table(catalog)
    small_appends(table, 3)
    before = content(table)
    monkeypatch.setattr(module, "RollingWriter", Forgetful)
    with pytest.raises(VerificationFailed, match="hold 2 rows, and 3 were expected"):
        compact(table, full=True)
    assert content(table) == before
    assert_only_reachable_files(table)


@pytest.mark.mission("SE14", "SE10", "SE12")
def test_compaction_brings_files_to_the_schema_of_today(catalog: Catalog) -> None:
    table = new_table(catalog)
    small_appends(table, 2)
    fields = (*table.schema.fields[:2], replace(table.schema.fields[2], name="renamed"))
    table.table_files.schemas.put_schema(replace(table.schema, id=1, fields=fields))
    later = catalog.table("db.t")
    compact(later, full=True)
    assert {entry.file.schema_id for entry in later.at().files()} == {1}
    assert values_of(later, "renamed") == ["v0", "v1"]


# --- deletion vectors of append tables ----------------------------------------------------------


def with_deleted_rows(table: Table, gone: dict[str, list[int]]) -> None:
    """Commit deletion vectors, as a client that deletes from append tables does."""
    index = table.table_files.indexes.write_deletion_vectors(
        {name: np.array(rows_gone) for name, rows_gone in gone.items()}, write_id="deleted"
    )
    entry, latest = table.at().files()[0], table.history.latest_snapshot()
    assert latest is not None
    message = CommitMessage(
        partition=entry.partition,
        bucket=entry.bucket,
        total_buckets=entry.total_buckets,
        new_indexes=(index,),
    )
    commit_compaction(table.table_files, [message], user="deleter", base_snapshot_id=latest.id)


def deletions(table: Table) -> dict[str, int | None]:
    return {
        vector.data_file: vector.cardinality
        for entry in index_entries(table.table_files, table.history.latest_snapshot())
        for vector in entry.file.deletion_vectors or ()
    }


@pytest.mark.mission("FS7")
def test_deleted_rows_of_an_append_table_go_with_their_file(any_catalog: Catalog) -> None:
    options = {"deletion-vectors.enabled": "true", "target-file-size": "1 kb"}
    table = new_table(any_catalog, {"id": "INT"}, options=options)
    for first in (0, 100, 200):
        table.write(rows(table, [{"id": first + n} for n in range(100)]))
    names = sorted(entry.file.file_name for entry in table.at().files())
    with_deleted_rows(table, {names[0]: [0, 1, 2], names[1]: list(range(50))})
    before = content(table)
    assert len(before) == 247
    # Files are too large to be joined; one has lost half of its rows, another few of them.
    (task,) = table.upkeep.plan_compact().tasks
    assert task.files == (names[1],)
    result = table.upkeep.run(table.upkeep.plan_compact())
    assert (result.rows_before, result.rows_after) == (100, 50)
    assert deletions(table) == {names[0]: 3}
    assert content(table) == before
    compact(table, full=True)
    assert deletions(table) == {}
    assert content(table) == before
    assert table.upkeep.plan_compact(full=True).tasks == ()


@pytest.mark.mission("FS7")
def test_rows_keep_their_order_across_a_large_file_when_some_of_them_are_deleted(
    catalog: Catalog,
) -> None:
    options = {
        "bucket": "1",
        "bucket-key": "id",
        "target-file-size": "4 kb",
        "deletion-vectors.enabled": "true",
    }
    table = new_table(catalog, options=options)
    for number in (0, 1, 2):
        table.write(rows(table, events(number, number + 1)))
    noise = [
        {"id": n, "day": f"{n * 7919**9:030x}", "v": f"{n * 104729**8:040x}"}
        for n in range(100, 300)
    ]
    table.write(rows(table, noise))
    for number in (1000, 1001):
        table.write(rows(table, events(number, number + 1)))
    in_order = sorted(table.at().files(), key=lambda each: each.file.min_sequence_number)
    with_deleted_rows(table, {in_order[1].file.file_name: [0]})
    before = ids_in_order(table)
    assert before == [0, 2, *range(100, 300), 1000, 1001]
    result = compact(table, full=True)
    # Of the many rows a small file is left at the end, which is a neighbour of those after it.
    assert (result.files_before, result.files_after, len(table.at().files())) == (6, 2, 4)
    assert in_order[3].file.file_name in {each.file.file_name for each in table.at().files()}
    assert ids_in_order(table) == before
    assert deletions(table) == {}
    assert table.upkeep.plan_compact(full=True).tasks == ()


def ids_in_order(table: Table) -> list[int]:
    """Ids as a reader finds them that takes the files of the bucket in the order of their rows."""
    found: list[int] = []
    for split in table.scan().plan.splits:
        for file in sorted(split.files, key=lambda each: each.min_sequence_number):
            for read in FileRows(table.table_files, table.schema.fields).rows(split, file):
                found += read.column("id").to_pylist()
    return found


@pytest.mark.mission("FS7")
def test_of_an_index_file_a_reader_takes_what_is_about_its_data_file(catalog: Catalog) -> None:
    table = new_table(catalog, {"id": "INT"}, options={"deletion-vectors.enabled": "true"})
    for first in range(4):
        table.write(rows(table, [{"id": 10 * first + n} for n in range(10)]))
    names = [each.file.file_name for each in table.at().files()]
    with_deleted_rows(table, {name: [0, 9] for name in names})
    watching, fs = watched(table)
    assert watching.read().num_rows == 32
    whole = [call for call in fs.calls if call.name == "read_bytes" and "/index/" in call.path]
    assert whole == []
    # A rewrite applies them all, and those that stay are rewritten: each takes the file once.
    fs.calls.clear()
    compact(watching, full=True)
    whole = [call for call in fs.calls if call.name == "read_bytes" and "/index/" in call.path]
    assert len(whole) == 1
    assert len(content(table)) == 32


@pytest.mark.parametrize("left", [0, 1, 7, 40])
def test_an_index_file_that_was_cut_off_is_damaged_and_no_rows_come_back(
    any_catalog: Catalog, left: int
) -> None:
    table = new_table(any_catalog, {"id": "INT"}, options={"deletion-vectors.enabled": "true"})
    for first in range(2):
        table.write(rows(table, [{"id": 10 * first + n} for n in range(10)]))
    with_deleted_rows(table, {each.file.file_name: [0, 9] for each in table.at().files()})
    (entry,) = index_entries(table.table_files, table.history.latest_snapshot())
    path = table.table_files.paths.index(entry.file.file_name)
    whole = table.table_files.fs.read_bytes(path)
    table.table_files.fs.replace(path, whole[:left])
    with pytest.raises(CorruptionError, match=entry.file.file_name):
        table.read()
    table.table_files.fs.replace(path, whole)
    assert len(content(table)) == 16


@pytest.mark.parametrize("verb", ["compact", "sort", "rescale"])
@pytest.mark.mission("FS7")
def test_rows_deleted_while_their_file_is_written_anew_stay_deleted(
    catalog: Catalog, verb: str
) -> None:
    options = {"deletion-vectors.enabled": "true"}
    if verb == "rescale":
        options |= {"bucket": "1", "bucket-key": "id"}
    table = new_table(catalog, {"id": "INT"}, options=options)
    for first in (0, 5):
        table.write(rows(table, [{"id": first + n} for n in range(5)]))

    def delete_the_first_row() -> None:
        entry = min(table.at().files(), key=lambda each: each.file.min_sequence_number)
        with_deleted_rows(table, {entry.file.file_name: [0]})

    engine = Meddling(delete_the_first_row)
    if verb == "compact":
        lost = table.upkeep.run(table.upkeep.plan_compact(full=True), engine)
        assert (lost.snapshot, lost.dropped_tasks) == (None, 1)
    elif verb == "sort":
        lost = table.upkeep.run(table.upkeep.plan_sort_compact(["id"]), engine)
        assert (lost.snapshot, lost.dropped_tasks) == (None, 1)
    else:
        moved = table.upkeep.run(table.upkeep.plan_rescale(2, [{}]), engine)
        assert (moved.snapshots, moved.dropped) == ((), ({},))
    assert len(values_of(table, "id")) == 9
    assert_only_reachable_files(table)


@pytest.mark.mission("FS7")
def test_sorting_leaves_deleted_rows_behind(catalog: Catalog) -> None:
    table = new_table(catalog, {"id": "INT"}, options={"deletion-vectors.enabled": "true"})
    for first in (5, 0):
        table.write(rows(table, [{"id": first + n} for n in range(5)]))
    (name, *_) = [e.file.file_name for e in table.at().files() if e.file.min_sequence_number >= 0]
    with_deleted_rows(table, {name: [4, 0]})
    before = values_of(table, "id")
    assert len(before) == 8
    result = table.upkeep.run(table.upkeep.plan_sort_compact(["id"]))
    assert (result.rows_after, deletions(table)) == (8, {})
    assert table.read().column("id").to_pylist() == before


@pytest.mark.mission("FS7")
def test_the_cost_to_open_files_does_not_divide_few_of_them(catalog: Catalog) -> None:
    table = new_table(
        catalog, options={"target-file-size": "1 mb", "source.split.open-file-cost": "512 kb"}
    )
    small_appends(table, 9)
    # Of four files a group would become a file that is small again.
    assert [len(task.files) for task in table.upkeep.plan_compact().tasks] == [9]
    compact(table)
    assert table.upkeep.plan_compact().tasks == ()


@pytest.mark.parametrize(
    ("cost", "full", "sizes"),
    [("4 mb", False, [1_001, 1_001, 498]), ("4 mb", True, [2_500]), (None, False, [2_500])],
)
def test_thousands_of_tiny_files_are_several_tasks_only_if_the_table_says_what_one_costs(
    catalog: Catalog, cost: str | None, full: bool, sizes: list[int]
) -> None:
    named = {} if cost is None else {"source.split.open-file-cost": cost}
    table = new_table(catalog, options={"target-file-size": "128 mb", **named})
    small_appends(table, 1)
    (entry,) = table.at().files()
    metas = [replace(entry.file, file_name=f"{each}.parquet", file_size=1) for each in range(2_500)]
    units, _ = pick_append(table.table_files, metas, [], full=full, least=None)
    assert [len(each.files) for each in units] == sizes
