"""Which options are implemented, which change nothing here, and which are refused.

An option that steers bytes or rows and is not implemented is refused by name,
before anything is touched. One that only tunes another engine's buffers or
schedules is accepted and left alone.
"""

from __future__ import annotations

from enum import Enum

from lakewright.storage.errors import InvalidOption, UnsupportedError
from lakewright.storage.spec.file_format import (
    COMPRESSIONS,
    PARQUET,
    check_holds,
)
from lakewright.storage.spec.merge_options import is_merge_option, read_merge_spec
from lakewright.storage.spec.option_values import COLUMN_STATS_MODE, trimmed
from lakewright.storage.spec.options import ChangelogProducer, TableOptions, read_options
from lakewright.storage.spec.schema import VALUE_COUNT, TableSchema


class Use(Enum):
    """What somebody wants to do with a table; an option may stand in the way of one only."""

    READ = "read"
    WRITE = "write"


# Options with one implemented value (or a few): anything else is refused for the use named.
_ONLY: dict[str, tuple[frozenset[str], Use]] = {
    "type": (frozenset({"table"}), Use.READ),
    "deletion-vectors.enabled": (frozenset({"true", "false"}), Use.READ),
    "deletion-vectors.bitmap64": (frozenset({"false"}), Use.WRITE),
    "deletion-vectors.modifiable": (frozenset({"true", "false"}), Use.READ),
    "row-tracking.enabled": (frozenset({"false"}), Use.READ),
    "data-evolution.enabled": (frozenset({"false"}), Use.READ),
    "query-auth.enabled": (frozenset({"false"}), Use.READ),
    "bucket-function.type": (frozenset({"default"}), Use.READ),
    "file.format": (frozenset(COMPRESSIONS), Use.WRITE),
    "changelog-file.format": (frozenset(COMPRESSIONS), Use.WRITE),
    "manifest.format": (frozenset({"avro"}), Use.READ),
    "changelog-producer": (frozenset({"none", "input", "full-compaction", "lookup"}), Use.WRITE),
    "tag.create-success-file": (frozenset({"false"}), Use.WRITE),
    "tag.callbacks": (frozenset({""}), Use.WRITE),
    "primary-key-table.file-format": (frozenset({"parquet"}), Use.WRITE),
    "index-file-in-data-file-dir": (frozenset({"false"}), Use.READ),
    "force-lookup": (frozenset({"true", "false"}), Use.WRITE),
    "postpone.batch-write-fixed-bucket": (frozenset({"false"}), Use.WRITE),
    "postpone.merge-on-read": (frozenset({"false"}), Use.READ),
    "local-merge-buffer-size": (frozenset(), Use.WRITE),
    "metadata.stats-dense-store": (frozenset({"true", "false"}), Use.READ),
    "snapshot.expire.execution-mode": (frozenset({"sync", "async"}), Use.READ),
    "write-only": (frozenset({"true", "false"}), Use.READ),
    "auto-create": (frozenset({"true", "false"}), Use.READ),
}

