"""What rules a change of the partition keys of a primary-key table out."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.errors import InvalidRequestError, UnsupportedError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.read.read import SplitReader
from lakewright.storage.operations.read.scan import plan_scan
from lakewright.storage.spec.manifest import ManifestEntry
from lakewright.storage.spec.merge_spec import MergeEngine
from lakewright.storage.spec.options import BucketMode, ChangelogProducer
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.snapshot import Snapshot


def check_keyed(
    files: TableFiles, keys: tuple[str, ...], primary_key: tuple[str, ...] | None = None
) -> None:
    """Check that a primary-key table can have the keys.

    Raises:
        InvalidRequestError: the primary key does not allow them.
        UnsupportedError: the table is of a kind whose keys cannot change.
    """
    schema = files.schema
    after = with_primary_key(files, keys, primary_key)
    primary = ", ".join(after.primary_keys)
    outside = [key for key in keys if key not in after.primary_keys]
    is_dynamic = files.options.bucket_mode is BucketMode.DYNAMIC
    # A table whose rows move between partitions stays one, or becomes one if the caller says so.
    may_cross = is_dynamic and (schema.crosses_partitions or primary_key is not None)
    if outside and not may_cross:
        longer = ",".join(dict.fromkeys((*after.primary_keys, *keys)))
        same = ",".join(schema.primary_keys)
        or_same = (
            f"; or name the primary key as it is (--primary-key {same}): then a row that gets "
            "another value moves to another partition, which few clients write, and Lakewright "
            "only reads"
        )
        way = way_to(schema, keys, tuple(longer.split(",")))
        have = f"have them, too ({_commands(files, way)})" if way else "have them, too"
        raise InvalidRequestError(
            f"{outside[0]!r} is not in the primary key ({primary}) of {files.name}, and rows of "
            f"one key would lie in several partitions; take keys of the primary key, or let it "
            f"{have}, so that rows of other values replace each other no more"
            f"{or_same if is_dynamic else ''}"
        )
    if set(keys) == set(after.primary_keys):
        raise InvalidRequestError(
            f"the partition keys {', '.join(keys)} would be the whole primary key of {files.name}, "
            "so each partition would have one row; leave one out"
        )
    if schema.crosses_partitions and not is_dynamic:
        raise UnsupportedError(
            f"the primary key ({primary}) of {files.name} lacks partition keys, so its rows move "
            f"between partitions, for which bucket={files.options.bucket} has no meaning; create a "
            "table with other keys, and write the rows of this one to it",
            option="bucket",
        )
    if files.options.bucket_mode is BucketMode.POSTPONE:
        raise UnsupportedError(
            f"{files.name} has {files.options.bucket_mode.value} buckets (bucket="
            f"{files.options.bucket}): rows wait for a bucket, of which each partition has a "
            "number of its own, and no change of partition keys is defined for that; create a "
            "table with the new keys, write the rows of this one to it, and rename it",
            option="bucket",
        )
    for first in steps_between(schema.partition_keys, keys)[:1]:
        now = replace(after if first == keys else schema, partition_keys=first)
        if len(first) < len(schema.partition_keys) and not is_in_order(schema, now):
            _check_levels_may_overlap(files, now)


def with_primary_key(
    files: TableFiles, keys: tuple[str, ...], primary_key: tuple[str, ...] | None
) -> TableSchema:
    """The present schema with another primary key, and no nulls in it.

    Columns that become partition keys may join the primary key, and partition keys that go may
    leave it. So the columns that order the rows of a file, and choose its bucket, stay.

    Raises:
        InvalidRequestError: other columns would join or leave.
    """
    schema = files.schema
    if primary_key is None or set(primary_key) == set(schema.primary_keys):
        return schema
    old, now = schema.primary_keys, schema.partition_keys
    if not old:
        raise InvalidRequestError(
            f"{files.name} has no primary key, and cannot get one; leave primary_key out"
        )
    unknown = [each for each in primary_key if each not in schema.field_names]
    if unknown or len(set(primary_key)) < len(primary_key):
        raise InvalidRequestError(
            f"the primary key {', '.join(primary_key)} of {files.name} repeats a column, or names "
            f"one that it does not have; there are {', '.join(schema.field_names)}"
        )
    joins = set(primary_key) - set(old)
    leaves = set(old) - set(primary_key)
    trimmed = tuple(each for each in primary_key if each not in keys)
    if (
        not joins <= set(keys) - set(now)
        or not leaves <= set(now) - set(keys)
        or trimmed != schema.trimmed_primary_keys
        or not (keys[: len(now)] == now or now[: len(keys)] == keys)
    ):
        raise InvalidRequestError(
            f"the primary key of {files.name} cannot become ({', '.join(primary_key)}) with the "
            f"partition keys ({', '.join(keys)}): it is ({', '.join(old)}), with the partition "
            f"keys ({', '.join(now)}), and only columns that come to the end of these may join "
            f"it, and those that go from there may leave it; {_way_out(files, keys, primary_key)}"
        )
    fields = tuple(
        replace(field, type=replace(field.type, nullable=False)) if field.name in joins else field
        for field in schema.fields
    )
    return replace(schema, primary_keys=primary_key, fields=fields)


def way_to(
    schema: TableSchema, keys: tuple[str, ...], primary_key: tuple[str, ...]
) -> list[tuple[tuple[str, ...], tuple[str, ...] | None]]:
    """The changes that lead to both keys, one after the other; none if no such changes do.

    Each has partition keys, and a primary key if that changes. Columns join the primary key at the
    end of the partition keys. Then these get their order, with those that leave at the end.
    """
    now, own = schema.partition_keys, schema.primary_keys
    joins = tuple(key for key in keys if key in primary_key and key not in own)
    leaves = tuple(each for each in now if each in own and each not in primary_key)
    longest = (*own, *joins)
    if {*longest} - {*leaves} != {*primary_key} or any(leaf in keys for leaf in leaves):
        return []
    steps: list[tuple[tuple[str, ...], tuple[str, ...] | None]] = []
    if joins:
        now = (*now, *joins)
        steps.append((now, longest))
    if now != (*keys, *leaves):
        now = (*keys, *leaves)
        steps.append((now, None))
    if leaves:
        rest = [each for each in longest if each not in now]
        if rest != [each for each in primary_key if each not in keys]:
            return []
        steps.append((keys, primary_key))
    return steps


def _way_out(files: TableFiles, keys: tuple[str, ...], primary_key: tuple[str, ...]) -> str:
    way = way_to(files.schema, keys, primary_key)
    if way:
        return f"go there by {_commands(files, way)}; each writes all rows"
    return "create a table with these keys, write the rows of this one to it, and rename it"


def _commands(files: TableFiles, way: list[tuple[tuple[str, ...], tuple[str, ...] | None]]) -> str:
    return "; then ".join(respec_command(files.name, *each) for each in way)


def respec_command(
    table: str, keys: tuple[str, ...], primary_key: tuple[str, ...] | None = None
) -> str:
    """The command that gives a table these keys, for a shell."""
    words = ["lakewright", "respec", table, "--keys", ",".join(keys)]
    words += [] if primary_key is None else ["--primary-key", ",".join(primary_key)]
    return shlex.join(words)


def check_rows_have_key(
    files: TableFiles,
    snapshot: Snapshot | None,
    after: TableSchema,
    partitions: Collection[bytes] | None = None,
) -> None:
    """Check that the rows have the new primary key, and each key once.

    `partitions` are those whose rows changed since the last check. Rows of others matter only if
    they may share a key with these.

    Raises:
        InvalidRequestError: says how many rows have nulls, or share a key.
    """
    names = after.primary_keys
    is_same = set(names) == set(files.schema.primary_keys)
    # Where rows move between partitions, only the writers see to it that each key is there once.
    if snapshot is None or (is_same and not files.schema.crosses_partitions):
        return
    joins = [each for each in names if each not in files.schema.primary_keys]
    reader = SplitReader(files, columns=list(names), predicate=None, snapshot_id=snapshot.id)
    found: list[pa.Table] = []
    nulls = 0
    may_share = not joins or files.schema.crosses_partitions
    for split in plan_scan(files, snapshot).splits:
        if partitions is not None and not may_share and split.partition not in partitions:
            continue
        for rows in reader.read(split):
            nulls += max((rows.column(join).null_count for join in joins), default=0)
            if may_share:
                found.append(rows)
    if nulls:
        raise InvalidRequestError(
            f"{nulls} rows of {files.name} have null in {', '.join(joins)}, and a primary key has "
            "no nulls; give them a value, or delete them, first"
        )
    if not found:
        return
    counts = pa.concat_tables(found).group_by(list(names)).aggregate([([], "count_all")])
    several = counts.filter(pc.greater(counts.column("count_all"), 1))
    if several.num_rows:
        first = {name: several.column(name)[0].as_py() for name in names}
        raise InvalidRequestError(
            f"{pc.sum(several.column('count_all')).as_py()} rows of {files.name} share "
            f"{several.num_rows} values of the primary key ({', '.join(names)}), such as {first}, "
            "and all but one of each would be lost; delete what is too much first"
        )


def steps_between(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The keys after each cut-over: keys go from the end, then others come at the end."""
    common = 0
    while common < min(len(old), len(new)) and old[common] == new[common]:
        common += 1
    shared = old[:common]
    return tuple(each for each in dict.fromkeys((shared, new)) if each != old)


