"""Changing partition keys: rows, files and history before, during and after."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewright.storage import AddColumn, Catalog, DropColumn, Table
from lakewright.storage.errors import (
    ColumnInUse,
    CommitConflictError,
    InvalidRequestError,
    SchemaMoved,
    UnsupportedError,
    VerificationFailed,
)
from lakewright.storage.operations.respec.respec_plan import RespecPlan
from lakewright.storage.spec.hive_table import hive_table
from lakewright.storage.spec.schema import TableSchema
from tests.support.stores.watched_files import WatchedFiles
from tests.support.tables.builders import compact, content, expire, new_table, remove_orphans, rows
from tests.support.tables.deleted_rows import delete_first_rows
from tests.support.tables.invariants import assert_only_reachable_files, assert_readable_history
from tests.support.tables.late_commits import commit_late

COLUMNS = {"dt": "STRING", "hh": "INT", "o": "STRING", "v": "INT"}
pytestmark = pytest.mark.mission("PT1")


def hours(table: Table, dt: str | None, *given: int | None, first: int = 0) -> None:
    """One write of rows of a day, one row for each hour."""
    listed = [
        {"dt": dt, "hh": hour, "o": f"o{number % 2}", "v": first + number}
        for number, hour in enumerate(given)
    ]
    table.write(rows(table, listed))


def by_day(catalog: Catalog, **options: str) -> Table:
    table = new_table(catalog, COLUMNS, partitions=["dt"], options=options)
    hours(table, "a", 1, 1)
    hours(table, "a", 1, 2, 3, None, first=10)
    hours(table, None, 2, 2, first=20)
    hours(table, "b", None, first=30)
    return table


def respec(catalog: Catalog, table: Table, *keys: str) -> Table:
    table.upkeep.respec(keys)
    return catalog.table(table.name)


def partitions(table: Table) -> list[dict[str, Any]]:
    return [each.spec for each in table.at().partitions()]


def test_a_plan_foresees_the_files_that_a_split_of_small_files_leaves(catalog: Catalog) -> None:
    table = new_table(catalog, {"dt": "STRING", "hh": "INT", "v": "INT"}, partitions=["dt"])
    for number in range(6):
        written = [{"dt": day, "hh": hh, "v": number} for day in "ab" for hh in (1, 2, 3)]
        table.write(rows(table, written))
    plan = table.upkeep.plan_respec(["dt", "hh"], max_files=6)
    assert (plan.split.files, plan.files_after) == (12, 6)
    table.upkeep.run(plan)
    assert len(catalog.table(table.name).at().files()) == 6


def test_a_plan_tells_what_is_restated_split_and_becomes_of_each_partition(
    catalog: Catalog,
) -> None:
    table = by_day(catalog)
    plan = table.upkeep.plan_respec(["dt", "hh"])
    assert (plan.former_keys, plan.keys, plan.steps) == (("dt",), ("dt", "hh"), (("dt", "hh"),))
    assert (plan.restate.files, plan.split.files, plan.split.rows) == (3, 1, 4)
    assert (plan.partitions_before, plan.partitions_after, plan.files_after) == (3, 6, 7)
    assert plan.becomes[1].partition == "dt=a"
    assert plan.becomes[1].becomes == (
        "dt=a/hh=1",
        "dt=a/hh=2",
        "dt=a/hh=3",
        "dt=a/hh=__DEFAULT_PARTITION__",
    )
    assert RespecPlan.from_json(plan.to_json()) == plan
    assert len(table.history.snapshots()) == 4


def test_partitions_that_share_a_folder_are_counted_each(catalog: Catalog) -> None:
    table = new_table(catalog, COLUMNS, partitions=["dt"])
    given: list[str | None] = [None, "", "   ", "x"]
    table.write(rows(table, [{"dt": "a", "hh": 1, "o": each, "v": 1} for each in given]))
    plan = table.upkeep.plan_respec(["dt", "o"])
    assert len(set(plan.becomes[0].becomes)) == 2
    assert plan.becomes[0].keys == ("dt=a/o=%20 %20", "dt=a/o=%empty", "dt=a/o=%null", "dt=a/o=x")
    assert plan.partitions_after == 4
    with pytest.raises(InvalidRequestError, match="would have 4 partitions"):
        table.upkeep.plan_respec(["dt", "o"], max_partitions=3)


def test_a_file_whose_statistics_prove_no_value_is_read_once_by_plan_and_by_run(
    catalog: Catalog,
) -> None:
    table = new_table(catalog, COLUMNS, partitions=["dt"])
    for number in range(5):
        table.write(rows(table, [{"dt": "a", "hh": 1, "o": f"o{number}", "v": number}]))
    watched = WatchedFiles(catalog.fs)
    table = replace(catalog, fs=watched).table(table.name)

    def opened() -> Counter[int]:
        """How many data files were opened so many times since the last call."""
        paths = Counter(each.path for each in watched.calls if "/data-" in each.path)
        watched.calls.clear()
        return Counter(paths.values())

    plan = table.upkeep.plan_respec(["dt", "o"])
    assert opened() == {1: 5}
    table.upkeep.run(plan)
    assert opened() == {1: 5}
    assert len(catalog.table(table.name).at().partitions()) == 5


@pytest.mark.parametrize("keys", [("dt", "hh"), ("hh",)], ids=str)
@pytest.mark.parametrize("hours", [(2, 2), (1, 2)], ids=["another value", "several values"])
def test_full_verification_finds_statistics_that_lie_before_anything_is_published(
    catalog: Catalog, hours: tuple[int, int], keys: tuple[str, ...]
) -> None:
    table = new_table(catalog, COLUMNS, partitions=["dt"])
    right, wrong = (
        table.stage(rows(table, [{"dt": "a", "hh": hh, "o": "o", "v": 1} for hh in given]))
        for given in ((1, 1), hours)
    )
    (told,), (message,) = right.messages[0].new_files, wrong.messages
    lying = replace(message.new_files[0], value_stats=told.value_stats)
    table.commit(replace(wrong, messages=(replace(message, new_files=(lying,)),)))
    table.abort(right)
    due, before = content(table), table.history.latest_snapshot()
    plan = table.upkeep.plan_respec(keys)
    assert (plan.restate.files, plan.split.files) == (1, 0)
    with pytest.raises(VerificationFailed, match=r"other values of \((dt, )?hh\) than its stat"):
        table.upkeep.run(plan, verify="full")
    assert table.history.latest_snapshot() == before
    assert catalog.table(table.name).schema == table.schema
    # The way out that the error names.
    table.upkeep.sort_compact(["hh"])
    table.upkeep.run(table.upkeep.plan_respec(keys), verify="full")
    table = catalog.table(table.name)
    assert content(table) == due
    assert {each["hh"] for each in partitions(table)} == set(hours)


@pytest.mark.sampled(2)
@pytest.mark.mission("PT2", "PT3", "PT4")
@pytest.mark.parametrize(
    "way",
    [
        [("dt", "hh")],
        [("hh",)],
        [()],
        [("hh", "o"), ("o",), ("o", "dt"), ()],
        [("dt", "hh", "o"), ("dt", "hh"), ("dt",)],
    ],
    ids=str,
)
def test_rows_and_history_stay_and_files_are_not_written_where_one_value_lies(
    catalog: Catalog, way: Sequence[tuple[str, ...]]
) -> None:
    table = by_day(catalog)
    due = content(table)
    old = {each.id: content(table.at(snapshot=each.id)) for each in table.history.snapshots()}
    for number, keys in enumerate(way):
        several = table.upkeep.plan_respec(keys).split.files
        before = {entry.file.file_name for entry in table.at().files()}
        table = respec(catalog, table, *keys)
        assert content(table) == due
        kept = before & {entry.file.file_name for entry in table.at().files()}
        assert len(before - kept) == several
        assert table.schema.partition_keys == keys
        assert table.upkeep.plan_respec(keys).changes_nothing
        assert sum(each.row_count for each in table.at().partitions()) == len(due)
        hours(table, "c", 7, 8, first=100 * (number + 1))
        due = content(table)
        for name in keys:
            for value in ("a", 1, "o1"):
                text = f"{name} = {value!r}"
                if isinstance(value, str) == (name != "hh"):
                    assert content(table, where=text) == [
                        row for row in due if f'"{name}": {_json(value)}' in row
                    ]
        assert_readable_history(table, mixed=False)
        assert_only_reachable_files(table)
    for snapshot_id, then in old.items():
        assert content(table.at(snapshot=snapshot_id)) == then


def _json(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def test_splitting_of_some_partitions_leaves_the_keys_and_is_not_done_again(
    catalog: Catalog,
) -> None:
    table = by_day(catalog)
    hours(table, "b", 1, 2, first=40)
    table.upkeep.respec(["dt", "hh"], [{"dt": "a"}])
    assert table.schema.partition_keys == ("dt",)
    assert catalog.table(table.name).schema == table.schema
    assert table.upkeep.plan_respec(["dt", "hh"], [{"dt": "a"}]).splits.tasks == ()
    plan = table.upkeep.plan_respec(["dt", "hh"])
    assert [task.partition for task in plan.splits.tasks] == [{"dt": "b"}]
    assert table.upkeep.run(plan).files_split == 1


def test_writes_after_it_go_to_the_new_partitions_and_overwrites_replace_them_whole(
    catalog: Catalog,
) -> None:
    """Of other formats it is known that a dynamic overwrite leaves rows of the old layout."""
    table = respec(catalog, by_day(catalog), "dt", "hh")
    given = [{"dt": "a", "hh": 1, "o": "new", "v": 0}]
    table.write(rows(table, given), mode="overwrite")
    assert table.read("dt = 'a' AND hh = 1").to_pylist() == given
    assert table.read("dt = 'a'").num_rows == 4
    table.write(rows(table, given), mode="overwrite", partition={"dt": "a"}, dynamic=False)
    assert table.read("dt = 'a'").to_pylist() == given
    table.write(rows(table, given), mode="overwrite", partition={}, dynamic=False)
    assert table.read().to_pylist() == given
    assert_only_reachable_files(table)


def test_compaction_merges_restated_files_with_new_ones(catalog: Catalog) -> None:
    table = respec(catalog, by_day(catalog), "dt", "hh")
    hours(table, "a", 1, first=50)
    due = content(table)
    result = compact(table, [{"dt": "a", "hh": 1}], full=True, min_files=2)
    assert (result.files_before, result.files_after) == (3, 1)
    assert content(table) == due
    expire(table)
    assert content(table) == due
    assert_only_reachable_files(table)


def test_the_latest_snapshot_is_one_of_the_new_keys(catalog: Catalog) -> None:
    """What reads it by its id sees the table as what reads the latest state."""
    table = respec(catalog, by_day(catalog), "dt", "hh")
    latest = table.history.snapshots()[-1].id
    assert table.at(snapshot=latest).schema.partition_keys == ("dt", "hh")
    assert [each.spec for each in table.at(snapshot=latest).partitions()] == partitions(table)


def test_tags_branches_expiry_and_orphan_removal_work_across_it(catalog: Catalog) -> None:
    table = by_day(catalog)
    due = content(table)
    table.history.create_tag("before")
    table.history.create_branch("side", tag="before")
    table = respec(catalog, table, "hh")
    hours(table, "z", 9, first=90)
    remove_orphans(table)
    expire(table)
    assert len(table.history.snapshots()) == 1
    assert content(table.at(tag="before")) == due
    assert content(table.history.at_branch("side")) == due
    assert len(content(table)) == len(due) + 1
    assert_only_reachable_files(table)
    side = table.history.at_branch("side")
    hours(side, "s", 4, first=95)
    assert side.schema.partition_keys == ("dt",)
    assert len(content(side)) == len(due) + 1
    table.history.run(table.history.plan_delete_branch("side", grace_ms=0))
    table.history.run(table.history.plan_delete_tags("before", grace_ms=0))
    remove_orphans(table)
    assert len(content(table)) == len(due) + 1
    assert_only_reachable_files(table)


@pytest.mark.parametrize("keys", [("dt", "hh"), ("hh",), ()], ids=str)
def test_a_rollback_takes_it_back(catalog: Catalog, keys: tuple[str, ...]) -> None:
    table = by_day(catalog)
    due, files = content(table), sorted(map(str, table.at().files()))
    table = respec(catalog, table, *keys)
    hours(table, "z", 8, 9, first=90)
    plan = table.history.plan_rollback(snapshot=4, grace_ms=0)
    done = table.history.run(plan)
    # The commits are young, so their files wait for an hour.
    assert done.files_deleted == 0
    gone = done.snapshots_deleted, done.files_condemned
    assert gone == (len(plan.snapshot_ids), len(plan.files))
    table = catalog.table(table.name)
    assert table.schema.partition_keys == ("dt",)
    assert content(table) == due
    assert sorted(map(str, table.at().files())) == files
    hours(table, "z", 8, 9, first=90)
    assert len(content(table)) == len(due) + 2
    assert_only_reachable_files(table)


def test_changes_between_snapshots_are_told_across_it(catalog: Catalog) -> None:
    table = by_day(catalog)
    table = respec(catalog, table, "dt", "o")
    hours(table, "z", 9, first=90)
    latest = table.history.snapshots()[-1].id
    for mode in ("delta", "diff"):
        found = table.read_changes(4, latest, mode=mode).to_pylist()
        assert [row["v"] for row in found] == [90], mode


@pytest.mark.parametrize("keys", [("dt", "hh"), ()], ids=str)
def test_deleted_rows_stay_deleted(catalog: Catalog, keys: tuple[str, ...]) -> None:
    """Of other formats it is known that a delete across partition specs was lost."""
    table = by_day(catalog, **{"deletion-vectors.enabled": "true"})
    delete_first_rows(table)
    due = content(table)
    assert len(due) == 5
    table = respec(catalog, table, *keys)
    assert content(table) == due
    assert_only_reachable_files(table)
    compact(table, full=True)
    assert content(table) == due
    expire(table)
    assert_only_reachable_files(table)


def test_a_write_staged_before_it_is_refused_and_named(catalog: Catalog) -> None:
    table = by_day(catalog)
    staged = table.stage(rows(table, [{"dt": "a", "hh": 5, "o": "x", "v": 1}]))
    now = respec(catalog, table, "dt", "hh")
    for opened in (table, now):
        with pytest.raises(SchemaMoved, match="keys"):
            opened.commit(staged)
    with pytest.raises(SchemaMoved, match=r"partition keys of db\.t were dt"):
        hours(table, "a", 5)
    now.abort(staged)
    assert_only_reachable_files(now)


def test_a_compaction_planned_before_it_is_planned_again(catalog: Catalog) -> None:
    table = by_day(catalog)
    plan = table.upkeep.plan_compact(full=True, min_files=2)
    now = respec(catalog, table, "dt", "hh")
    for opened in (table, now):
        with pytest.raises((CommitConflictError, InvalidRequestError), match="plan again"):
            opened.upkeep.run(plan)
    assert len(content(now)) == 9


def test_an_empty_table_gets_keys_by_its_schema_alone(catalog: Catalog) -> None:
    table = new_table(catalog, COLUMNS)
    table = respec(catalog, table, "dt")
    assert table.schema.partition_keys == ("dt",)
    assert table.history.snapshots() == ()
    hours(table, "a", 1)
    assert partitions(table) == [{"dt": "a"}]


def test_columns_of_later_schemas_and_files_of_older_ones_are_restated(catalog: Catalog) -> None:
    table = by_day(catalog)
    table = table.alter(AddColumn("late", "INT"))
    table.write(rows(table, [{"dt": "b", "hh": 1, "o": "x", "v": 40, "late": 5}]))
    due = content(table)
    for keys in (("late",), ("dt", "late"), ()):
        plan = table.upkeep.plan_respec(keys)
        assert plan.split.files == 0
        table = respec(catalog, table, *keys)
        assert content(table) == due
        assert table.read("late = 5").num_rows == 1
        assert table.read("late IS NULL").num_rows == 9


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        (["nix"], "'nix' is not a column"),
        (["dt", "dt"], "repeat a column"),
        (["dt", "hh", "o", "v"], "every column"),
        ("dt", r"give a list: \['dt'\]"),
    ],
)
def test_bad_keys_are_refused_by_name(catalog: Catalog, keys: Any, named: str) -> None:
    table = by_day(catalog)
    with pytest.raises(InvalidRequestError, match=named):
        table.upkeep.plan_respec(keys)


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
def test_floating_numbers_become_no_keys_and_stay_where_they_are(
    catalog: Catalog, kind: str
) -> None:
    """Other clients find no folder of nan or -0.0, or refuse such keys."""
    table = new_table(catalog, {"dt": "STRING", "f": kind, "v": "INT"}, partitions=["dt"])
    with pytest.raises(InvalidRequestError, match=rf"'f' of db\.t is {kind}, .* such as DECIMAL"):
        table.upkeep.plan_respec(["dt", "f"])
    had = new_table(catalog, {"f": kind, "hh": "INT", "v": "INT"}, name="db.had", partitions=["f"])
    had.write(rows(had, [{"f": 0.5, "hh": hour, "v": 1} for hour in (1, 2)]))
    due = content(had)
    assert content(respec(catalog, had, "f", "hh")) == due


def test_tables_that_store_equal_rows_once_with_a_count_keep_their_keys(catalog: Catalog) -> None:
    options = {"merge-engine": "value-count", "bucket": "1"}
    table = new_table(catalog, COLUMNS, partitions=["dt"], options=options)
    hours(table, "a", 1)
    with pytest.raises(UnsupportedError, match="equal rows once, with a count; a change"):
        table.upkeep.plan_respec(["dt", "hh"])


class Metastore:
    """A registry that lets no table's partition keys change; `tests/stores` has the real one."""

    def __init__(self) -> None:
        self.told: list[TableSchema] = []

    def tell(self, schema: TableSchema, former: TableSchema) -> None:
        if hive_table(schema).partition_columns != hive_table(former).partition_columns:
            raise InvalidRequestError("partition keys can not be changed")
        self.told.append(schema)

    def follow(self, latest: Callable[[], TableSchema]) -> None:
        self.told.append(latest())


