"""Table options as values. Names and defaults: Paimon, `CoreOptions`."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from lakewright.storage.errors import InvalidOption
from lakewright.storage.spec.data_types import AtomicType, TypeRoot
from lakewright.storage.spec.file_format import (
    COMPRESSIONS,
    COUNTED,
    ORC,
    FileEncoding,
    FormatTuning,
    file_encoding,
)
from lakewright.storage.spec.option_values import MIB, OptionReader, trimmed
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.tag import TagCreation, TagPeriod

# The bucket of postponed rows, which batch readers skip until a compaction assigns real buckets.
POSTPONE_BUCKET = -2


class BucketMode(Enum):
    """How rows find their bucket.

    UNAWARE: append tables, without real buckets. FIXED: by a hash of the bucket key. DYNAMIC: by an
    index of key hashes, with a new bucket when the existing ones are full. POSTPONE: into one
    folder that batch readers skip, until a compaction assigns real buckets.
    """

    UNAWARE = "unaware"
    FIXED = "fixed"
    DYNAMIC = "dynamic"
    POSTPONE = "postpone"


class BucketFunction(Enum):
    """The function from bucket key to fixed bucket; the value is the option's text.

    DEFAULT: the hash of the bucket key. MOD: the remainder of a bucket key that is a number.
    """

    DEFAULT = "default"
    MOD = "mod"


class ChangelogProducer(Enum):
    """Which process writes changelog files for streaming readers; the value is the option's text.

    NONE: no process does. INPUT: the writer stores all its input rows. FULL_COMPACTION, LOOKUP:
    compactions write the changes of their result.
    """

    NONE = "none"
    INPUT = "input"
    FULL_COMPACTION = "full-compaction"
    LOOKUP = "lookup"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """Options as values; `read_options` makes them from a schema."""

    bucket: int
    bucket_mode: BucketMode
    bucket_keys: tuple[str, ...]
    bucket_function: BucketFunction
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
    # The folder of the buckets below the table's folder; empty for the table's folder itself.
    data_file_directory: str
    # URIs below which data files outside of the table may lie.
    external_paths: tuple[str, ...]
    file_format: str
    file_format_per_level: Mapping[int, str]
    changelog_file_format: str | None
    file_compression: str
    file_compression_per_level: Mapping[int, str]
    changelog_file_compression: str | None
    file_suffix_has_compression: bool
    format_tuning: FormatTuning
    data_file_thin_mode: bool
    write_only: bool
    counts_rows: bool
    dynamic_partition_overwrite: bool
    deletion_vectors_enabled: bool
    deletion_vectors_bitmap64: bool
    # None: the committer's own limits of retries and time apply.
    commit_max_retries: int | None
    changelog_producer: ChangelogProducer
    changelog_file_prefix: str
    changelog_row_deduplicate: bool
    changelog_row_deduplicate_ignore_fields: tuple[str, ...]
    streaming_read_overwrite: bool
    streaming_read_append_overwrite: bool
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
    # None: the time zone of the machine.
    process_time_zone: str | None
    watermark_time_zone: str

    @property
    def changelog_outlives_snapshots(self) -> bool:
        """Whether changelogs are kept longer than their snapshots."""
        return (
            self.changelog_num_retained_max > self.snapshot_num_retained_max
            or self.changelog_num_retained_min > self.snapshot_num_retained_min
            or self.changelog_time_retained_ms > self.snapshot_time_retained_ms
        )

    @property
    def max_level(self) -> int:
        """The deepest level of the LSM tree, to which a full compaction writes."""
        return self.num_levels - 1

    def file_encoding(self, level: int, *, changelog: bool = False) -> FileEncoding:
        """Format, compression and suffix of a new data file of a level, or of a changelog file.

        Raises:
            UnsupportedError: the format is not implemented.
            InvalidOption: the format does not have the compression.
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


_COMPRESSIONS = {name: name for names in COMPRESSIONS.values() for name in names}
_TAG_CREATIONS = {each.value: each.value for each in TagCreation}
# Hours of a period; then the format of its day, and the separator before its hour.
_TAG_PERIODS = {"daily": "24", "hourly": "1", "two-hours": "2"}
_TAG_FORMATS = {
    "with_dashes": "%Y-%m-%d| ",
    "without_dashes": "%Y%m%d| ",
    "without_dashes_and_spaces": "%Y%m%d|",
}
_MANIFEST_COMPRESSIONS = {
    "zstd": "zstandard",
    "none": "null",
    "null": "null",
    "deflate": "deflate",
}