# Implemented options: `read_options` turns them into values.
_IMPLEMENTED = frozenset(
    {
        "bucket",
        "bucket-key",
        "target-file-size",
        "compaction.min.file-num",
        "compaction.small-file-ratio",
        "compaction.delete-ratio-threshold",
        "compaction.max-size-amplification-percent",
        "compaction.size-ratio",
        "compaction.force-up-level-0",
        "compaction.force-rewrite-all-files",
        "compaction.offpeak.start.hour",
        "compaction.offpeak.end.hour",
        "compaction.offpeak-ratio",
        "compaction.optimization-interval",
        "compaction.total-size-threshold",
        "compaction.incremental-size-threshold",
        "num-sorted-run.compaction-trigger",
        "num-sorted-run.stop-trigger",
        "changelog-producer.row-deduplicate",
        "changelog-producer.row-deduplicate-ignore-fields",
        "num-levels",
        "snapshot.num-retained.min",
        "snapshot.num-retained.max",
        "snapshot.time-retained",
        "snapshot.expire.limit",
        "snapshot.clean-empty-directories",
        "manifest.target-file-size",
        "manifest.merge-min-count",
        "manifest.full-compaction-threshold-size",
        "manifest.compression",
        "metadata.stats-mode",
        "partition.default-name",
        "partition.legacy-name",
        "data-file.prefix",
        "file.format.per.level",
        "file.compression",
        "file.compression.per.level",
        "file.compression.zstd-level",
        "changelog-file.compression",
        "file.suffix.include.compression",
        "file.block-size",
        "data-file.thin-mode",
        "dynamic-partition-overwrite",
        "commit.max-retries",
        "changelog-file.prefix",
        "dynamic-bucket.target-row-num",
        "dynamic-bucket.initial-buckets",
        "dynamic-bucket.max-buckets",
        "postpone.default-bucket-num",
        "postpone.target-row-num-per-bucket",
        "postpone.target-size-per-bucket",
        "changelog.num-retained.min",
        "changelog.num-retained.max",
        "changelog.time-retained",
        "consumer.expiration-time",
        "consumer.changelog-only",
        "tag.automatic-creation",
        "tag.creation-period",
        "tag.creation-period-duration",
        "tag.creation-delay",
        "tag.period-formatter",
        "tag.automatic-completion",
        "tag.batch.customized-name",
        "tag.num-retained-max",
        "tag.default-time-retained",
        "tag.time-expire-enabled",
    }
)

# Options that tune another engine, or say where and whose the table is: no bytes and no rows
# depend on them.
_WITHOUT_EFFECT = frozenset(
    {
        "path",
        "owner",
        "comment",
        "primary-key",
        "partition",
        "page-size",
        "cache-page-size",
        "async-file-write",
        "streaming-read-overwrite",
        "dynamic-bucket.assigner-parallelism",
        "consumer.mode",
        "consumer.ignore-progress",
        "commit.callbacks",
        "commit.timeout",
        "commit.min-retry-wait",
        "commit.max-retry-wait",
        "commit.force-compact",
        "commit.user-prefix",
        "compaction.max.file-num",
        "full-compaction.delta-commits",
        "partition.mark-done-action",
    }
)

_PREFIXES_WITHOUT_EFFECT = (
    "postpone.batch-write-fixed-bucket.",
    "write-buffer-",
    "write-manifest-cache",
    "write-max-writers-to-spill",
    "write.batch",
    "sort-spill-",
    "sort-engine",
    "local-sort.",
    "read.batch-size",
    "scan.manifest.parallelism",
    "scan.parallelism",
    "scan.infer-parallelism",
    "scan.split-enumerator",
    "sink.",
    "source.split.",
    "parquet.",
    "orc.",
    "lookup.",
    "lookup-",
    "metastore.",
    "spill-",
    "continuous.discovery-interval",
)


def check_supported(schema: TableSchema, use: Use, *, table: str) -> None:
    """Refuse a table whose options are not implemented for `use`.

    Raises:
        UnsupportedError: names the option, its value, and what is implemented.
    """
    options = trimmed(schema.options)
    for name, value in options.items():
        if name in _ONLY:
            allowed, blocked = _ONLY[name]
            # What cannot be read cannot be written either.
            if value.lower() not in allowed and (blocked is Use.READ or use is Use.WRITE):
                instead = ", ".join(sorted(allowed)) or "leaving it out"
                raise UnsupportedError(
                    f"{table} sets option {name}={value}, which is not implemented "
                    f"(implemented: {instead}); the table was not touched",
                    table=table,
                    option=name,
                )
        elif not _is_known(name):
            raise UnsupportedError(
                f"{table} sets option {name}={value}, which is not implemented; "
                "the table was not touched",
                table=table,
                option=name,
            )
    options_read = read_options(schema, table=table)
    read_merge_spec(schema, table=table)
    _check_counted(schema, read_options(schema, table=table), table)
    _check_bucket(schema, options_read, table, use)
    if use is Use.WRITE:
        _check_formats(schema, options_read, table)