@pytest.mark.parametrize("told", ["true", "false"])
def test_keys_that_a_metastore_holds_are_refused_before_anything_is_written(
    catalog: Catalog, told: str
) -> None:
    made = by_day(catalog, **{"metastore.partitioned-table": told})
    metastore = Metastore()
    table = Table(replace(made.table_files, registry=metastore))
    if told == "true":
        before = len(made.history.snapshots())
        with pytest.raises(UnsupportedError, match=r"metastore\.partitioned-table"):
            table.upkeep.plan_respec(["dt", "hh"])
        assert len(made.history.snapshots()) == before
        return
    table.upkeep.respec(["dt", "hh"])
    assert metastore.told[-1].partition_keys == ("dt", "hh")


@pytest.mark.mission("SE19")
def test_a_column_that_is_or_was_a_key_cannot_be_dropped(catalog: Catalog) -> None:
    """Files of before may be asked for by it, at a tag or a snapshot."""
    table = respec(catalog, by_day(catalog), "hh")
    for column in ("hh", "dt"):
        with pytest.raises(ColumnInUse, match=column):
            table.alter(DropColumn(column))


def test_a_flood_of_partitions_or_files_is_refused_with_the_numbers(catalog: Catalog) -> None:
    table = by_day(catalog)
    with pytest.raises(InvalidRequestError, match=r"6 partitions .* the limit is 5"):
        table.upkeep.plan_respec(["dt", "hh"], max_partitions=5)
    with pytest.raises(InvalidRequestError, match=r"7 files .* the limit is 6"):
        table.upkeep.plan_respec(["dt", "hh"], max_files=6)
    table.upkeep.plan_respec(["dt", "hh"], max_partitions=6, max_files=7)


