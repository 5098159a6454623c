"""Looks: what they tell, and when."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lakewright.platform.decide.clock import Clock
from lakewright.platform.decide.kept_tables import KeptTables
from lakewright.platform.decide.look import Look, TableWatch
from lakewright.platform.decide.surveys import OWN_TABLES
from lakewright.platform.decide.upkeep_state import UpkeepState
from lakewright.platform.ledger.intents import Decision, Declined, Intent, WhyNot
from lakewright.platform.policies.policy_watch import PolicyFiles
from lakewright.storage import Catalog, SetOption, Table
from tests.support.stores.watched_files import watched_catalog
from tests.support.tables.builders import events, new_table, rows
from tests.support.tables.environment import FixedEnv
from tests.support.tables.fixtures import memory_uri

POLICY = """
warehouse:
  compaction: {min_bytes: 0 b, small_files: 3}
  manifests: {enabled: false}
  snapshots: {enabled: false}
  orphans: {enabled: false}
"""


def test_what_stays_due_is_told_once_although_its_numbers_grow(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    env = FixedEnv()
    catalog = Catalog.open(memory_uri(), env=env)
    table = new_table(catalog, name="db.events")
    watch = TableWatch(KeptTables(files=PolicyFiles([tmp_path / "policy.yaml"]), adopted=("db.*",)))

    def told() -> tuple[str, ...]:
        env.clock.advance(60_000)
        clock = Clock(now_ms=env.now_ms(), last_tick_ms=lambda cron, zone: 0)
        past = watch.recorded(catalog).past(day_begins_ms=0)
        return watch.look(catalog, past, clock).news

    assert told() == ()
    for at in range(4):
        table.write(rows(table, events(at, at + 1)))
    assert [news for news in told() if "4 small files" in news]
    table.write(rows(table, events(9, 10)))
    assert told() == ()
    table.upkeep.compact(full=True)
    assert told() == ()
    for at in range(3):
        table.write(rows(table, events(at, at + 1)))
    assert len(told()) == 1


SORTED = """
warehouse:
  compaction: {enabled: false}
  manifests: {enabled: false}
  snapshots: {enabled: false}
  orphans: {enabled: false}
  sort: {enabled: true, columns: [id], schedule: "0 0 * * *"}
"""
DAY_MS = 86_400_000


def sorting(look: Look, table: str) -> Decision:
    (found,) = (each for each in look.decisions[table] if each.verb == "sort_compact")
    return found


def test_a_table_is_sorted_at_a_tick_only_if_files_came(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(SORTED)
    env = FixedEnv()
    catalog = Catalog.open(memory_uri(), env=env)
    table = new_table(catalog, name="db.events", partitions=["day"])
    watch = TableWatch(KeptTables(files=PolicyFiles([tmp_path / "policy.yaml"]), adopted=("db.*",)))

    def decided() -> Decision:
        env.clock.advance(DAY_MS)
        # The day after each look before: the schedule is always due.
        clock = Clock(now_ms=env.now_ms(), last_tick_ms=lambda cron, zone: env.now_ms())
        past = watch.recorded(catalog).past(day_begins_ms=0)
        return sorting(watch.look(catalog, past, clock), "db.events")

    for day in "ab":
        table.write(rows(table, events(0, 5, day=day)))
    first = decided()
    assert isinstance(first, Intent)
    table.upkeep.sort_compact(["id"], order="zorder")
    still = decided()
    assert isinstance(still, Declined)
    assert (still.why_not, "no file came since" in still.reason) == (WhyNot.HEALTHY, True)
    table.write(rows(table, events(5, 6, day="b")))
    again = decided()
    assert isinstance(again, Intent)
    assert (again.cost.files, len(table.at().files())) == (2, 3)


def test_a_table_that_cannot_be_sorted_has_a_reason(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(SORTED)
    catalog = Catalog.open(memory_uri(), env=FixedEnv())
    keyed = new_table(catalog, name="db.keyed", keys=["id"], options={"bucket": "1"})
    bucketed = new_table(catalog, name="db.lots", options={"bucket": "1", "bucket-key": "id"})
    other = new_table(catalog, {"a": "INT"}, name="db.other")
    for table in (keyed, bucketed):
        table.write(rows(table, events(0, 5)))
    other.write(rows(other, [{"a": 1}]))
    watch = TableWatch(KeptTables(files=PolicyFiles([tmp_path / "policy.yaml"]), adopted=("db.*",)))
    clock = Clock(now_ms=DAY_MS, last_tick_ms=lambda cron, zone: DAY_MS)
    found = watch.look(catalog, watch.recorded(catalog).past(day_begins_ms=0), clock)
    for name, told in (
        ("db.keyed", "lie in the order of its key"),
        ("db.lots", "in which they came to a bucket"),
        ("db.other", "'id' is not a column of db.other"),
    ):
        each = sorting(found, name)
        assert isinstance(each, Declined)
        assert each.why_not is WhyNot.CONTRADICTION
        assert told in each.reason


KEYS = """
warehouse:
  compaction: {enabled: false}
  manifests: {enabled: false}
  snapshots: {enabled: false}
  orphans: {enabled: false}
  respec: {keys: [day, v]}
