"""Gives an append table a primary key; every client reads the table at each moment.

1. Plan: read the key columns of each partition, and refuse null and keys that stand twice.
2. Run: create two schemas, the present one again under a later id, and below it the one with the
   key. No client opens a table by a schema that is not its latest.
3. Write the rows of each partition into buckets, sorted by key, with the columns of key-value
   files, at the deepest level. No snapshot names the files yet.
4. Commit a snapshot that has these files in place of all others; they name the schema with the
   key. A reader of the append table takes the columns of the table from them. Lakewright's
   committers wait from here on. Commit another one whose manifests name these files alone: some
   clients decode the keys of removed files, too.
5. If no other commit followed, create the schema with the key as the latest. From that moment every
   client reads a keyed table: each bucket is one sorted run, whose keys do not repeat.

A run that stops before 5 leaves an append table with the same rows, and another run begins anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.errors import (
    CommitConflictError,
    InvalidRequestError,
    StalePlan,
    UnsupportedError,
)
from lakewright.storage.files.spill import Spill
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.merge import in_order
from lakewright.storage.operations.commit.commit_loop import commit_bridging
from lakewright.storage.operations.commit.pending import pending_batches
from lakewright.storage.operations.read.file_rows import FileRows
from lakewright.storage.operations.read.merge_read import row_order
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.references.branches import branch_names
from lakewright.storage.operations.references.sweep import sweep_after_failure
from lakewright.storage.operations.respec.schemas import Schemas, put_schemas
from lakewright.storage.operations.rewrite.deal_rows import deal_rows
from lakewright.storage.operations.running.engine import Engine, engine_or_local
from lakewright.storage.operations.running.plan import RewritePlan, check_bucket_count
from lakewright.storage.operations.running.verb_options import COUNT, names, option
from lakewright.storage.operations.state.latest import is_latest, read_latest, stale_if_replaced
from lakewright.storage.operations.state.live_files import deletions_by_bucket, grouped_by_bucket
from lakewright.storage.operations.state.rewrite_schema import check_current_schema
from lakewright.storage.operations.state.row_ids import refuse_row_ids
from lakewright.storage.operations.state.table_state import TableState
from lakewright.storage.operations.write.dealt_files import DealtFiles
from lakewright.storage.operations.write.stored_rows import key_value_table
from lakewright.storage.operations.write.verify import Proof, VerifyLevel, rows_to_rewrite
from lakewright.storage.spec.arguments import listed_names, whole_number
from lakewright.storage.spec.client_rules import check_clients_open
from lakewright.storage.spec.commit import Change, CommitMessage, RestatedBase
from lakewright.storage.spec.data_types import not_null
from lakewright.storage.spec.log_options import LOG_SYSTEM, has_log
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.spec.partition import Place
from lakewright.storage.spec.schema import VALUE_KIND, Column, SchemaSpec, TableSchema, new_schema
from lakewright.storage.spec.shown import Shown
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.supported_options import Use, check_supported

# A bucket is sorted in memory, and compacted as a whole.
_BUCKET_BYTES = 256 * 1024 * 1024
_MOST_SHOWN = 5
_CHANGE = "its primary key"


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPrimaryKeyTask:
    """A partition whose files are written anew."""

    partition: dict[str, object]
    files: tuple[str, ...]
    bytes: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPrimaryKeyPlan(RewritePlan["AddPrimaryKeyResult"]):
    """What a primary key would rewrite, as of one snapshot; nothing if it `is_there`."""

    schema_id: int
    keys: tuple[str, ...]
    buckets: int
    tasks: tuple[AddPrimaryKeyTask, ...]
    is_there: bool = False

    def __post_init__(self) -> None:
        check_bucket_count(self.buckets)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPrimaryKeyResult(Shown):
    """The schema with the key, and what was written; no snapshot if the table had no rows."""

    schema: TableSchema
    snapshot: Snapshot | None
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    rows: int
    duration_ms: int


@dataclass(frozen=True)
class AddPrimaryKeyOptions:
    """The key, and the buckets."""

    keys: Sequence[str] = option(
        names(), (), "The columns of the primary key, with all partition keys."
    )
    buckets: int | None = option(
        COUNT,
        None,
        "Buckets of each partition (default: as now, if their number is fixed; else one for each "
        "256 MB of the largest partition).",
    )


def plan_add_primary_key(
    files: TableFiles, options: AddPrimaryKeyOptions, *, engine: Engine | None = None
) -> AddPrimaryKeyPlan:
    """Plan to give an append table a primary key, after a look at every key.

    The table is used by `Table.refresh()` afterwards.
    The key has all partition keys. Without `buckets` the table keeps its fixed number of buckets,
    or gets one for each 256 MB of its largest partition. A bucket is sorted in memory.

    Raises:
        InvalidRequestError: the columns cannot be a key; keys stand twice, or are null: the message
            shows some.
        UnsupportedError: the table, or something that is under way, rules the change out.
        SchemaMoved: the schema changed since the table was opened.
    """
    buckets = options.buckets
    keys = listed_names(options.keys, "keys")
    check_current_schema(files)
    if keys and set(files.schema.primary_keys) == set(keys):
        return AddPrimaryKeyPlan(
            table=files.name,
            snapshot_id=files.snapshots.latest_id(),
            schema_id=files.schema.id,
            keys=keys,
            buckets=max(files.options.bucket, 1),
            tasks=(),
            is_there=True,
        )
    _check_possible(files)
    if not keys:
        raise InvalidRequestError(
            f"the columns of the primary key of {files.name} are missing (--keys COLUMN,… on the "
            f"command line); name some of {', '.join(files.schema.field_names)}"
        )
    snapshot, splits = read_latest(files, partial(_splits, files))
    if buckets is None:
        buckets = _bucket_count(files, splits)
    buckets = whole_number(buckets, "buckets", minimum=1)
    _keyed_schema(files, keys, buckets)
    with stale_if_replaced(files, lambda: snapshot, _CHANGE):
        _check_keys(files, keys, splits, engine_or_local(engine, files.env))
    return AddPrimaryKeyPlan(
        table=files.name,
        snapshot_id=None if snapshot is None else snapshot.id,
        schema_id=files.schema.id,
        keys=keys,
        buckets=buckets,
        tasks=tuple(
            AddPrimaryKeyTask(
                partition=files.partitions.of_row(row).spec,
                files=tuple(file.file_name for each in own for file in each.files),
                bytes=sum(file.file_size for each in own for file in each.files),
                rows=sum(file.row_count for each in own for file in each.files),
            )
            for row, own in splits.items()
        ),
    )


def run_add_primary_key(
    files: TableFiles,
    plan: AddPrimaryKeyPlan,
    engine: Engine,
    *,
    verify: VerifyLevel = VerifyLevel.CHECKSUMS,
) -> AddPrimaryKeyResult:
    """Carry a plan out; the key is there with all rows, or the table is as it was.

    Raises:
        SchemaMoved: the schema changed since the plan.
        StalePlan: others committed since the plan.
        CommitConflictError: others committed at the moment of the change; the table has no key.
        VerificationFailed: rows written differ from rows read; nothing is published.
    """
    started_ms = files.env.now_ms()
    check_current_schema(files)
    if set(files.schema.primary_keys) == set(plan.keys):
        # It is there already, or an earlier run of the plan carried it out.
        return _result(files, plan, files.schema, None, (), started_ms)
    if plan.schema_id != files.schema.id:
        raise _stale(files, f"its schema is {files.schema.id} now, and was {plan.schema_id}")
    _check_possible(files)
    keyed = _keyed_schema(files, plan.keys, plan.buckets)
    before, splits = read_latest(files, partial(_splits, files))
    planned = {name for task in plan.tasks for name in task.files}
    live = {file.file_name for own in splits.values() for each in own for file in each.files}
    if live != planned:
        raise _stale(files, "its files are others now")
    if before is None:
        made = put_schemas(files, files.schema.partition_keys, Schemas(keyed, (), {}))
        return _result(files, plan, made.schema, None, (), started_ms)
    first = files.schema.id
    own_id, open_id, last_id = first + 1, first + 2, first + 3
    schemas = Schemas(
        latest=replace(files.schema, id=open_id, time_millis=files.env.now_ms()),
        older=(replace(keyed, id=own_id),),
        ids={},
    )
    still = put_schemas(files, files.schema.partition_keys, schemas)
    now = replace(files, schema=schemas.older[0])
    run_id = files.env.new_id()
    work = [split for split in splits.values() if split]
    write = partial(_write_partition, files, now, run_id, verify, plan.buckets)
    try:
        with stale_if_replaced(files, lambda: before, _CHANGE):
            messages = [each for found in engine.map(write, work) for each in found]
        snapshot = _published(still, before, messages)
    except BaseException:
        sweep_after_failure(files, [run_id], since_snapshot_id=before.id)
        raise
    latest = replace(keyed, id=last_id, time_millis=files.env.now_ms())
    if not is_latest(files, snapshot):
        raise _followed(files)
    put_schemas(still, files.schema.partition_keys, Schemas(latest, (), {}))
    if not is_latest(files, snapshot):
        # Rows without keys would be read as rows of a keyed table.
        back = replace(schemas.latest, id=last_id + 1, time_millis=files.env.now_ms())
        files.schemas.put_schema(back)
        raise _followed(files)
    return _result(files, plan, latest, snapshot, messages, started_ms)


# --- what rules it out ------------------------------------------------------------------------


def _check_possible(files: TableFiles) -> None:
    refuse_row_ids(files, "a primary key")
    schema, name = files.schema, files.name
    files.check_unserved("give it a primary key")
    if schema.is_keyed:
        told = f"the primary key {', '.join(schema.primary_keys)}" if schema.primary_keys else "one"
        raise InvalidRequestError(
            f"{name} has {told} already, by which its files are sorted; create a table with the "
            "other key, and INSERT INTO it"
        )
    if has_log(schema.options):
        raise UnsupportedError(
            f"{name} has a log, whose messages have no key, and its readers could not go on; take "
            f"the log away first (ALTER TABLE {name} RESET ('{LOG_SYSTEM}')), and set it again",
            option=LOG_SYSTEM,
        )
    consumers = sorted(files.references.consumers())
    if consumers:
        raise UnsupportedError(
            f"consumer {consumers[0]} reads the changes of {name}, and would read every row anew "
            f"or fail; let it end, and delete it (lakewright consumer delete {name} "
            f"{consumers[0]}) first"
        )
    if branches := branch_names(files):
        raise UnsupportedError(
            f"{name} has branch {branches[0]}, whose rows have no key; delete it first (lakewright "
            f"branch delete {name} {branches[0]})"
        )
    if waiting := pending_batches(files):
        raise UnsupportedError(
            f"{name} has {len(waiting)} pending batches without a key; commit or abort them first "
            "(lakewright pending)"
        )
    if schema.options.get("scan.fallback-branch"):
        raise UnsupportedError(
            f"{name} reads partitions that it lacks from a branch without a key; reset the option "
            "scan.fallback-branch first",
            option="scan.fallback-branch",
        )
    if files.registry is not None:
        raise UnsupportedError(
            f"{name} is a table of a metastore, whose schema there would say nothing of the key; "
            "create a table with the key, and INSERT INTO it"
        )


def _keyed_schema(files: TableFiles, keys: tuple[str, ...], buckets: int) -> TableSchema:
    """The next schema, with the key.

    Raises:
        InvalidSchema, UnsupportedError, InvalidOption: the table cannot have the key.
    """
    old = files.schema
    columns = tuple(Column(field.name, field.type, field.description) for field in old.fields)
    # Checks what a new table with this key is checked for.
    new_schema(
        SchemaSpec(columns=columns, partition_keys=old.partition_keys, primary_keys=keys),
        time_millis=0,
    )
    options = {**old.options, "bucket": str(buckets)}
    inside = [key for key in keys if key not in old.partition_keys]
    if not {each.strip() for each in options.get("bucket-key", "").split(",")} <= set(inside):
        options.pop("bucket-key", None)
    schema = replace(
        old,
        id=old.id + 1,
        fields=tuple(
            replace(field, type=not_null(field.type)) if field.name in keys else field
            for field in old.fields
        ),
        primary_keys=keys,
        options=options,
        time_millis=files.env.now_ms(),
    )
    check_supported(schema, Use.WRITE, table=files.name)
    check_clients_open(schema, table=files.name, before=old)
    return schema


def _stale(files: TableFiles, why: str) -> StalePlan:
    return StalePlan(f"{files.name} changed since its primary key was planned: {why}; plan again")


def _followed(files: TableFiles) -> CommitConflictError:
    return CommitConflictError(
        f"another client committed to {files.name} while it got its primary key; the table has no "
        "key, and all rows: try again when no writer is at work"
    )


# --- rows -------------------------------------------------------------------------------------


_Splits = Mapping[bytes, tuple[DataSplit, ...]]


def _splits(files: TableFiles, snapshot: Snapshot | None) -> _Splits:
    """The files of each partition, bucket by bucket."""
    if snapshot is None:
        return {}
    state = TableState(files, snapshot)
    marks = deletions_by_bucket(state.indexes)
    found: dict[bytes, list[DataSplit]] = defaultdict(list)
    for place, entries in grouped_by_bucket(state.entries).items():
        found[place.partition].append(
            DataSplit(
                partition=place.partition,
                bucket=place.bucket,
                files=tuple(entry.file for entry in entries),
                merge=False,
                deletions=marks.get(place, ()),
            )
        )
    return {row: tuple(own) for row, own in found.items()}


def _bucket_count(files: TableFiles, splits: _Splits) -> int:
    if files.options.bucket_mode is BucketMode.FIXED:
        return files.options.bucket
    sizes = (sum(file.file_size for e in own for file in e.files) for own in splits.values())
    return max(1, -(-max(sizes, default=0) // _BUCKET_BYTES))


def _check_keys(files: TableFiles, keys: tuple[str, ...], splits: _Splits, engine: Engine) -> None:
    """Check that no key of the live rows is null or stands twice."""
    found = [
        each
        for told in engine.map(partial(_wrong_keys, files, keys), list(splits.values()))
        for each in told
    ]
    if found:
        raise _refused(files, keys, found)


def _wrong_keys(
    files: TableFiles, keys: tuple[str, ...], splits: Sequence[DataSplit]
) -> list[tuple[tuple[object, ...], int]]:
    """Some keys of a partition that are null or stand twice, each with its rows."""
    source = FileRows(files, files.schema.fields_of(keys))
    parts = [
        rows.select(list(keys))
        for split in splits
        for file in split.files
        for rows in source.batches(split, file)
    ]
    if not parts:
        return []
    counts = pa.concat_tables(parts).group_by(list(keys)).aggregate([([], "count_all")])
    wrong = pc.greater(counts.column("count_all"), 1)
    for key in keys:
        wrong = pc.or_(wrong, pc.is_null(counts.column(key)))
    shown = counts.filter(wrong).slice(0, _MOST_SHOWN).to_pylist()
    return [(tuple(each[key] for key in keys), each["count_all"]) for each in shown]


def _refused(
    files: TableFiles, keys: Sequence[str], found: Sequence[tuple[tuple[object, ...], int]]
) -> InvalidRequestError:
    told = "; ".join(
        f"({', '.join(map(str, values))}) in {count} rows" for values, count in found[:_MOST_SHOWN]
    )
    nulls = any(value is None for values, _ in found for value in values)
    return InvalidRequestError(
        f"rows of {files.name} cannot have the primary key {', '.join(keys)}: "
        f"{'keys are null or stand' if nulls else 'keys stand'} more than once, such as {told}; "
        "nothing was changed: delete these rows, or choose a longer key",
        duplicates=[dict(zip(keys, map(str, values), strict=True)) for values, _ in found],
    )


def _write_partition(
    files: TableFiles,
    now: TableFiles,
    run_id: str,
    verify: VerifyLevel,
    buckets: int,
    splits: Sequence[DataSplit],
) -> list[CommitMessage]:
    """Write the rows of a partition into buckets; deletes all new files on failure."""
    source = rows_to_rewrite(files, verify)
    write_id = f"{run_id}-{files.env.new_id()[:8]}"
    partition = splits[0].partition
    order, level = row_order(now), now.options.max_level
    with DealtFiles(now, write_id, verify, level=level, buckets=buckets) as dealt, Spill() as spill:
        heaps = set()
        for bucket, rows in _dealt(source, now, splits, dealt.proof, buckets):
            heaps.add(bucket)
            spill.put(bucket, rows)
        for bucket in sorted(heaps):
            held = spill.take(bucket)
            assert held is not None
            ordered, starts = in_order(held, order)
            if len(starts) < ordered.num_rows:
                raise _stale(now, "some of its keys are duplicates")
            dealt.write([(Place(partition, bucket), ordered)])
            dealt.end_run()
        made = dealt.close()
    return [
        CommitMessage(
            partition=partition,
            bucket=each.target.bucket,
            total_buckets=buckets,
            new_files=tuple(each.files),
        )
        for each in made
    ]


def _dealt(
    source: FileRows, now: TableFiles, splits: Sequence[DataSplit], proof: Proof, buckets: int
) -> Iterator[tuple[int, pa.Table]]:
    """The rows of a partition in the columns of key-value files, numbered, by bucket."""
    number = 0
    for split in splits:
        for file in sorted(split.files, key=lambda each: each.min_sequence_number):
            for rows in source.batches(split, file):
                numbers = np.arange(number, number + rows.num_rows, dtype=np.int64)
                number += rows.num_rows
                kinds = pa.array(np.zeros(rows.num_rows, dtype=np.int8))
                told = key_value_table(
                    now, rows.append_column(VALUE_KIND, kinds), pa.array(numbers)
                )
                proof.expect(told)
                yield from deal_rows(now, told, buckets)


# --- publishing -------------------------------------------------------------------------------


def _published(still: TableFiles, before: Snapshot, messages: Sequence[CommitMessage]) -> Snapshot:
    """Commit the new files in place of all others; other committers wait after it.

    Raises:
        StalePlan: others committed since the files were read.
    """
    added = [entry for message in messages for entry in message.entries(message.new_files)]
    change_id = still.env.new_id()
    holding = replace(still, holding=change_id)
    own = before

    def check_follows(latest: Snapshot | None) -> Snapshot:
        if latest is None or latest.delta_manifest_list != own.delta_manifest_list:
            raise _stale(still, "others committed while its rows were written")
        return latest

    def replaced(state: TableState) -> Change:
        return Change(
            statistics=check_follows(state.snapshot).statistics,
            entries=[*(each.removed() for each in state.entries), *added],
            removed_indexes=state.indexes,
        )

    def alone(state: TableState) -> Change:
        base = RestatedBase(keys=still.partitions.keys, entries=added)
        return Change(base=base, statistics=check_follows(state.snapshot).statistics)

    for number, build in enumerate((replaced, alone)):
        user = f"{change_id}-{number}"
        made = commit_bridging(holding, build, user=user).snapshot
        assert made is not None
        own = made
    return own


def _result(
    files: TableFiles,
    plan: AddPrimaryKeyPlan,
    schema: TableSchema,
    snapshot: Snapshot | None,
    messages: Sequence[CommitMessage],
    started_ms: int,
) -> AddPrimaryKeyResult:
    written = [file for message in messages for file in message.new_files]
    return AddPrimaryKeyResult(
        schema=schema,
        snapshot=snapshot,
        files_before=plan.files_before,
        files_after=len(written),
        bytes_before=plan.bytes_before,
        bytes_after=sum(file.file_size for file in written),
        rows=sum(file.row_count for file in written),
        duration_ms=files.env.now_ms() - started_ms,
    )