@pytest.mark.parametrize("prefix", ["data-", "co", ""])
@pytest.mark.parametrize("copy", [False, True], ids=["where they lie", "copied"])
def test_files_that_may_lack_their_partition_columns_keep_their_keys_until_they_are_written_anew(
    catalog: Catalog, tmp_path: Path, copy: bool, prefix: str
) -> None:
    """Their values are in the names of folders alone."""
    options = {"data-file.prefix": prefix}
    table = new_table(catalog, COLUMNS, partitions=["dt"], options=options)
    (tmp_path / "theirs" / "dt=a").mkdir(parents=True)
    for number in (1, 2):
        kept = pa.table(
            {"hh": pa.array([number], pa.int32()), "o": ["x"], "v": pa.array([number], pa.int32())}
        )
        pq.write_table(kept, tmp_path / "theirs" / "dt=a" / f"{number}.parquet")
    table.upkeep.add_partitions(str(tmp_path / "theirs"), copy_files=copy, age_ms=0)
    table = catalog.table(table.name)
    due = content(table)
    with pytest.raises(UnsupportedError, match=r"2 data files .*sort-compact db\.t --by hh"):
        table.upkeep.plan_respec([])
    finer = respec(catalog, table, "dt", "hh")
    assert content(finer) == due
    with pytest.raises(UnsupportedError, match="taken over"):
        finer.upkeep.plan_respec(["hh"])
    finer.upkeep.run(finer.upkeep.plan_sort_compact(["o"]))
    assert content(respec(catalog, finer, "hh")) == due