def read_options(
    schema: TableSchema, *, table: str = "the table", bare_numbers: bool = True
) -> TableOptions:
    """The schema's options as values, with defaults.

    Raises:
        InvalidOption: a value is invalid; the message names option and value.
    """
    reader = OptionReader(trimmed(schema.options), table, bare_numbers=bare_numbers)
    # Schemas before version 2 were written when one bucket was the default.
    bucket = reader.integer("bucket", default=1 if schema.version < 2 else None)
    keys = reader.text("bucket-key")
    bucket_keys = tuple(key.strip() for key in keys.split(",") if key.strip())
    if not bucket_keys and (bucket > 0 or (bucket == -2 and schema.has_primary_key)):
        bucket_keys = schema.key_names
    for key in bucket_keys:
        if key not in schema.field_names:
            raise InvalidOption(
                f"{table}: bucket-key names {key!r}, which is not a column", option="bucket-key"
            )
    trigger = reader.integer("num-sorted-run.compaction-trigger", minimum=1)
    default_target = 128 * MIB if schema.is_keyed else 256 * MIB
    retained_min = reader.integer("snapshot.num-retained.min", minimum=1)
    retained_max = reader.integer("snapshot.num-retained.max", minimum=1)
    time_retained_ms = reader.duration_ms("snapshot.time-retained")
    tag_creation = TagCreation(reader.choice("tag.automatic-creation", _TAG_CREATIONS))
    tag_period = _tag_period(reader)
    tag_delay_ms = reader.duration_ms("tag.creation-delay")
    if tag_delay_ms >= tag_period.duration // dt.timedelta(milliseconds=1):
        raise InvalidOption(
            f"{table}: tag.creation-delay of {tag_delay_ms} ms is not shorter than the period of "
            f"tags, {tag_period.duration}",
            option="tag.creation-delay",
        )
    return TableOptions(
        bucket=bucket,
        bucket_mode=_bucket_mode(schema, bucket),
        bucket_keys=bucket_keys,
        bucket_function=_bucket_function(reader, schema, bucket_keys),
        target_file_size=reader.size("target-file-size", default=default_target),
        compaction_min_file_num=reader.integer("compaction.min.file-num", minimum=2),
        compaction_small_file_ratio=reader.ratio("compaction.small-file-ratio"),
        # The format's default is that of splits to read. Compactions of so few files would write
        # files that are small again.
        compaction_open_file_cost=reader.size("source.split.open-file-cost", default=0),
        compaction_delete_ratio=reader.ratio("compaction.delete-ratio-threshold"),
        compaction_max_size_amplification_percent=reader.integer(
            "compaction.max-size-amplification-percent", minimum=0
        ),
        compaction_size_ratio=reader.integer("compaction.size-ratio", minimum=0),
        compaction_force_up_level0=reader.boolean("compaction.force-up-level-0"),
        compaction_force_rewrite_all_files=reader.boolean("compaction.force-rewrite-all-files"),
        compaction_off_peak_start_hour=reader.integer("compaction.offpeak.start.hour"),
        compaction_off_peak_end_hour=reader.integer("compaction.offpeak.end.hour"),
        compaction_off_peak_ratio=reader.integer("compaction.offpeak-ratio", minimum=0),
        compaction_optimization_interval_ms=reader.optional_duration_ms(
            "compaction.optimization-interval"
        ),
        compaction_total_size_threshold=reader.optional_size("compaction.total-size-threshold"),
        compaction_incremental_size_threshold=reader.optional_size(
            "compaction.incremental-size-threshold"
        ),
        num_sorted_run_compaction_trigger=trigger,
        num_sorted_run_stop_trigger=max(
            trigger, reader.integer("num-sorted-run.stop-trigger", default=trigger + 3)
        ),
        num_levels=reader.integer("num-levels", default=trigger + 1, minimum=2),
        snapshot_num_retained_min=retained_min,
        snapshot_num_retained_max=retained_max,
        snapshot_time_retained_ms=time_retained_ms,
        snapshot_expire_limit=reader.integer("snapshot.expire.limit", minimum=1),
        snapshot_clean_empty_directories=reader.boolean("snapshot.clean-empty-directories"),
        manifest_target_file_size=reader.size("manifest.target-file-size"),
        manifest_merge_min_count=reader.integer("manifest.merge-min-count", minimum=2),
        manifest_full_compaction_threshold=reader.size("manifest.full-compaction-threshold-size"),
        manifest_compression=reader.choice("manifest.compression", _MANIFEST_COMPRESSIONS),
        stats_mode=reader.stats_mode("metadata.stats-mode"),
        column_stats_modes=reader.column_stats_modes(schema),
        partition_default_name=reader.file_name("partition.default-name"),
        partition_legacy_name=reader.boolean("partition.legacy-name"),
        data_file_prefix=reader.name_prefix("data-file.prefix"),
        data_file_directory=_data_file_directory(reader),
        external_paths=reader.names("data-file.external-paths"),
        # Schemas before version 3 were written when ORC was the default.
        file_format=reader.text("file.format", default=ORC if schema.version < 3 else None).lower(),
        file_format_per_level=reader.per_level("file.format.per.level", str.lower),
        changelog_file_format=reader.text("changelog-file.format").lower() or None,
        file_compression=reader.choice("file.compression", _COMPRESSIONS),
        file_compression_per_level=reader.per_level("file.compression.per.level", _compression),
        changelog_file_compression=reader.optional_choice(
            "changelog-file.compression", _COMPRESSIONS
        ),
        file_suffix_has_compression=reader.boolean("file.suffix.include.compression"),
        format_tuning=_format_tuning(reader),
        counts_rows=schema.counts_rows,
        # If whole rows are keys, copies of the keys would double the files.
        data_file_thin_mode=reader.boolean("data-file.thin-mode", default=schema.counts_rows),
        deletion_vectors_enabled=reader.boolean("deletion-vectors.enabled"),
        deletion_vectors_bitmap64=reader.boolean("deletion-vectors.bitmap64"),
        dynamic_partition_overwrite=reader.boolean("dynamic-partition-overwrite"),
        write_only=reader.boolean("write-only"),
        commit_max_retries=reader.optional_integer("commit.max-retries", minimum=0),
        changelog_producer=ChangelogProducer(
            reader.choice(
                "changelog-producer", {each.value: each.value for each in ChangelogProducer}
            )
        ),
        changelog_file_prefix=reader.name_prefix("changelog-file.prefix"),
        changelog_row_deduplicate=reader.boolean("changelog-producer.row-deduplicate"),
        changelog_row_deduplicate_ignore_fields=reader.names(
            "changelog-producer.row-deduplicate-ignore-fields"
        ),
        streaming_read_overwrite=reader.boolean("streaming-read-overwrite"),
        streaming_read_append_overwrite=reader.boolean("streaming-read-append-overwrite"),
        force_lookup=reader.boolean("force-lookup"),
        dynamic_bucket_target_row_num=reader.integer(
            "dynamic-bucket.target-row-num", minimum=1, bits=64
        ),
        dynamic_bucket_initial_buckets=reader.integer("dynamic-bucket.initial-buckets", minimum=1),
        dynamic_bucket_max_buckets=_max_buckets(reader),
        postpone_default_bucket_num=reader.optional_integer(
            "postpone.default-bucket-num", minimum=1
        ),
        postpone_target_row_num_per_bucket=reader.optional_integer(
            "postpone.target-row-num-per-bucket", minimum=1, bits=64
        ),
        postpone_target_size_per_bucket=reader.size("postpone.target-size-per-bucket"),
        changelog_num_retained_min=reader.integer(
            "changelog.num-retained.min", default=retained_min, minimum=1
        ),
        changelog_num_retained_max=reader.integer(
            "changelog.num-retained.max", default=retained_max, minimum=1
        ),
        changelog_time_retained_ms=reader.duration_ms(
            "changelog.time-retained", default=time_retained_ms
        ),
        consumer_expiration_ms=reader.optional_duration_ms("consumer.expiration-time"),
        consumer_changelog_only=reader.boolean("consumer.changelog-only"),
        tag_automatic_creation=tag_creation,
        tag_period=tag_period,
        tag_creation_delay_ms=tag_delay_ms,
        tag_automatic_completion=reader.boolean("tag.automatic-completion"),
        tag_batch_name=reader.text("tag.batch.customized-name") or None,
        tag_num_retained_max=reader.optional_integer("tag.num-retained-max", minimum=1),
        tag_default_time_retained_ms=reader.optional_duration_ms("tag.default-time-retained"),
        process_time_zone=reader.text("sink.process-time-zone") or None,
        watermark_time_zone=reader.text("sink.watermark-time-zone"),
    )


