"""Verbs of upkeep are fixed points: planning right after a run plans nothing, after any history."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from typing import NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.platform.upkeep.analyze import AnalyzeRun
from lakewright.platform.upkeep.clean import CollectOptions, OrphansOptions
from lakewright.platform.upkeep.compact import CompactRun
from lakewright.platform.upkeep.drop_partitions import DropPartitionsOptions
from lakewright.platform.upkeep.expire import (
    ExpireChangelogsOptions,
    ExpireSnapshotsRun,
    ExpireTagsOptions,
)
from lakewright.platform.upkeep.expire_partitions import ExpirePartitionsOptions
from lakewright.platform.upkeep.external_partitions import RepairOptions
from lakewright.platform.upkeep.postpone_compact import PostponeRun
from lakewright.platform.upkeep.procedure import Work, carry_out
from lakewright.platform.upkeep.procedures import PROCEDURES
from lakewright.platform.upkeep.rescale import RescaleRun
from lakewright.platform.upkeep.rewrite_manifests import RewriteManifestsOptions
from lakewright.platform.upkeep.settle import SettleOptions
from lakewright.platform.upkeep.sort_compact import SortCompactRun
from lakewright.storage import Catalog, RepairMode, Table
from lakewright.storage.errors import FileMissing, InvalidRequestError
from lakewright.storage.lsm.sort_layout import SortOrder
from lakewright.storage.operations.iceberg.publish_iceberg import PublishIcebergOptions
from lakewright.storage.spec.partition_expiry import ExpiryStrategy
from tests.support.tables.builders import content, events, new_table, rows
from tests.support.tables.environment import FixedEnv
from tests.support.tables.fixtures import memory_uri
from tests.support.tables.landed import land_beside, landed_folder

# What these verbs do cannot be asked of every table, or is asked for once (a name, a file); the
# cases of `test_procedure.py` have them.
ASKED_FOR_ONCE = {
    "add_primary_key",
    "delete",
    "update",
    "revert",
    "add_partitions",
    "alter",
    "delete_branch",
    "delete_tags",
    "exchange_partition",
    "expire_consumers",
    "fast_forward",
    "mark_done",
    "rename_partition",
    "respec",
    "put_back",
    "rollback",
}


@dataclass(frozen=True)
class Kind:
    """A kind of table; with `folder`, one that took a folder of others over, which changes."""

    options: Mapping[str, str]
    keys: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ("day",)
    folder: bool = False


KEYS = ("day", "id")
KINDS = {
    "append": Kind({}),
    "append, plain": Kind({}, partitions=()),
    "append in buckets": Kind({"bucket": "2", "bucket-key": "id"}),
    "append, vectors": Kind({"deletion-vectors.enabled": "true"}),
    "fixed": Kind({"bucket": "2"}, KEYS),
    "plain": Kind({"bucket": "1"}, ("id",), ()),
    "dynamic": Kind({"bucket": "-1", "dynamic-bucket.target-row-num": "3"}, KEYS),
    "postponed": Kind({"bucket": "-2", "postpone.default-bucket-num": "2"}, KEYS),
    "vectors": Kind({"bucket": "1", "deletion-vectors.enabled": "true"}, KEYS),
    "first row": Kind({"bucket": "1", "merge-engine": "first-row"}, KEYS),
    "partial": Kind({"bucket": "1", "merge-engine": "partial-update"}, KEYS),
    "aggregated": Kind({"bucket": "1", "merge-engine": "aggregation"}, KEYS),
    "telling": Kind({"bucket": "1", "changelog-producer": "input"}, KEYS),
    "telling, lookup": Kind({"bucket": "1", "changelog-producer": "lookup"}, KEYS),
    "telling, full": Kind({"bucket": "1", "changelog-producer": "full-compaction"}, KEYS),
    "of folders": Kind({}, folder=True),
}
EXPIRY = st.fixed_dictionaries(
    {
        "retain_min": st.just(1),
        "retain_max": st.integers(1, 4),
        "time_retained_ms": st.sampled_from([0, 10**9]),
    }
)
OPTIONS: dict[str, st.SearchStrategy[object]] = {
    "analyze": st.builds(AnalyzeRun, columns=st.sampled_from([None, (), ("id",)])),
    "compact": st.builds(CompactRun, full=st.booleans(), min_files=st.none() | st.integers(2, 4)),
    "sort_compact": st.builds(
        SortCompactRun, by=st.sampled_from([("id",), ("v", "id")]), order=st.sampled_from(SortOrder)
    ),
    "postpone_compact": st.builds(PostponeRun),
    "rescale": st.builds(RescaleRun, buckets=st.integers(1, 3)),
    "rewrite_manifests": st.builds(RewriteManifestsOptions, min_count=st.integers(1, 4)),
    "publish_iceberg": st.builds(PublishIcebergOptions),
    "expire_snapshots": EXPIRY.map(lambda given: ExpireSnapshotsRun(**given)),
    "expire_tags": st.builds(
        ExpireTagsOptions,
        older_than_ms=st.none() | st.just(0),
        spare=st.sampled_from([(), ("t*1",)]),
    ),
    "expire_changelogs": st.builds(ExpireChangelogsOptions, every=st.booleans())
    | EXPIRY.map(lambda given: ExpireChangelogsOptions(**given)),
    "expire_partitions": st.builds(
        ExpirePartitionsOptions,
        older_than_ms=st.sampled_from([0, 10**12]),
        strategy=st.just(ExpiryStrategy.UPDATE_TIME),
    ),
    "drop_partitions": st.builds(
        DropPartitionsOptions, where=st.just("day = 'a'"), if_exists=st.just(value=True)
    ),
    "remove_orphans": st.builds(
        OrphansOptions, older_than_ms=st.just(0), even_recent=st.just(value=True)
    ),
    "collect": st.builds(CollectOptions, early=st.booleans()),
    "settle": st.builds(SettleOptions),
    "repair_partitions": st.builds(
        RepairOptions, mode=st.sampled_from(RepairMode), age_ms=st.sampled_from([0, 0, 10**9])
    ),
}
UNFIT: dict[str, Callable[[Kind], bool]] = {
    "sort_compact": lambda kind: bool(kind.keys) or "bucket" in kind.options,
    "postpone_compact": lambda kind: kind.options.get("bucket") != "-2",
    # Changes that no compaction has told yet would be lost, so it refuses.
    "rescale": lambda kind: (
        int(kind.options.get("bucket", "-1")) < 1
        or kind.options.get("changelog-producer") in ("lookup", "full-compaction")
    ),
    "expire_partitions": lambda kind: not kind.partitions,
    "drop_partitions": lambda kind: not kind.partitions,
}
CASES = [
    (verb, kind)
    for verb in OPTIONS
    for kind in KINDS
    # A table without a folder has nothing to repair, and the verb refuses it.
    if KINDS[kind].folder == (verb == "repair_partitions")
    and not UNFIT.get(verb, lambda _: False)(KINDS[kind])
]


def steps_of(*names: str) -> st.SearchStrategy[list[tuple[str, int, int, str]]]:
    return st.lists(
        st.tuples(
            st.sampled_from(names), st.integers(0, 6), st.integers(1, 40), st.sampled_from("ab")
        ),
        max_size=8,
    )


STEPS = steps_of("write", "write", "write", "overwrite", "compact", "stage", "tag")
FOLDER_STEPS = steps_of("land", "land", "take over", "vanish", "write", "overwrite", "compact")


def no_session() -> NoReturn:
    raise AssertionError("small work starts no Spark session")


WORK = Work(run="a test", session=no_session)


def made(kind: Kind, target: str) -> tuple[Catalog, Table]:
    catalog = Catalog.open(memory_uri(), env=FixedEnv())
    options = {**kind.options, "target-file-size": target}
    table = new_table(catalog, partitions=kind.partitions, keys=kind.keys, options=options)
    if kind.folder:
        table.upkeep.add_partitions(land_beside(table, "a", "gone"), age_ms=0)
    return catalog, catalog.table(table.name)


def do(table: Table, step: str, first: int, count: int, day: str, number: int) -> None:
    values = rows(table, events(first, first + count, day=day, v=f"w{number}-"))
    match step:
        case "write":
            table.write(values)
        case "overwrite":
            table.write(values, mode="overwrite")
        case "stage":
            table.stage(values)
        case "tag" if table.history.latest_snapshot() is not None:
            table.history.create_tag(f"t{number}", time_retained_ms=1)
        case "compact":
            # It opens what another system deleted.
            with suppress(FileMissing):
                table.upkeep.compact(full=True)
        case "land" | "vanish":
            change_folder(table, step, day, first, count)
        case "take over":
            # What was written over, or is of the table's own by now, is refused.
            with suppress(InvalidRequestError):
                table.upkeep.add_partitions(
                    table.table_files.fs.uri(landed_folder(table)), into_existing=True, age_ms=0
                )


def change_folder(table: Table, step: str, day: str, number: int, count: int) -> None:
    """Another system writes a file beside the table, maybe over another one, or deletes it."""
    fs, path = table.table_files.fs, f"{landed_folder(table)}/day={day}/f{number}.parquet"
    if step == "land":
        sink = BytesIO()
        pq.write_table(pa.table({"id": range(count), "v": [day] * count}), sink)
        fs.write_bytes(path, sink.getvalue())
    elif fs.exists(path):
        fs.delete(path)


def test_every_verb_is_a_fixed_point_or_is_asked_for_once() -> None:
    assert set(PROCEDURES) == set(OPTIONS) | ASKED_FOR_ONCE
    assert not set(OPTIONS) & ASKED_FOR_ONCE


@pytest.mark.sampled(30)
@pytest.mark.parametrize(("verb", "kind"), CASES, ids=map("-".join, CASES))
@settings(max_examples=max(5, settings().max_examples // 10))
@given(data=st.data())
@pytest.mark.sampled(12)
def test_planning_right_after_a_run_plans_nothing(
    verb: str, kind: str, data: st.DataObject
) -> None:
    # Every file takes more than a kilobyte beside its rows: files of a compaction that are to have
    # three of them would be small again.
    target = data.draw(st.sampled_from(["1 kb", "16 kb", "128 mb"]), label="target")
    catalog, table = made(KINDS[kind], target)
    steps = FOLDER_STEPS if KINDS[kind].folder else STEPS
    for number, (step, first, count, day) in enumerate(data.draw(steps, label="steps")):
        do(table, step, first, count, day, number)
    if KINDS[kind].folder:
        # Few examples change something else that a repair is to find.
        change_folder(table, "land", "new", 0, 3)
        table.table_files.fs.delete(f"{landed_folder(table)}/day=gone/f.parquet")
    options = data.draw(OPTIONS[verb], label="options")
    # Rows whose files are gone cannot be read before a repair.
    keeps_rows = verb not in (
        "drop_partitions",
        "expire_partitions",
        "postpone_compact",
        "repair_partitions",
    )
    before = content(table) if keeps_rows else []

    carry_out(PROCEDURES[verb], table, options, WORK)

    # Opened again: a rescale has changed the table's options.
    table = catalog.table(table.name)
    again = carry_out(PROCEDURES[verb], table, options, WORK, dry_run=True)
    assert PROCEDURES[verb].report(table, again).is_empty, again.plan
    if keeps_rows and kind not in ("vectors", "first row"):
        assert content(table) == before