def test_what_waits_for_the_present_keys_forbids_it(catalog: Catalog) -> None:
    table = by_day(catalog)
    table.history.set_consumer("flink", 2)
    with pytest.raises(UnsupportedError, match=r"consumer flink .* reads from snapshot 2"):
        table.upkeep.plan_respec(["hh"])
    table.history.set_consumer("flink", 5)
    kept = table.keep_pending(
        table.stage(rows(table, [{"dt": "a", "v": 1}]), commit_user="job", commit_identifier=7)
    )
    with pytest.raises(UnsupportedError, match="1 pending batches"):
        table.upkeep.plan_respec(["hh"])
    table.abort(kept)
    table.upkeep.plan_respec(["hh"])


@pytest.mark.parametrize("place", ["the table's", "the warehouse's"])
@pytest.mark.parametrize("keys", [("dt", "hh"), ()], ids=["finer", "coarser"])
def test_files_of_a_table_that_was_moved_are_named_where_they_lie_now(
    catalog: Catalog, keys: tuple[str, ...], place: str
) -> None:
    """Restated files have their whole places in manifests."""
    table = respec(catalog, by_day(catalog), *keys)
    due, files = content(table), {each.file.file_name for each in table.at().files()}
    former = table.location if place == "the table's" else catalog.root
    elsewhere = replace(catalog, root=f"{catalog.root}-moved")
    shutil.copytree(catalog.root, elsewhere.root)
    moved = elsewhere.table(table.name)
    with pytest.raises(UnsupportedError, match=r"lakewright respec db\.t --moved-from"):
        moved.read()
    assert not remove_orphans(moved).files_condemned
    with pytest.raises(InvalidRequestError, match=r"no file of db\.t is named below file:/nowhere"):
        moved.upkeep.plan_respec(keys, moved_from="/nowhere")
    with pytest.raises(InvalidRequestError, match="change the keys afterwards"):
        moved.upkeep.plan_respec(["v"], moved_from=former)
    lost = next(each.file.external_path for each in moved.at().files() if each.file.external_path)
    here = Path(lost.replace(f"file:{catalog.root}", elsewhere.root))
    here.rename(f"{here}-lost")
    with pytest.raises(InvalidRequestError, match=r"1 of .* do not lie below"):
        moved.upkeep.respec(keys, moved_from=former)
    Path(f"{here}-lost").rename(here)
    result = moved.upkeep.respec(keys, moved_from=former)
    assert result.files_restated > 0
    shutil.rmtree(table.location.removeprefix("file://"))
    assert content(moved) == due
    assert {each.file.file_name for each in moved.at().files()} == files
    moved = respec(elsewhere, moved, "dt")
    hours(moved, "a", 1)
    assert len(content(moved)) == len(due) + 1
    # Snapshots of before name the former place, and can be expired.
    expire(moved)
    remove_orphans(moved)
    assert_only_reachable_files(moved)