def _tag_period(reader: OptionReader) -> TagPeriod:
    """The period of automatic tags, and the format of their names."""
    exact_ms = reader.optional_duration_ms("tag.creation-period-duration")
    if exact_ms is not None:
        return TagPeriod(dt.timedelta(milliseconds=exact_ms), "%Y%m%d%H%M")
    hours = reader.choice("tag.creation-period", _TAG_PERIODS)
    day, between = reader.choice("tag.period-formatter", _TAG_FORMATS).split("|")
    if hours == "24":
        return TagPeriod(dt.timedelta(days=1), day)
    if hours == "2":
        return TagPeriod(dt.timedelta(hours=2), "%Y-%m-%d %H")
    return TagPeriod(dt.timedelta(hours=1), f"{day}{between}%H")


def _max_buckets(reader: OptionReader) -> int | None:
    name = "dynamic-bucket.max-buckets"
    # The format writes -1 for no limit.
    limit = reader.integer(name)
    if limit == 0 or limit < -1:
        reader.refuse(name, str(limit), "; write -1 or a positive number")
    return None if limit == -1 else limit


def _bucket_mode(schema: TableSchema, bucket: int) -> BucketMode:
    if bucket > 0:
        return BucketMode.FIXED
    if not schema.has_primary_key:
        return BucketMode.UNAWARE
    return BucketMode.POSTPONE if bucket == -2 else BucketMode.DYNAMIC