"""


def keyed_by_policy(catalog: Catalog, watch: TableWatch, env: FixedEnv) -> dict[str, Decision]:
    """By table, what a look decides on its partition keys."""
    env.clock.advance(60_000)
    clock = Clock(now_ms=env.now_ms(), last_tick_ms=lambda cron, zone: 0)
    look = watch.look(catalog, watch.recorded(catalog).past(day_begins_ms=0), clock)
    every = (each for name in look.decisions for each in look.of(name))
    return {each.table: each for each in every if each.verb == "respec"}


def test_a_table_that_cannot_have_the_keys_of_a_policy_says_why_without_a_run(
    tmp_path: Path,
) -> None:
    (tmp_path / "policy.yaml").write_text(KEYS)
    env = FixedEnv()
    catalog = Catalog.open(memory_uri(), env=env)
    new_table(catalog, {"a": "INT"}, name="db.other")
    new_table(catalog, {"day": "STRING", "v": "DOUBLE", "id": "INT"}, name="db.floats")
    keyed = {"partitions": ["day"], "keys": ["day", "id"]}
    new_table(catalog, name="db.keyed", options={"bucket": "1"}, **keyed)
    new_table(catalog, name="db.bucketed", options={"bucket": "2", "bucket-key": "v"})
    longer = {"partitions": ["day"], "keys": ["day", "v", "id"]}
    new_table(catalog, name="db.postponed", options={"bucket": "-2"}, **longer)
    for name in ("db.here", "db.followed"):
        table = new_table(catalog, name=name, partitions=["day"])
        table.write(rows(table, events(0, 5)))
    table.history.set_consumer("slow", 1)
    watch = TableWatch(KeptTables(files=PolicyFiles([tmp_path / "policy.yaml"]), adopted=("db.*",)))

    found = keyed_by_policy(catalog, watch, env)

    due = found.pop("db.here")
    assert isinstance(due, Intent)
    expected = {
        "db.other": (WhyNot.CONTRADICTION, "'day' is not a column of db.other; there are a"),
        "db.floats": (WhyNot.CONTRADICTION, "column 'v' of db.floats is DOUBLE"),
        "db.keyed": (WhyNot.CONTRADICTION, "'v' is not in the primary key (day, id)"),
        "db.bucketed": (WhyNot.CONTRADICTION, "'v' of db.bucketed is in its bucket-key"),
        "db.postponed": (WhyNot.UNSUPPORTED, "rows wait for a bucket"),
        "db.followed": (WhyNot.BLOCKED, "consumer slow of db.followed reads from snapshot 1"),
    }
    assert found.keys() == expected.keys()
    for name, (why_not, told) in expected.items():
        declined = found[name]
        assert isinstance(declined, Declined)
        assert (declined.why_not, told in declined.reason) == (why_not, True), declined.reason
    # Others end what waits, and the next reading of the table finds that.
    table.history.delete_consumer("slow")
    env.clock.advance(600_000)
    assert isinstance(keyed_by_policy(catalog, watch, env)["db.followed"], Intent)


def test_an_edited_policy_is_asked_of_tables_that_were_read_for_the_former_one(
    tmp_path: Path,
) -> None:
    (tmp_path / "policy.yaml").write_text(KEYS)
    env = FixedEnv()
    catalog = Catalog.open(memory_uri(), env=env)
    new_table(catalog, name="db.t", partitions=["day"])
    watch = TableWatch(KeptTables(files=PolicyFiles([tmp_path / "policy.yaml"]), adopted=("db.*",)))
    assert isinstance(keyed_by_policy(catalog, watch, env)["db.t"], Intent)
    (tmp_path / "policy.yaml").write_text(KEYS.replace("v]", "vendor]"))
    declined = keyed_by_policy(catalog, watch, env)["db.t"]
    assert isinstance(declined, Declined)
    assert declined.why_not is WhyNot.CONTRADICTION


def test_the_tables_of_the_platform_keep_their_keys_whatever_a_warehouse_names(
    tmp_path: Path,
) -> None:
    (tmp_path / "policy.yaml").write_text("warehouse: {respec: {keys: [verb]}}\n")
    kept = KeptTables(files=PolicyFiles([tmp_path / "policy.yaml"]), adopted=("*",))
    assert kept.table("db.t").policy.respec.keys == ("verb",)
    assert {kept.table(name).policy.respec.keys for name in OWN_TABLES} == {None}


@pytest.fixture
def table(unchecked_catalog: Catalog) -> Table:
    """A table on disk whose files were all written long ago."""
    return written(unchecked_catalog)


def written(catalog: Catalog) -> Table:
    made = new_table(catalog, name="db.events")
    made.write(rows(made, events(0, 5)))
    # By the clock of the store, on which the fixed clock of a test has no influence.
    for each in Path(made.table_files.paths.schema_dir).iterdir():
        os.utime(each, (0, 0))
    return made


def looking(
    folder: Path, catalog: Catalog, policy: str = POLICY
) -> Callable[[int], tuple[UpkeepState | None, list[str]]]:
    """Looks so many ms later; gives the state of the table, and the names of files that were read.

    A state that was not read again is the same object.
    """
    (folder / "policy.yaml").write_text(policy)
    seen, files = watched_catalog(catalog)
    watch = TableWatch(KeptTables(files=PolicyFiles([folder / "policy.yaml"]), adopted=("db.*",)))
    now_ms = 10 * DAY_MS

    def look(later_ms: int = 30_000) -> tuple[UpkeepState | None, list[str]]:
        nonlocal now_ms
        now_ms += later_ms
        clock = Clock(now_ms=now_ms, last_tick_ms=lambda cron, zone: 0)
        past = watch.recorded(seen).past(day_begins_ms=0)
        del files.calls[:]
        watch.look(seen, past, clock)
        read = [each.path for each in files.calls if each.name in ("read_bytes", "open_input")]
        return watch.state("db.events"), [
            each.rpartition("/")[2] for each in read if "/db.db/events/" in each
        ]

    return look


def test_of_a_table_at_rest_a_look_reads_its_latest_snapshot_and_nothing_else(
    tmp_path: Path, table: Table, unchecked_catalog: Catalog
) -> None:
    look = looking(tmp_path, unchecked_catalog)
    first, _ = look(0)
    for _ in range(3):
        assert look() == (first, ["LATEST", "snapshot-1"])


def commit(catalog: Catalog, table: Table) -> None:
    table.write(rows(table, events(5, 6)))


def roll_back_and_commit(catalog: Catalog, table: Table) -> None:
    """Another snapshot of the same number."""
    table.write(rows(table, events(5, 6)))
    table.history.rollback(snapshot=1, grace_ms=0)
    table.write(rows(table, events(5, 7)))


def alter(catalog: Catalog, table: Table) -> None:
    table.alter(SetOption("snapshot.num-retained.min", "3"))


def remake(catalog: Catalog, table: Table) -> None:
    """A new table with the same name, schema and number of snapshots."""
    catalog.drop_table("db.events")
    written(catalog)


@pytest.mark.parametrize("change", [commit, roll_back_and_commit, alter, remake])
def test_a_change_of_a_table_is_seen_at_the_next_look(
    tmp_path: Path,
    table: Table,
    unchecked_catalog: Catalog,
    change: Callable[[Catalog, Table], None],
) -> None:
    look = looking(tmp_path, unchecked_catalog)
    if change is roll_back_and_commit:
        table.write(rows(table, events(5, 6)))
    first, _ = look(0)
    change(unchecked_catalog, table)
    assert look()[0] is not first


def test_another_order_in_the_policy_is_seen_at_the_next_look(
    tmp_path: Path, table: Table, unchecked_catalog: Catalog
) -> None:
    look = looking(tmp_path, unchecked_catalog, SORTED)
    first, _ = look(0)
    assert first is not None
    assert first.unsorted is not None
    (tmp_path / "policy.yaml").write_text(SORTED.replace("columns: [id]", "columns: [day, id]"))
    again, _ = look()
    assert again is not None
    assert again.unsorted is not None
    assert again.unsorted.columns == ("day", "id")


def test_a_tag_is_seen_within_ten_minutes_and_a_file_that_nothing_names_within_an_hour(
    tmp_path: Path, table: Table, unchecked_catalog: Catalog
) -> None:
    look = looking(tmp_path, unchecked_catalog)
    first, _ = look(0)
    table.history.create_tag("kept")
    assert look()[0] is first
    tagged, _ = look(600_000)
    assert tagged is not None
    assert tagged.survey.history.tags == 1
    (Path(table.table_files.paths.root) / "bucket-0" / "data-lost-0.parquet").write_bytes(b"x")
    for _ in range(5):
        same, read = look(600_000)
        assert same is tagged
        assert not [each for each in read if each.startswith("manifest")]
    all_again, _ = look(600_000)
    assert all_again is not None
    assert all_again.survey.orphans.unnamed_files == 1


def test_a_tag_is_seen_although_the_clock_was_set_back(
    tmp_path: Path, table: Table, unchecked_catalog: Catalog
) -> None:
    look = looking(tmp_path, unchecked_catalog)
    look(0)
    table.history.create_tag("kept")
    tagged, _ = look(-5 * DAY_MS)
    assert tagged is not None
    assert tagged.survey.history.tags == 1


def test_a_table_that_was_just_made_is_told_from_one_of_its_name_by_its_id(
    tmp_path: Path, table: Table, unchecked_catalog: Catalog
) -> None:
    look = looking(tmp_path, unchecked_catalog)
    schema = Path(table.table_files.paths.schema(0))
    os.utime(schema)
    made = schema.stat()
    first, _ = look(0)
    text = schema.read_text()
    moment = str(table.schema.time_millis)
    # As a store lists it that tells times by the minute: dropped and created again within one.
    schema.write_text(text.replace(moment, str(table.schema.time_millis + 1)))
    os.utime(schema, ns=(made.st_atime_ns, made.st_mtime_ns))
    again, _ = look()
    assert again is not first


PUBLISHED = """
warehouse:
  compaction: {enabled: false}
  manifests: {enabled: false}
  snapshots: {enabled: false}
  orphans: {enabled: false}
