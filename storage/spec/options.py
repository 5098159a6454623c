"""Table options: those that are implemented, those that change nothing here, and refusals.

An option that steers bytes or rows and is not implemented is refused by name,
before anything is touched. One that only tunes another engine's buffers or
schedules is accepted and left alone. Names and defaults: Paimon, CoreOptions.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NoReturn

from lakewright.storage.errors import InvalidOption, UnsupportedError
from lakewright.storage.spec.file_format import (
    COMPRESSIONS,
    COUNTED,
    ORC,
    PARQUET,
    FileEncoding,
    FormatTuning,
    check_holds,
    file_encoding,
)
from lakewright.storage.spec.merge_options import is_merge_option, read_merge_spec
from lakewright.storage.spec.schema import VALUE_COUNT, TableSchema
from lakewright.storage.spec.tag import TagCreation, TagPeriod

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

_SIZE_UNITS = {
    "": 1,
    "b": 1,
    "bytes": 1,
    "k": KIB,
    "kb": KIB,
    "m": MIB,
    "mb": MIB,
    "g": 1024 * MIB,
    "gb": 1024 * MIB,
    "t": 1024 * 1024 * MIB,
    "tb": 1024 * 1024 * MIB,
}
_TIME_UNITS_MS = {
    "": 1,
    "ms": 1,
    "s": 1000,
    "sec": 1000,
    "second": 1000,
    "seconds": 1000,
    "m": 60_000,
    "min": 60_000,
    "minute": 60_000,
    "minutes": 60_000,
    "h": 3_600_000,
    "hour": 3_600_000,
    "hours": 3_600_000,
    "d": 86_400_000,
    "day": 86_400_000,
    "days": 86_400_000,
}


# The bucket number of rows that no batch reader sees until a compaction gives them another.
POSTPONE_BUCKET = -2


class BucketMode(Enum):
    """How rows find their bucket.

    UNAWARE: append tables, whose rows need none. FIXED: by the hash of the bucket key.
    DYNAMIC: where an index of key hashes says, a new bucket when those there are full.
    POSTPONE: into one folder that no batch reader sees, until a compaction gives them one.
    """

    UNAWARE = "unaware"
    FIXED = "fixed"
    DYNAMIC = "dynamic"
    POSTPONE = "postpone"


class ChangelogProducer(Enum):
    """Who writes the changes that a streaming reader sees; the value is the option's.

    NONE: nobody, readers make do with the rows. INPUT: the writer keeps all rows it was given.
    FULL_COMPACTION, LOOKUP: compactions say what they changed.
    """

    NONE = "none"
    INPUT = "input"
    FULL_COMPACTION = "full-compaction"
    LOOKUP = "lookup"


class Use(Enum):
    """What somebody wants to do with a table; an option may stand in the way of one only."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """Options as values; `read_options` makes them from a schema."""

    bucket: int
    bucket_mode: BucketMode
    bucket_keys: tuple[str, ...]
    target_file_size: int
    compaction_min_file_num: int
    compaction_small_file_ratio: float
    compaction_open_file_cost: int
    compaction_delete_ratio: float
    compaction_max_size_amplification_percent: int
    compaction_size_ratio: int
    compaction_force_up_level0: bool
    compaction_force_rewrite_all_files: bool
    compaction_off_peak_start_hour: int
    compaction_off_peak_end_hour: int
    compaction_off_peak_ratio: int
    compaction_optimization_interval_ms: int | None
    compaction_total_size_threshold: int | None
    compaction_incremental_size_threshold: int | None
    num_sorted_run_compaction_trigger: int
    num_sorted_run_stop_trigger: int
    num_levels: int
    snapshot_num_retained_min: int
    snapshot_num_retained_max: int
    snapshot_time_retained_ms: int
    snapshot_expire_limit: int
    snapshot_clean_empty_directories: bool
    manifest_target_file_size: int
    manifest_merge_min_count: int
    manifest_full_compaction_threshold: int
    manifest_compression: str
    stats_mode: str
    column_stats_modes: Mapping[str, str]
    partition_default_name: str
    partition_legacy_name: bool
    data_file_prefix: str
    file_format: str
    file_format_per_level: Mapping[int, str]
    changelog_file_format: str | None
    file_compression: str
    file_compression_per_level: Mapping[int, str]
    changelog_file_compression: str | None
    file_suffix_has_compression: bool
    format_tuning: FormatTuning
    data_file_thin_mode: bool
    counts_rows: bool
    dynamic_partition_overwrite: bool
    deletion_vectors_enabled: bool
    commit_max_retries: int
    changelog_producer: ChangelogProducer
    changelog_file_prefix: str
    changelog_row_deduplicate: bool
    changelog_row_deduplicate_ignore_fields: tuple[str, ...]
    force_lookup: bool
    dynamic_bucket_target_row_num: int
    dynamic_bucket_initial_buckets: int
    dynamic_bucket_max_buckets: int | None
    postpone_default_bucket_num: int | None
    postpone_target_row_num_per_bucket: int | None
    postpone_target_size_per_bucket: int
    changelog_num_retained_min: int
    changelog_num_retained_max: int
    changelog_time_retained_ms: int
    consumer_expiration_ms: int | None
    consumer_changelog_only: bool
    tag_automatic_creation: TagCreation
    tag_period: TagPeriod
    tag_creation_delay_ms: int
    tag_automatic_completion: bool
    tag_batch_name: str | None
    tag_num_retained_max: int | None
    tag_default_time_retained_ms: int | None
    # None: the zone of the machine.
    process_time_zone: str | None
    watermark_time_zone: str

    @property
    def changelog_outlives_snapshots(self) -> bool:
        """Whether changes can be read for longer than the snapshots they came with."""
        return (
            self.changelog_num_retained_max > self.snapshot_num_retained_max
            or self.changelog_num_retained_min > self.snapshot_num_retained_min
            or self.changelog_time_retained_ms > self.snapshot_time_retained_ms
        )

    @property
    def max_level(self) -> int:
        """The deepest level of the LSM tree: where a full compaction writes."""
        return self.num_levels - 1

    def file_encoding(self, level: int, *, changelog: bool = False) -> FileEncoding:
        """Format, compression and suffix of a new data file of a level, or of a changelog file.

        Raises:
            UnsupportedError: the format is not implemented.
            InvalidOption: its files are not compressed as the options say.
        """
        format_name = self.file_format_per_level.get(level, self.file_format)
        compression = self.file_compression_per_level.get(level, self.file_compression)
        if changelog:
            format_name = self.changelog_file_format or format_name
            compression = self.changelog_file_compression or compression
        encoding = file_encoding(
            format_name, compression, suffix_has_compression=self.file_suffix_has_compression
        )
        return encoding._replace(suffix=f".{COUNTED}") if self.counts_rows else encoding


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
_STATS_MODES = re.compile(r"none|counts|full|truncate\((\d+)\)")
_COLUMN_STATS_MODE = re.compile(r"fields\.(.+)\.stats-mode")
_COMPRESSIONS = {name: name for names in COMPRESSIONS.values() for name in names}
_TAG_CREATIONS = {each.value: each.value for each in TagCreation}
# Hours of a period; what stands for its day, and between that and its hour.
_TAG_PERIODS = {"daily": "24", "hourly": "1", "two-hours": "2"}
_TAG_FORMATS = {
    "with_dashes": "%Y-%m-%d| ",
    "without_dashes": "%Y%m%d| ",
    "without_dashes_and_spaces": "%Y%m%d|",
}
_MAY_BE_ZERO = frozenset(
    {"snapshot.time-retained", "changelog.time-retained", "tag.creation-delay"}
)
_MANIFEST_COMPRESSIONS = {
    "zstd": "zstandard",
    "none": "null",
    "null": "null",
    "deflate": "deflate",
}


def check_supported(schema: TableSchema, use: Use, *, table: str) -> None:
    """Refuse a table whose options are not implemented for `use`.

    Raises:
        UnsupportedError: names the option, its value, and what is implemented.
    """
    options = _lowered(schema.options)
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


def read_options(schema: TableSchema, *, table: str = "the table") -> TableOptions:
    """The schema's options as values, defaults filled in.

    Raises:
        InvalidOption: a value cannot be read; the message names option and value.
    """
    reader = _OptionReader(_lowered(schema.options), table)
    # Schemas before version 2 were written when one bucket was the default.
    bucket = reader.integer("bucket", 1 if schema.version < 2 else -1)
    keys = reader.text("bucket-key", "")
    bucket_keys = tuple(key.strip() for key in keys.split(",") if key.strip())
    if not bucket_keys and (bucket > 0 or (bucket == -2 and schema.has_primary_key)):
        bucket_keys = schema.key_names
    for key in bucket_keys:
        if key not in schema.field_names:
            raise InvalidOption(
                f"{table}: bucket-key names {key!r}, which is no column",
                table=table,
                option="bucket-key",
            )
    trigger = reader.integer("num-sorted-run.compaction-trigger", 5, minimum=1)
    default_target = 128 * MIB if schema.is_keyed else 256 * MIB
    retained_min = reader.integer("snapshot.num-retained.min", 10, minimum=1)
    retained_max = reader.integer("snapshot.num-retained.max", 2**31 - 1, minimum=1)
    time_retained_ms = reader.duration_ms("snapshot.time-retained", 3_600_000)
    tag_creation = TagCreation(reader.choice("tag.automatic-creation", "none", _TAG_CREATIONS))
    tag_period = _tag_period(reader)
    tag_delay_ms = reader.duration_ms("tag.creation-delay", 0)
    if tag_delay_ms >= tag_period.duration // dt.timedelta(milliseconds=1):
        raise InvalidOption(
            f"{table}: tag.creation-delay of {tag_delay_ms} ms is not shorter than the period of "
            f"tags, {tag_period.duration}",
            table=table,
            option="tag.creation-delay",
        )
    return TableOptions(
        bucket=bucket,
        bucket_mode=_bucket_mode(schema, bucket),
        bucket_keys=bucket_keys,
        target_file_size=reader.size("target-file-size", default_target),
        compaction_min_file_num=reader.integer("compaction.min.file-num", 5, minimum=2),
        compaction_small_file_ratio=reader.ratio("compaction.small-file-ratio", 0.7),
        compaction_open_file_cost=reader.size("source.split.open-file-cost", 4 * MIB),
        compaction_delete_ratio=reader.ratio("compaction.delete-ratio-threshold", 0.2),
        compaction_max_size_amplification_percent=reader.integer(
            "compaction.max-size-amplification-percent", 200, minimum=0
        ),
        compaction_size_ratio=reader.integer("compaction.size-ratio", 1, minimum=0),
        compaction_force_up_level0=reader.boolean("compaction.force-up-level-0", False),
        compaction_force_rewrite_all_files=reader.boolean(
            "compaction.force-rewrite-all-files", False
        ),
        compaction_off_peak_start_hour=reader.integer("compaction.offpeak.start.hour", -1),
        compaction_off_peak_end_hour=reader.integer("compaction.offpeak.end.hour", -1),
        compaction_off_peak_ratio=reader.integer("compaction.offpeak-ratio", 0, minimum=0),
        compaction_optimization_interval_ms=reader.optional_duration_ms(
            "compaction.optimization-interval"
        ),
        compaction_total_size_threshold=reader.optional_size("compaction.total-size-threshold"),
        compaction_incremental_size_threshold=reader.optional_size(
            "compaction.incremental-size-threshold"
        ),
        num_sorted_run_compaction_trigger=trigger,
        num_sorted_run_stop_trigger=max(
            trigger, reader.integer("num-sorted-run.stop-trigger", trigger + 3)
        ),
        num_levels=reader.integer("num-levels", trigger + 1, minimum=2),
        snapshot_num_retained_min=retained_min,
        snapshot_num_retained_max=retained_max,
        snapshot_time_retained_ms=time_retained_ms,
        snapshot_expire_limit=reader.integer("snapshot.expire.limit", 50, minimum=1),
        snapshot_clean_empty_directories=reader.boolean("snapshot.clean-empty-directories", False),
        manifest_target_file_size=reader.size("manifest.target-file-size", 8 * MIB),
        manifest_merge_min_count=reader.integer("manifest.merge-min-count", 30, minimum=2),
        manifest_full_compaction_threshold=reader.size(
            "manifest.full-compaction-threshold-size", 16 * MIB
        ),
        manifest_compression=reader.choice("manifest.compression", "zstd", _MANIFEST_COMPRESSIONS),
        stats_mode=reader.stats_mode("metadata.stats-mode", "truncate(16)"),
        column_stats_modes=reader.column_stats_modes(schema),
        partition_default_name=reader.text("partition.default-name", "__DEFAULT_PARTITION__"),
        partition_legacy_name=reader.boolean("partition.legacy-name", True),
        data_file_prefix=reader.text("data-file.prefix", "data-"),
        # Schemas before version 3 were written when ORC was the default.
        file_format=reader.text("file.format", ORC if schema.version < 3 else PARQUET).lower(),
        file_format_per_level=reader.per_level("file.format.per.level", str.lower),
        changelog_file_format=reader.text("changelog-file.format", "").lower() or None,
        file_compression=reader.choice("file.compression", "zstd", _COMPRESSIONS),
        file_compression_per_level=reader.per_level("file.compression.per.level", _compression),
        changelog_file_compression=reader.optional_choice(
            "changelog-file.compression", _COMPRESSIONS
        ),
        file_suffix_has_compression=reader.boolean("file.suffix.include.compression", False),
        format_tuning=_format_tuning(reader),
        counts_rows=schema.counts_rows,
        # Where whole rows are keys, copies of them would double the files.
        data_file_thin_mode=reader.boolean("data-file.thin-mode", schema.counts_rows),
        deletion_vectors_enabled=reader.boolean("deletion-vectors.enabled", False),
        dynamic_partition_overwrite=reader.boolean("dynamic-partition-overwrite", True),
        commit_max_retries=reader.integer("commit.max-retries", 10, minimum=0),
        changelog_producer=ChangelogProducer(
            reader.choice(
                "changelog-producer", "none", {each.value: each.value for each in ChangelogProducer}
            )
        ),
        changelog_file_prefix=reader.text("changelog-file.prefix", "changelog-"),
        changelog_row_deduplicate=reader.boolean("changelog-producer.row-deduplicate", False),
        changelog_row_deduplicate_ignore_fields=reader.names(
            "changelog-producer.row-deduplicate-ignore-fields"
        ),
        force_lookup=reader.boolean("force-lookup", False),
        dynamic_bucket_target_row_num=reader.integer(
            "dynamic-bucket.target-row-num", 2_000_000, minimum=1
        ),
        dynamic_bucket_initial_buckets=reader.integer(
            "dynamic-bucket.initial-buckets", 1, minimum=1
        ),
        dynamic_bucket_max_buckets=_max_buckets(reader),
        postpone_default_bucket_num=reader.optional_integer(
            "postpone.default-bucket-num", minimum=1
        ),
        postpone_target_row_num_per_bucket=reader.optional_integer(
            "postpone.target-row-num-per-bucket", minimum=1
        ),
        postpone_target_size_per_bucket=reader.size("postpone.target-size-per-bucket", GIB),
        changelog_num_retained_min=reader.integer(
            "changelog.num-retained.min", retained_min, minimum=1
        ),
        changelog_num_retained_max=reader.integer(
            "changelog.num-retained.max", retained_max, minimum=1
        ),
        changelog_time_retained_ms=reader.duration_ms("changelog.time-retained", time_retained_ms),
        consumer_expiration_ms=reader.optional_duration_ms("consumer.expiration-time"),
        consumer_changelog_only=reader.boolean("consumer.changelog-only", False),
        tag_automatic_creation=tag_creation,
        tag_period=tag_period,
        tag_creation_delay_ms=tag_delay_ms,
        tag_automatic_completion=reader.boolean("tag.automatic-completion", False),
        tag_batch_name=reader.text("tag.batch.customized-name", "") or None,
        tag_num_retained_max=reader.optional_integer("tag.num-retained-max", minimum=1),
        tag_default_time_retained_ms=reader.optional_duration_ms("tag.default-time-retained"),
        process_time_zone=reader.text("sink.process-time-zone", "") or None,
        watermark_time_zone=reader.text("sink.watermark-time-zone", "UTC"),
    )


def _tag_period(reader: _OptionReader) -> TagPeriod:
    """The period that tags are made for, and the names they get."""
    exact_ms = reader.optional_duration_ms("tag.creation-period-duration")
    if exact_ms is not None:
        return TagPeriod(dt.timedelta(milliseconds=exact_ms), "%Y%m%d%H%M")
    hours = reader.choice("tag.creation-period", "daily", _TAG_PERIODS)
    day, between = reader.choice("tag.period-formatter", "with_dashes", _TAG_FORMATS).split("|")
    if hours == "24":
        return TagPeriod(dt.timedelta(days=1), day)
    if hours == "2":
        return TagPeriod(dt.timedelta(hours=2), "%Y-%m-%d %H")
    return TagPeriod(dt.timedelta(hours=1), f"{day}{between}%H")


def _max_buckets(reader: _OptionReader) -> int | None:
    name = "dynamic-bucket.max-buckets"
    # -1 is how the format spells that there is no limit.
    limit = reader.integer(name, -1)
    if limit == 0 or limit < -1:
        reader.refuse(name, str(limit), "; write -1 or a positive number")
    return None if limit == -1 else limit


def _bucket_mode(schema: TableSchema, bucket: int) -> BucketMode:
    if bucket > 0:
        return BucketMode.FIXED
    if not schema.has_primary_key:
        return BucketMode.UNAWARE
    return BucketMode.POSTPONE if bucket == -2 else BucketMode.DYNAMIC


def _format_tuning(reader: _OptionReader) -> FormatTuning:
    block = reader.optional_size("file.block-size")
    level = reader.integer("file.compression.zstd-level", 1, minimum=1)
    return FormatTuning(
        zstd_level=level,
        parquet_zstd_level=reader.integer("parquet.compression.codec.zstd.level", level, minimum=1),
        parquet_row_group_bytes=block or reader.optional_size("parquet.block.size"),
        parquet_page_bytes=reader.optional_size("parquet.page.size"),
        parquet_dictionary=reader.boolean("parquet.enable.dictionary", True),
        orc_stripe_bytes=block or reader.optional_size("orc.stripe.size"),
        orc_compress_block_bytes=reader.optional_size("orc.compress.size"),
        orc_row_index_stride=reader.optional_size("orc.row.index.stride"),
        orc_dictionary_threshold=reader.ratio("orc.dictionary.key.threshold", 0.0),
    )


def _compression(text: str) -> str:
    if text.lower() not in _COMPRESSIONS:
        raise InvalidOption(f"{text!r} is none of {', '.join(_COMPRESSIONS)}")
    return _COMPRESSIONS[text.lower()]


def parse_size(text: str) -> int:
    """Bytes from `128 MB` or `8mb`.

    Raises:
        InvalidOption: it is no size.
    """
    return _quantity(text, _SIZE_UNITS, "a size such as 128 MB")


def parse_duration_ms(text: str) -> int:
    """Milliseconds from `1 h`, `30min` or `7d`.

    Raises:
        InvalidOption: it is no duration.
    """
    return _quantity(text, _TIME_UNITS_MS, "a duration such as 1 h")


def _quantity(text: str, units: Mapping[str, int], expected: str) -> int:
    match = re.fullmatch(r"\s*(\d+)\s*([A-Za-z]*)\s*", text)
    if match is None or match.group(2).lower() not in units:
        raise InvalidOption(f"{text!r} is not {expected}")
    return int(match.group(1)) * units[match.group(2).lower()]


def _lowered(options: Mapping[str, str]) -> dict[str, str]:
    return {name.strip(): str(value).strip() for name, value in options.items()}


def _is_known(name: str) -> bool:
    return (
        name in _IMPLEMENTED
        or is_merge_option(name)
        or name in _WITHOUT_EFFECT
        or name.startswith(_PREFIXES_WITHOUT_EFFECT)
        or _COLUMN_STATS_MODE.fullmatch(name) is not None
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


class _OptionReader:
    """Reads one option at a time and names it when it cannot."""

    def __init__(self, options: Mapping[str, str], table: str) -> None:
        self.options = options
        self.table = table

    def refuse(self, name: str, text: str, problem: str) -> NoReturn:
        """Say what is wrong with an option, right behind its value."""
        raise InvalidOption(
            f"{self.table}: {name}={text}{problem}", table=self.table, option=name
        ) from None

    def text(self, name: str, default: str) -> str:
        return self.options.get(name, default)

    def integer(self, name: str, default: int, *, minimum: int | None = None) -> int:
        text = self.options.get(name)
        if text is None:
            return default
        try:
            value = int(text)
        except ValueError:
            self.refuse(name, text, " is no whole number")
        if minimum is not None and value < minimum:
            self.refuse(name, text, f" is less than {minimum}")
        return value

    def boolean(self, name: str, default: bool) -> bool:
        text = self.options.get(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            self.refuse(name, text, " is neither true nor false")
        return text.lower() == "true"

    def size(self, name: str, default: int) -> int:
        text = self.options.get(name)
        return default if text is None else self._quantity(name, text, parse_size)

    def duration_ms(self, name: str, default: int) -> int:
        text = self.options.get(name)
        return default if text is None else self._quantity(name, text, parse_duration_ms)

    def optional_integer(self, name: str, *, minimum: int) -> int | None:
        return self.integer(name, minimum, minimum=minimum) if name in self.options else None

    def optional_duration_ms(self, name: str) -> int | None:
        return self.duration_ms(name, 0) if name in self.options else None

    def optional_size(self, name: str) -> int | None:
        return self.size(name, 0) if name in self.options else None

    def ratio(self, name: str, default: float) -> float:
        text = self.options.get(name)
        if text is None:
            return default
        try:
            value = float(text)
        except ValueError:
            self.refuse(name, text, " is no number")
        if not 0 <= value <= 1:
            self.refuse(name, text, " is not between 0 and 1")
        return value

    def names(self, name: str) -> tuple[str, ...]:
        return tuple(part.strip() for part in self.text(name, "").split(",") if part.strip())

    def _quantity(self, name: str, text: str, parse: Callable[[str], int]) -> int:
        try:
            value = parse(text)
        except InvalidOption as error:
            raise InvalidOption(
                f"{self.table}: {name}={error.message}", table=self.table, option=name
            ) from None
        if value < 1 and name not in _MAY_BE_ZERO:
            self.refuse(name, text, " is not positive")
        return value

    def choice(self, name: str, default: str, values: Mapping[str, str]) -> str:
        text = self.options.get(name, default)
        if text.lower() not in values:
            self.refuse(name, text, f" is none of {', '.join(values)}")
        return values[text.lower()]

    def optional_choice(self, name: str, values: Mapping[str, str]) -> str | None:
        return self.choice(name, "", values) if name in self.options else None

    def per_level(self, name: str, value_of: Callable[[str], str]) -> dict[int, str]:
        """Values by level, from a text such as `0:avro,5:parquet`."""
        found: dict[int, str] = {}
        for pair in filter(None, (each.strip() for each in self.text(name, "").split(","))):
            level, colon, value = pair.partition(":")
            if not colon or not level.strip().isdecimal():
                raise InvalidOption(
                    f"{self.table}: {name} holds {pair!r}; write levels and values as in 0:x,5:y",
                    table=self.table,
                    option=name,
                )
            try:
                found[int(level)] = value_of(value.strip())
            except InvalidOption as error:
                raise InvalidOption(
                    f"{self.table}: {name}: {error.message}", table=self.table, option=name
                ) from None
        return found

    def stats_mode(self, name: str, default: str) -> str:
        text = self.options.get(name, default).lower().replace(" ", "")
        if _STATS_MODES.fullmatch(text) is None:
            self.refuse(name, text, " is none of none, counts, truncate(16), full")
        return text

    def column_stats_modes(self, schema: TableSchema) -> dict[str, str]:
        modes = {}
        for name in self.options:
            match = _COLUMN_STATS_MODE.fullmatch(name)
            if match is None:
                continue
            if match.group(1) not in schema.field_names:
                self.refuse(name, self.options[name], " names a column that is not there")
            modes[match.group(1)] = self.stats_mode(name, "")
        return modes