def _is_known(name: str) -> bool:
    return (
        name in _IMPLEMENTED
        or is_merge_option(name)
        or name in _WITHOUT_EFFECT
        or name.startswith(_PREFIXES_WITHOUT_EFFECT)
        or COLUMN_STATS_MODE.fullmatch(name) is not None
    )


def _check_formats(schema: TableSchema, options: TableOptions, table: str) -> None:
    """What files of any level will be written as can be, with the table's columns in it."""
    levels = range(options.num_levels) if schema.is_keyed else range(1)
    try:
        encodings = [options.file_encoding(level) for level in levels]
        encodings += [options.file_encoding(0, changelog=True)]
    except (UnsupportedError, InvalidOption) as error:
        raise type(error)(f"{table}: {error.message}", table=table, **error.details) from error
    for format_name in sorted({encoding.format for encoding in encodings}):
        check_holds(format_name, schema.fields, table=table)


def _check_counted(schema: TableSchema, options: TableOptions, table: str) -> None:
    """Options that make no sense for rows that are only counted."""
    if not schema.counts_rows:
        return
    if options.bucket < 1:
        raise InvalidOption(
            f"{table}: merge-engine={VALUE_COUNT} needs buckets in which equal rows meet; set "
            "bucket to a positive number",
            table=table,
            option="merge-engine",
        )
    formats = {options.file_encoding(level).format for level in range(options.num_levels)}
    for name, meant in {
        "file.format": formats != {PARQUET},
        "deletion-vectors.enabled": options.deletion_vectors_enabled,
        "force-lookup": options.force_lookup,
        "changelog-producer": options.changelog_producer is not ChangelogProducer.NONE,
        "data-file.thin-mode": not options.data_file_thin_mode,
    }.items():
        if meant:
            raise InvalidOption(
                f"{table}: {name}={schema.options.get(name)} does not go with "
                f"merge-engine={VALUE_COUNT}; leave it out",
                table=table,
                option=name,
            )
    for name in schema.options:
        if is_merge_option(name) and name != "merge-engine":
            raise InvalidOption(
                f"{table}: {name} says how rows of a key are merged, and with "
                f"merge-engine={VALUE_COUNT} they are counted; leave it out",
                table=table,
                option=name,
            )


def _check_bucket(schema: TableSchema, options: TableOptions, table: str, use: Use) -> None:
    if schema.has_primary_key and not set(schema.partition_keys) <= set(schema.primary_keys):
        _refuse_cross_partition(schema, table, use)
    lowest = -2 if schema.has_primary_key else -1
    if options.bucket == 0 or options.bucket < lowest:
        postponed = ", or -2 to give rows a bucket later" if schema.has_primary_key else ""
        raise InvalidOption(
            f"{table}: bucket={options.bucket}; write -1 or a positive number{postponed}",
            table=table,
            option="bucket",
        )
    if not schema.has_primary_key and options.bucket > 0 and not options.bucket_keys:
        raise InvalidOption(
            f"{table}: bucket={options.bucket} without a bucket-key; name the columns rows are "
            "hashed by, or leave bucket at -1",
            table=table,
            option="bucket",
        )
    if options.bucket == -1 and options.bucket_keys:
        raise InvalidOption(
            f"{table}: a bucket-key needs a fixed number of buckets; set bucket",
            table=table,
            option="bucket-key",
        )
    if schema.is_keyed:
        outside = [key for key in options.bucket_keys if key not in schema.key_names]
        if outside:
            raise InvalidOption(
                f"{table}: bucket-key {outside[0]!r} is not in the primary key without partition "
                f"keys ({', '.join(schema.trimmed_primary_keys)}), so one key could be in two "
                "buckets",
                table=table,
                option="bucket-key",
            )


def _refuse_cross_partition(schema: TableSchema, table: str, use: Use) -> None:
    if use is Use.WRITE:
        outside = [key for key in schema.partition_keys if key not in schema.primary_keys]
        raise UnsupportedError(
            f"{table}: partition key {outside[0]!r} is not in the primary key "
            f"({', '.join(schema.primary_keys)}), so a key may move between partitions, which is "
            "not implemented; add it to the primary key of a new table",
            table=table,
        )
