"""Every verb, each a line: a new verb gets a line here, and all faults try it.

A case says on which tables a verb is tried (the first in `make test`, all of them in
`make test-deep`), what is done before it, and the verb itself, as a function of a place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lakewright.storage import (
    AddColumn,
    Catalog,
    ChangeComment,
    DropColumn,
    SetOption,
    StagedWrite,
    Table,
    TableDistribution,
)
from lakewright.storage.errors import (
    AlreadyExistsError,
    BranchNotFound,
    ConsumerNotFound,
    DatabaseNotFound,
    InvalidRequestError,
    NotFoundError,
    PartitionExists,
    PartitionNotFound,
    StorageError,
    TableNotFound,
    TagNotFound,
    UnsupportedError,
)
from lakewright.storage.operations.inspection.system_tables import (
    READ_OPTIMIZED,
    ROW_TRACKING,
    system_table_names,
)
from lakewright.storage.operations.leases.leases import LeaseRequest, acquire_lease, whole_table
from lakewright.storage.operations.retention.remove_orphans import OrphansOptions
from lakewright.storage.operations.running.engine import LocalEngine
from lakewright.storage.operations.streams.batches import commit_batch
from lakewright.storage.spec.lease import LeaseKind
from lakewright.storage.spec.stream import StreamBatch
from tests.support.tables.builders import EVENTS, compact, events, expire, new_table, rows, spec
from tests.support.tables.landed import land_beside

NAME = "db.t"
# A moment that no file of a test is younger than.
LATER_MS = 5_000_000_000_000
EVERY_ORPHAN: dict[str, Any] = {"older_than_ms": 0, "even_recent": True}
AS_JOB: dict[str, Any] = {"commit_user": "job", "commit_identifier": 7}


@dataclass(frozen=True)
class Place:
    """Where a verb is tried: a warehouse with one table, and what was made ready for the verb."""

    catalog: Catalog
    ready: Any = None

    @property
    def table(self) -> Table:
        """The table, opened anew each time."""
        return self.catalog.table(NAME)


@dataclass(frozen=True)
class Kind:
    """A kind of table, of `EVENTS`; `settle` makes rows visible that readers do not see at once.

    `may_lack`: what a verb may leave to the next one without a word, by how its name begins.
    """

    keys: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ("day",)
    options: Mapping[str, str] = field(default_factory=dict)
    settle: Callable[[Table], object] = lambda table: None
    may_lack: str | None = None


@dataclass(frozen=True)
class Case:
    """A verb.

    `done` is what a second try says when the first had taken effect. `steps`: what a reader sees
    goes from snapshot to snapshot. `mixes`:
    until it is done, history is of two tables, or has a gap. `repeats`: a second try may commit
    once more, to no effect. `cleans_up`: when it fails it leaves nothing for a next try. With
    `names_places` the verb names whole paths, so no copy elsewhere can be judged. With
    `restates_places` only manifests name whole paths, of files in the table.
    """

    name: str
    verb: Callable[[Place], object]
    on: tuple[str, ...] = ("keyed",)
    ready: Callable[[Table], Any] = lambda table: None
    done: tuple[type[StorageError], ...] = ()
    steps: bool = False
    mixes: bool = False
    repeats: bool = False
    cleans_up: bool = True
    quick: bool = True
    names_places: bool = False
    restates_places: bool = False

    @property
    def options(self) -> dict[str, str]:
        """Options of the table: paths in manifests can be replaced if these are not compressed."""
        return {"manifest.compression": "none"} if self.restates_places else {}


# --- tables -------------------------------------------------------------------------------------


def _postpone_compact(table: Table) -> object:
    return table.upkeep.run(table.upkeep.plan_postpone_compact())


def _compact(table: Table) -> object:
    return compact(table, full=True)


KEYS = ("day", "id")
KINDS: dict[str, Kind] = {
    "append": Kind(),
    "append in buckets": Kind(options={"bucket": "2", "bucket-key": "id"}),
    "keyed": Kind(("id",), (), {"bucket": "1"}),
    "bucketed": Kind(("id",), (), {"bucket": "2"}),
    "fixed": Kind(KEYS, options={"bucket": "2"}),
    "dynamic": Kind(KEYS, options={"bucket": "-1", "dynamic-bucket.target-row-num": "3"}),
    "postponed": Kind(
        KEYS, options={"bucket": "-2", "postpone.default-bucket-num": "2"}, settle=_postpone_compact
    ),
    "telling": Kind(KEYS, options={"bucket": "1", "changelog-producer": "input"}),
    "telling later": Kind(KEYS, options={"bucket": "1", "changelog-producer": "full-compaction"}),
    "looking up": Kind(KEYS, options={"bucket": "1", "changelog-producer": "lookup"}),
    "vectors": Kind(
        KEYS, options={"bucket": "1", "deletion-vectors.enabled": "true"}, settle=_compact
    ),
    "remembering": Kind(
        ("id",),
        (),
        {
            "bucket": "1",
            "changelog-producer": "input",
            "changelog.num-retained.min": "10",
            "changelog.num-retained.max": "20",
            "changelog.time-retained": "1 d",
        },
    ),
    "marked": Kind(options={"deletion-vectors.enabled": "true"}),
    "tagging": Kind(options={"tag.automatic-creation": "batch"}, may_lack=f"{NAME} tag batch-"),
}
EVERY_KIND = ("keyed", "append", *(name for name in KINDS if name not in {"keyed", "append"}))
PARTED_KINDS = tuple(name for name in EVERY_KIND[1:] if KINDS[name].partitions)
# A second try that finds its work done makes no tag.
UNTAGGED_KINDS = tuple(name for name in PARTED_KINDS if name != "tagging")
KEYED_KINDS = tuple(name for name in EVERY_KIND if KINDS[name].keys)
# Rows of postponed buckets wait for a compaction, and no single one of them changes.
CHANGING_KINDS = (
    "append",
    "fixed",
    *(name for name in PARTED_KINDS if name not in {"append", "fixed", "postponed", "vectors"}),
    "keyed",
)
POSTPONED = ("postponed",)
READY_KINDS = tuple(name for name in EVERY_KIND if name not in POSTPONED)
NO_TABLE = "none"


def make_table(catalog: Catalog, kind: str, **given: str) -> None:
    """Three commits in two partitions, so that there is something to merge, compact and expire."""
    if kind == NO_TABLE:
        return
    made = KINDS[kind]
    options = {"manifest.merge-min-count": "2", **made.options, **given}
    settings: dict[str, Any] = {"keys": made.keys, "partitions": made.partitions}
    table = new_table(catalog, name=NAME, **settings, options=options)
    for number, day in enumerate("aba"):
        new = events(number, number + 4, day=day, v=f"{day}{number}-")
        table.write(rows(table, new), commit_user="maker", commit_identifier=number)


# --- what is made ready -------------------------------------------------------------------------


def _new(table: Table) -> Any:
    return rows(table, [*events(2, 6, day="a", v="new"), *events(0, 1, day="c", v="new")])


def _stage(table: Table) -> StagedWrite:
    return table.stage(_new(table))


def _stage_two(table: Table) -> StagedWrite:
    """A write that has to be numbered again, since another began at the same snapshot."""
    first, second = table.stage(rows(table, events(1, 6, v="first"))), _stage(table)
    table.commit(first)
    return second


def _many_files(table: Table) -> None:
    for number in range(3):
        table.write(rows(table, events(0, 4, day="a", v=f"more{number}-")))


def _compacted_and_written(table: Table) -> None:
    compact(table, full=True)
    table.write(rows(table, events(1, 3, day="a", v="later")))


def _compacted_and_overlaid(table: Table) -> int:
    """A compaction, and rows of the same keys after it; returns the compaction's snapshot."""
    compact(table, full=True)
    snapshot = table.history.latest_snapshot()
    assert snapshot is not None
    table.write(rows(table, events(1, 3, day="a", v="later")))
    return snapshot.id