"""


def test_iceberg_readers_wait_for_no_commit_for_longer_than_the_policy_says(
    tmp_path: Path,
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(PUBLISHED)
    env = FixedEnv()
    catalog = Catalog.open(memory_uri(), env=env)
    table = new_table(catalog, name="db.t")
    table.write(rows(table, events(0, 2)))
    watch = TableWatch(KeptTables(files=PolicyFiles([policy]), adopted=("db.*",)))

    def published(later_ms: int) -> Decision | None:
        env.clock.advance(later_ms)
        clock = Clock(now_ms=env.now_ms(), last_tick_ms=lambda cron, zone: 0)
        look = watch.look(catalog, watch.recorded(catalog).past(day_begins_ms=0), clock)
        return next((e for e in look.of("db.t") if e.verb == "publish_iceberg"), None)

    assert published(60_000) is None
    policy.write_text(f"{PUBLISHED}  iceberg: {{lag: 5m}}\n")
    waits = published(0)
    assert isinstance(waits, Declined)
    assert waits.why_not is WhyNot.NOT_YET
    due = published(300_000)
    assert isinstance(due, Intent)
    assert "longer than 5 minutes: publish" in due.reason
    table.upkeep.publish_iceberg()
    watch.read_again("db.t")
    rests = published(0)
    assert isinstance(rests, Declined)
    assert rests.why_not is WhyNot.HEALTHY
    table.write(rows(table, events(2, 3)))
    assert isinstance(published(60_000), Declined)
    assert isinstance(published(300_000), Intent)


def test_a_table_that_iceberg_cannot_read_is_declined_and_not_tried(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"{PUBLISHED}  iceberg: {{lag: 5m}}\n")
    catalog = Catalog.open(memory_uri(), env=FixedEnv())
    options = {"bucket": "-1", "row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    table = new_table(catalog, name="db.t", options=options)
    table.write(rows(table, events(0, 2)))
    watch = TableWatch(KeptTables(files=PolicyFiles([policy]), adopted=("db.*",)))
    clock = Clock(now_ms=catalog.env.now_ms() + 3_600_000, last_tick_ms=lambda cron, zone: 0)
    look = watch.look(catalog, watch.recorded(catalog).past(day_begins_ms=0), clock)
    (told,) = (each for each in look.of("db.t") if each.verb == "publish_iceberg")
    assert isinstance(told, Declined)
    assert told.why_not is WhyNot.READ_ONLY
    assert "columns of a row may lie in several files" in told.reason
