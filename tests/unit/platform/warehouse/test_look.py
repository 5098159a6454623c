"""Looks: what they tell, and when."""

from __future__ import annotations

from pathlib import Path

from lakewright.platform.declare.policy_watch import PolicyFiles
from lakewright.platform.warehouse.clock import Clock
from lakewright.platform.warehouse.intents import Decision, Declined, Intent, WhyNot
from lakewright.platform.warehouse.kept_tables import KeptTables
from lakewright.platform.warehouse.look import Look, Watch
from lakewright.platform.warehouse.surveys import OWN_TABLES
from lakewright.storage import Catalog
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
    watch = Watch(KeptTables(files=PolicyFiles([tmp_path / "policy.yaml"]), adopted=("db.*",)))

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
    watch = Watch(KeptTables(files=PolicyFiles([tmp_path / "policy.yaml"]), adopted=("db.*",)))

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
    watch = Watch(KeptTables(files=PolicyFiles([tmp_path / "policy.yaml"]), adopted=("db.*",)))
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


def keyed_by_policy(catalog: Catalog, watch: Watch, env: FixedEnv) -> dict[str, Decision]:
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
    watch = Watch(KeptTables(files=PolicyFiles([tmp_path / "policy.yaml"]), adopted=("db.*",)))

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
    watch = Watch(KeptTables(files=PolicyFiles([tmp_path / "policy.yaml"]), adopted=("db.*",)))
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