def _rescaled(table: Table) -> tuple[int, ...]:
    """Other bucket counts, and another option; returns the snapshots of the rescale."""
    last = len(table.history.snapshots())
    table.upkeep.rescale(3, engine=LocalEngine(env=table.table_files.env))
    return tuple(each.id for each in table.history.snapshots()[last:])


def _dropped_and_written(table: Table) -> int:
    """A partition that is gone, and rows of another one after that; returns the drop's snapshot."""
    snapshot = table.upkeep.drop_partitions(partitions=[{"day": "a"}]).snapshot
    assert snapshot is not None
    table.write(rows(table, events(1, 3, day="b", v="later")))
    return snapshot.id


def _compacted(table: Table) -> None:
    compact(table, full=True)


def _tags(table: Table) -> None:
    """One tag of a snapshot that is there, one of another that expired, one to expire."""
    table.history.create_tag("first", snapshot=1)
    table.history.create_tag("short", snapshot=1, time_retained_ms=1)
    compact(table, full=True)
    expire(table, keep=2)
    table.history.create_tag("last")


def _copied(table: Table) -> None:
    """A copy of the files of a tag: it has no snapshot."""
    table.history.create_tag("first")
    for number in table.table_files.snapshots.ids():
        table.table_files.fs.delete(table.table_files.paths.snapshot(number))
    for hint in (table.table_files.paths.latest_hint, table.table_files.paths.earliest_hint):
        table.table_files.fs.delete(hint)


