"""Verbs: each plans without writing, runs once, plans nothing after that, and saves its plan."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NoReturn

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from lakewright.platform.decide.keepers import in_turn
from lakewright.platform.tables.upkeep_policies import EngineChoice
from lakewright.platform.upkeep.add_primary_key import AddPrimaryKeyRun
from lakewright.platform.upkeep.alter import AlterOptions
from lakewright.platform.upkeep.analyze import AnalyzeRun
from lakewright.platform.upkeep.change_rows import DeleteRowsRun, UpdateRowsRun
from lakewright.platform.upkeep.clean import CollectOptions, OrphansOptions, PutBackOptions
from lakewright.platform.upkeep.compact import COMPACT, CompactRun
from lakewright.platform.upkeep.drop_partitions import DropPartitionsOptions
from lakewright.platform.upkeep.exchange_partition import ExchangePartitionOptions
from lakewright.platform.upkeep.expire import (
    EXPIRE_CHANGELOGS,
    EXPIRE_SNAPSHOTS,
    EXPIRE_TAGS,
    ChangelogsDone,
    ExpireChangelogsOptions,
    ExpireSnapshotsRun,
    ExpireTagsOptions,
)
from lakewright.platform.upkeep.expire_consumers import ExpireConsumersOptions
from lakewright.platform.upkeep.expire_partitions import ExpirePartitionsOptions
from lakewright.platform.upkeep.external_partitions import AddPartitionsOptions, RepairOptions
from lakewright.platform.upkeep.health import read_health
from lakewright.platform.upkeep.history import (
    DeleteBranchOptions,
    DeleteTagsOptions,
    FastForwardOptions,
    RollbackOptions,
)
from lakewright.platform.upkeep.mark_done import MarkDoneRun
from lakewright.platform.upkeep.postpone_compact import PostponeRun
from lakewright.platform.upkeep.procedure import AnyProcedure, Outcome, Work, carry_out
from lakewright.platform.upkeep.procedures import PROCEDURES
from lakewright.platform.upkeep.rename_partition import RenamePartitionRun
from lakewright.platform.upkeep.rescale import RESCALE, RescaleRun
from lakewright.platform.upkeep.respec import RespecRun
from lakewright.platform.upkeep.revert import RevertOptions
from lakewright.platform.upkeep.rewrite_manifests import RewriteManifestsOptions
from lakewright.platform.upkeep.settle import SettleOptions
from lakewright.platform.upkeep.sort_compact import SortCompactRun
from lakewright.storage import Catalog, LeaseKind, RepairMode, Table
from lakewright.storage.errors import InvalidRequestError, LeaseHeld, NotFoundError, StalePlan
from lakewright.storage.operations.iceberg.publish_iceberg import PublishIcebergOptions
from lakewright.storage.operations.leases.leases import LeaseRequest, acquire_lease, whole_table
from lakewright.storage.operations.retention.expire_snapshots import ExpirePlan, ExpireResult
from lakewright.storage.operations.running.plan import DeletionPlan, UnreachableFile
from lakewright.storage.operations.running.verb_options import option_fields
from tests.support.tables.builders import events, new_table, rows
from tests.support.tables.environment import FixedEnv
from tests.support.tables.fixtures import memory_uri
from tests.support.tables.invariants import assert_only_reachable_files
from tests.support.tables.landed import land_beside


@pytest.fixture
def env() -> FixedEnv:
    return FixedEnv()


@pytest.fixture
def catalog(env: FixedEnv) -> Catalog:
    return Catalog.open(memory_uri(), env=env)


def no_session() -> NoReturn:
    raise AssertionError("small work starts no Spark session")


WORK = Work(run="a test", session=no_session)


def appended(catalog: Catalog) -> Table:
    """An append table of one small file a commit."""
    table = new_table(catalog, partitions=("day",))
    for at in range(3):
        table.write(rows(table, events(at, at + 1)))
    return table


def restated(catalog: Catalog) -> Table:
    """An append table whose partition keys changed."""
    appended(catalog).upkeep.respec([])
    return catalog.table("db.t")


def dated(catalog: Catalog) -> Table:
    """An append table of a day long past, and one to come."""
    table = new_table(catalog, partitions=("day",))
    table.write(rows(table, [*events(0, 2, day="2013-01-01"), *events(0, 2, day="9000-01-01")]))
    return table


def beside_another(catalog: Catalog) -> Table:
    """An append table, and one of the same schema with a partition more."""
    other = new_table(catalog, name="db.other", partitions=("day",))
    other.write(rows(other, events(0, 2, day="x")))
    return appended(catalog)


def landed(catalog: Catalog) -> Table:
    """A partitioned table, and a folder that another system wrote."""
    table = new_table(catalog, partitions=("day",))
    land_beside(table, "x")
    return table


def taking_over(table: Table) -> AddPartitionsOptions:
    return AddPartitionsOptions(folder=land_beside(table), age_ms=0)


def drifted(catalog: Catalog) -> Table:
    """A table that took a folder over, which has one day more by now."""
    table = landed(catalog)
    table.upkeep.add_partitions(land_beside(table), age_ms=0)
    land_beside(table, "y")
    return catalog.table(table.name)


def keyed(catalog: Catalog, bucket: str = "2") -> Table:
    table = new_table(catalog, keys=("id", "day"), partitions=("day",), options={"bucket": bucket})
    for at in range(3):
        table.write(rows(table, events(at, at + 1)))
    return table


def postponed(catalog: Catalog) -> Table:
    return keyed(catalog, "-2")


def with_old_tags(catalog: Catalog) -> Table:
    table = tagged(catalog)
    table.history.create_tag("lasting-1", snapshot=2, time_retained_ms=10**9)
    table.history.create_tag("dull", snapshot=2, time_retained_ms=10**9)
    table.table_files.env.sleep_ms(1000)
    return table


def tagged(catalog: Catalog) -> Table:
    table = appended(catalog)
    table.history.create_tag("brief", snapshot=1, time_retained_ms=1)
    table.table_files.env.sleep_ms(1000)
    return table


def with_changelogs(catalog: Catalog) -> Table:
    options = {"bucket": "1", "changelog-producer": "input", "changelog.num-retained.max": "5"}
    kept = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "3"}
    table = new_table(catalog, keys=("id",), options={**options, **kept})
    for at in range(4):
        table.write(rows(table, events(at, at + 1)))
    retention = {"retain_min": 1, "retain_max": 1, "time_retained_ms": 0, "grace_ms": 0}
    table.upkeep.run(table.upkeep.plan_expire_snapshots(**retention))
    assert table.history.changelogs()
    return table


def branched(catalog: Catalog) -> Table:
    table = appended(catalog)
    branch = table.history.create_branch("b", snapshot=2)
    branch.write(rows(branch, events(5, 6)))
    return table


def with_orphan(catalog: Catalog) -> Table:
    table = appended(catalog)
    table.stage(rows(table, events(7, 8)))
    return table


def with_condemned(catalog: Catalog) -> Table:
    table = with_orphan(catalog)
    table.upkeep.run(table.upkeep.plan_remove_orphans(older_than_ms=0, even_recent=True))
    assert table.upkeep.condemned()
    return table


def first_condemned(table: Table) -> PutBackOptions:
    return PutBackOptions(record=table.upkeep.condemned()[0].id)


@dataclass(frozen=True)
class Case:
    """A verb, a table on which it has work, and the options that it does it with."""

    verb: str
    table: Callable[[Catalog], Table]
    options: object | Callable[[Table], object]
    # Whether a plan right after the run is empty.
    comes_to_rest: bool = True

    def options_for(self, table: Table) -> object:
        return self.options(table) if callable(self.options) else self.options


def with_idle_consumer(catalog: Catalog) -> Table:
    table = appended(catalog)
    table.history.set_consumer("gone", 2)
    # Its last move by the store, of which the clock of these tests knows nothing.
    path, then = table.table_files.paths.consumer("gone"), dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    if table.table_files.fs.scheme == "file":
        os.utime(path, (then.timestamp(), then.timestamp()))
    else:
        file = MemoryFileSystem.store[path]
        file.created = file.modified = then
    return table


_GOES = {"retain_min": 1, "retain_max": 1, "time_retained_ms": 0}
CASES = [
    Case("compact", appended, CompactRun(min_files=2)),
    Case("compact", keyed, CompactRun(full=True)),
    Case("sort_compact", appended, SortCompactRun(by=("id",))),
    Case("rescale", keyed, RescaleRun(buckets=3)),
    Case("postpone_compact", postponed, PostponeRun()),
    Case("respec", appended, RespecRun(keys=("day", "id"))),
    Case("settle", restated, SettleOptions()),
    Case("add_primary_key", appended, AddPrimaryKeyRun(keys=("day", "id"))),
    Case("rewrite_manifests", appended, RewriteManifestsOptions()),
    Case("publish_iceberg", appended, PublishIcebergOptions()),
    Case("expire_snapshots", appended, ExpireSnapshotsRun(**_GOES)),
    Case("expire_tags", with_old_tags, ExpireTagsOptions(older_than_ms=1, spare=("lasting*",))),
    Case("expire_consumers", with_idle_consumer, ExpireConsumersOptions(older_than_ms=1)),
    Case("expire_changelogs", with_changelogs, ExpireChangelogsOptions(retain_min=1, retain_max=2)),
    Case("remove_orphans", with_orphan, OrphansOptions(older_than_ms=0, even_recent=True)),
    # What came back is no longer there to come back.
    Case("put_back", with_condemned, first_condemned, comes_to_rest=False),
    Case("collect", with_condemned, CollectOptions(early=True)),
    Case("analyze", appended, AnalyzeRun(columns=("id",))),
    # What is gone cannot be planned again.
    Case("delete_tags", tagged, DeleteTagsOptions(names=("brief",)), comes_to_rest=False),
    Case("delete_branch", branched, DeleteBranchOptions(branch="b"), comes_to_rest=False),
    Case("fast_forward", branched, FastForwardOptions(branch="b"), comes_to_rest=False),
    Case("alter", keyed, AlterOptions(add=("w INT",)), comes_to_rest=False),
    Case("rollback", appended, RollbackOptions(snapshot=1), comes_to_rest=False),
    Case("revert", appended, RevertOptions(snapshots=(2,))),
    Case("expire_partitions", dated, ExpirePartitionsOptions(older_than_ms=86_400_000)),
    # The partition has its name only once.
    Case(
        "rename_partition",
        keyed,
        RenamePartitionRun(partition={"day": "a"}, to={"day": "z"}),
        comes_to_rest=False,
    ),
    Case(
        "exchange_partition",
        beside_another,
        ExchangePartitionOptions(source="db.other", partitions=({"day": "x"},)),
        comes_to_rest=False,
    ),
    # A partition may be marked again.
    Case("mark_done", appended, MarkDoneRun(where="day = 'a'"), comes_to_rest=False),
    Case("add_partitions", landed, taking_over),
    Case("repair_partitions", drifted, RepairOptions(mode=RepairMode.SYNC, age_ms=0)),
    Case("delete", appended, DeleteRowsRun(where="day = 'a'")),
    # The rows match again.
    Case(
        "update",
        appended,
        UpdateRowsRun(values={"v": "'new'"}, where="day = 'a'"),
        comes_to_rest=False,
    ),
    Case("drop_partitions", appended, DropPartitionsOptions(where="day = 'a'", if_exists=True)),
]


def files_of(table: Table) -> dict[str, int]:
    """Everything that lies below the table and beside it, with its size."""
    memory = MemoryFileSystem.store
    return {path: len(file.getvalue()) for path, file in memory.items()}


def test_every_verb_has_a_case() -> None:
    assert {case.verb for case in CASES} == set(PROCEDURES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.verb}-{case.table.__name__}")
@pytest.mark.sampled(12)
def test_a_verb_plans_without_writing_runs_and_comes_to_rest(catalog: Catalog, case: Case) -> None:
    table, verb = case.table(catalog), PROCEDURES[case.verb]
    options = case.options_for(table)
    before = files_of(table)

    dry = carry_out(verb, table, options, WORK, dry_run=True)

    assert dry.result is None
    assert files_of(table) == before
    would = verb.report(table, dry)
    assert not would.is_empty
    done = carry_out(verb, table, options, WORK)
    assert done.result is not None
    report = verb.report(table, done)
    assert not report.is_empty
    assert report.facts
    assert files_of(table) != before
    assert not table.upkeep.leases()
    if case.comes_to_rest:
        # Opened again: a rescale has changed the table's options.
        kept = catalog.table(table.name)
        again = carry_out(verb, kept, options, WORK, dry_run=True)
        assert verb.report(kept, again).is_empty


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.verb}-{case.table.__name__}")
@pytest.mark.sampled(12)
def test_a_plan_is_saved_and_done_as_it_stands(catalog: Catalog, case: Case) -> None:
    table, verb = case.table(catalog), PROCEDURES[case.verb]
    options = case.options_for(table)
    plan = verb.planned(table, options)

    saved = verb.plan_type.from_json(plan.to_json())
    done = carry_out(verb, table, options, WORK, plan=saved)

    assert not verb.report(table, done).is_empty
    assert done.plan is saved


# What they gain is not files, or they neither rewrite nor delete data: only their time is measured.
_UNMEASURED = {
    "delete",
    "update",
    "alter",
    "add_partitions",
    "repair_partitions",
    "rename_partition",
    "exchange_partition",
    "expire_consumers",
    "mark_done",
    "publish_iceberg",
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.verb}-{case.table.__name__}")
@pytest.mark.sampled(12)
def test_a_verb_foresees_what_it_takes_on_a_table_that_nothing_else_changes(
    catalog: Catalog, case: Case
) -> None:
    table, verb = case.table(catalog), PROCEDURES[case.verb]
    assert (verb.measures is None) == (case.verb in _UNMEASURED)
    if verb.measures is None:
        return
    options = case.options_for(table)
    before = len(table.at().files())
    planned = verb.measures(table, carry_out(verb, table, options, WORK, dry_run=True))

    did = verb.measures(table, carry_out(verb, table, options, WORK))

    assert did.cost.bytes == planned.cost.bytes
    assert did.cost.files == planned.cost.files
    for gained in ("bytes_freed", "snapshots_fewer", "tags_fewer", "changelogs_fewer"):
        assert getattr(did.benefit, gained) == getattr(planned.benefit, gained)
    left = catalog.table(table.name)
    if case.verb not in ("rollback", "fast_forward"):
        assert did.benefit.files_fewer == before - len(left.at().files())
        assert did.benefit.files_fewer == planned.benefit.files_fewer
    committed = [each.id for each in left.history.snapshots() if each.id in did.snapshots]
    assert committed == list(did.snapshots)


def test_a_compaction_of_a_keyed_table_tells_the_runs_that_it_took(catalog: Catalog) -> None:
    table = keyed(catalog, "1")

    def runs() -> int:
        return sum(each.sorted_runs for each in read_health(table).partitions)

    before = runs()
    did = COMPACT.measures(table, carry_out(COMPACT, table, CompactRun(full=True), WORK))
    assert (before, runs(), did.benefit.runs_fewer) == (3, 1, 2)


def test_an_expiry_of_tags_foresees_the_bytes_that_only_they_kept(catalog: Catalog) -> None:
    table = tagged(catalog)
    table.history.create_tag("other", snapshot=2, time_retained_ms=1)
    table.upkeep.compact(full=True)
    table.upkeep.expire_snapshots(retain_min=1, retain_max=1, time_retained_ms=0, grace_ms=0)
    table.table_files.env.sleep_ms(1000)
    verb, options = PROCEDURES["expire_tags"], ExpireTagsOptions(grace_ms=0)
    before = files_of(table)
    dry = carry_out(verb, table, options, WORK, dry_run=True)
    foreseen = verb.measures(table, dry).benefit

    did = verb.measures(table, carry_out(verb, table, options, WORK)).benefit

    after = files_of(table)
    gone = {path: size for path, size in before.items() if path not in after}
    of_tags = sum(size for path, size in gone.items() if "/tag/" in path)
    assert foreseen.tags_fewer == did.tags_fewer == 2
    assert foreseen.bytes_freed == did.bytes_freed == sum(gone.values()) - of_tags > 0


def test_an_expiry_of_changelogs_foresees_the_bytes_of_all_its_steps(catalog: Catalog) -> None:
    options = {"bucket": "1", "changelog-producer": "input", "snapshot.expire.limit": "2"}
    kept = {"snapshot.num-retained.max": "3", "changelog.num-retained.max": "100"}
    kept |= {"snapshot.num-retained.min": "1"}
    table = new_table(catalog, keys=("id",), options={**options, **kept})
    for at in range(8):
        table.write(rows(table, events(10 * at, 10 * at + 10)))
    for _ in range(4):
        table.upkeep.expire_snapshots(retain_min=1, retain_max=1, time_retained_ms=0, grace_ms=0)
    assert len(table.history.changelogs()) == 7
    retention = ExpireChangelogsOptions(retain_min=1, retain_max=2, grace_ms=0)
    verb, before = EXPIRE_CHANGELOGS, files_of(table)
    dry = carry_out(verb, table, retention, WORK, dry_run=True)
    assert (len(dry.plan.changelog_ids), dry.plan.waiting) == (2, 4)
    foreseen = verb.measures(table, dry)
    seen: list[ChangelogsDone] = []

    did = verb.measures(table, carry_out(verb, table, retention, WORK, stepped=seen.append))

    after = files_of(table)
    gone = {path: size for path, size in before.items() if path not in after}
    of_metadata = sum(size for path, size in gone.items() if "/changelog/changelog-" in path)
    assert foreseen.benefit.changelogs_fewer == did.benefit.changelogs_fewer == 6
    assert foreseen.cost.files == did.cost.files
    assert did.benefit.bytes_freed == sum(gone.values()) - of_metadata
    off = abs(foreseen.benefit.bytes_freed - did.benefit.bytes_freed)
    assert off < did.benefit.bytes_freed / 20
    extents = [EXPIRE_CHANGELOGS.extent(each) for each in seen]
    assert [(each.done, each.total) for each in extents if each] == [(2, 6), (4, 6), (6, 6)]


def test_an_expiry_tells_the_metadata_that_went(catalog: Catalog) -> None:
    table, verb = keyed(catalog), PROCEDURES["expire_snapshots"]
    folder, fs = f"{table.location}/manifest", table.table_files.fs

    def metadata() -> int:
        return sum(each.size for each in fs.list_dir(folder))

    before = metadata()
    options = ExpireSnapshotsRun(retain_min=1, retain_max=1, grace_ms=0)
    planned = verb.measures(table, carry_out(verb, table, options, WORK, dry_run=True))
    did = verb.measures(table, carry_out(verb, table, options, WORK))
    assert did.benefit.metadata_bytes_fewer == before - metadata() > 0
    assert planned.benefit.metadata_bytes_fewer == did.benefit.metadata_bytes_fewer


@pytest.mark.parametrize("verb", PROCEDURES.values(), ids=PROCEDURES)
def test_each_option_says_what_it_is_for(verb: AnyProcedure) -> None:
    described = option_fields(verb.options)
    assert described or verb.options is PublishIcebergOptions
    assert all(each.text.endswith(".") for each in described)
    assert verb.options() == verb.options(**{each.name: each.default for each in described})


def test_a_saved_plan_of_files_that_went_is_stale(catalog: Catalog) -> None:
    table = appended(catalog)
    options = CompactRun(min_files=2)
    plan = COMPACT.planned(table, options)
    carry_out(COMPACT, table, options, WORK)

    with pytest.raises(StalePlan):
        carry_out(COMPACT, table, options, WORK, plan=plan)


@pytest.mark.parametrize(
    "case",
    [each for each in CASES if issubclass(PROCEDURES[each.verb].plan_type, DeletionPlan)],
    ids=lambda case: case.verb,
)
def test_a_saved_plan_deletes_no_file_that_was_added_to_it(catalog: Catalog, case: Case) -> None:
    table, verb = case.table(catalog), PROCEDURES[case.verb]
    options = case.options_for(table)
    plan = verb.planned(table, options)
    added = UnreachableFile("schema/schema-0", 1)

    with suppress(StalePlan, InvalidRequestError):
        carry_out(verb, table, options, WORK, plan=replace(plan, files=(*plan.files, added)))

    assert table.table_files.fs.exists(table.table_files.paths.below(added.path))
    catalog.table(table.name).read()


def test_a_rewrite_leases_what_it_plans_and_begins_nothing_that_others_hold(
    catalog: Catalog,
) -> None:
    table = appended(catalog)
    request = LeaseRequest(
        kind=LeaseKind.COMPACT, scope=whole_table(table.table_files), holder="the first"
    )
    acquire_lease(table.table_files, request)

    with pytest.raises(LeaseHeld):
        carry_out(COMPACT, table, CompactRun(min_files=2), WORK)
    assert len(table.history.snapshots()) == 3
    # Nothing is leased for a plan that is empty.
    carry_out(COMPACT, table, CompactRun(min_files=9), WORK)


def test_an_expiry_goes_in_steps_and_tells_what_is_done_after_each(catalog: Catalog) -> None:
    table = new_table(catalog, options={"snapshot.expire.limit": "2"})
    for at in range(6):
        table.write(rows(table, events(at, at + 1)))
    told: list[int] = []

    def stepped(done: Outcome[ExpireSnapshotsRun, ExpirePlan, ExpireResult]) -> None:
        assert done.result is not None
        told.append(len(done.result.expired))
        assert [each.kind for each in table.upkeep.leases()] == [LeaseKind.EXPIRE]

    done = carry_out(EXPIRE_SNAPSHOTS, table, ExpireSnapshotsRun(**_GOES), WORK, stepped=stepped)

    assert told == [2, 4, 5]
    facts = EXPIRE_SNAPSHOTS.report(table, done).facts
    assert (facts["snapshots_expired"], facts["snapshots_after"]) == (5, 1)
    assert [each.id for each in table.history.snapshots()] == [6]


FEW_SNAPSHOTS = {"snapshot.num-retained.max": "30", "snapshot.expire.limit": "2"}


def test_changelogs_go_in_steps_until_none_is_left_that_may_go(catalog: Catalog) -> None:
    options = {"bucket": "1", "changelog-producer": "input", "changelog.num-retained.max": "40"}
    table = new_table(catalog, keys=("id",), options={**options, **FEW_SNAPSHOTS})
    for at in range(7):
        table.write(rows(table, events(at, at + 1)))
    carry_out(EXPIRE_SNAPSHOTS, table, ExpireSnapshotsRun(**_GOES), WORK)
    assert [each.id for each in table.history.changelogs()] == [1, 2, 3, 4, 5, 6]
    told: list[int] = []

    def stepped(done: ChangelogsDone) -> None:
        assert done.result is not None
        told.append(len(done.result.expired))
        assert [each.kind for each in table.upkeep.leases()] == [LeaseKind.EXPIRE]

    kept = ExpireChangelogsOptions(retain_min=1, retain_max=2)
    done = carry_out(EXPIRE_CHANGELOGS, table, kept, WORK, stepped=stepped)

    assert told == [2, 4, 5]
    assert done.plan.changelog_ids == (1, 2, 3, 4, 5)
    # The changes of the last two commits stay, of which one is a snapshot still.
    assert [each.id for each in table.history.changelogs()] == [6]
    assert EXPIRE_CHANGELOGS.report(table, done).facts["changelogs_expired"] == 5
    assert_only_reachable_files(table)


def test_an_expiry_whose_plan_is_given_is_one_step(catalog: Catalog) -> None:
    table = new_table(catalog, options={"snapshot.expire.limit": "2"})
    for at in range(6):
        table.write(rows(table, events(at, at + 1)))
    plan = EXPIRE_SNAPSHOTS.planned(table, ExpireSnapshotsRun(**_GOES))

    carry_out(EXPIRE_SNAPSHOTS, table, ExpireSnapshotsRun(), WORK, plan=plan)

    assert [each.id for each in table.history.snapshots()] == [3, 4, 5, 6]


@pytest.mark.parametrize(
    "now",
    [{"time_retained_ms": 86_400_000}, {"snapshot": 3, "time_retained_ms": 10**9}],
    ids=["kept for longer", "of another snapshot"],
)
def test_a_tag_that_was_replaced_since_the_plan_stays(
    catalog: Catalog, now: dict[str, int]
) -> None:
    table = tagged(catalog)
    plan = EXPIRE_TAGS.planned(table, ExpireTagsOptions())
    table.history.replace_tag("brief", **now)
    with pytest.raises(StalePlan):
        carry_out(EXPIRE_TAGS, table, ExpireTagsOptions(), WORK, plan=plan)
    assert [each.name for each in table.history.tags()] == ["brief"]


def test_partitions_and_buckets_that_a_table_has_not_are_refused(catalog: Catalog) -> None:
    table = keyed(catalog)
    with pytest.raises(NotFoundError, match="no partition day=z"):
        COMPACT.planned(table, CompactRun(partitions=({"day": "z"},)))
    with pytest.raises(NotFoundError, match=r"no bucket 7; there are 0, 1"):
        COMPACT.planned(table, CompactRun(buckets=(7,)))
    assert RESCALE.planned(table, RescaleRun()).tasks[0].bucket_count == 1
    with pytest.raises(InvalidRequestError, match="record is not given"):
        PROCEDURES["put_back"].planned(table, PutBackOptions())
    for verb in ("delete_tags", "delete_branch", "fast_forward"):
        with pytest.raises(InvalidRequestError, match="given"):
            PROCEDURES[verb].planned(table, PROCEDURES[verb].options())


def test_an_empty_plan_starts_no_spark_session(catalog: Catalog) -> None:
    table = appended(catalog)
    options = CompactRun(min_files=9, engine=EngineChoice.SPARK)
    done = carry_out(COMPACT, table, options, WORK)
    assert COMPACT.report(table, done).is_empty


def test_a_table_that_postpones_its_buckets_gives_rows_theirs_first(catalog: Catalog) -> None:
    table = postponed(catalog)
    assert table.read().num_rows == 0
    for verb in in_turn("compact", table):
        carry_out(verb, table, CompactRun(), WORK)
    assert table.read().num_rows == 3
