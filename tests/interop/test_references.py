"""Tags, branches, rollbacks, consumers and long-lived changelogs: made by one, used by another."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from typing import Any

import pytest

from lakewright.storage import AddColumn, Catalog, Table
from lakewright.storage.errors import CorruptionError, UnsupportedError
from lakewright.storage.operations.state.lineage import Lineage
from tests.interop.test_they_read_ours import as_read_by, as_texts
from tests.oracles.client import JavaOracle, Oracle, WritingOracle
from tests.support.stores.watched_files import Call, WatchedFiles, looked_at
from tests.support.tables.builders import (
    compact,
    content,
    events,
    expire,
    new_table,
    rows,
    values_of,
)
from tests.support.tables.environment import FixedEnv
from tests.support.tables.invariants import (
    assert_nothing_missing,
    assert_only_reachable_files,
    assert_readable_history,
    assert_sound,
)

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
KINDS: dict[str, dict[str, Any]] = {
    "append": {"options": {"bucket": "-1"}},
    "keyed": {"keys": ["id"], "options": {"bucket": "1"}},
    "with changelog": {"keys": ["id"], "options": {"bucket": "1", "changelog-producer": "input"}},
}
kinds = pytest.mark.parametrize("kind", list(KINDS))


def history(catalog: Catalog, kind: str = "keyed", versions: str = "abc") -> Table:
    """Snapshots 1, 3, 5, … replace all rows; 2, 4, 6, … compact them."""
    table = new_table(catalog, **KINDS[kind])
    for version in versions:
        step(table, version)
    return table


def step(table: Table, version: str) -> None:
    """Two snapshots, after which every row is of a version."""
    mode = "append" if table.schema.has_primary_key else "overwrite"
    table.write(rows(table, events(0, 3, v=version)), mode=mode)
    table.write(rows(table, events(3, 6, v=version)))
    compact(table, full=True)


def on_branch(client: Oracle, catalog: Catalog, branch: str, **read: Any) -> list[str]:
    return as_texts(client.read(catalog.root, f"db.t$branch_{branch}", **read))


def last_of(table: Table) -> int:
    latest = table.history.latest_snapshot()
    assert latest is not None
    return latest.id


# --- tags --------------------------------------------------------------------------------------


@kinds
@pytest.mark.mission("FS19")
def test_they_read_our_tag_after_its_snapshot_expired(
    catalog: Catalog,
    java: JavaOracle,
    released_pypaimon: WritingOracle,
    pypaimon: WritingOracle,
    rust: Oracle,
    kind: str,
) -> None:
    table = history(catalog, kind)
    tagged = content(table.at(snapshot=3))
    table.history.create_tag("ours", snapshot=3)
    table.history.create_tag("timed", snapshot=3, time_retained_ms=3 * DAY + 1500)
    expire(table)
    for client in (java, released_pypaimon):
        assert as_read_by(client, catalog, table, tag="ours") == tagged, client.name
        assert as_read_by(client, catalog, table, tag="timed") == tagged, client.name
    listed = {row["tag_name"]: row for row in java.read(catalog.root, "db.t$tags")}
    assert listed["ours"]["snapshot_id"] == listed["timed"]["snapshot_id"] == 3
    assert listed["timed"]["time_retained"] == "PT72H1.5S"
    assert listed["timed"]["create_time"].startswith("2024-01-01")
    # And back again.
    java.delete_tag(catalog.root, "db.t", "ours")
    assert content(table.at(tag="timed")) == tagged
    java.delete_tag(catalog.root, "db.t", "timed")
    assert table.history.tags() == ()
    assert_only_reachable_files(table)


@kinds
@pytest.mark.mission("FS19")
def test_their_tags_are_ours(
    catalog: Catalog, env: FixedEnv, java: JavaOracle, pypaimon: WritingOracle, kind: str
) -> None:
    table = history(catalog, kind)
    tagged = content(table)
    java.create_timed_tag(catalog.root, "db.t", "java timed", time_retained_ms=5 * MINUTE)
    java.create_tag(catalog.root, "db.t", "java", snapshot=2)
    pypaimon.create_tag(catalog.root, "db.t", "python", snapshot=3)
    step(table, "later")
    expire(table)
    assert [tag.name for tag in table.history.tags()] == ["java", "python", "java timed"]
    timed = table.history.tags()[2]
    assert timed.time_retained_ms == 5 * MINUTE
    assert timed.create_time is not None
    # Java stamps the wall clock of its machine, which runs beside the test's.
    assert timed.create_time.year > 2024
    assert content(table.at(tag="java timed")) == tagged
    assert content(table.at(tag="python")) == as_read_by(java, catalog, table, tag="python")
    assert table.upkeep.plan_expire_tags(grace_ms=0).tags == ()
    env.clock.advance(
        (timed.create_time - dt.datetime(2024, 1, 1)).total_seconds() * 1000 + 6 * MINUTE
    )
    table.upkeep.run(table.upkeep.plan_expire_tags(grace_ms=0))
    assert [tag.name for tag in table.history.tags()] == ["java", "python"]
    table.history.run(table.history.plan_delete_tags("java", "python", grace_ms=0))
    assert_only_reachable_files(table)


@kinds
@pytest.mark.mission("FS19")
def test_java_expires_snapshots_with_our_tags_there(
    catalog: Catalog, java: JavaOracle, kind: str
) -> None:
    table = history(catalog, kind, "abcd")
    expected = {}
    for snapshot_id in (2, 3, 6):
        expected[f"t{snapshot_id}"] = content(table.at(snapshot=snapshot_id))
        table.history.create_tag(f"t{snapshot_id}", snapshot=snapshot_id)
    java.expire_snapshots(catalog.root, "db.t", retain_max=1, retain_min=1)
    assert len(table.history.snapshots()) == 1
    for name, rows_then in expected.items():
        assert content(table.at(tag=name)) == rows_then, name
        assert as_read_by(java, catalog, table, tag=name) == rows_then, name
    assert_nothing_missing(table)
    table.history.run(table.history.plan_delete_tags("t2", "t6", grace_ms=0))
    assert as_read_by(java, catalog, table, tag="t3") == expected["t3"]
    java.delete_tag(catalog.root, "db.t", "t3")
    assert_sound(table)


def test_java_lets_go_what_we_tagged_for_a_time(catalog: Catalog, java: JavaOracle) -> None:
    """By its own clock, years after the one of this test."""
    table = history(catalog)
    table.history.create_tag("over", snapshot=2, time_retained_ms=HOUR)
    table.history.create_tag("not yet", snapshot=2, time_retained_ms=40_000 * DAY)
    expire(table)
    java.maintain_tags(catalog.root, "db.t")
    assert [tag.name for tag in table.history.tags()] == ["not yet"]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tag.creation-period": "hourly"},
        {"tag.creation-period": "hourly", "tag.creation-delay": "10 min"},
        {"tag.creation-period": "two-hours"},
        {"tag.creation-period": "hourly", "tag.period-formatter": "without_dashes"},
        {"tag.creation-period": "hourly", "tag.automatic-completion": "true"},
        {"tag.creation-period": "hourly", "tag.num-retained-max": "2"},
    ],
    ids=str,
)
@pytest.mark.mission("FS19")
def test_java_makes_the_automatic_tags_that_we_make(
    catalog: Catalog, env: FixedEnv, java: JavaOracle, options: dict[str, str]
) -> None:
    named = {"sink.process-time-zone": "UTC", **options}
    chosen = {"tag.automatic-creation": "process-time", **named}
    ours = new_table(catalog, options=chosen)
    theirs = new_table(catalog, name="db.theirs", options=named)
    for hours in (0, 0.5, 0.6, 1.2, 3, 3, 20, 0.2, 30):
        env.clock.advance(hours * HOUR)
        for table in (ours, theirs):
            table.write(rows(table, events(0, 1)))
    assert theirs.history.tags() == ()
    java.maintain_tags(catalog.root, "db.theirs", options=chosen)
    assert ours.history.tags()
    ours_then = [(tag.name, tag.snapshot.id) for tag in ours.history.tags()]
    assert ours_then == [(tag.name, tag.snapshot.id) for tag in theirs.history.tags()]


# --- branches ----------------------------------------------------------------------------------


@kinds
@pytest.mark.mission("FS19")
def test_they_read_and_write_on_a_branch_of_ours(
    catalog: Catalog, java: JavaOracle, pypaimon: WritingOracle, kind: str
) -> None:
    table = history(catalog, kind)
    table.history.create_tag("start", snapshot=3)
    branch = table.history.create_branch("b", tag="start")
    before = content(branch)
    assert on_branch(java, catalog, "b") == on_branch(pypaimon, catalog, "b") == before
    java.write(catalog.root, "db.t$branch_b", events(10, 12, v="java"))
    assert content(branch) == on_branch(java, catalog, "b") == on_branch(pypaimon, catalog, "b")
    assert len(content(branch)) == len(before) + 2
    step(branch, "x")
    assert on_branch(java, catalog, "b") == on_branch(pypaimon, catalog, "b") == content(branch)
    java.compact(catalog.root, "db.t$branch_b")
    assert on_branch(java, catalog, "b") == content(branch)
    # Main never heard of it, and its expiry leaves the branch alone.
    expire(table)
    assert as_read_by(java, catalog, table) == content(table)
    assert on_branch(java, catalog, "b") == content(branch)
    expire(branch)
    assert on_branch(java, catalog, "b") == content(branch)
    assert_only_reachable_files(table)


def test_a_branch_of_ours_is_deleted_by_java(unchecked_catalog: Catalog, java: JavaOracle) -> None:
    """Which leaves the files behind that only the branch had."""
    table = history(unchecked_catalog)
    table.history.create_branch("b", snapshot=3)
    java.delete_branch(unchecked_catalog.root, "db.t", "b")
    assert table.history.branches() == ()
    assert_nothing_missing(table)
    assert content(table.history.create_branch("b", snapshot=3)) == content(table.at(snapshot=3))


@pytest.mark.sampled(3)
@kinds
@pytest.mark.parametrize("maker", ["java", "pypaimon"])
@pytest.mark.mission("FS19")
def test_we_read_and_write_on_a_branch_of_theirs(
    catalog: Catalog, java: JavaOracle, pypaimon: WritingOracle, kind: str, maker: str
) -> None:
    client: WritingOracle = java if maker == "java" else pypaimon
    table = history(catalog, kind)
    then = content(table.at(snapshot=3))
    client.create_tag(catalog.root, "db.t", "start", snapshot=3)
    client.create_branch(catalog.root, "db.t", "b", tag="start")
    client.create_branch(catalog.root, "db.t", "empty")
    assert [branch.name for branch in table.history.branches()] == ["b", "empty"]
    branch = catalog.table("db.t$branch_b")
    assert content(branch) == then
    assert content(table.history.at_branch("empty")) == []
    step(branch, "x")
    assert on_branch(client, catalog, "b") == content(branch)
    # The tag it began at goes, main moves on and expires: the branch is whole.
    table.history.run(table.history.plan_delete_tags("start", grace_ms=0))
    step(table, "later")
    expire(table)
    assert on_branch(client, catalog, "b") == content(branch)
    assert content(branch.at(tag="start")) == then
    assert_only_reachable_files(table)
    table.history.run(table.history.plan_delete_branch("b", grace_ms=0))
    assert_only_reachable_files(table)
    assert as_read_by(client, catalog, table) == content(table)


@pytest.mark.parametrize("maker", ["we", "java"])
@pytest.mark.mission("FS19")
def test_main_keeps_the_schemas_of_its_rows_when_a_branch_becomes_it(
    catalog: Catalog, java: JavaOracle, released_pypaimon: WritingOracle, maker: str
) -> None:
    """A late commit names the schema that its writer opened; the rows below it may name later."""
    table = new_table(catalog, **KINDS["append"])
    table.write(rows(table, events(0, 2, v="a")))
    released_pypaimon.begin_write(catalog.root, "db.t", events(2, 4, v="b"))
    table.alter(AddColumn("extra", "BIGINT"))
    table = catalog.table("db.t")
    table.write(rows(table, [{**each, "extra": 1} for each in events(4, 6, v="c")]))
    released_pypaimon.finish_write(catalog.root, "db.t", events(2, 4, v="b"))
    expected = content(table)
    table.history.create_tag("late")
    if maker == "we":
        branch = table.history.create_branch("b", tag="late")
        assert content(branch) == expected
        table.history.run(table.history.plan_fast_forward("b", grace_ms=0))
    else:
        java.create_branch(catalog.root, "db.t", "b", tag="late")
        with pytest.raises(UnsupportedError, match="schema 1, which the branch has no copy of"):
            table.history.plan_fast_forward("b", grace_ms=0)
    assert content(table) == expected
    assert as_read_by(java, catalog, table) == expected
    assert_only_reachable_files(table)


@pytest.mark.parametrize("forwards", ["we", "java"])
@pytest.mark.mission("FS19")
def test_main_becomes_the_branch_by_either(
    unchecked_catalog: Catalog, java: JavaOracle, pypaimon: WritingOracle, forwards: str
) -> None:
    """Java leaves the files behind that only the old main had."""
    catalog = unchecked_catalog
    table = history(catalog)
    table.history.create_tag("start", snapshot=3)
    branch = table.history.create_branch("b", tag="start")
    step(branch, "x")
    step(table, "lost")
    if forwards == "we":
        table.history.run(table.history.plan_fast_forward("b", grace_ms=0))
        assert_sound(table)
    else:
        java.fast_forward(catalog.root, "db.t", "b")
    assert content(table) == content(branch)
    for client in (java, pypaimon):
        assert as_read_by(client, catalog, table) == content(branch), client.name
    assert_readable_history(table)
    java.write(catalog.root, "db.t", events(0, 3, v="java"))
    step(table, "ours")
    assert as_read_by(java, catalog, table) == content(table)
    expire(table)
    assert as_read_by(java, catalog, table) == content(table)
    assert on_branch(java, catalog, "b") == content(branch)


HOURLY = {"dt": "STRING", "hh": "INT", "id": "INT", "v": "STRING"}
PARTED: dict[str, dict[str, Any]] = {
    "append": {},
    "keyed": {"keys": ["dt", "hh", "id"], "options": {"bucket": "1"}},
}


def write_hours(table: Table, version: str) -> None:
    given = [{"dt": d, "hh": h, "id": h, "v": version} for d in "ab" for h in (1, 2)]
    table.write(rows(table, given))


def files_below(catalog: Catalog) -> dict[str, bytes]:
    places = {each.path: each for each in catalog.fs.list_tree(catalog.root)}
    return {path: catalog.fs.read_bytes(path) for path in sorted(places)}


def forwarded_under_the_eyes(catalog: Catalog, reader: Oracle, *states: list[str]) -> int:
    """Forward main to `side`; a client reads one of the states whenever it may see a new one."""
    moments = 0

    def look(call: Call) -> None:
        nonlocal moments
        if call.changes and ("/snapshot/" in call.path or "/schema/" in call.path):
            moments += 1
            now = catalog.table("db.t")
            found = as_read_by(reader, catalog, now)
            assert found == content(now)
            assert found in states
            chosen = as_read_by(reader, catalog, now, where=[("dt", "=", "a")])
            assert chosen == content(now, where="dt = 'a'")

    watched = replace(catalog, fs=WatchedFiles(catalog.fs, after=looked_at(look)))
    watched.table("db.t").history.fast_forward("side", grace_ms=0)
    return moments


@pytest.mark.mission("PT1", "FS19")
@pytest.mark.parametrize("kind", list(PARTED))
@pytest.mark.parametrize("keys", [("dt", "hh"), ("hh",), ()], ids=str)
@pytest.mark.parametrize("changed", ["neither", "the branch", "main", "both"])
@pytest.mark.sampled(each="changed")
def test_readers_of_main_meet_no_other_keys_while_it_is_forwarded(
    catalog: Catalog,
    released_pypaimon: WritingOracle,
    kind: str,
    keys: tuple[str, ...],
    changed: str,
) -> None:
    table = new_table(catalog, HOURLY, partitions=["dt"], **PARTED[kind])
    write_hours(table, "shared")
    if changed == "neither":
        table.upkeep.respec(keys)
        table = catalog.table("db.t")
    shared = table.history.latest_snapshot()
    assert shared is not None
    side = table.history.create_branch("side", snapshot=shared.id)
    write_hours(side, "side")
    write_hours(table, "main")
    if changed in ("main", "both"):
        table.upkeep.respec(keys)
    if changed in ("the branch", "both"):
        side.upkeep.respec(keys)
    table, side = catalog.table("db.t"), catalog.table("db.t$branch_side")
    states = [content(table.at(snapshot=shared.id)), content(table), content(side)]
    if changed != "neither":
        before = files_below(catalog)
        with pytest.raises(UnsupportedError, match="values of one key for those of") as told:
            table.history.fast_forward("side", grace_ms=0)
        assert files_below(catalog) == before
        # The refusal names each way out that is needed, and they suffice.
        rolled = f"lakewright rollback db.t --snapshot {shared.id}" in str(told.value)
        given = "lakewright respec 'db.t$branch_side' --keys 'dt'" in str(told.value)
        assert (rolled, given) == (changed != "the branch", changed != "main")
        if rolled:
            table.history.rollback(snapshot=shared.id, grace_ms=0)
        if given:
            side.upkeep.respec(["dt"])
    assert forwarded_under_the_eyes(catalog, released_pypaimon, *states) > 2
    table = catalog.table("db.t")
    assert content(table) == states[-1]
    assert_only_reachable_files(table)
    if changed != "neither":
        table.upkeep.respec(keys)
        assert as_read_by(released_pypaimon, catalog, table) == states[-1]


# --- rollback ----------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("target", [3, "t"])
@pytest.mark.parametrize("who", ["we", "java"])
@pytest.mark.mission("FS19")
@pytest.mark.sampled(3)
def test_a_rollback_of_one_is_seen_by_all(
    catalog: Catalog,
    java: JavaOracle,
    pypaimon: WritingOracle,
    kind: str,
    target: int | str,
    who: str,
) -> None:
    table = history(catalog, kind)
    then = content(table.at(snapshot=3))
    table.history.create_tag("t", snapshot=3)
    if isinstance(target, str):
        expire(table)
    if who == "java":
        java.rollback_to(catalog.root, "db.t", target)
    elif isinstance(target, str):
        table.history.run(table.history.plan_rollback(tag=target, grace_ms=0))
    else:
        table.history.run(table.history.plan_rollback(snapshot=target, grace_ms=0))
    assert last_of(table) == 3
    assert content(table) == then
    for client in (java, pypaimon):
        assert as_read_by(client, catalog, table) == then, client.name
    java.write(catalog.root, "db.t", events(8, 9, v="java"))
    assert last_of(table) == 4
    step(table, "ours")
    for client in (java, pypaimon):
        assert as_read_by(client, catalog, table) == content(table), client.name
    java.expire_snapshots(catalog.root, "db.t", retain_max=1, retain_min=1)
    assert as_read_by(java, catalog, table) == content(table)
    assert as_read_by(java, catalog, table, tag="t") == content(table.at(tag="t")) == then
    if who == "we":
        table.history.run(table.history.plan_delete_tags("t", grace_ms=0))
        assert_sound(table)


# --- consumers ---------------------------------------------------------------------------------


@pytest.mark.mission("LG11")
def test_a_consumer_of_ours_holds_java_back(catalog: Catalog, java: JavaOracle) -> None:
    table = history(catalog)
    table.history.set_consumer("me", 3)
    found = java.read(catalog.root, "db.t$consumers")
    assert [(row["consumer_id"], row["next_snapshot_id"]) for row in found] == [("me", 3)]
    java.expire_snapshots(catalog.root, "db.t", retain_max=9, retain_min=1)
    assert table.history.snapshots()[0].id == 3
    table.history.delete_consumer("me")
    java.expire_snapshots(catalog.root, "db.t", retain_max=1, retain_min=1)
    assert len(table.history.snapshots()) == 1


# --- long-lived changelogs ---------------------------------------------------------------------

LONG_LIVED = {"changelog.num-retained.min": "100", "changelog.num-retained.max": "200"}


def with_changelogs(catalog: Catalog) -> Table:
    """Two snapshots of new rows and one compaction, three times."""
    options = {"bucket": "1", "changelog-producer": "input", **LONG_LIVED}
    table = new_table(catalog, keys=["id"], options=options)
    for version in "abc":
        step(table, version)
    return table


@pytest.mark.mission("FS19")
def test_changelogs_that_outlive_our_snapshots_are_read_and_expired_by_java(
    catalog: Catalog, java: JavaOracle
) -> None:
    table = with_changelogs(catalog)
    last = last_of(table)
    before = java.changes(catalog.root, "db.t", 1, last)
    assert before
    expire(table)
    assert java.changes(catalog.root, "db.t", 1, last) == before
    assert as_read_by(java, catalog, table) == content(table)
    java.expire_changelogs(catalog.root, "db.t", retain_min=4)
    kept = [each.id for each in table.table_files.references.changelogs()]
    assert kept
    assert kept[0] > 1
    later = [each for each in before if each.snapshot >= kept[0]]
    assert java.changes(catalog.root, "db.t", kept[0], last) == later
    table.upkeep.run(table.upkeep.plan_expire_changelogs(every=True, grace_ms=0))
    assert_sound(table)


@pytest.mark.mission("FS19")
def test_changelogs_that_java_keeps_are_expired_by_us(catalog: Catalog, java: JavaOracle) -> None:
    table = with_changelogs(catalog)
    last = last_of(table)
    before = java.changes(catalog.root, "db.t", 1, last)
    java.expire_snapshots(
        catalog.root, "db.t", retain_max=1, retain_min=1, changelog_retain_min=100
    )
    assert [each.id for each in table.table_files.references.changelogs()] == list(range(1, last))
    assert java.changes(catalog.root, "db.t", 1, last) == before
    assert_only_reachable_files(table)
    step(table, "d")
    expire(table)
    assert java.changes(catalog.root, "db.t", 1, last) == before
    table.upkeep.run(table.upkeep.plan_expire_changelogs(every=True, grace_ms=0))
    assert_sound(table)
    assert as_read_by(java, catalog, table) == content(table)


def test_java_finds_no_orphans_among_what_our_references_keep(
    catalog: Catalog, java: JavaOracle
) -> None:
    table = history(catalog)
    table.history.create_tag("t", snapshot=2)
    table.history.create_tag("start", snapshot=3)
    branch = table.history.create_branch("b", tag="start")
    step(branch, "x")
    expire(table)
    then = content(table.at(tag="t")), content(branch)
    removed = java.remove_orphan_files(catalog.root, "db.t", older_than="2100-01-01 00:00:00")
    assert removed == []
    assert (content(table.at(tag="t")), content(branch)) == then
    assert json.loads(branch.table_files.snapshots.read_file(3))["id"] == 3
    assert values_of(branch, "id") == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("writer", ["java", "pypaimon"])
def test_a_history_that_others_wrote_is_one_lineage_and_expires_in_steps(
    catalog: Catalog, java: JavaOracle, pypaimon: WritingOracle, writer: str
) -> None:
    client: WritingOracle = java if writer == "java" else pypaimon
    table = new_table(
        catalog, keys=["id"], options={"bucket": "1", "manifest.merge-min-count": "3"}
    )
    for number in range(7):
        client.write(catalog.root, "db.t", events(number, number + 3, v=str(number)))
    listed = table.table_files.snapshots.listed()
    assert len(listed) >= 7
    assert Lineage().breaks(table.table_files, listed, min(listed)) == ()
    before = content(table)
    while len(table.history.snapshots()) > 1:
        expire(table, max_deletes=2)
        assert_only_reachable_files(table)
    assert as_read_by(client, catalog, table) == content(table) == before


@pytest.mark.parametrize("kind", ["append", "keyed"])
@pytest.mark.parametrize("made_by", ["us", "java"])
def test_a_branch_whose_tag_is_gone_stays_readable_after_an_overwrite_and_an_expiry(
    catalog: Catalog, java_latest: JavaOracle, kind: str, made_by: str
) -> None:
    """Other tools have lost such branches: nothing but the branch names the files of before."""
    table, due = branched_off_a_tag_that_is_gone(catalog, java_latest, kind, made_by)
    expire(table)
    assert len(table.history.snapshots()) == 1
    assert content(table.history.at_branch("b")) == due
    assert as_texts(java_latest.read(catalog.root, f"{table.name}$branch_b")) == due
    assert_nothing_missing(table)


@pytest.mark.parametrize("kind", ["append", "keyed"])
def test_a_branch_that_javas_expiry_broke_is_told_and_main_goes_on(
    unchecked_catalog: Catalog, java_latest: JavaOracle, kind: str
) -> None:
    """Java 1.4 asks tags alone, and deletes files that only a branch names."""
    catalog = unchecked_catalog
    table, _ = branched_off_a_tag_that_is_gone(catalog, java_latest, kind, "us")
    kept = content(table)
    java_latest.expire_snapshots(catalog.root, table.name, retain_min=1)
    with pytest.raises(CorruptionError, match="is missing"):
        table.history.at_branch("b").read()
    table = catalog.table(table.name)
    table.write(rows(table, events(60, 61, v="more")))
    assert len(content(table)) == len(kept) + 1
    # What else the branch may need is not known, so nothing is deleted until it is gone.
    with pytest.raises(CorruptionError, match="branch"):
        expire(table)
    table.history.delete_branch("b", grace_ms=0)
    expire(table)
    assert len(content(table)) == len(kept) + 1
    assert_nothing_missing(table)


def branched_off_a_tag_that_is_gone(
    catalog: Catalog, java: JavaOracle, kind: str, made_by: str
) -> tuple[Table, list[str]]:
    """A table whose rows were overwritten after it was branched, and the rows of its branch."""
    table = history(catalog, kind, "a")
    due = content(table)
    table.history.create_tag("t")
    if made_by == "us":
        table.history.create_branch("b", tag="t")
        table.history.delete_tags("t", grace_ms=0)
    else:
        java.create_branch(catalog.root, table.name, "b", tag="t")
        java.delete_tag(catalog.root, table.name, "t")
    table.write(rows(table, events(50, 52, v="new")), mode="overwrite")
    return table, due