def _untagged(table: Table) -> None:
    """The tag that the last commit made is gone."""
    table.history.run(
        table.history.plan_delete_tags(*(tag.name for tag in table.history.tags()), grace_ms=0)
    )


def _branch(table: Table) -> None:
    """A branch that began at the second snapshot and went its own way, as main did."""
    table.history.create_tag("second", snapshot=2)
    seen = table.history.create_branch("b", tag="second")
    seen.write(rows(seen, events(7, 9, v="branch")))
    compact(seen, full=True)
    table.write(rows(table, events(20, 22, v="main")))


def _consumers(table: Table) -> None:
    table.history.set_consumer("reader", 2)
    table.history.set_consumer("other", 3)


def _stream(table: Table) -> None:
    staged = table.stage(rows(table, []), commit_user="stream", commit_identifier=0)
    batch = StreamBatch(stream="stream", checkpoint="/place", number=0)
    commit_batch(table.table_files, batch, staged)


def _changelogs(table: Table) -> None:
    expire(table, keep=1)


def _leased(table: Table) -> str:
    """Somebody holds all of it, for longer than any try takes."""
    request = LeaseRequest(
        kind=LeaseKind.RESCALE,
        scope=whole_table(table.table_files),
        holder="somebody",
        duration_ms=LATER_MS,
    )
    return acquire_lease(table.table_files, request).id


def _orphans(table: Table) -> None:
    """The files of a write that is never committed, and of one that stopped halfway."""
    _stage(table)
    files, root = table.table_files.fs, table.table_files.paths.root
    files.write_bytes(f"{root}/manifest/manifest-cut-0", b"cut")
    files.write_bytes(f"{root}/snapshot/.snapshot-9.cut.tmp", b"cut")


def _condemned(table: Table) -> None:
    _orphans(table)
    table.upkeep.run(table.upkeep.plan_remove_orphans(**EVERY_ORPHAN))


def _expired_for_a_while(table: Table) -> None:
    table.upkeep.expire_snapshots(**ONE_LEFT, grace_ms=LATER_MS)


def _rolled_back_for_a_while(table: Table) -> None:
    table.history.create_tag("late", snapshot=3)
    table.history.rollback(snapshot=1, grace_ms=LATER_MS)


def _branch_deleted_for_a_while(table: Table) -> None:
    _branch(table)
    table.history.delete_branch("b", grace_ms=LATER_MS)


def _beside_another(table: Table) -> None:
    """A table of the same schema, with a partition more."""
    warehouse = table.table_files.paths.root.rsplit("/", 2)[0]
    files = table.table_files
    schema = table.schema
    other = new_table(
        Catalog(files.fs, warehouse, files.env),
        name="db.other",
        keys=schema.primary_keys,
        partitions=schema.partition_keys,
        options=schema.options,
    )
    other.write(rows(other, events(0, 3, day="x")))


def _landed(table: Table) -> None:
    land_beside(table, "x", "y")


def _drifted(table: Table) -> None:
    """A folder was taken over, and has one day more by now."""
    land_beside(table, "x", "y")
    table.upkeep.add_partitions(land_beside(table), age_ms=0)
    land_beside(table, "z")


# --- verbs --------------------------------------------------------------------------------------


def _take_over(at: Place, **how: Any) -> object:
    folder = land_beside(at.table)
    return at.table.upkeep.run(at.table.upkeep.plan_add_partitions(folder, age_ms=0, **how))


def _copy_over(at: Place) -> object:
    return _take_over(at, copy_files=True)


def _repair(at: Place) -> object:
    return at.table.upkeep.run(at.table.upkeep.plan_repair_partitions(mode="sync", age_ms=0))


def _sync_partitions(at: Place) -> object:
    return at.catalog.sync_partitions(at.table.name, mode="sync", age_ms=0)


def _overwrite(**how: Any) -> Callable[[Place], object]:
    def verb(at: Place) -> object:
        table = at.table
        new = rows(table, events(2, 6, day="a", v="over"))
        return table.write(new, mode="overwrite", **how, **AS_JOB)

    return verb


def _truncate(at: Place) -> object:
    table = at.table
    return table.write(rows(table, []), mode="overwrite", dynamic=False, **AS_JOB)


def _remove_rows(at: Place) -> object:
    table = at.table
    gone = rows(table, events(0, 3, day="a"), kinds=["-D"] * 3)
    return table.write(gone, **AS_JOB)


def _write_and_compact(at: Place) -> None:
    table = at.table
    result = table.write(_new(table), compact=True, **AS_JOB)
    if result.compaction is not None and result.compaction.failure is not None:
        raise result.compaction.failure