@pytest.mark.parametrize("goes_on", ["overwrite", "compact"])
def test_a_moved_table_keeps_the_files_that_a_tag_names_in_its_former_place(
    catalog: Catalog, goes_on: str
) -> None:
    """They are there again as soon as the table is moved back, or the places are told anew."""
    table = respec(catalog, by_day(catalog), "dt", "hh")
    table.history.create_tag("before")
    due, former = content(table), Path(table.table_files.paths.root)
    here = former.with_name("moved")
    former.rename(here)
    moved = catalog.table("db.moved")
    moved.upkeep.respec(["dt", "hh"], moved_from=str(former))
    moved = catalog.table("db.moved")
    row = [{"dt": "a", "hh": 1, "o": "o1", "v": 99}]
    moved.write(rows(moved, row), mode="overwrite" if goes_on == "overwrite" else "append")
    if goes_on == "compact":
        compact(moved, full=True)
    expire(moved)
    here.rename(former)
    assert content(catalog.table("db.t").at(tag="before")) == due
    former.rename(here)
    moved.history.rollback(tag="before", grace_ms=0)
    catalog.table("db.moved").upkeep.respec(["dt", "hh"], moved_from=str(former))
    assert content(catalog.table("db.moved")) == due
    shutil.rmtree(here)


@pytest.mark.parametrize("given", [(1,), (1, 2, 3)], ids=["one value", "several"])
def test_rows_of_as_many_keys_as_before_are_restated_under_the_present_ones(
    catalog: Catalog, given: tuple[int, ...]
) -> None:
    """A client that opened the table before commits rows of one key, and the table has one."""
    table = opened = by_day(catalog)
    late = [{"dt": "late", "hh": each, "o": f"o{each % 2}", "v": each} for each in given]
    staged = table.stage(rows(table, late))
    table = respec(catalog, table, "o")
    due = content(table)
    commit_late(opened, staged)
    assert not table.upkeep.plan_respec(["o"]).changes_nothing
    table = respec(catalog, table, "o")
    assert len(content(table)) == len(due) + len(given)
    assert {each["o"] for each in partitions(table)} == {"o0", "o1"}
    assert table.read("dt = 'late'").num_rows == len(given)
    assert table.upkeep.plan_respec(["o"]).changes_nothing
    remove_orphans(table)
    assert_only_reachable_files(table)