def _data_file_directory(reader: OptionReader) -> str:
    name = "data-file.path-directory"
    text = reader.text(name).rstrip("/")
    # Hidden folders belong to maintenance, and a path upwards leaves the table.
    if text and not all(re.fullmatch(r"[^.\\/][^\\/]*", part) for part in text.split("/")):
        reader.refuse(name, text, " is not a plain path below the table's; write one such as data")
    return text


def _bucket_function(
    reader: OptionReader, schema: TableSchema, keys: tuple[str, ...]
) -> BucketFunction:
    name = "bucket-function.type"
    text = reader.text(name).lower()
    if text != BucketFunction.MOD.value:
        # Other functions are refused where a row's bucket matters.
        return BucketFunction.DEFAULT
    types = [schema.field(key).type for key in keys]
    if any(
        not isinstance(each, AtomicType) or each.root not in (TypeRoot.INT, TypeRoot.BIGINT)
        for each in types
    ):
        reader.refuse(name, text, " needs a bucket key of type INT or BIGINT")
    if len(keys) > 1:
        reader.refuse(name, text, f" needs one bucket key, and there are {', '.join(keys)}")
    return BucketFunction.MOD


def _format_tuning(reader: OptionReader) -> FormatTuning:
    block = reader.optional_size("file.block-size")
    level = reader.integer("file.compression.zstd-level", minimum=1)
    return FormatTuning(
        zstd_level=level,
        parquet_zstd_level=reader.integer(
            "parquet.compression.codec.zstd.level", default=level, minimum=1
        ),
        parquet_row_group_bytes=block or reader.optional_size("parquet.block.size"),
        parquet_page_bytes=reader.optional_size("parquet.page.size"),
        parquet_dictionary=reader.boolean("parquet.enable.dictionary"),
        orc_stripe_bytes=block or reader.optional_size("orc.stripe.size"),
        orc_compress_block_bytes=reader.optional_size("orc.compress.size"),
        orc_row_index_stride=reader.optional_size("orc.row.index.stride"),
        # Without the option no dictionary is written: Arrow compares the share in another way.
        orc_dictionary_threshold=reader.ratio("orc.dictionary.key.threshold", default=0.0),
    )


def _compression(text: str) -> str:
    if text.lower() not in _COMPRESSIONS:
        raise InvalidOption(f"{text!r} is not one of {', '.join(_COMPRESSIONS)}")
    return _COMPRESSIONS[text.lower()]