def _compact_written(at: Place) -> None:
    result = at.table.upkeep.compact_written([{"day": "a"}])
    if result.failure is not None:
        raise result.failure


def _write_to_branch(at: Place) -> object:
    seen = at.table.history.at_branch("b")
    return seen.write(_new(seen), **AS_JOB)


def _keep_and_commit(at: Place) -> object:
    """What a writer of numbered batches does when it starts again: a second try too."""
    table = at.table
    table.keep_pending(table.stage(_new(table), **AS_JOB))
    return table.commit_pending("job")


def _kept(table: Table) -> StagedWrite:
    staged = table.stage(_new(table), **AS_JOB)
    return table.keep_pending(staged)


def _alter(at: Place) -> object:
    table = at.table
    return table.run_alter(
        table.plan_alter(
            ChangeComment("v", "what happened"),
            AddColumn("w", "ROW<a INT>"),
            SetOption("snapshot.num-retained.min", "3"),
        )
    )


def _add_column(at: Place) -> object:
    return at.table.alter(AddColumn("w", "ROW<a INT>"))


def _alter_branch(at: Place) -> object:
    return at.table.history.at_branch("b").alter(DropColumn("v"))


def _create_format_table(at: Place) -> object:
    at.catalog.create_format_table("db.plain", spec(EVENTS, partitions=["day"]))
    return at.catalog.format_table("db.plain").read()


def _dropped(table: Table) -> None:
    fs, root = table.table_files.fs, table.table_files.paths.root
    Catalog(fs, root.rsplit("/", 2)[0], table.table_files.env).drop_table(NAME)


def _beside_a_database(table: Table) -> None:
    """A database without tables."""
    warehouse = table.table_files.paths.root.rsplit("/", 2)[0]
    table.table_files.fs.make_dirs(f"{warehouse}/made.db")


def _create_table(at: Place) -> object:
    return at.catalog.create_table("db.made", spec(EVENTS))


HISTORIC = ("delete_tags", "delete_branch", "fast_forward", "rollback")


def _run(name: str, *args: Any, **plan: Any) -> Callable[[Place], object]:
    """Plan a verb and run it."""

    def verb(at: Place) -> object:
        face = at.table.history if name in HISTORIC else at.table.upkeep
        return face.run(getattr(face, f"plan_{name}")(*args, **plan))

    return verb


def _orphans_in_steps(at: Place) -> object:
    steps = at.table.upkeep.orphan_steps(OrphansOptions(**EVERY_ORPHAN, max_files=1))
    return [at.table.upkeep.run(each) for each in steps]


def _put_back(at: Place) -> object:
    table = at.table
    return [table.upkeep.put_back(each.id) for each in table.upkeep.condemned()]


def _collect(at: Place) -> object:
    return at.table.upkeep.collect(early=True, under_way=True)


ONE_LEFT = {"retain_min": 1, "retain_max": 1, "time_retained_ms": 0}
GONE = (TagNotFound, BranchNotFound, ConsumerNotFound, TableNotFound)
THERE = (AlreadyExistsError,)
NOTHING_LATER = (InvalidRequestError,)


def _delete_rows(at: Place) -> object:
    return at.table.delete("id = 2 OR id = 3")


def _update_rows(at: Place) -> object:
    # A second try finds nothing to change.
    return at.table.update({"v": "'changed'"}, "(id = 2 OR id = 3) AND v <> 'changed'")


def _merge_rows(at: Place) -> object:
    return at.table.merge(
        [{"id": 2, "day": "a", "v": "merged"}, {"id": 50, "day": "c", "v": "merged"}],
        on=["id", "day"],
        when_matched=[("t.v <> s.v", "update")],
        when_not_matched="insert",
        when_not_matched_by_source=[("t.id = 0", "delete")],
    )