def is_in_order(schema: TableSchema, after: TableSchema) -> bool:
    """Whether rows of two old partitions never overlap in a new one.

    They do not if the keys that go are the first of the new trimmed primary key.
    """
    gone = set(schema.partition_keys) - set(after.partition_keys)
    return set(after.trimmed_primary_keys[: len(gone)]) == gone


def _check_levels_may_overlap(files: TableFiles, after: TableSchema) -> None:
    """Refuse tables that need all rows below level 0, where files of a level never overlap."""
    options = files.options
    reason = None
    if options.deletion_vectors_enabled:
        reason = "deletion vectors"
    elif files.merge_spec.engine is MergeEngine.FIRST_ROW:
        reason = "merge-engine=first-row"
    elif options.changelog_producer in (
        ChangelogProducer.LOOKUP,
        ChangelogProducer.FULL_COMPACTION,
    ):
        reason = f"changelog-producer={options.changelog_producer.value}"
    if reason is not None:
        gone = [key for key in files.schema.partition_keys if key not in after.partition_keys]
        raise UnsupportedError(
            f"{', '.join(gone)} would be no partition key of {files.name} any more, and does not "
            f"come first in its primary key ({', '.join(files.schema.primary_keys)}), so sorted "
            f"files of several partitions would overlap, which {reason} does not allow; keep it, "
            "or copy the rows into a table whose primary key has it first"
        )


def check_told(files: TableFiles, entries: Iterable[ManifestEntry]) -> None:
    """Refuse to write rows anew that no changelog has, or no reader sees yet.

    Raises:
        InvalidRequestError: the table must be compacted first.
    """
    options = files.options
    settled = 0
    if options.changelog_producer is ChangelogProducer.FULL_COMPACTION:
        settled = options.max_level
    elif (
        options.changelog_producer is ChangelogProducer.LOOKUP
        or options.deletion_vectors_enabled
        or files.merge_spec.engine is MergeEngine.FIRST_ROW
    ):
        settled = 1
    waiting = [entry.file for entry in entries if entry.file.level < settled]
    if waiting:
        raise InvalidRequestError(
            f"{files.name} holds {len(waiting)} files that wait for a compaction, which records "
            "their changes or makes their rows visible; compact the table fully first (lakewright "
            f"compact {files.name} --full)"
        )
