"""Reverts: the table holds what it would if the snapshots had never been made."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lakewright.storage import AddColumn, Catalog, Table
from lakewright.storage.errors import (
    InvalidRequestError,
    NotRevertible,
    SchemaMoved,
    SnapshotNotFound,
    StalePlan,
    UnsupportedError,
)
from lakewright.storage.operations.commit.commit import commit_compaction
from lakewright.storage.operations.revert.revert import RevertPlan
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.manifest import FileKind
from lakewright.storage.spec.snapshot import CommitKind
from tests.support.histories.reverts import KINDS, PAIRS, VERBS, fill, made_by
from tests.support.stores.watched_files import interrupted, overtaken, puts_snapshot
from tests.support.tables.builders import (
    compact,
    content,
    events,
    expire,
    new_table,
    remove_orphans,
    rows,
)
from tests.support.tables.copied import copied
from tests.support.tables.invariants import assert_only_reachable_files
from tests.support.tables.landed import land_beside


def filled(catalog: Catalog, kind: str, name: str = "db.t") -> Table:
    def make(place: Catalog) -> Table:
        table = KINDS[kind].table(place, name)
        fill(table)
        return table

    return copied(catalog, make, kind, name)


def latest_id(table: Table) -> int:
    snapshot = table.history.latest_snapshot()
    assert snapshot is not None
    return snapshot.id


def layout(table: Table) -> list[tuple[object, ...]]:
    """Where the live files are, and what they hold, without their names."""
    return sorted(
        (
            each.partition,
            each.bucket,
            each.total_buckets,
            each.file.level,
            each.file.row_count,
            each.file.min_sequence_number,
            each.file.max_sequence_number,
        )
        for each in table.at().files()
    )


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("kind", "verb"), PAIRS, ids=str)
def test_rows_and_layout_are_what_they_were(catalog: Catalog, kind: str, verb: str) -> None:
    table = filled(catalog, kind)
    before, laid_out = content(table), layout(table)
    snapshots = made_by(table, VERBS[verb])
    assert snapshots
    table = catalog.table(table.name)
    plan = table.history.plan_revert(*snapshots)
    assert RevertPlan.from_json(plan.to_json()) == plan

    result = table.history.run(RevertPlan.from_json(plan.to_json()))

    assert result.snapshot is not None
    assert result.snapshot_ids == snapshots
    table = catalog.table(table.name)
    assert content(table) == before
    assert layout(table) == laid_out
    again = table.history.revert(*snapshots)
    assert again.snapshot is None
    assert table.history.plan_revert(*snapshots).taken_back_by == result.snapshot.id
    # What the reverted snapshots removed is deleted with them, and nothing that came back.
    expire(table)
    assert content(table) == before
    assert_only_reachable_files(table)
    twin = filled(catalog, kind, "db.twin")
    for each in (table, twin):
        compact(each, full=True)
    assert content(table) == content(twin)


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("kind", "verb"), PAIRS, ids=str)
def test_rows_that_others_wrote_since_stay(catalog: Catalog, kind: str, verb: str) -> None:
    table, twin = filled(catalog, kind), filled(catalog, kind, "db.twin")
    snapshots = made_by(table, VERBS[verb])
    table = catalog.table(table.name)
    for each in (table, twin):
        each.write(rows(each, events(2, 8, day="c", v="later")))
    if verb == "rescale":
        # The new partition has the new count.
        with pytest.raises(NotRevertible, match=r"snapshot \d+ \(APPEND .* number of buckets"):
            table.history.plan_revert(*snapshots)
        return
    table.history.revert(*snapshots)
    assert content(table) == content(twin)
    for each in (table, twin):
        compact(each, full=True)
    assert content(table) == content(twin)


# A compaction that drops rows lowers the last sequence number of its bucket.
IN_ORDER = [each for each in KINDS if KINDS[each].keys and each != "first row"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", IN_ORDER)
def test_later_rows_of_the_same_keys_win_over_rows_that_come_back(
    catalog: Catalog, kind: str
) -> None:
    table, twin = filled(catalog, kind), filled(catalog, kind, "db.twin")
    (compaction,) = made_by(table, VERBS["compact"])
    for each in (table, twin):
        each.write(rows(each, events(0, 3, v="later")))
    table.history.revert(compaction)
    assert content(table) == content(twin)
    for number in range(2):
        for each in (table, twin):
            each.write(rows(each, events(number, 5, v="last")))
            each.upkeep.compact(min_files=2)
        assert content(table) == content(twin)
    for each in (table, twin):
        compact(each, full=True)
    assert content(table) == content(twin)


@pytest.mark.parametrize("kind", ["append", "append in buckets"])
def test_rows_of_a_dropped_partition_come_back_beside_those_that_others_wrote(
    catalog: Catalog, kind: str
) -> None:
    table, twin = filled(catalog, kind), filled(catalog, kind, "db.twin")
    (drop,) = made_by(table, VERBS["drop"])
    for each in (table, twin):
        each.write(rows(each, events(0, 9, day="a", v="later")))
    table.history.revert(drop)
    assert content(table) == content(twin)


def test_rows_of_a_dropped_partition_do_not_mix_with_later_rows_of_their_keys(
    catalog: Catalog,
) -> None:
    table = filled(catalog, "keyed")
    (drop,) = made_by(table, VERBS["drop"])
    table.write(rows(table, events(0, 2, day="a", v="later")))
    before = content(table)
    with pytest.raises(NotRevertible, match=r"sequence numbers begin at or below \d+.*roll back"):
        table.history.revert(drop)
    assert content(table) == before


def test_a_compaction_under_way_does_not_lift_later_rows_above_those_that_come_back(
    catalog: Catalog,
) -> None:
    table = filled(catalog, "aggregation")
    (compaction,) = made_by(table, VERBS["compact"])
    table.write(rows(table, events(0, 3, v="x")))
    table.write(rows(table, events(0, 3, v="y")))
    # The newest runs alone, as a compaction with little to do plans them.
    plan = table.upkeep.plan_compact(min_files=2)
    assert plan.tasks
    told = content(table)
    late, _ = interrupted(
        table, when=puts_snapshot, meanwhile=lambda: table.history.revert(compaction)
    )
    result = late.upkeep.run(plan)
    assert (result.snapshot, result.dropped_tasks) == (None, 1)
    assert content(table) == told
    compact(table, full=True)
    assert content(table) == told


# --- what stands in the way ---------------------------------------------------------------------


@pytest.mark.sampled(6)
@pytest.mark.parametrize("kind", ["append", "keyed", "vectors", "dynamic"])
@pytest.mark.parametrize("later", ["compact", "overwrite a partition", "drop"])
def test_a_later_commit_that_replaced_the_files_is_named(
    catalog: Catalog, kind: str, later: str
) -> None:
    table = filled(catalog, kind)
    (append,) = made_by(table, VERBS["append"])
    (by,) = made_by(table, VERBS[later])
    before = content(table)
    with pytest.raises(NotRevertible, match=rf"snapshot {by} \(.*take snapshot {by} back first"):
        table.history.plan_revert(append)
    # That is a way out.
    table.history.revert(by)
    assert (content(table) == before) is (later == "compact" and kind != "vectors")


@pytest.mark.parametrize(
    ("kind", "verb", "why"),
    [
        ("append", "overwrite a partition", "OVERWRITE .*overwrote"),
        ("keyed", "compact", "COMPACT .*compacted later rows"),
    ],
)
def test_what_was_overwritten_or_compacted_since_does_not_come_back(
    catalog: Catalog, kind: str, verb: str, why: str
) -> None:
    table = filled(catalog, kind)
    (drop,) = made_by(table, VERBS["drop"])
    table.write(rows(table, events(0, 9, day="a", v="later")))
    (by,) = made_by(table, VERBS[verb])
    with pytest.raises(NotRevertible, match=rf"snapshot {by} \({why}"):
        table.history.plan_revert(drop)


@pytest.mark.parametrize("kind", ["keyed", "vectors", "dynamic"])
def test_rows_do_not_come_back_below_later_deletions_that_a_compaction_left_out(
    catalog: Catalog, kind: str
) -> None:
    table = KINDS[kind].table(catalog)
    write = made_by(table, lambda each: each.write(rows(each, events(0, 3))))
    undo = made_by(table, lambda each: each.history.revert(*write))
    table.write(rows(table, events(0, 1), kinds=["-D"]))
    (by,) = made_by(table, lambda each: compact(each, full=True))
    # Neither the deletion nor a file of it is left.
    assert not table.at().files()
    with pytest.raises(NotRevertible, match=rf"snapshot {by} \(COMPACT .*in the same bucket"):
        table.history.revert(*undo)
    assert content(table) == []


@pytest.mark.parametrize("kind", ["append", "keyed"])
def test_a_write_and_the_undo_of_a_later_compaction_of_it_are_not_taken_back_together(
    catalog: Catalog, kind: str
) -> None:
    table = filled(catalog, kind)
    (write,) = made_by(table, VERBS["append"])
    (compaction,) = made_by(table, VERBS["compact"])
    (undo,) = made_by(table, lambda each: each.history.revert(compaction))
    before = content(table)
    # Without the undo, the compaction stands, which built on the write.
    with pytest.raises(NotRevertible, match=rf"snapshot {compaction} \(.*replaced or removed"):
        table.history.revert(write, undo)
    assert content(table) == before
    table.history.revert(write)
    assert content(table) == content(filled(catalog, kind, "db.twin"))


@pytest.mark.parametrize("kind", ["keyed", "dynamic", "aggregation"])
def test_writes_that_never_met_do_not_come_back_together(catalog: Catalog, kind: str) -> None:
    table = KINDS[kind].table(catalog)
    undone = []
    for v in ("first", "second"):
        write = made_by(table, lambda each, v=v: each.write(rows(each, events(0, 1, v=v))))
        undone += made_by(table, lambda each, write=write: each.history.revert(*write))
    # The second began its sequence numbers anew, so which of them is later is unknown.
    with pytest.raises(NotRevertible, match="sequence numbers begin at or below"):
        table.history.revert(*undone)
    assert content(table) == []
    table.history.revert(undone[-1])
    assert [row["v"] for row in table.read().to_pylist()] == ["second0"]


def test_a_dropped_partition_does_not_come_back_after_the_whole_table_was_overwritten(
    catalog: Catalog,
) -> None:
    table = filled(catalog, "append")
    (drop,) = made_by(table, VERBS["drop"])
    kept = rows(table, events(0, 3, day="other"))
    table.write(kept, mode="overwrite", dynamic=False)
    before = content(table)
    with pytest.raises(NotRevertible, match="perhaps of the whole table"):
        table.history.revert(drop)
    assert content(table) == before


def test_a_revert_is_taken_back_too(catalog: Catalog) -> None:
    table = filled(catalog, "keyed")
    before = content(table)
    (drop,) = made_by(table, VERBS["drop"])
    dropped = content(table)
    (revert,) = made_by(table, lambda each: each.history.revert(drop))
    table.history.revert(revert)
    assert content(table) == dropped
    # The drop stands again, and can be taken back again.
    result = table.history.revert(drop)
    assert result.snapshot is not None
    assert content(table) == before
    again = table.history.plan_revert(drop)
    assert again.taken_back_by == result.snapshot.id


def by_day(table: Table, day: str, v: str) -> object:
    """Overwrite one partition, and no other."""
    return table.write(rows(table, events(0, 2, day=day, v=v)), mode="overwrite")


def dropped_and_overwritten(table: Table) -> tuple[list[list[str]], list[int]]:
    """A drop of a partition and an overwrite of another one, with the rows before each."""
    for day in "abc":
        table.write(rows(table, events(0, 3, day=day, v=day)))
    states, made = [], []
    for verb in (VERBS["drop"], lambda each: by_day(each, "c", "new")):
        states.append(content(table))
        made += made_by(table, verb)
    return states, made


@pytest.mark.parametrize("kind", ["append", "append in buckets", "keyed", "dynamic"])
def test_an_overwrite_that_was_taken_back_is_not_in_the_way(catalog: Catalog, kind: str) -> None:
    table = KINDS[kind].table(catalog)
    (before, between), (drop, overwrite) = dropped_and_overwritten(table)
    with pytest.raises(NotRevertible, match=rf"take snapshot {overwrite} back first"):
        table.history.revert(drop)
    table.history.revert(overwrite)
    assert content(table) == between
    table.history.revert(drop)
    assert content(table) == before
    expire(table)
    assert content(table) == before
    assert_only_reachable_files(table)


def test_an_overwrite_that_stands_again_is_in_the_way_again(catalog: Catalog) -> None:
    table = KINDS["append"].table(catalog)
    (before, between), (drop, overwrite) = dropped_and_overwritten(table)
    after = content(table)
    (undo,) = made_by(table, lambda each: each.history.revert(overwrite))
    table.history.revert(undo)
    assert content(table) == after
    with pytest.raises(NotRevertible, match=rf"take snapshot {overwrite} back first"):
        table.history.revert(drop)
    table.history.revert(overwrite)
    assert content(table) == between
    table.history.revert(drop)
    assert content(table) == before


def test_an_overwrite_of_the_whole_table_does_not_stand_again_beside_rows_that_came_back(
    catalog: Catalog,
) -> None:
    table = filled(catalog, "append")
    before = content(table)
    (drop,) = made_by(table, VERBS["drop"])
    (overwrite,) = made_by(table, VERBS["overwrite all"])
    (undo,) = made_by(table, lambda each: each.history.revert(overwrite))
    table.history.revert(drop)
    assert content(table) == before
    # It would have removed the rows that the drop left out.
    with pytest.raises(NotRevertible, match="overwrote or deleted rows of partition"):
        table.history.revert(undo)
    assert content(table) == before


@pytest.mark.parametrize("kind", ["append", "keyed", "vectors"])
def test_what_was_taken_back_one_by_one_is_taken_back_as_a_whole_too(
    catalog: Catalog, kind: str
) -> None:
    table = filled(catalog, kind)
    before = content(table)
    (drop,) = made_by(table, VERBS["drop"])
    (overwrite,) = made_by(table, VERBS["overwrite a partition"])
    table.history.revert(overwrite)
    plan = table.history.plan_revert(drop, overwrite)
    assert [each.id for each in plan.snapshots] == [drop]
    result = table.history.run(plan)
    assert result.snapshot_ids == (drop,)
    assert content(table) == before
    again = table.history.revert(drop, overwrite)
    assert (again.snapshot, again.snapshot_ids) == (None, (drop, overwrite))


@pytest.mark.parametrize("kind", ["append", "keyed"])
def test_a_compaction_that_was_taken_back_is_not_in_the_way(catalog: Catalog, kind: str) -> None:
    table = filled(catalog, kind)
    before = content(table)
    (append,) = made_by(table, VERBS["append"])
    (compaction,) = made_by(table, VERBS["compact"])
    with pytest.raises(NotRevertible, match=rf"take snapshot {compaction} back first"):
        table.history.revert(append)
    table.history.revert(compaction)
    table.history.revert(append)
    assert content(table) == before


@pytest.mark.parametrize("kind", ["append", "keyed"])
def test_a_compaction_of_copies_is_in_the_way_and_named(catalog: Catalog, kind: str) -> None:
    table = filled(catalog, kind)
    before = content(table)
    (append,) = made_by(table, VERBS["append"])
    (overwrite,) = made_by(table, VERBS["overwrite a partition"])
    table.history.revert(overwrite)
    appended = content(table)
    (compaction,) = made_by(table, VERBS["compact"])
    with pytest.raises(NotRevertible, match=rf"take snapshot {compaction} back first"):
        table.history.revert(append)
    assert content(table) == appended
    table.history.revert(compaction)
    table.history.revert(append)
    assert content(table) == before


def test_a_file_that_only_changed_its_level_goes_back_as_its_copy(catalog: Catalog) -> None:
    table = new_table(catalog, keys=("id",), options={"bucket": "1"})
    table.write(rows(table, events(0, 3)))
    before, laid_out = content(table), layout(table)
    (compaction,) = made_by(table, VERBS["compact"])
    assert table.history.plan_revert(compaction).buckets[0].moved
    (overwrite,) = made_by(table, VERBS["overwrite all"])
    table.history.revert(overwrite)
    (copy,) = table.at().files()
    table.history.revert(compaction)
    assert (content(table), layout(table)) == (before, laid_out)
    # The file of before went with the overwrite, and expires with it.
    assert [each.file.file_name for each in table.at().files()] == [copy.file.file_name]
    expire(table)
    assert content(table) == before
    assert_only_reachable_files(table)


def test_copies_of_files_whose_names_begin_like_a_copy_are_apart(catalog: Catalog) -> None:
    options = {"data-file.prefix": "part-back-"}
    table = new_table(catalog, partitions=("day",), options=options)
    for number in range(3):
        table.write(rows(table, events(number, number + 1)))
    before = content(table)
    (drop,) = made_by(table, VERBS["drop"])
    table.history.revert(drop)
    assert content(table) == before
    assert len({each.file.file_name for each in table.at().files()}) == 3


@pytest.mark.parametrize("tagged", [False, True])
def test_files_of_an_expired_snapshot_come_back_only_if_a_tag_holds_them(
    catalog: Catalog, *, tagged: bool
) -> None:
    table = filled(catalog, "keyed")
    before = content(table)
    if tagged:
        table.history.create_tag("before")
    (drop,) = made_by(table, VERBS["drop"])
    expire(table)
    assert [each.id for each in table.history.snapshots()] == [drop]
    if tagged:
        table.history.revert(drop)
        table.history.delete_tags("before", grace_ms=0)
        assert content(table) == before
    else:
        with pytest.raises(NotRevertible, match=rf"snapshot {drop - 1}, .*they are deleted"):
            table.history.plan_revert(drop)
    table.write(rows(table, events(0, 1, day="b")))
    expire(table)
    with pytest.raises(SnapshotNotFound, match="undo that expiry first"):
        table.history.plan_revert(drop)


def test_an_expiry_during_a_revert_leaves_the_table_as_it_was(catalog: Catalog) -> None:
    table = filled(catalog, "append")
    (drop,) = made_by(table, VERBS["drop"])
    table.write(rows(table, events(0, 2, day="b")))
    before, plan = content(table), table.history.plan_revert(drop)
    late = overtaken(
        table, lambda call: call.name == "copy" and "-back-" in call.path, lambda: expire(table)
    )
    with pytest.raises(StalePlan, match=r"nothing of db\.t was taken back"):
        late.history.run(plan)
    assert content(table) == before
    assert_only_reachable_files(table)
    with pytest.raises(StalePlan, match="stale"):
        table.history.run(plan)


def test_deletions_that_came_since_stand_in_the_way(catalog: Catalog) -> None:
    table = new_table(catalog, options={"deletion-vectors.enabled": "true"})
    for number in range(3):
        table.write(rows(table, events(number, number + 2)))
    delete_rows(table, 0)
    before = content(table)
    (compaction,) = made_by(table, VERBS["compact"])
    assert content(table) == before
    table.history.revert(compaction)
    # Deleted rows stay deleted.
    assert content(table) == before
    (compaction,) = made_by(table, VERBS["compact"])
    delete_rows(table, 1)
    with pytest.raises(NotRevertible, match=r"deleted rows|index files"):
        table.history.plan_revert(compaction)


def delete_rows(table: Table, position: int) -> None:
    """Delete a row of the first file, as a client that deletes from append tables does."""
    entry = table.at().files()[0]
    index = table.table_files.indexes.write_deletion_vectors(
        {entry.file.file_name: np.array([position])}, write_id=f"deleted-{latest_id(table)}"
    )
    message = CommitMessage(
        partition=entry.partition,
        bucket=entry.bucket,
        total_buckets=entry.total_buckets,
        new_indexes=(index,),
    )
    commit_compaction(
        table.table_files, [message], user="deleter", base_snapshot_id=latest_id(table)
    )


def test_a_compaction_that_told_its_changes_stays(catalog: Catalog) -> None:
    options = {"bucket": "1", "changelog-producer": "lookup"}
    table = new_table(catalog, keys=("id",), options=options)
    table.write(rows(table, events(0, 3)))
    (compaction,) = made_by(table, VERBS["compact"])
    with pytest.raises(NotRevertible, match="readers of changes have read"):
        table.history.plan_revert(compaction)


def test_postponed_rows_do_not_wait_again(catalog: Catalog) -> None:
    table = new_table(catalog, keys=("id",), options={"bucket": "-2"})
    table.write(rows(table, events(0, 3)))
    (given,) = made_by(table, lambda each: each.upkeep.postpone_compact())
    with pytest.raises(UnsupportedError, match="waited for its bucket"):
        table.history.plan_revert(given)
    # Rows that wait can be taken back.
    (write,) = made_by(table, lambda each: each.write(rows(each, events(3, 5))))
    before = content(table)
    table.history.revert(write)
    table.upkeep.postpone_compact()
    assert content(table) == before


def test_files_of_other_systems_go_and_do_not_come_back(catalog: Catalog) -> None:
    table = new_table(catalog, partitions=("day",))
    land_beside(table, "x")
    (added,) = made_by(table, lambda each: each.upkeep.add_partitions(land_beside(each), age_ms=0))
    table = catalog.table(table.name)
    assert table.read().num_rows
    (drop,) = made_by(table, lambda each: each.upkeep.drop_partitions(partitions=[{"day": "x"}]))
    with pytest.raises(UnsupportedError, match="belongs to another system"):
        table.history.plan_revert(drop)
    table.history.rollback(snapshot=added, grace_ms=0)
    table.history.revert(added)
    assert table.read().num_rows == 0


def test_a_change_of_partition_keys_is_no_matter_of_files(catalog: Catalog) -> None:
    table = filled(catalog, "append")
    (drop,) = made_by(table, VERBS["drop"])
    keyed = made_by(table, lambda each: each.upkeep.respec(["day", "id"]))
    table = catalog.table(table.name)
    for snapshot in (drop, *keyed):
        with pytest.raises(NotRevertible, match="partition keys"):
            table.history.plan_revert(snapshot)
    ways = (
        r"with \(day\) again \(lakewright respec db\.t --keys day\), .* or roll back to snapshot "
        rf"{drop - 1} \(lakewright rollback db\.t --snapshot {drop - 1}\), which loses all"
    )
    with pytest.raises(NotRevertible, match=ways):
        table.history.plan_revert(drop)
    table.upkeep.respec(["day"])
    before = content(table.at(snapshot=drop - 1))
    catalog.table(table.name).history.revert(drop)
    assert content(catalog.table(table.name)) == before


# --- plans --------------------------------------------------------------------------------------


def test_a_stale_plan_is_refused(catalog: Catalog) -> None:
    table = filled(catalog, "append")
    (append,) = made_by(table, VERBS["append"])
    plan = table.history.plan_revert(append)
    # Other commits that touch none of it do not matter.
    table.write(rows(table, events(0, 1, day="b")))
    first = replace(plan, snapshots=(replace(plan.snapshots[0], delta="manifest-list-other"),))
    with pytest.raises(StalePlan, match="other snapshots have their ids"):
        table.history.run(first)
    bucket = replace(plan.buckets[0], removed=("data-of-others.parquet",))
    with pytest.raises(StalePlan):
        table.history.run(replace(plan, buckets=(bucket, *plan.buckets[1:])))
    table.history.run(plan)
    with pytest.raises(StalePlan, match="taken back by snapshot"):
        table.history.run(plan)


def test_a_commit_that_wins_meanwhile_is_judged_too(catalog: Catalog) -> None:
    table = filled(catalog, "keyed")
    (write,) = made_by(table, VERBS["append"])
    plan = table.history.plan_revert(write)
    late, _ = interrupted(table, when=puts_snapshot, meanwhile=lambda: compact(table, full=True))
    before = content(table)
    with pytest.raises(StalePlan, match="another commit came between"):
        late.history.run(plan)
    assert content(table) == before
    assert_only_reachable_files(table)


def test_later_rows_that_come_meanwhile_stay(catalog: Catalog) -> None:
    table, twin = filled(catalog, "keyed"), filled(catalog, "keyed", "db.twin")
    (compaction,) = made_by(table, VERBS["compact"])

    def write(each: Table) -> None:
        each.write(rows(each, events(0, 4, v="meanwhile")))

    late, _ = interrupted(table, when=puts_snapshot, meanwhile=lambda: write(table))
    late.history.revert(compaction)
    write(twin)
    assert content(table) == content(twin)
    assert_only_reachable_files(table)


def test_a_schema_that_moved_is_refused(catalog: Catalog) -> None:
    table = filled(catalog, "keyed")
    (drop,) = made_by(table, VERBS["drop"])
    altered = table.alter(AddColumn("w", "INT"))
    with pytest.raises(SchemaMoved):
        table.history.plan_revert(drop)
    altered.history.revert(drop)
    assert altered.read().num_rows == 10


@pytest.mark.parametrize(
    ("ids", "error"),
    [((), InvalidRequestError), ((99,), SnapshotNotFound), (("x",), InvalidRequestError)],
)
def test_a_snapshot_that_is_none_is_refused(
    catalog: Catalog, ids: tuple[object, ...], error: type[Exception]
) -> None:
    table = filled(catalog, "append")
    with pytest.raises(error):
        table.history.plan_revert(*ids)  # type: ignore[arg-type]  # what a caller may get wrong


def test_a_snapshot_that_changed_no_file_leaves_nothing_to_take_back(catalog: Catalog) -> None:
    table = filled(catalog, "append")
    (analyzed,) = made_by(table, lambda each: each.upkeep.analyze())
    assert table.history.plan_revert(analyzed).is_empty
    assert table.history.revert(analyzed).snapshot is None


@pytest.mark.parametrize(
    ("verb", "kind"), [("compact", CommitKind.COMPACT), ("drop", CommitKind.OVERWRITE)]
)
def test_readers_of_changes_skip_a_revert(catalog: Catalog, verb: str, kind: CommitKind) -> None:
    table = filled(catalog, "telling")
    (made,) = made_by(table, VERBS[verb])
    snapshot = table.history.revert(made).snapshot
    assert snapshot is not None
    assert snapshot.commit_kind is kind
    assert snapshot.changelog_manifest_list is None


def test_no_name_of_a_removed_file_comes_again(catalog: Catalog) -> None:
    table = filled(catalog, "keyed")
    (last,) = made_by(table, VERBS["compact"])
    for _ in range(3):
        snapshot = table.history.revert(last).snapshot
        assert snapshot is not None
        last = snapshot.id
    manifests = table.table_files.manifests
    gone: set[str] = set()
    for snapshot in table.history.snapshots():
        delta = list(manifests.entries(manifests.read_delta_list(snapshot)))
        added = {each.file.file_name for each in delta if each.kind is FileKind.ADD}
        assert not added & gone
        removed = {each.file.file_name for each in delta if each.kind is FileKind.DELETE}
        gone |= removed - added
    assert all(each.file.file_name.count("-back-") <= 1 for each in table.at().files())


def test_orphans_are_none_of_what_came_back(catalog: Catalog) -> None:
    table = filled(catalog, "vectors")
    before = content(table)
    (drop,) = made_by(table, VERBS["drop"])
    table.history.revert(drop)
    assert remove_orphans(table).files_condemned == 0
    assert content(table) == before


@pytest.mark.parametrize(
    ("options", "hidden"),
    [
        ({"deletion-vectors.enabled": "true"}, 6),
        ({"merge-engine": "first-row"}, 6),
        # Readers merge rows of level 0.
        ({}, 0),
    ],
)
def test_a_plan_counts_the_rows_that_become_invisible_until_the_next_compaction(
    catalog: Catalog, options: dict[str, str], hidden: int
) -> None:
    table = new_table(catalog, keys=("id",), options={"bucket": "1", **options})
    for number in range(2):
        table.write(rows(table, events(3 * number, 3 * number + 3)))
    compact(table, full=True)
    assert len(content(table)) == 6
    plan = table.history.plan_revert(table.history.snapshots()[-1].id)
    assert plan.rows_hidden == hidden
    table.history.run(plan)
    assert len(content(table)) == 6 - hidden
    compact(table, full=True)
    assert len(content(table)) == 6


@pytest.mark.parametrize("keyed", [False, True])
def test_deletions_that_come_back_are_those_of_the_files_that_came_back_before(
    catalog: Catalog, keyed: bool
) -> None:
    options = {"bucket": "1" if keyed else "-1", "deletion-vectors.enabled": "true"}
    table = new_table(catalog, keys=["id"] if keyed else [], options=options)
    table.write(rows(table, events(0, 9)))
    compact(table, full=True)
    states = [content(table)]
    for gone in (1, 5):
        table.delete(f"id = {gone}")
        if keyed:
            compact(table)
        states.append(content(table))
    last = table.history.latest_snapshot()
    assert last is not None
    compact(table, full=True)
    made = table.history.latest_snapshot()
    assert made is not None
    # The compaction's files come back as copies, and then the deletions that they had.
    table.history.revert(made.id)
    assert content(table) == states[2]
    table.history.revert(*([last.id, last.id - 1] if keyed else [last.id]))
    assert content(table) == states[1]


def test_a_table_without_snapshots_says_so(catalog: Catalog) -> None:
    with pytest.raises(SnapshotNotFound, match="it has no snapshot"):
        new_table(catalog).history.revert(1)


def test_deletions_do_not_come_back_without_their_files(catalog: Catalog) -> None:
    table = new_table(catalog, options={"bucket": "-1", "deletion-vectors.enabled": "true"})
    table.write(rows(table, events(0, 4)))
    table.delete("id < 2")
    table.delete("id >= 2")
    table.history.revert(1, 3)
    assert content(table) == []
    table.write(rows(table, events(0, 4)))
    compact(table, full=True)
    assert len(content(table)) == 4