CASES = (
    # Writing.
    Case("delete rows", _delete_rows, CHANGING_KINDS, repeats=True),
    Case("update rows", _update_rows, CHANGING_KINDS, repeats=True),
    Case("merge rows", _merge_rows, CHANGING_KINDS, repeats=True),
    Case("write", lambda at: at.table.write(_new(at.table), **AS_JOB), EVERY_KIND),
    Case("write deletions", _remove_rows, KEYED_KINDS),
    Case("write to a branch", _write_to_branch, ("keyed", "append"), _branch),
    Case("overwrite by partition", _overwrite(dynamic=True), ("append", *PARTED_KINDS)),
    Case("overwrite one partition", _overwrite(partition={"day": "a"}), ("fixed", *PARTED_KINDS)),
    Case("overwrite all", _overwrite(dynamic=False), EVERY_KIND),
    Case("truncate", _truncate, EVERY_KIND),
    Case("stage", lambda at: at.table.stage(_new(at.table)), EVERY_KIND),
    Case("commit", lambda at: at.table.commit(at.ready), EVERY_KIND, _stage, cleans_up=False),
    Case(
        "commit numbered again",
        lambda at: at.table.commit(at.ready),
        KEYED_KINDS,
        _stage_two,
        cleans_up=False,
    ),
    Case("abort", lambda at: at.table.abort(at.ready), EVERY_KIND, _stage, cleans_up=False),
    Case("keep and commit batches", _keep_and_commit, EVERY_KIND, cleans_up=False),
    Case("abort what is kept", lambda at: at.table.abort(at.ready), ready=_kept, cleans_up=False),
    Case("write and compact", _write_and_compact, READY_KINDS, _many_files),
    Case(
        "write, place and compact",
        _write_and_compact,
        POSTPONED,
        _many_files,
        steps=True,
        quick=False,
    ),
    Case("compact what was written", _compact_written, ("append", *PARTED_KINDS), _many_files),
    # Schemas.
    Case("alter", _alter, ("keyed", "append"), done=(InvalidRequestError,)),
    Case("add a column", _add_column, done=(InvalidRequestError,), quick=False),
    Case("alter a branch", _alter_branch, ready=_branch, done=(InvalidRequestError,), quick=False),
    # Rewriting.
    Case("compact", _run("compact", full=True), EVERY_KIND),
    Case("compact levels", _run("compact"), KEYED_KINDS, _many_files),
    Case("compact again", _run("compact", full=True), KEYED_KINDS, _compacted_and_written),
    Case("sort", _run("sort_compact", ["v"]), ("append",), repeats=True),
    Case(
        "rescale",
        _run("rescale", 3),
        ("bucketed", "fixed", "append in buckets", "telling", "vectors"),
        # Of deletion vectors rows that waited come into sight, partition by partition.
        steps=True,
    ),
    Case(
        "distribute",
        lambda at: at.table.distribute(TableDistribution.of_unknown(3)),
        ("bucketed", "fixed"),
        # The option first, then partition by partition.
        steps=True,
        repeats=True,
    ),
    Case(
        "respec to no keys",
        lambda at: at.table.upkeep.run(at.table.upkeep.plan_respec([])),
        ("append", "append in buckets", "tagging"),
        steps=True,
        repeats=True,
        restates_places=True,
    ),
    Case(
        "respec to finer keys",
        lambda at: at.table.upkeep.respec(["day", "v"]),
        ("append", "append in buckets"),
        steps=True,
        repeats=True,
        restates_places=True,
    ),
    Case(
        "respec to other keys",
        lambda at: at.table.upkeep.respec(["v"]),
        ("append",),
        steps=True,
        repeats=True,
        restates_places=True,
        quick=False,
    ),
    Case(
        "respec of a keyed table to no keys",
        lambda at: at.table.upkeep.run(at.table.upkeep.plan_respec([])),
        ("fixed", "dynamic", "telling"),
        steps=True,
        repeats=True,
        restates_places=True,
    ),
    Case(
        "respec of a keyed table to other keys",
        lambda at: at.table.upkeep.respec(["id"]),
        ("fixed", "dynamic", "telling"),
        steps=True,
        repeats=True,
        restates_places=True,
        quick=False,
    ),
    Case(
        "respec of a keyed table to another primary key",
        lambda at: at.table.upkeep.respec(["day", "v"], primary_key=["id", "day", "v"]),
        ("fixed", "telling"),
        steps=True,
        repeats=True,
        restates_places=True,
    ),
    Case(
        "settle",
        _run("settle"),
        ("append", "append in buckets"),
        lambda table: table.upkeep.respec(["day", "v"]),
        restates_places=True,
    ),
    Case(
        "add a primary key",
        lambda at: at.table.upkeep.add_primary_key(["day", "id", "v"], buckets=2),
        ("append", "append in buckets"),
        steps=True,
        repeats=True,
    ),
    # Whole partitions.
    Case("add partitions", _take_over, ("append",), _landed, names_places=True),
    Case(
        "add partitions as copies",
        _copy_over,
        ("append",),
        _landed,
        done=(PartitionExists,),
        names_places=True,
    ),
    Case("repair partitions", _repair, ("append",), _drifted, names_places=True),
    Case("sync partitions", _sync_partitions, ("append",), _drifted, names_places=True),
    Case(
        "drop partitions",
        _run("drop_partitions", "day IN ('a', 'c')"),
        UNTAGGED_KINDS,
        done=(PartitionNotFound,),
    ),
    Case(
        "expire partitions",
        # Days are called a and b, and so is no time; all files are old.
        _run("expire_partitions", older_than_ms=0, strategy="update-time"),
        ("append", "fixed"),
        cleans_up=True,
    ),
    Case("mark partitions as done", _run("mark_done", "day = 'a'"), ("append", "fixed")),
    Case(
        "exchange a partition",
        _run("exchange_partition", "db.other", [{"day": "x"}]),
        UNTAGGED_KINDS,
        _beside_another,
        done=(PartitionNotFound,),
    ),
    Case(
        "rename a partition",
        _run("rename_partition", {"day": "a"}, {"day": "z"}),
        tuple(name for name in UNTAGGED_KINDS if name != "postponed"),
        done=(PartitionNotFound,),
        # Rows of deletion vectors that waited come into sight.
        steps=True,
    ),
    Case("postpone compact", _run("postpone_compact"), POSTPONED, steps=True),
    Case("analyze", _run("analyze"), EVERY_KIND),
    Case("rewrite manifests", _run("rewrite_manifests"), EVERY_KIND),
    # What a dead publication leaves, a later one deletes after a day.
    Case(
        "publish iceberg",
        _run("publish_iceberg"),
        ("append",),
        cleans_up=False,
        repeats=True,
        names_places=True,
    ),
    # Expiring.
    Case("expire snapshots", _run("expire_snapshots", **ONE_LEFT), EVERY_KIND, cleans_up=False),
    Case(
        "expire in steps",
        lambda at: list(at.table.upkeep.expire_in_steps(**ONE_LEFT)),
        ("keyed", "append"),
        cleans_up=False,
    ),
    Case(
        "expire compacted",
        _run("expire_snapshots", **ONE_LEFT),
        EVERY_KIND,
        _compacted,
        cleans_up=False,
    ),
    Case(
        "expire beside tags and branches",
        _run("expire_snapshots", **ONE_LEFT),
        ("keyed", "append", "telling"),
        _branch,
        cleans_up=False,
    ),
    Case(
        "expire changelogs",
        _run("expire_changelogs", every=True),
        ("remembering",),
        _changelogs,
        cleans_up=False,
    ),
    Case("expire tags", _run("expire_tags"), ("keyed", "append"), _tags, cleans_up=False),
    Case(
        "expire consumers",
        lambda at: at.table.history.expire_consumers(older_than_ms=0),
        ready=_consumers,
        cleans_up=False,
    ),
    Case(
        "remove orphans",
        _run("remove_orphans", **EVERY_ORPHAN),
        ("keyed", "append", "dynamic"),
        _orphans,
        cleans_up=False,
    ),
    Case("remove orphans in steps", _orphans_in_steps, ("keyed",), _orphans, cleans_up=False),
    Case(
        "delete orphans",
        _run("remove_orphans", **EVERY_ORPHAN, grace_ms=0),
        ("keyed", "append"),
        _orphans,
        cleans_up=False,
    ),
    Case("put orphans back", _put_back, ("keyed", "append"), _condemned, cleans_up=False),
    Case(
        "put an expiry back",
        _put_back,
        ("keyed", "telling"),
        _expired_for_a_while,
        cleans_up=False,
        mixes=True,
    ),
    Case(
        "put a rollback back",
        _put_back,
        ("keyed", "append"),
        _rolled_back_for_a_while,
        cleans_up=False,
        steps=True,
        mixes=True,
    ),
    Case("put a branch back", _put_back, ("keyed",), _branch_deleted_for_a_while, cleans_up=False),
    Case("collect orphans", _collect, ("keyed", "append"), _condemned, cleans_up=False),
    Case(
        "collect an expiry", _collect, ("keyed", "telling"), _expired_for_a_while, cleans_up=False
    ),
    Case("collect a branch", _collect, ("keyed",), _branch_deleted_for_a_while, cleans_up=False),
    Case(
        "expire for a while",
        _run("expire_snapshots", **ONE_LEFT, grace_ms=LATER_MS),
        ("keyed", "remembering"),
        cleans_up=False,
    ),
    Case(
        "roll back for a while",
        _run("rollback", snapshot=1, grace_ms=LATER_MS),
        ("keyed", "append"),
        done=NOTHING_LATER,
        steps=True,
        mixes=True,
        cleans_up=False,
    ),
    # Tags, branches, consumers.
    Case("tag", lambda at: at.table.history.create_tag("new"), done=THERE),
    Case(
        "replace a tag",
        lambda at: at.table.history.replace_tag("first"),
        ("keyed", "append"),
        _tags,
        cleans_up=False,
    ),
    Case(
        "rename a tag",
        lambda at: at.table.history.rename_tag("first", "new"),
        ready=_tags,
        done=GONE,
    ),
    Case(
        "restore a copy",
        lambda at: at.table.history.restore_backup("first"),
        ready=_copied,
        done=THERE,
    ),
    Case("tag what is due", lambda at: at.table.history.create_due_tags(), ("tagging",), _untagged),
    Case(
        "delete tags",
        _run("delete_tags", "first"),
        ("keyed", "append"),
        _tags,
        done=GONE,
        cleans_up=False,
    ),
    Case("begin an empty branch", lambda at: at.table.history.create_branch("new"), done=THERE),
    Case(
        "branch off a tag",
        lambda at: at.table.history.create_branch("new", tag="first"),
        ready=_tags,
        done=THERE,
    ),
    Case(
        "branch off a snapshot",
        lambda at: at.table.history.create_branch("new", snapshot=2),
        done=THERE,
    ),
    Case(
        "delete a branch",
        _run("delete_branch", "b"),
        ("keyed", "append"),
        _branch,
        done=GONE,
        cleans_up=False,
    ),
    Case(
        "fast-forward",
        _run("fast_forward", "b"),
        ("keyed", "append", "telling"),
        _branch,
        mixes=True,
        cleans_up=False,
    ),
    Case(
        "roll back",
        _run("rollback", snapshot=1),
        ("keyed", "append", "telling"),
        done=NOTHING_LATER,
        steps=True,
        mixes=True,
        cleans_up=False,
    ),
    Case(
        "roll back to other keys",
        _run("rollback", snapshot=1),
        ("append", "fixed"),
        lambda table: table.upkeep.respec(["id"] if table.schema.is_keyed else ["day", "v"]),
        done=NOTHING_LATER,
        steps=True,
        repeats=True,
        mixes=True,
        cleans_up=False,
        restates_places=True,
        # It begins with files that are named by their places.
        names_places=True,
    ),
    Case(
        "roll back to an expired tag",
        _run("rollback", tag="first"),
        ("keyed", "append", "telling"),
        _tags,
        done=NOTHING_LATER,
        steps=True,
        mixes=True,
        cleans_up=False,
    ),
    Case(
        "take a compaction back",
        lambda at: at.table.history.revert(at.ready),
        ("vectors", "keyed", "fixed", "append", "dynamic", "append in buckets"),
        _compacted_and_overlaid,
    ),
    Case(
        "take a dropped partition back",
        lambda at: at.table.history.run(at.table.history.plan_revert(at.ready)),
        ("append", "fixed", "vectors", "dynamic"),
        _dropped_and_written,
    ),
    Case(
        "take a rescale back",
        lambda at: at.table.history.revert(*at.ready),
        ("fixed", "append in buckets"),
        _rescaled,
    ),
    Case("set a consumer", lambda at: at.table.history.set_consumer("reader", 3), ready=_consumers),
    Case(
        "delete a consumer",
        lambda at: at.table.history.delete_consumer("reader"),
        ready=_consumers,
        done=GONE,
    ),
    Case(
        "forget a stream",
        lambda at: at.table.history.forget_stream("stream"),
        ready=_stream,
        done=(NotFoundError,),
    ),
    Case(
        "break a lease",
        lambda at: at.table.upkeep.break_lease(at.ready),
        ready=_leased,
        done=(NotFoundError,),
    ),
    # The warehouse.
    Case("create a database", lambda at: at.catalog.create_database("made")),
    Case(
        "drop a database",
        lambda at: at.catalog.drop_database("made"),
        ("append",),
        _beside_a_database,
        done=(DatabaseNotFound,),
    ),
    Case("create a table", _create_table, (NO_TABLE, "keyed"), done=THERE),
    Case("create a format table", _create_format_table, (NO_TABLE,), done=THERE, names_places=True),
    Case("drop a table", lambda at: at.catalog.drop_table(NAME), EVERY_KIND, done=GONE),
    Case(
        "drop a table permanently",
        lambda at: at.catalog.drop_table(NAME, grace_ms=0),
        EVERY_KIND,
        done=GONE,
    ),
    Case(
        "bring a dropped table back",
        lambda at: at.catalog.undrop_table(NAME),
        EVERY_KIND,
        _dropped,
        done=(AlreadyExistsError,),
    ),
    Case(
        "collect a dropped table",
        lambda at: at.catalog.collect_dropped_tables(early=True),
        EVERY_KIND,
        _dropped,
    ),
)

