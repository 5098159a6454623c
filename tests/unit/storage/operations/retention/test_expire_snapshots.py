"""Expiry: what bounds it, what it takes along, and what it never touches."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import ClockJumped, CorruptionError, InvalidRequestError, StalePlan
from lakewright.storage.operations.retention.expire_snapshots import ExpirePlan
from tests.support.stores.watched_files import Crashed, Fault, WatchedFiles
from tests.support.tables.builders import (
    compact,
    content,
    events,
    expire,
    new_table,
    remove_orphans,
    replacing,
    rows,
    values_of,
    with_options,
)
from tests.support.tables.environment import FixedEnv
from tests.support.tables.invariants import (
    assert_nothing_missing,
    assert_only_reachable_files,
    unreachable_files,
)

HOUR = 3_600_000


def commits(table: Table, env: FixedEnv, count: int, *, every_ms: int = HOUR) -> None:
    """Commits an hour apart, the last of them just now."""
    for number in range(count):
        table.write(rows(table, events(number, number + 1)))
        if number < count - 1:
            env.clock.advance(every_ms)


def left(table: Table) -> list[int]:
    return [snapshot.id for snapshot in table.history.snapshots()]


def run(table: Table, **plan: Any) -> list[int]:
    table.upkeep.run(table.upkeep.plan_expire_snapshots(**{"grace_ms": 0, **plan}))
    return left(table)


@pytest.mark.mission("FS19")
def test_snapshots_go_by_age_but_some_always_stay(any_catalog: Catalog, env: FixedEnv) -> None:
    table = new_table(any_catalog)
    commits(table, env, 6)
    before = content(table)
    # Each was current until the next came: five hours, four, three, two, one hour ago.
    assert run(table, retain_min=1, time_retained_ms=150 * 60_000) == [3, 4, 5, 6]
    assert run(table, retain_min=3, time_retained_ms=0) == [4, 5, 6]
    assert run(table, retain_min=1, time_retained_ms=0) == [6]
    assert content(table) == before
    assert run(table, retain_min=1, time_retained_ms=0) == [6]


def test_snapshots_beyond_the_greatest_number_go_whatever_their_age(
    catalog: Catalog, env: FixedEnv
) -> None:
    table = new_table(catalog)
    commits(table, env, 6, every_ms=0)
    assert run(table, retain_min=2, retain_max=4, time_retained_ms=HOUR) == [3, 4, 5, 6]


def test_what_is_not_given_comes_from_the_options(catalog: Catalog, env: FixedEnv) -> None:
    table = new_table(catalog)
    commits(table, env, 14)
    # Ten snapshots are kept by default.
    plan = table.upkeep.plan_expire_snapshots(grace_ms=0)
    assert plan.snapshot_ids == (1, 2, 3, 4)
    told = with_options(table, snapshot__num_retained__min="2", snapshot__time_retained="90 min")
    assert told.upkeep.plan_expire_snapshots(grace_ms=0).snapshot_ids == tuple(range(1, 12))
    limited = with_options(told, snapshot__expire__limit="3")
    assert limited.upkeep.plan_expire_snapshots(grace_ms=0).snapshot_ids == (1, 2, 3)
    assert limited.upkeep.plan_expire_snapshots(max_deletes=5, grace_ms=0).snapshot_ids == (
        1,
        2,
        3,
        4,
        5,
    )


def test_a_plan_says_what_bounds_it_and_what_goes(catalog: Catalog, env: FixedEnv) -> None:
    table = new_table(catalog)
    commits(table, env, 4)
    plan = table.upkeep.plan_expire_snapshots(
        retain_min=1, time_retained_ms=90 * 60_000, grace_ms=0
    )
    assert (plan.snapshot_ids, plan.end_id) == ((1,), 2)
    assert any("of 4 snapshots at least 1" in reason for reason in plan.reasons)
    assert any("was current within the last 90min" in reason for reason in plan.reasons)
    assert plan.bytes == sum(file.size_bytes for file in plan.files) > 0
    assert ExpirePlan.from_json(plan.to_json()) == plan
    result = table.upkeep.run(ExpirePlan.from_json(plan.to_json()))
    assert result.expired == (1,)
    assert result.files_deleted == len(plan.files)
    assert left(table) == [2, 3, 4]


def test_fewer_snapshots_than_are_retained_all_stay(catalog: Catalog, env: FixedEnv) -> None:
    table = new_table(catalog)
    commits(table, env, 3)
    plan = table.upkeep.plan_expire_snapshots(retain_min=10, time_retained_ms=0, grace_ms=0)
    assert plan.snapshot_ids == ()
    assert plan.reasons[0] == "all 3 snapshots are retained, as at least 10 are"


def test_where_nothing_is_old_enough_the_first_snapshot_is_the_reason(
    catalog: Catalog, env: FixedEnv
) -> None:
    table = new_table(catalog)
    commits(table, env, 3, every_ms=1)
    plan = table.upkeep.plan_expire_snapshots(retain_min=1, time_retained_ms=HOUR, grace_ms=0)
    assert (plan.snapshot_ids, plan.waiting) == ((), 0)
    assert plan.reasons == (
        "of 3 snapshots at least 1 are retained",
        "snapshot 1 was current within the last 1h",
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"retain_min": 0},
        {"retain_min": 5, "retain_max": 4},
        {"time_retained_ms": -1},
        {"max_deletes": 0},
    ],
    ids=str,
)
def test_a_retention_that_cannot_be_is_refused(catalog: Catalog, wrong: dict[str, int]) -> None:
    table = new_table(catalog)
    with pytest.raises(InvalidRequestError):
        table.upkeep.plan_expire_snapshots(**wrong)


def test_a_table_without_snapshots_has_nothing_to_expire(catalog: Catalog) -> None:
    table = new_table(catalog)
    plan = table.upkeep.plan_expire_snapshots(retain_min=1, time_retained_ms=0, grace_ms=0)
    assert (plan.snapshot_ids, plan.files, plan.waiting) == ((), (), 0)
    assert plan.reasons == ("the table has no snapshot",)
    result = table.upkeep.run(plan)
    assert (result.expired, result.files_deleted, result.bytes_deleted) == ((), 0, 0)


def test_replaced_data_files_go_with_the_last_snapshot_that_needs_them(catalog: Catalog) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "1"})
    table.write(rows(table, events(0, 3)))
    table.write(rows(table, events(0, 3, v="new")))
    old = {entry.file.file_name for entry in table.at().files()}
    compact(table, full=True)
    table.write(rows(table, events(5, 6)))
    assert run(table, retain_min=3, retain_max=3, time_retained_ms=0) == [2, 3, 4]
    # Snapshot 2 still reads them.
    assert table.at(snapshot=2).read().num_rows == 3
    assert run(table, retain_min=2, retain_max=2, time_retained_ms=0) == [3, 4]
    names = {each.name for each in table.table_files.fs.list_tree(table.table_files.paths.root)}
    assert not old & names


def tag(table: Table, name: str, snapshot_id: int) -> Path:
    """A tag as the format has it: a copy of the snapshot."""
    root = Path(table.table_files.paths.root)
    (root / "tag").mkdir(exist_ok=True)
    path = root / "tag" / f"tag-{name}"
    found = json.loads((root / "snapshot" / f"snapshot-{snapshot_id}").read_text())
    found |= {"tagCreateTime": [2026, 11, 20, 10, 15, 12, 250474318], "tagTimeRetained": 259200.0}
    path.write_text(json.dumps(found))
    return path


@pytest.mark.mission("FS19")
def test_a_tagged_snapshot_keeps_its_files(catalog: Catalog) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "1"})
    for version in "abc":
        table.write(rows(table, events(0, 3, v=version)))
    tag(table, "kept", 2)
    compact(table, full=True)
    table.write(rows(table, events(9, 10)))
    # Soundness after the test proves that the files of the tag are there, and no others.
    assert run(table, retain_min=1, time_retained_ms=0) == [5]
    assert_only_reachable_files(table)


def test_a_branch_keeps_its_files(catalog: Catalog) -> None:
    table = new_table(catalog, partitions=["day"])
    table.write(rows(table, events(0, 3, day="a")))
    root = Path(table.table_files.paths.root)
    branch = root / "branch" / "branch-b"
    for folder in ("schema", "snapshot"):
        shutil.copytree(root / folder, branch / folder)
    table.write(rows(table, events(5, 6, day="a")), mode="overwrite")
    assert run(table, retain_min=1, time_retained_ms=0) == [2]
    assert_only_reachable_files(table)
    assert any(path.name.startswith("data-") for path in root.rglob("*"))
    assert len(list(root.rglob("data-*"))) == 2


def test_a_consumer_keeps_what_it_has_not_read(catalog: Catalog, env: FixedEnv) -> None:
    table = new_table(catalog)
    commits(table, env, 5)
    consumer = Path(table.table_files.paths.root) / "consumer" / "consumer-me"
    consumer.parent.mkdir()
    consumer.write_text(json.dumps({"nextSnapshot": 3}))
    plan = table.upkeep.plan_expire_snapshots(retain_min=1, time_retained_ms=0, grace_ms=0)
    assert plan.snapshot_ids == (1, 2)
    assert "consumer me wants to read from snapshot 3" in plan.reasons
    assert run(table, retain_min=1, time_retained_ms=0) == [3, 4, 5]
    consumer.write_text(json.dumps({"nextSnapshot": 6}))
    assert run(table, retain_min=1, time_retained_ms=0) == [5]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("tag/tag-x", "{"),
        ("consumer/consumer-x", "[]"),
        ("consumer/consumer-x", '{"nextSnapshot": "soon"}'),
        ("branch/branch-b/snapshot/snapshot-1", "{}"),
        ("changelog/changelog-1", "{}"),
    ],
)
def test_nothing_goes_when_what_refers_to_it_cannot_be_read(
    unchecked_catalog: Catalog, env: FixedEnv, name: str, data: str
) -> None:
    table = new_table(unchecked_catalog)
    commits(table, env, 3)
    root = Path(table.table_files.paths.root)
    (root / "branch/branch-b/schema").mkdir(parents=True)
    shutil.copy(root / "schema/schema-0", root / "branch/branch-b/schema/schema-0")
    path = root / name
    path.parent.mkdir(parents=True)
    path.write_text(data)
    with pytest.raises(CorruptionError, match=path.name):
        table.upkeep.plan_expire_snapshots(retain_min=1, time_retained_ms=0, grace_ms=0)
    assert left(table) == [1, 2, 3]


def test_nothing_goes_when_a_manifest_that_stays_cannot_be_read(
    unchecked_catalog: Catalog, env: FixedEnv
) -> None:
    table = new_table(unchecked_catalog)
    commits(table, env, 3)
    latest = table.history.latest_snapshot()
    assert latest is not None
    Path(table.table_files.paths.manifest(latest.delta_manifest_list)).unlink()
    with pytest.raises(CorruptionError):
        table.upkeep.plan_expire_snapshots(retain_min=1, time_retained_ms=0, grace_ms=0)
    assert left(table) == [1, 2, 3]


def test_a_tag_made_after_the_plan_stops_it(catalog: Catalog, env: FixedEnv) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "1"})
    commits(table, env, 3)
    compact(table, full=True)
    plan = table.upkeep.plan_expire_snapshots(retain_min=1, time_retained_ms=0, grace_ms=0)
    tag(table, "late", 2)
    with pytest.raises(StalePlan, match="which a reference keeps now; plan again"):
        table.upkeep.run(plan)
    assert left(table) == [1, 2, 3, 4]
    assert_nothing_missing(table)
    run(table, retain_min=1, time_retained_ms=0)
    assert_only_reachable_files(table)


def test_a_plan_carried_out_twice_says_that_its_snapshots_are_gone(
    catalog: Catalog, env: FixedEnv
) -> None:
    table = new_table(catalog)
    commits(table, env, 4)
    plan = table.upkeep.plan_expire_snapshots(retain_min=1, time_retained_ms=0, grace_ms=0)
    table.upkeep.run(plan)
    with pytest.raises(
        StalePlan, match=r"snapshots 1 to 3 of db\.t, which the plan expires, are gone already"
    ):
        table.upkeep.run(plan)


def test_a_plan_already_carried_out_is_stale_or_empty(catalog: Catalog, env: FixedEnv) -> None:
    table = new_table(catalog)
    commits(table, env, 4)
    first = table.upkeep.plan_expire_snapshots(retain_min=2, time_retained_ms=0, grace_ms=0)
    second = table.upkeep.plan_expire_snapshots(retain_min=1, time_retained_ms=0, grace_ms=0)
    table.upkeep.run(second)
    with pytest.raises(StalePlan):
        table.upkeep.run(first)
    assert left(table) == [4]


def test_commits_after_the_plan_do_not_disturb_it(catalog: Catalog, env: FixedEnv) -> None:
    table = new_table(catalog)
    commits(table, env, 4)
    plan = table.upkeep.plan_expire_snapshots(retain_min=1, time_retained_ms=0, grace_ms=0)
    table.write(rows(table, events(9, 10)))
    table.upkeep.run(plan)
    assert left(table) == [4, 5]


def test_hints_follow(catalog: Catalog, env: FixedEnv) -> None:
    table = new_table(catalog)
    commits(table, env, 4)
    expire(table, keep=2)
    folder = Path(table.table_files.paths.snapshot_dir)
    assert (folder / "EARLIEST").read_text() == "3"
    assert (folder / "LATEST").read_text() == "4"


@pytest.mark.parametrize("wanted", [True, False])
def test_empty_folders_go_if_the_table_says_so(catalog: Catalog, wanted: bool) -> None:
    table = new_table(
        catalog,
        partitions=["day"],
        options={"snapshot.clean-empty-directories": str(wanted).lower()},
    )
    table.write(rows(table, [*events(0, 1, day="a"), *events(0, 1, day="b")]))
    table.write(rows(table, []), mode="overwrite", partition={"day": "a"})
    expire(table)
    root = Path(table.table_files.paths.root)
    assert (root / "day=a").exists() is not wanted
    assert (root / "day=b" / "bucket-0").exists()


@pytest.mark.mission("SE36")
def test_history_over_several_schemas_is_expired(catalog: Catalog, env: FixedEnv) -> None:
    from dataclasses import replace

    table = new_table(catalog, partitions=["day"])
    for number in range(12):
        table.write(rows(table, events(number, number + 1)))
        table.table_files.schemas.put_schema(
            replace(table.schema, id=number + 1, comment=str(number))
        )
        table = catalog.table("db.t")
    compact(table, full=True)
    assert table.read().num_rows == 12
    expire(table)
    assert {entry.file.schema_id for entry in table.at().files()} == {12}


@pytest.mark.mission("FS19")
@pytest.mark.parametrize(
    "options",
    [{"bucket": "1", "deletion-vectors.enabled": "true"}, {"bucket": "-1"}],
    ids=["deletion vectors", "dynamic buckets"],
)
def test_index_and_statistics_files_go_with_what_names_them(
    any_catalog: Catalog, options: dict[str, str]
) -> None:
    table = new_table(any_catalog, keys=["id"], options=options)
    paths = table.table_files.paths

    def on_disk() -> tuple[int, int]:
        lists = (
            table.table_files.fs.list_dir(each) for each in (paths.index_dir, paths.statistics_dir)
        )
        first, second = (len(each) for each in lists)
        return first, second

    table.write(rows(table, events(0, 40)))
    compact(table, full=True)
    for number in range(3):
        table.write(rows(table, events(number, number + 2, v=f"new{number}-")))
        compact(table)
        table.upkeep.run(table.upkeep.plan_analyze())
    index_files, statistics = on_disk()
    assert index_files > 1 or options["bucket"] == "-1"
    assert statistics == 3
    table.history.create_tag("t")
    tagged = content(table)
    for number in range(3):
        table.write(rows(table, events(number + 50, number + 53, v="later")))
    compact(table, full=True)
    table.upkeep.run(table.upkeep.plan_analyze())
    expire(table)
    assert_only_reachable_files(table)
    assert content(table.at(tag="t")) == tagged
    assert on_disk()[1] == 2
    table.history.run(table.history.plan_delete_tags("t", grace_ms=0))
    assert_only_reachable_files(table)
    assert on_disk()[1] == 1


# --- histories that are not as they should be ----------------------------------------------------


def lose(table: Table, *snapshot_ids: int) -> None:
    for each in snapshot_ids:
        Path(table.table_files.paths.snapshot(each)).unlink()


@pytest.mark.parametrize("lost", [(2,), (3, 4), (2, 4, 5), (5, 6)], ids=str)
def test_gaps_in_the_history_do_not_stop_expiry(
    unchecked_catalog: Catalog, lost: tuple[int, ...]
) -> None:
    table = new_table(unchecked_catalog, keys=["id"], options={"bucket": "1"})
    for version in "abcd":
        table.write(rows(table, events(0, 3, v=version)))
        compact(table, full=True)
    before = content(table)
    lose(table, *lost)
    for keep in (4, 2, 1):
        expire(table, keep=keep, max_deletes=50)
        assert len(left(table)) == keep
        assert content(table) == before
        assert_nothing_missing(table)
    # What the lost snapshots alone knew is left over.
    remove_orphans(table)
    assert_only_reachable_files(table)
    assert content(table) == before


@pytest.mark.parametrize(("lost", "known_to_them_alone"), [((6,), 0), ((5, 6), 1)], ids=str)
def test_what_the_last_snapshot_before_a_gap_alone_needed_goes_with_it(
    unchecked_catalog: Catalog, lost: tuple[int, ...], known_to_them_alone: int
) -> None:
    """The commit that replaced it is gone, and with it the word that it was replaced."""
    table = new_table(unchecked_catalog, keys=["id"], options={"bucket": "1"})
    for version in "abcd":
        table.write(rows(table, events(0, 3, v=version)))
        compact(table, full=True)
    lose(table, *lost)
    before = content(table)
    expire(table)
    assert left(table) == [8]
    data = [path for path in unreachable_files(table) if "bucket-0" in path]
    assert len(data) == known_to_them_alone
    assert content(table) == before


def test_as_many_snapshots_stay_as_asked_however_their_ids_jump(
    unchecked_catalog: Catalog, env: FixedEnv
) -> None:
    table = new_table(unchecked_catalog)
    commits(table, env, 12)
    lose(table, *range(5, 11))
    # Counted by ids, 7 to 12 would be enough, of which two are there.
    assert run(table, retain_min=4, retain_max=6, time_retained_ms=0) == [3, 4, 11, 12]


@pytest.mark.parametrize("hint", [None, "1", "4", "77", "x"])
def test_a_wrong_earliest_hint_does_no_harm(catalog: Catalog, env: FixedEnv, hint: str) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "1"})
    for version in "abc":
        table.write(rows(table, events(0, 3, v=version)))
        compact(table, full=True)
    before = content(table)
    path = Path(table.table_files.paths.earliest_hint)
    path.unlink() if hint is None else path.write_text(hint)
    while len(left(table)) > 2:
        count = len(left(table))
        expire(table, keep=2, max_deletes=1)
        assert len(left(table)) == count - 1
        assert content(table) == before
        assert_nothing_missing(table)
    assert left(table) == [5, 6]
    assert path.read_text() == "5"


@pytest.mark.parametrize("hint", [None, "2", "99"])
def test_expiry_needs_no_latest_hint(catalog: Catalog, env: FixedEnv, hint: str | None) -> None:
    table = new_table(catalog)
    commits(table, env, 5)
    path = Path(table.table_files.paths.latest_hint)
    path.unlink() if hint is None else path.write_text(hint)
    assert run(table, retain_min=2, time_retained_ms=0) == [4, 5]
    assert values_of(table, "id") == [0, 1, 2, 3, 4]
    table.write(rows(table, events(5, 6)))


# --- clocks ---------------------------------------------------------------------------------------


def test_a_clock_that_jumped_back_stops_expiry_by_age(catalog: Catalog, env: FixedEnv) -> None:
    table = new_table(catalog)
    commits(table, env, 5)
    env.clock.advance(-HOUR)
    with pytest.raises(ClockJumped) as told:
        table.upkeep.plan_expire_snapshots(retain_min=1, time_retained_ms=0, grace_ms=0)
    assert "snapshot 5 of db.t is of 2024-01-01 04:00:00" in told.value.message
    assert "the clock of this machine says 2024-01-01 03:00:00" in told.value.message
    assert "the next commit is dated right again (lakewright analyze db.t" in told.value.message
    assert left(table) == [1, 2, 3, 4, 5]
    # By number no clock is asked.
    assert run(table, retain_min=3, retain_max=3) == [3, 4, 5]


def test_clocks_that_differ_by_minutes_do_not_stop_expiry(catalog: Catalog, env: FixedEnv) -> None:
    table = new_table(catalog)
    commits(table, env, 5)
    env.clock.advance(-9 * 60_000)
    assert run(table, retain_min=1, time_retained_ms=HOUR) == [3, 4, 5]


def test_a_clock_that_is_ahead_of_the_store_deletes_nothing_by_age(
    catalog: Catalog, env: FixedEnv
) -> None:
    table = new_table(catalog)
    commits(table, env, 8, every_ms=1)
    assert run(table, retain_min=5, time_retained_ms=HOUR) == [1, 2, 3, 4, 5, 6, 7, 8]
    env.clock.advance(10 * 365 * 24 * HOUR)
    with pytest.raises(ClockJumped, match=r"this machine says 2033-.*the store of db\.t says 20"):
        run(table, retain_min=5, time_retained_ms=HOUR)
    assert left(table) == [1, 2, 3, 4, 5, 6, 7, 8]
    # By number no clock is asked.
    assert run(table, retain_min=5, retain_max=5) == [4, 5, 6, 7, 8]


def test_times_of_commits_never_go_back(catalog: Catalog, env: FixedEnv) -> None:
    table = new_table(catalog)
    commits(table, env, 2)
    env.clock.advance(-5 * HOUR)
    commits(table, env, 3, every_ms=1)
    times = [each.time_millis for each in table.history.snapshots()]
    assert times == sorted(times)
    assert times[1] == times[-1]
    compact(table, full=True)
    assert table.history.snapshots()[-1].time_millis == times[-1]
    env.clock.advance(6 * HOUR)
    table.write(rows(table, events(7, 8)))
    assert table.history.snapshots()[-1].time_millis > times[-1]


def test_index_files_and_statistics_stay_while_something_keeps_them(catalog: Catalog) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "-1"})
    table.write(rows(table, events(0, 3)))
    table.upkeep.run(table.upkeep.plan_analyze())
    table.history.create_tag("t")
    for number in range(3):
        table.write(rows(table, events(number, number + 5)))
    remove_orphans(table)
    assert_only_reachable_files(table)
    expire(table)
    assert_only_reachable_files(table)
    table.history.run(table.history.plan_delete_tags("t", grace_ms=0))
    assert_only_reachable_files(table)


def test_files_count_whose_size_a_snapshot_does_not_say(catalog: Catalog) -> None:
    """As in snapshots that older writers made."""
    table = new_table(catalog)
    for number in range(3):
        table.write(rows(table, events(number, number + 1)))
    fs, paths = table.table_files.fs, table.table_files.paths
    for snapshot in table.history.snapshots():
        told = json.loads(fs.read_bytes(paths.snapshot(snapshot.id)))
        older = {key: value for key, value in told.items() if not key.endswith("ListSize")}
        fs.replace(paths.snapshot(snapshot.id), json.dumps(older).encode())
    plan = table.upkeep.plan_expire_snapshots(
        retain_min=1, retain_max=1, time_retained_ms=0, grace_ms=0
    )
    sizes = [len(fs.read_bytes(f"{paths.root}/{file.path}")) for file in plan.files]
    assert plan.files
    assert [file.size_bytes for file in plan.files] == sizes
    table.upkeep.run(plan)
    assert_only_reachable_files(table)


def test_a_consumer_that_came_after_the_plan_keeps_its_snapshots(catalog: Catalog) -> None:
    table = replacing(catalog, "abc")
    plan = table.upkeep.plan_expire_snapshots(
        retain_min=1, retain_max=1, time_retained_ms=0, grace_ms=0
    )
    table.history.set_consumer("late", 3)
    with pytest.raises(StalePlan, match=r"consumer late of db\.t reads from snapshot 3 on"):
        table.upkeep.run(plan)
    assert len(table.history.snapshots()) == 6


@pytest.mark.mission("PT1")
@pytest.mark.parametrize("last", [1, 2, 3])
def test_it_keeps_the_snapshots_that_a_stopped_change_of_keys_may_end_with(
    catalog: Catalog, last: int
) -> None:
    """Without them no process could write to the table again; once it has ended, they go."""
    table = new_table(catalog, partitions=["day"], keys=["day", "v", "id"], options={"bucket": "2"})
    for number in range(3):
        table.write(rows(table, events(number, number + 4)))
    due = content(table)
    dying = WatchedFiles(
        catalog.fs,
        fail_at=last,
        fault=Fault.DIES_AFTER,
        counts=lambda call: call.changes and "/snapshot/snapshot-" in call.path,
    )
    with pytest.raises(Crashed):
        replace(catalog, fs=dying).table(table.name).upkeep.respec(("day", "v"))
    table = catalog.table(table.name)
    plan = table.upkeep.plan_expire_snapshots(retain_min=1, time_retained_ms=0, grace_ms=0)
    has_ended = last == 3
    assert plan.snapshot_ids == ((1, 2, 3, 4, 5) if has_ended else (1, 2))
    told = (
        "a change of the partition keys, or rows that a client committed under former ones, may "
        "need snapshot 3; the next commit ends that"
    )
    assert any(told in each for each in plan.reasons) is not has_ended
    table.upkeep.run(plan)
    catalog.table(table.name).upkeep.respec(("day", "v"))
    table = catalog.table(table.name)
    assert content(table) == due
    assert len(run(table, retain_min=1, time_retained_ms=0)) == 1
    remove_orphans(table)
    assert_only_reachable_files(table)
