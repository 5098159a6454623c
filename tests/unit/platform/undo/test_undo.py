"""Undo: what a run did in a warehouse is found by its name, and taken back table by table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

from lakewright.platform.ledger.action import Action, Verdict
from lakewright.platform.ledger.ledger import Ledger
from lakewright.platform.ledger.recording import Recorder
from lakewright.platform.undo.undo import WHY_NOT, plan_undo, run_undo
from lakewright.platform.undo.undoable import list_undoable
from lakewright.platform.upkeep.clean import REMOVE_ORPHANS, OrphansOptions
from lakewright.platform.upkeep.compact import COMPACT, CompactRun
from lakewright.platform.upkeep.drop_partitions import DROP_PARTITIONS, DropPartitionsOptions
from lakewright.platform.upkeep.expire import EXPIRE_SNAPSHOTS, ExpireSnapshotsRun
from lakewright.platform.upkeep.procedure import AnyProcedure, Work, carry_out
from lakewright.platform.upkeep.procedures import PROCEDURES
from lakewright.platform.upkeep.rescale import RESCALE, RescaleRun
from lakewright.platform.upkeep.respec import RESPEC, RespecRun
from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidRequestError, NotFoundError
from tests.support.tables.builders import compact, content, events, expire, new_table, rows
from tests.support.tables.environment import FixedEnv
from tests.support.tables.fixtures import memory_uri

RUN = "11111111-2222-4333-8444-555555555555"
OTHER = "11111111-9999-4333-8444-555555555555"
SECOND = f"dagster-{OTHER}-drop"
DAGSTER = f"dagster-{RUN}-compact__db__t"


@pytest.fixture
def catalog() -> Catalog:
    return Catalog.open(memory_uri(), env=FixedEnv())


def no_session() -> NoReturn:
    raise AssertionError("an undo starts no Spark session")


def table_of(catalog: Catalog, name: str, **made: Any) -> Table:
    table = new_table(catalog, name=name, partitions=("day",), **made)
    for at in range(3):
        table.write(rows(table, events(at, at + 2)))
    return table


def done_by(run: str, table: Table, verb: AnyProcedure, options: object) -> None:
    carry_out(verb, table, options, Work(run=run, session=no_session))


UNDOING = Work(run="lakewright undo (00000000)", session=no_session)


def test_all_that_a_run_did_is_undone_and_nothing_else(catalog: Catalog) -> None:
    one = table_of(catalog, "db.one")
    two = table_of(catalog, "db.two", keys=("id", "day"), options={"bucket": "1"})
    three = table_of(catalog, "db.three")
    before = {each.name: content(each) for each in (one, two, three)}
    one.stage(rows(one, events(7, 8)))
    done_by(DAGSTER, one, COMPACT, CompactRun(full=True))
    done_by(DAGSTER, one, REMOVE_ORPHANS, OrphansOptions(older_than_ms=0, even_recent=True))
    done_by(f"dagster-{RUN}-drop", two, DROP_PARTITIONS, DropPartitionsOptions(where="day = 'a'"))
    done_by(SECOND, three, DROP_PARTITIONS, DropPartitionsOptions(where="day = 'a'"))
    assert one.upkeep.condemned()

    plan = plan_undo(catalog, RUN)

    assert plan.run == RUN
    # Records are dated by the store's clock, which a test does not set.
    assert sorted((each.table, each.verb) for each in plan.parts) == [
        ("db.one", "put_back"),
        ("db.one", "revert"),
        ("db.two", "revert"),
    ]
    assert not plan.left_alone
    assert len(one.history.snapshots()) == 4
    done = run_undo(catalog, plan, UNDOING)
    assert [each.what for each in done.parts] == [each.what for each in plan.parts]
    assert not done.left_alone
    assert content(one) == before["db.one"]
    assert content(two) == before["db.two"]
    assert content(three) == []
    assert len(one.at().files()) == 3
    assert one.upkeep.condemned() == ()
    again = plan_undo(catalog, RUN)
    assert again.parts == ()
    assert {each.why.split(": ")[1] for each in again.left_alone} == {
        f"taken back already, by snapshot {table.history.snapshots()[-1].id}"
        for table in (one, two)
    }
    # An undo is a run, which can be undone: the partition is gone again.
    run_undo(catalog, plan_undo(catalog, UNDOING.run, tables=["db.two"]), UNDOING)
    assert content(two) == []


def test_a_run_is_named_by_its_first_digits_if_they_are_its_own(catalog: Catalog) -> None:
    table = table_of(catalog, "db.one")
    done_by(DAGSTER, table, COMPACT, CompactRun(full=True))
    assert plan_undo(catalog, RUN[:13]).run == RUN
    assert plan_undo(catalog, DAGSTER).parts
    with pytest.raises(NotFoundError, match="of run '1111'"):
        plan_undo(catalog, "1111")
    table.write(rows(table, events(0, 1)))
    done_by(f"dagster-{OTHER}-compact", table, COMPACT, CompactRun(full=True))
    with pytest.raises(InvalidRequestError, match="names 2 runs"):
        plan_undo(catalog, RUN[:8])


def test_what_stands_in_the_way_hinders_no_other_table(catalog: Catalog) -> None:
    one, two = table_of(catalog, "db.one"), table_of(catalog, "db.two")
    for table in (one, two):
        done_by("lakewright compact (0a1b2c3d)", table, COMPACT, CompactRun(full=True))
    two.write(rows(two, events(0, 1)))
    compact(two, full=True)
    undone = run_undo(catalog, plan_undo(catalog, "0a1b2c3d"), UNDOING)
    assert [each.table for each in undone.parts] == ["db.one"]
    (left,) = undone.left_alone
    assert (left.table, left.what) == ("db.two", "snapshot 4")
    assert "snapshot 6 (COMPACT by " in left.why


def test_what_was_taken_back_before_does_not_make_an_undo_fail(catalog: Catalog) -> None:
    for name in ("db.one", "db.two"):
        done_by(DAGSTER, table_of(catalog, name), COMPACT, CompactRun(full=True))
    run_undo(catalog, plan_undo(catalog, RUN, tables=["db.one"]), UNDOING)
    done = run_undo(catalog, plan_undo(catalog, RUN), UNDOING)
    assert [each.table for each in done.parts] == ["db.two"]
    assert done.is_whole
    assert not plan_undo(catalog, RUN).is_whole


@pytest.mark.parametrize("redone", [False, True])
def test_runs_are_undone_newest_first_one_by_one(catalog: Catalog, *, redone: bool) -> None:
    table = new_table(catalog, name="db.one", partitions=("day",))
    table.write(rows(table, events(0, 9, v="old")))
    runs = [f"dagster-{number}1111111-2222-4333-8444-555555555555-rows" for number in range(3)]
    states = []
    for number, run in enumerate(runs):
        states.append(content(table))
        # An overwrite of a partition after two appends to it.
        for day in "ab":
            given = rows(table, events(number, number + 2, day=day, v=f"{number}-"))
            table.write(given, mode="overwrite" if number == 2 else "append", commit_user=run)
    for number, run in reversed(list(enumerate(runs))):
        told = content(table)
        undoing = replace(UNDOING, run=f"lakewright undo (0000000{number})")
        done = run_undo(catalog, plan_undo(catalog, run), undoing)
        assert done.is_whole, done.left_alone
        assert content(table) == states[number]
        if redone:
            again = replace(UNDOING, run=f"lakewright undo (1000000{number})")
            assert run_undo(catalog, plan_undo(catalog, undoing.run), again).is_whole
            assert content(table) == told
            once_more = replace(UNDOING, run=f"lakewright undo (2000000{number})")
            assert run_undo(catalog, plan_undo(catalog, run), once_more).is_whole
            assert content(table) == states[number]


def test_what_changes_between_plan_and_run_is_left_alone(catalog: Catalog) -> None:
    table = table_of(catalog, "db.one")
    done_by(DAGSTER, table, COMPACT, CompactRun(full=True))
    plan = plan_undo(catalog, RUN)
    expire(table)
    undone = run_undo(catalog, plan, UNDOING)
    assert not undone.parts
    assert "stale" in undone.left_alone[0].why


def test_a_rescale_of_several_partitions_is_undone_in_one_commit(catalog: Catalog) -> None:
    table = table_of(catalog, "db.one", keys=("id", "day"), options={"bucket": "1"})
    table.write(rows(table, events(0, 4, day="b")))
    before = content(table)
    done_by(DAGSTER, table, RESCALE, RescaleRun(buckets=3))
    run_undo(catalog, plan_undo(catalog, RUN), UNDOING)
    table = catalog.table(table.name)
    assert table.options.bucket == 1
    assert {each.total_buckets for each in table.at().files()} == {1}
    table.write(rows(table, events(0, 1, day="b")))
    assert len(content(table)) == len(before)


def test_actions_tell_what_left_no_trace_and_why_it_stays(catalog: Catalog) -> None:
    table, other = table_of(catalog, "db.one"), table_of(catalog, "db.two")
    done_by(DAGSTER, other, COMPACT, CompactRun(full=True))
    expire(table)
    action = Action(
        id="1",
        run=DAGSTER,
        table="db.one",
        table_uuid=table.uuid,
        verb="expire_snapshots",
        started_ms=0,
        ended_ms=1,
        verdict=Verdict.DONE,
    )
    plan = plan_undo(catalog, RUN, actions=[action])
    # Only the tables of the actions are looked at.
    assert plan.parts == ()
    (left,) = plan.left_alone
    assert (left.table, left.what) == ("db.one", "expire_snapshots")
    assert "put back since, or is collected" in left.why
    assert {*PROCEDURES, "evolve_schema"} >= set(WHY_NOT)


def test_snapshots_of_a_run_that_expired_come_back_first(catalog: Catalog) -> None:
    table = table_of(catalog, "db.one")
    before = content(table)
    done_by(DAGSTER, table, DROP_PARTITIONS, DropPartitionsOptions(where="day = 'a'"))
    table.write(rows(table, events(7, 8)))
    options = ExpireSnapshotsRun(retain_min=1, retain_max=1, grace_ms=3_600_000)
    done_by("lakewright expire-snapshots (0badcafe)-x", table, EXPIRE_SNAPSHOTS, options)

    plan = plan_undo(catalog, RUN)

    assert not plan.parts
    assert not plan.is_whole
    (left,) = plan.left_alone
    assert left.what == "snapshot 4"
    assert "expire snapshots of run 0badcafe" in left.why
    assert "lakewright undo 0badcafe" in left.why
    run_undo(catalog, plan_undo(catalog, "0badcafe"), UNDOING)
    run_undo(catalog, plan_undo(catalog, RUN), UNDOING)
    assert set(before) < set(content(table))


def test_of_a_change_of_keys_the_way_back_is_told_as_a_command(catalog: Catalog) -> None:
    table = table_of(catalog, "db.one")
    keys = table.schema.partition_keys
    recorder = Recorder.of(catalog, warn=pytest.fail, make=True)
    work = Work(run=DAGSTER, session=no_session)
    recorder.carry_out(RESPEC, table, RespecRun(keys=("day", "id")), work)

    plan = plan_undo(catalog, RUN)
    assert plan.parts == ()
    (left,) = plan.left_alone
    assert left.what == "respec"
    command = f"lakewright respec db.one --keys {','.join(keys)}"
    assert f"`{command}` changes them back" in left.why.replace("''", "")

    catalog.table("db.one").upkeep.respec(list(keys))
    (left,) = plan_undo(catalog, RUN).left_alone
    assert left.why == "the table has the partition keys of before again"


@pytest.mark.parametrize("keyed", [False, True])
def test_a_change_of_keys_that_no_ledger_knows_names_its_way_back(
    catalog: Catalog, *, keyed: bool
) -> None:
    table = table_of(catalog, "db.one")
    primary = table.schema.primary_keys
    if keyed:
        table = new_table(catalog, name="db.two", keys=["day", "id"], partitions=["day"])
        table.write(rows(table, events(0, 3, day="a")))
        primary = ("day", "id", "v")
    keys, last = table.schema.partition_keys, table.history.snapshots()[-1].id
    table.upkeep.respec(add=["v"], primary_key=primary if keyed else None)
    table = catalog.table(table.name)
    command = f"lakewright respec {table.name} --keys {','.join(keys)}"
    command += " --primary-key day,id" if keyed else ""

    made = [each for each in table.history.snapshots() if each.id > last]
    for each in made:
        (left,) = plan_undo(catalog, each.commit_user, tables=[table.name]).left_alone
        assert command in left.why.replace("''", "")
    assert "`" in left.why
    table.upkeep.respec(keys, primary_key=["day", "id"] if keyed else None)
    (left,) = plan_undo(catalog, made[-1].commit_user, tables=[table.name]).left_alone
    assert left.why == "the table has the partition keys of before again"


def test_a_run_that_left_nothing_is_not_found(catalog: Catalog) -> None:
    table_of(catalog, "db.one")
    with pytest.raises(
        NotFoundError, match=r"no snapshot, and nothing marked for deletion, of db\.one is of run"
    ):
        plan_undo(catalog, RUN, tables=["db.one"])


def recorded(catalog: Catalog, verb: AnyProcedure, options: object, table: Table) -> None:
    recorder = Recorder.of(catalog, warn=pytest.fail, make=True)
    recorder.carry_out(verb, table, options, Work(run=DAGSTER, session=no_session))


def damage(table: Table) -> None:
    """Break the latest snapshot, so that the table cannot be read."""
    files = table.table_files
    latest = files.snapshots.latest_id()
    assert latest is not None
    files.fs.write_bytes(files.paths.snapshot(latest), b'{"version": 3, "id')


def test_a_damaged_table_that_the_run_never_touched_is_a_note(catalog: Catalog) -> None:
    one, other = table_of(catalog, "db.one"), table_of(catalog, "db.other")
    recorded(catalog, COMPACT, CompactRun(full=True), one)
    damage(other)

    plan = plan_undo(catalog, RUN)

    assert [each.table for each in plan.parts] == ["db.one"]
    assert [each.table for each in plan.unread] == ["db.other"]
    assert not plan.left_alone
    done = run_undo(catalog, plan, UNDOING)
    assert done.is_whole
    assert done.unread == plan.unread


def test_a_damaged_table_that_the_run_worked_on_or_might_have_is_left_alone(
    catalog: Catalog,
) -> None:
    one, other = table_of(catalog, "db.one"), table_of(catalog, "db.other")
    for table in (one, other):
        recorded(catalog, COMPACT, CompactRun(full=True), table)
    # A run that no ledger has recorded may have worked on every table.
    done_by(
        SECOND,
        table_of(catalog, "db.three"),
        DROP_PARTITIONS,
        DropPartitionsOptions(where="day = 'a'"),
    )
    damage(other)
    for run in (RUN, OTHER):
        plan = plan_undo(catalog, run)
        assert [each.table for each in plan.left_alone if not each.is_final] == ["db.other"]
        assert not plan.unread
        assert not plan.is_whole


def action_of(table: Table, verb: str, verdict: Verdict) -> Action:
    return Action(
        id="1",
        run=DAGSTER,
        table=table.name,
        table_uuid=table.uuid,
        verb=verb,
        started_ms=0,
        ended_ms=1,
        verdict=verdict,
    )


@pytest.mark.parametrize(
    ("verb", "verdict", "told"),
    [
        ("compact", Verdict.BEATEN, "compact of db.one gave way to other work"),
        ("expire_snapshots", Verdict.SHADOW, "was decided in shadow, and not carried out"),
        ("remove_orphans", Verdict.NOTHING_TO_DO, "remove_orphans of db.one found nothing to do"),
    ],
)
def test_a_run_that_did_nothing_says_so_beside_damaged_tables(
    catalog: Catalog, verb: str, verdict: Verdict, told: str
) -> None:
    table, other = table_of(catalog, "db.one"), table_of(catalog, "db.other")
    Ledger(catalog).record_one(action_of(table, verb, verdict))
    damage(other)
    with pytest.raises(NotFoundError) as raised:
        plan_undo(catalog, RUN)
    assert str(raised.value).startswith(f"run {RUN} did nothing: ")
    assert told in str(raised.value)
    assert str(raised.value).endswith("; 1 table cannot be read: db.other")
    assert "deleted at once" not in str(raised.value)


def test_a_run_that_did_nothing_in_a_table_says_where_it_worked(catalog: Catalog) -> None:
    one, two = table_of(catalog, "db.one"), table_of(catalog, "db.two")
    recorded(catalog, COMPACT, CompactRun(full=True), one)
    with pytest.raises(
        NotFoundError, match=r"did nothing in db\.two that can be undone; it worked on db\.one$"
    ):
        plan_undo(catalog, RUN, tables=[two.name])


def test_a_failed_verb_is_told_as_failed(catalog: Catalog) -> None:
    table = table_of(catalog, "db.one")
    failed = action_of(table, "remove_orphans", Verdict.FAILED)
    (left,) = plan_undo(catalog, RUN, actions=[failed]).left_alone
    assert left.why.startswith("it failed; of what it did before that: its files")


def test_work_on_a_table_that_was_created_anew_since_went_with_the_former_one(
    catalog: Catalog,
) -> None:
    table = table_of(catalog, "db.one")
    recorded(catalog, COMPACT, CompactRun(full=True), table)
    catalog.drop_table("db.one")
    table_of(catalog, "db.one")

    plan = plan_undo(catalog, RUN, tables=["db.one"])

    assert plan.parts == ()
    (left,) = plan.left_alone
    assert (left.table, left.what, left.is_final) == ("db.one", "compact", True)
    assert "was dropped and created again since" in left.why


def test_an_alter_is_altered_back_and_no_rollback_is_offered(catalog: Catalog) -> None:
    table = table_of(catalog, "db.one")
    (left,) = plan_undo(catalog, RUN, actions=[action_of(table, "alter", Verdict.DONE)]).left_alone
    assert "alter it back" in left.why
    assert "or roll back" not in left.why


def test_too_few_digits_of_a_run_are_answered_with_how_many_it_takes(catalog: Catalog) -> None:
    table_of(catalog, "db.one")
    with pytest.raises(NotFoundError, match="give the first 8 digits of a run's id or more"):
        plan_undo(catalog, "8c")


def test_an_expiry_in_several_steps_is_undone_by_one_undo(catalog: Catalog) -> None:
    table = table_of(catalog, "db.one", options={"snapshot.expire.limit": "2"})
    for at in range(3, 9):
        table.write(rows(table, events(at, at + 2)))
    options = ExpireSnapshotsRun(retain_min=1, retain_max=1, time_retained_ms=0)
    done_by(DAGSTER, table, EXPIRE_SNAPSHOTS, options)
    assert len(table.upkeep.condemned()) == 4
    done = run_undo(catalog, plan_undo(catalog, RUN), UNDOING)
    assert (len(done.parts), done.left_alone) == (4, ())
    assert [each.id for each in table.history.snapshots()] == [*range(1, 10)]


def test_a_write_below_compactions_of_upkeep_is_undone_and_rows_of_others_stay(
    catalog: Catalog,
) -> None:
    table = table_of(catalog, "db.one")
    before = content(table)
    table.write(rows(table, events(10, 12)), commit_user=DAGSTER)
    table.write(rows(table, events(20, 22)), commit_user="flink")
    for digits in ("0a1b2c3d", "1a1b2c3d"):
        done_by(f"lakewright upkeep ({digits})", table, COMPACT, CompactRun(full=True))
        table.write(rows(table, events(30, 32)), commit_user="flink")
    done_by(f"dagster-{OTHER}-compact", table, COMPACT, CompactRun(full=True))
    (part,) = plan_undo(catalog, RUN).parts
    assert "among them 3 snapshots (6, 8, 10), in which upkeep rewrote" in part.summary
    assert f"(run 0a1b2c3d, run {OTHER}, run 1a1b2c3d)" in part.summary
    recorder = Recorder.of(catalog, warn=print, make=True)
    undone = run_undo(catalog, plan_undo(catalog, RUN), UNDOING, recorder=recorder)
    assert undone.is_whole
    others = [*events(20, 22), *events(30, 32), *events(30, 32)]
    assert len(content(table)) == len(before) + len(others)
    assert not [each for each in content(table) if '"id": 10' in each or '"id": 11' in each]


def test_a_compaction_of_another_client_is_in_the_way_and_named_with_its_command(
    catalog: Catalog,
) -> None:
    table = table_of(catalog, "db.one")
    table.write(rows(table, events(10, 12)), commit_user=DAGSTER)
    done_by("flink", table, COMPACT, CompactRun(full=True))
    (left,) = plan_undo(catalog, RUN).left_alone
    assert "(lakewright revert db.one --snapshot 5)" in left.why


def test_the_load_of_a_day_is_undone_after_its_compaction_and_the_load_of_the_next_day(
    catalog: Catalog,
) -> None:
    table = new_table(catalog, name="db.one", partitions=("day",))
    table.write(rows(table, events(0, 2, day="a")), mode="overwrite", commit_user=DAGSTER)
    table.write(rows(table, events(0, 2, day="b")), mode="overwrite", commit_user=SECOND)
    for at in range(5, 8):
        table.write(rows(table, events(at, at + 1, day="a")), commit_user="flink")
    done_by("lakewright upkeep (0a1b2c3d)", table, COMPACT, CompactRun(full=True))
    assert run_undo(catalog, plan_undo(catalog, RUN), UNDOING).is_whole
    left = [*events(5, 8, day="a"), *events(0, 2, day="b")]
    assert sorted(row["id"] for row in table.read().to_pylist()) == sorted(e["id"] for e in left)


def test_each_run_that_dropped_a_table_of_one_name_brings_its_own_back(tmp_path: Path) -> None:
    catalog = Catalog.open(str(tmp_path), env=FixedEnv())
    first, second = "lakewright sql (11111111)", "lakewright sql (22222222)"
    before = content(table_of(catalog, "db.t"))
    replace(catalog, run=first).drop_table("db.t")
    new_table(catalog, name="db.t")
    replace(catalog, run=second).drop_table("db.t")
    run_undo(catalog, plan_undo(catalog, "11111111"), UNDOING)
    assert content(catalog.table("db.t")) == before
    # Its name is taken now.
    (left,) = plan_undo(catalog, second).left_alone
    assert (left.what, left.why) == ("drop table", "db.t exists; rename it first")


def test_a_table_beside_a_dropped_one_of_its_name_is_undone_and_listed(tmp_path: Path) -> None:
    run = "lakewright sql (11111111)"
    catalog = Catalog.open(str(tmp_path), env=FixedEnv())
    catalog = replace(catalog, run=run)
    table_of(catalog, "db.t")
    catalog.drop_table("db.t")
    table = table_of(catalog, "db.t")
    listed, _ = list_undoable(catalog)
    assert sorted(each.what for each in listed) == ["3 snapshots (1 to 3)", "drop table"]
    run_undo(catalog, plan_undo(catalog, run), UNDOING)
    assert content(table) == []