SYSTEM_TABLES = tuple(
    "read_optimized" if name == READ_OPTIMIZED else name
    for name in system_table_names()
    if name != ROW_TRACKING
)


# What changes nothing, however it is called.
def _refused(verb: Callable[[], object]) -> None:
    """What such a catalog or table has no way to do."""
    try:
        verb()
    except (UnsupportedError, InvalidRequestError, TagNotFound):
        return
    raise AssertionError("this was not refused")


READERS: dict[str, Callable[[Place], object]] = {
    # Tables of a metastore are renamed in `tests/stores/test_hive_catalog.py`.
    "rename_table": lambda at: _refused(lambda: at.catalog.rename_table(at.table.name, "db.u")),
    "names": lambda at: (at.table.name, at.table.location, at.table.uuid, at.catalog.uri),
    "read_only": lambda at: at.catalog.read_only().table(at.table.name).read(),
    "schema": lambda at: (at.table.schema, at.table.options, at.table.arrow_schema),
    "snapshots": lambda at: (at.table.history.latest_snapshot(), at.table.history.snapshots()),
    "dropped_tables": lambda at: at.catalog.dropped_tables(),
    "stamp": lambda at: at.catalog.stamp(at.table.name),
    "find_committed": lambda at: at.table.find_committed("maker", 1),
    "pending_batches": lambda at: at.table.pending_batches("job"),
    "streams": lambda at: at.table.history.streams(),
    "rows of a scan": lambda at: (
        at.table.scan().count(),
        list(at.table.scan().to_batches()),
        at.table.scan().to_pandas(),
        at.table.scan().to_polars(),
        at.table.scan().to_duckdb().fetchall(),
    ),
    "at": lambda at: (
        at.table.at().files(),
        at.table.at().partitions(),
        at.table.at().detail(),
        at.table.at(snapshot=1).read(),
        at.table.at().lookup(pa.table({"id": [1]})),
        at.table.at().statistics(),
        at.table.at().partition_properties(),
    ),
    "validate_rows": lambda at: (
        at.table.upkeep.plan_validate_rows(),
        at.table.upkeep.validate_rows(),
    ),
    "file_count_on_disk": lambda at: (
        at.table.inspect.file_count_on_disk(),
        at.table.inspect.files_fit(),
        at.table.inspect.late_writers(),
        *(getattr(at.table.inspect, name)() for name in SYSTEM_TABLES),
    ),
    "row_tracking": lambda at: _refused(at.table.inspect.row_tracking),
    "backup_files": lambda at: _refused(lambda: at.table.history.backup_files("none")),
    "check_backup": lambda at: _refused(lambda: at.table.history.check_backup("none")),
    "prepare_write": lambda at: at.table.prepare_write(mode="append"),
    "read_staged": lambda at: (at.table.read_staged(at.ready), at.table.scan_staged(at.ready)),
    "read": lambda at: (at.table.read(limit=1), at.table.scan().read()),
    "batches": lambda at: list(at.table.at().scan().batches()),
    "lookup": lambda at: at.table.lookup(pa.table({"id": [1]})),
    "refresh": lambda at: at.table.refresh(),
    "follow": lambda at: list(at.table.follow(available_now=True)),
    "changes": lambda at: (at.table.scan_changes(1, 3).read(), at.table.read_changes(1, 3)),
    "system_table": lambda at: (
        at.table.inspect.table("files"),
        at.table.inspect.table_schema("files"),
    ),
    "references": lambda at: (
        at.table.history.tags(),
        at.table.history.branches(),
        at.table.history.consumers(),
    ),
    "condemned": lambda at: at.table.upkeep.condemned(),
    "condemned_snapshots": lambda at: at.table.upkeep.condemned_snapshots("no-record"),
    "changelogs": lambda at: (at.table.history.changelogs(), at.table.at().statistics()),
    "leases": lambda at: at.table.upkeep.leases(),
    "for_run": lambda at: at.table.for_run("run"),
    "at_branch": lambda at: at.table.history.at_branch("main"),
    "plan_compact": lambda at: (at.table.upkeep.plan_compact(), at.table.upkeep.plan_rescale(2)),
    "plan_expire": lambda at: (
        at.table.upkeep.plan_expire_snapshots(grace_ms=0),
        at.table.upkeep.plan_expire_tags(grace_ms=0),
    ),
    "list": lambda at: (
        at.catalog.list_databases(),
        at.catalog.list_tables("db"),
        at.catalog.list_table_folders("db"),
        at.catalog.plan_sync_tables(),
        at.catalog.with_temporary_tables(),
    ),
    "layout": lambda at: (
        at.table.inspect.unnamed_files(at.table.inspect.layout()),
        at.table.inspect.manifest_files(),
        at.table.inspect.refused_uses(),
        at.table.history.span(),
        at.table.history.created_ms(),
    ),
    "table_exists": lambda at: at.catalog.table_exists(NAME),
    "catalog.system_table": lambda at: at.catalog.system_table(f"{NAME}$snapshots"),
}
