"""Table options as values. Names and defaults: Paimon, `CoreOptions`."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache

from lakewright.storage.errors import InvalidOption
from lakewright.storage.spec.data_types import DataField, TypeRoot
from lakewright.storage.spec.file_format import (
    AVRO,
    COMPRESSIONS,
    COUNTED,
    ORC,
    PARQUET,
    FileEncoding,
    FormatTuning,
    file_encoding,
)
from lakewright.storage.spec.known_options import (
    ROWS,
    UPKEEP,
    WRITES,
    Heading,
    Option,
    Refusal,
    Use,
    optional,
    options_under,
)
from lakewright.storage.spec.merge_option_rows import MERGE_OPTIONS
from lakewright.storage.spec.option_reader import OptionReader
from lakewright.storage.spec.option_values import (
    BOOLEAN,
    CHOICE,
    DURATION,
    DURATION_OR_ZERO,
    FILE_NAME,
    INTEGER,
    LOWER_TEXT,
    MAP,
    MIB,
    NAME_PREFIX,
    NAMES,
    NUMBER,
    SIZE,
    STATS_MODE,
    TEXT,
    TEXT_OR_NONE,
    choice,
    integer,
    per_level,
    wrong_value,
)
from lakewright.storage.spec.partition_expiry import PartitionExpiry
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


def _limit_of_buckets(text: str) -> int | None:
    # The format writes -1 for no limit.
    limit = INTEGER.parse(text)
    if limit == 0 or limit < -1:
        raise wrong_value(text, "; write -1 or a positive number")
    return None if limit == -1 else limit


def _directory(given: str) -> str:
    text = given.rstrip("/")
    # Hidden folders belong to maintenance, and a path upwards leaves the table.
    if text and not all(re.fullmatch(r"[^.\\/][^\\/]*", part) for part in text.split("/")):
        raise wrong_value(text, " is not a plain path below the table's; write one such as data")
    return text


_COMPRESSIONS = {name: name for names in COMPRESSIONS.values() for name in names}
_COMPRESSION = choice(_COMPRESSIONS)
_MANIFEST_COMPRESSION = choice(
    {"zstd": "zstandard", "none": "null", "null": "null", "deflate": "deflate"}
)
_MANIFEST_FORMAT = choice({name: name for name in (AVRO, ORC, PARQUET)})
# Other functions are refused where a row's bucket matters.
_FUNCTION = CHOICE.parsed_by(
    lambda text: BucketFunction.MOD if text.lower() == "mod" else BucketFunction.DEFAULT
)
_HOURS_OF_PERIODS = {"daily": 24, "hourly": 1, "two-hours": 2}
# The formats of tags of a day and of an hour.
_TAG_FORMATS = {
    "with_dashes": ("%Y-%m-%d", "%Y-%m-%d %H"),
    "without_dashes": ("%Y%m%d", "%Y%m%d %H"),
    "without_dashes_and_spaces": ("%Y%m%d", "%Y%m%d%H"),
}
_COLUMN_STATS_MODE = re.compile(r"fields\.(.+)\.stats-mode")
_WRITABLE = Refusal(WRITES, "files of this format are not written", COMPRESSIONS)
_STAMPED = Refusal({Use.WRITE}, "new files must bear the number of their snapshot", {"false"})
_CLUSTERED = Refusal(
    WRITES, "compactions must sort by other columns than the key and mark older rows", {"false"}
)
_HASHED = Refusal(ROWS, "another function assigns rows to buckets", ("default", "mod"))
# Values of the options about Iceberg metadata.
NOT_PUBLISHED, IN_CATALOG = "disabled", "catalog-location"
_CATALOGS = Refusal(
    UPKEEP,
    "an Iceberg catalog must know each snapshot; publish for one of files, and register that there",
    (NOT_PUBLISHED, "table-location", "hadoop-catalog"),
)
_VERSION_2 = Refusal(UPKEEP, "Iceberg metadata has another format version", ("2",))


class TableOptions:
    """The options that are obeyed, each with its row; an instance has the values of a table."""

    _altering = options_under(
        Heading("how the schema may be altered"),
        Option("add-column-before-partition", BOOLEAN, "false"),
        Option("alter-column-null-to-not-null.disabled", BOOLEAN, "true"),
        Option("disable-explicit-type-casting", BOOLEAN, "false"),
    )
    _buckets = Heading("the number of buckets, and the columns that assign rows to them")
    # Schemas before version 2 were written when one bucket was the default.
    bucket = Option(
        "bucket", INTEGER, "-1", unset=lambda read: 1 if read.schema.version < 2 else -1
    )
    _bucket_key = Option("bucket-key", NAMES, immutable=True)
    dynamic_bucket_target_row_num = Option(
        "dynamic-bucket.target-row-num", integer(1, bits=64), "2000000"
    )
    dynamic_bucket_initial_buckets = Option(
        "dynamic-bucket.initial-buckets", integer(1), "1", immutable=True
    )
    dynamic_bucket_max_buckets = Option(
        "dynamic-bucket.max-buckets", INTEGER.parsed_by(_limit_of_buckets), "-1"
    )
    postpone_default_bucket_num = optional(Option("postpone.default-bucket-num", integer(1)))
    postpone_target_row_num_per_bucket = optional(
        Option("postpone.target-row-num-per-bucket", integer(1, bits=64))
    )
    postpone_target_size_per_bucket = Option("postpone.target-size-per-bucket", SIZE, "1 gb")

    _function = Heading("the function that assigns rows to buckets")
    bucket_function = Option(
        "bucket-function.type", _FUNCTION, "default", refusals=(_HASHED,), immutable=True
    )

    _merging = MERGE_OPTIONS

    _record_expiry = Heading("which rows of a primary-key table its compactions drop by their time")
    record_level_expire_ms = optional(Option("record-level.expire-time", DURATION))
    record_level_time_field = optional(Option("record-level.time-field", TEXT))

    _order = Heading("which row of a key is the latest, and how rows lie in files")
    snapshot_ordering = Option(
        "sequence.snapshot-ordering", BOOLEAN, "false", refusals=(_STAMPED,), immutable=True
    )
    pk_clustering_override = Option(
        "pk-clustering-override", BOOLEAN, "false", refusals=(_CLUSTERED,), immutable=True
    )

    _deletions = Heading("deletion vectors, and whether rows are looked up for them")
    deletion_vectors_enabled = Option("deletion-vectors.enabled", BOOLEAN, "false")
    deletion_vectors_merge_on_read = Option("deletion-vectors.merge-on-read", BOOLEAN, "false")
    deletion_vectors_bitmap64 = Option("deletion-vectors.bitmap64", BOOLEAN, "false")
    _vector_changes = options_under(
        _deletions, Option("deletion-vectors.modifiable", BOOLEAN, "false")
    )
    force_lookup = Option("force-lookup", BOOLEAN, "false", immutable=True)

    _tracking = Heading("whether each row has an id, and the snapshot that wrote it last")
    row_tracking_enabled = Option("row-tracking.enabled", BOOLEAN, "false", immutable=True)
    data_evolution_enabled = Option("data-evolution.enabled", BOOLEAN, "false", immutable=True)

    _formats = Heading("the format of new files")
    # Schemas before version 3 were written when ORC was the default.
    file_format = Option(
        "file.format",
        LOWER_TEXT,
        "parquet",
        refusals=(_WRITABLE,),
        unset=lambda read: ORC if read.schema.version < 3 else PARQUET,
    )
    changelog_file_format = optional(
        Option("changelog-file.format", LOWER_TEXT, refusals=(_WRITABLE,))
    )

    _files = Heading("sizes, compression, names and folders of data files")
    target_file_size = Option(
        "target-file-size",
        SIZE,
        unset=lambda read: 128 * MIB if read.schema.is_keyed else 256 * MIB,
    )
    file_format_per_level = Option("file.format.per.level", MAP)
    file_compression = Option("file.compression", _COMPRESSION, "zstd")
    file_compression_per_level = Option("file.compression.per.level", per_level(_COMPRESSIONS))
    _zstd_level = Option("file.compression.zstd-level", integer(1), "1")
    _block_size = optional(Option("file.block-size", SIZE))
    file_suffix_has_compression = Option("file.suffix.include.compression", BOOLEAN, "false")
    # The folder of the buckets below the table's folder; empty for the table's folder itself.
    data_file_directory = Option(
        "data-file.path-directory", TEXT.parsed_by(_directory), immutable=True
    )
    data_file_prefix = Option("data-file.prefix", NAME_PREFIX, "data-")
    # If whole rows are keys, copies of the keys would double the files.
    data_file_thin_mode = Option(
        "data-file.thin-mode", BOOLEAN, "false", unset=lambda read: read.schema.counts_rows
    )
    _num_levels = optional(Option("num-levels", integer(2)))

    _parquet = Heading("how Parquet files are written")
    _parquet_zstd_level = optional(Option("parquet.compression.codec.zstd.level", integer(1)))
    _parquet_block_size = optional(Option("parquet.block.size", SIZE))
    _parquet_page_size = optional(Option("parquet.page.size", SIZE))
    _parquet_dictionary = Option("parquet.enable.dictionary", BOOLEAN, "true")

    _orc = Heading("how ORC files are written")
    _orc_stripe_size = optional(Option("orc.stripe.size", SIZE))
    _orc_compress_size = optional(Option("orc.compress.size", SIZE))
    _orc_row_index_stride = optional(Option("orc.row.index.stride", integer(1)))
    # Without the option no dictionary is written: Arrow compares the share in another way.
    _orc_dictionary = Option("orc.dictionary.key.threshold", NUMBER, "0.8", unset=lambda _: 0.0)

    _outside = Heading("where files outside of the table may be read")
    # URIs below which data files outside of the table may lie.
    external_paths = Option("data-file.external-paths", NAMES)

    _partitions = Heading("the names of partitions' folders")
    partition_default_name = Option("partition.default-name", FILE_NAME, "__DEFAULT_PARTITION__")
    partition_legacy_name = Option("partition.legacy-name", BOOLEAN, "true")

    _expiry = options_under(*vars(PartitionExpiry).values())

    _statistics = Heading("which statistics stand in the metadata")
    stats_mode = Option("metadata.stats-mode", STATS_MODE, "truncate(16)")
    _other_statistics = options_under(
        _statistics,
        Option("metadata.stats-dense-store", BOOLEAN, "true"),
        Option("fields.*.stats-mode", STATS_MODE),
    )

    _manifests = Heading("how manifests are written, merged and read")
    manifest_target_file_size = Option("manifest.target-file-size", SIZE, "8 mb")
    manifest_merge_min_count = Option("manifest.merge-min-count", integer(2), "30")
    manifest_full_compaction_threshold = Option(
        "manifest.full-compaction-threshold-size", SIZE, "16 mb"
    )
    manifest_format = Option("manifest.format", _MANIFEST_FORMAT, AVRO, immutable=True)
    manifest_compression = Option("manifest.compression", _MANIFEST_COMPRESSION, "zstd")

    _sorting = Heading("by which columns `lakewright sort-compact` sorts")
    clustering_columns = Option(
        "clustering.columns", NAMES, older_names=("sink.clustering.by-columns",)
    )

    _compactions = Heading("which files a compaction picks, and when")
    write_only = Option("write-only", BOOLEAN, "false", older_names=("write.compaction-skip",))
    # The format's default is that of splits to read. Compactions of so few files would write
    # files that are small again.
    compaction_open_file_cost = Option(
        "source.split.open-file-cost", SIZE, "4 mb", unset=lambda _: 0
    )
    compaction_min_file_num = Option("compaction.min.file-num", integer(2), "5")
    compaction_small_file_ratio = Option("compaction.small-file-ratio", NUMBER, "0.7")
    compaction_delete_ratio = Option("compaction.delete-ratio-threshold", NUMBER, "0.2")
    compaction_max_size_amplification_percent = Option(
        "compaction.max-size-amplification-percent", integer(0), "200"
    )
    compaction_size_ratio = Option("compaction.size-ratio", integer(0), "1")
    compaction_force_up_level0 = Option("compaction.force-up-level-0", BOOLEAN, "false")
    compaction_force_rewrite_all_files = Option(
        "compaction.force-rewrite-all-files", BOOLEAN, "false"
    )
    compaction_off_peak_start_hour = Option("compaction.offpeak.start.hour", INTEGER, "-1")
    compaction_off_peak_end_hour = Option("compaction.offpeak.end.hour", INTEGER, "-1")
    compaction_off_peak_ratio = Option("compaction.offpeak-ratio", integer(0), "0")
    compaction_optimization_interval_ms = optional(
        Option("compaction.optimization-interval", DURATION)
    )
    compaction_total_size_threshold = optional(Option("compaction.total-size-threshold", SIZE))
    compaction_incremental_size_threshold = optional(
        Option("compaction.incremental-size-threshold", SIZE)
    )
    num_sorted_run_compaction_trigger = Option("num-sorted-run.compaction-trigger", integer(1), "5")
    _stop_trigger = optional(Option("num-sorted-run.stop-trigger", INTEGER))

    _changelogs = Heading("which changes are recorded for streaming readers")
    changelog_producer = Option(
        "changelog-producer", choice({each.value: each for each in ChangelogProducer}), "none"
    )
    changelog_row_deduplicate = Option("changelog-producer.row-deduplicate", BOOLEAN, "false")
    changelog_row_deduplicate_ignore_fields = Option(
        "changelog-producer.row-deduplicate-ignore-fields", NAMES
    )
    changelog_file_compression = optional(Option("changelog-file.compression", _COMPRESSION))
    changelog_file_prefix = Option("changelog-file.prefix", NAME_PREFIX, "changelog-")

    _overwrites = Heading("whether streams report overwrites")
    streaming_read_overwrite = Option("streaming-read-overwrite", BOOLEAN, "false")
    streaming_read_append_overwrite = Option("streaming-read-append-overwrite", BOOLEAN, "false")

    _retention = Heading("how long snapshots, changelogs and consumers stay")
    snapshot_num_retained_min = Option("snapshot.num-retained.min", integer(1), "10")
    snapshot_num_retained_max = Option("snapshot.num-retained.max", integer(1), "2147483647")
    snapshot_time_retained_ms = Option("snapshot.time-retained", DURATION_OR_ZERO, "1 h")
    snapshot_expire_limit = Option("snapshot.expire.limit", integer(1), "50")
    snapshot_clean_empty_directories = Option(
        "snapshot.clean-empty-directories",
        BOOLEAN,
        "false",
        older_names=("snapshot.expire.clean-empty-directories",),
    )
    changelog_num_retained_min = Option(
        "changelog.num-retained.min", integer(1), unset=lambda read: read.snapshot_num_retained_min
    )
    changelog_num_retained_max = Option(
        "changelog.num-retained.max", integer(1), unset=lambda read: read.snapshot_num_retained_max
    )
    changelog_time_retained_ms = Option(
        "changelog.time-retained",
        DURATION_OR_ZERO,
        unset=lambda read: read.snapshot_time_retained_ms,
    )
    consumer_expiration_ms = optional(Option("consumer.expiration-time", DURATION))
    consumer_changelog_only = Option("consumer.changelog-only", BOOLEAN, "false")

    _tags = Heading("tags that are created and deleted automatically")
    tag_automatic_creation = Option(
        "tag.automatic-creation", choice({each.value: each for each in TagCreation}), "none"
    )
    _tag_hours = Option("tag.creation-period", choice(_HOURS_OF_PERIODS), "daily")
    _tag_exact_period_ms = optional(Option("tag.creation-period-duration", DURATION))
    tag_creation_delay_ms = Option("tag.creation-delay", DURATION_OR_ZERO, "0 ms")
    _tag_format = Option("tag.period-formatter", choice(_TAG_FORMATS), "with_dashes")
    tag_automatic_completion = Option("tag.automatic-completion", BOOLEAN, "false")
    tag_batch_name = Option("tag.batch.customized-name", TEXT_OR_NONE)
    tag_num_retained_max = optional(Option("tag.num-retained-max", integer(1)))
    tag_default_time_retained_ms = optional(Option("tag.default-time-retained", DURATION))
    _tag_expiry = options_under(_tags, Option("tag.time-expire-enabled", BOOLEAN, "true"))
    # None: the time zone of the machine.
    process_time_zone = Option("sink.process-time-zone", TEXT_OR_NONE)
    watermark_time_zone = Option("sink.watermark-time-zone", TEXT, "UTC")

    _iceberg = Heading("Iceberg metadata: whether commits publish it, where, and what is kept")
    iceberg_storage = Option(
        "metadata.iceberg.storage", LOWER_TEXT, NOT_PUBLISHED, refusals=(_CATALOGS,)
    )
    iceberg_location = Option(
        "metadata.iceberg.storage-location",
        choice({each: each for each in ("table-location", IN_CATALOG)}),
        unset=lambda _: "",
    )
    _iceberg_version = options_under(
        _iceberg, Option("metadata.iceberg.format-version", TEXT, "2", refusals=(_VERSION_2,))
    )
    iceberg_deletes = Option("metadata.iceberg.delete-after-commit.enabled", BOOLEAN, "true")
    iceberg_former_versions = Option("metadata.iceberg.previous-versions-max", integer(0), "0")

    _commits = Heading("retries of commits, and the scope of overwrites")
    # None: the committer's own limits of retries and time apply.
    commit_max_retries = optional(Option("commit.max-retries", integer(0), "10"))
    dynamic_partition_overwrite = Option("dynamic-partition-overwrite", BOOLEAN, "true")

    def __init__(self, schema: TableSchema, table: str, *, bare_numbers: bool) -> None:
        reader = OptionReader(schema.options, table, bare_numbers=bare_numbers)
        reader.read_into(self, schema)
        self.counts_rows = schema.counts_rows
        self.bucket_keys = self._bucket_key
        if not self.bucket_keys and (
            self.bucket > 0 or (self.bucket == POSTPONE_BUCKET and schema.has_primary_key)
        ):
            self.bucket_keys = schema.key_names
        for key in self.bucket_keys:
            if key not in schema.field_names:
                problem = f"bucket-key names {key!r}, which is not a column"
                raise InvalidOption(f"{table}: {problem}", option="bucket-key")
        self._check_function(schema, table)
        self.bucket_mode = _bucket_mode(schema, self.bucket)
        self.column_stats_modes = _column_stats_modes(reader, schema)
        trigger, stop = self.num_sorted_run_compaction_trigger, self._stop_trigger
        self.num_sorted_run_stop_trigger = max(trigger, trigger + 3 if stop is None else stop)
        self.num_levels = trigger + 1 if self._num_levels is None else self._num_levels
        self.tag_period = self._period()
        if self.tag_creation_delay_ms >= self.tag_period.duration // dt.timedelta(milliseconds=1):
            raise InvalidOption(
                f"{table}: tag.creation-delay of {self.tag_creation_delay_ms} ms is not shorter "
                f"than the period of tags, {self.tag_period.duration}",
                option="tag.creation-delay",
            )
        self.format_tuning = FormatTuning(
            zstd_level=self._zstd_level,
            parquet_zstd_level=self._parquet_zstd_level or self._zstd_level,
            parquet_row_group_bytes=self._block_size or self._parquet_block_size,
            parquet_page_bytes=self._parquet_page_size,
            parquet_dictionary=self._parquet_dictionary,
            orc_stripe_bytes=self._block_size or self._orc_stripe_size,
            orc_compress_block_bytes=self._orc_compress_size,
            orc_row_index_stride=self._orc_row_index_stride,
            orc_dictionary_threshold=self._orc_dictionary,
        )

    def _check_function(self, schema: TableSchema, table: str) -> None:
        if self.bucket_function is BucketFunction.DEFAULT:
            return
        keys, problem = self.bucket_keys, ""
        roots = {getattr(schema.field(key).type, "root", None) for key in keys}
        if not roots <= {TypeRoot.INT, TypeRoot.BIGINT}:
            problem = "needs a bucket key of type INT or BIGINT"
        elif len(keys) > 1:
            problem = f"needs one bucket key, and there are {', '.join(keys)}"
        if problem:
            option = TableOptions.bucket_function.name
            raise InvalidOption(f"{table}: {option}=mod {problem}", option=option)

    def _period(self) -> TagPeriod:
        """The period of automatic tags, and the format of their names."""
        if self._tag_exact_period_ms is not None:
            return TagPeriod(dt.timedelta(milliseconds=self._tag_exact_period_ms), "%Y%m%d%H%M")
        day, hour = self._tag_format
        pattern = {24: day, 1: hour, 2: "%Y-%m-%d %H"}[self._tag_hours]
        return TagPeriod(dt.timedelta(hours=self._tag_hours), pattern)

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


def read_options(
    schema: TableSchema, *, table: str = "the table", bare_numbers: bool = True
) -> TableOptions:
    """The schema's options as values, with defaults.

    Raises:
        InvalidOption: a value is invalid; the message names option and value.
    """
    named = tuple(sorted(schema.options.items()))
    parts = (schema.fields, schema.partition_keys, schema.primary_keys)
    return _read_options(named, *parts, table=table, bare_numbers=bare_numbers)


# A verb reads the options of one schema several times.
@lru_cache(maxsize=128)
def _read_options(
    named: tuple[tuple[str, str], ...],
    fields: tuple[DataField, ...],
    partition_keys: tuple[str, ...],
    primary_keys: tuple[str, ...],
    *,
    table: str,
    bare_numbers: bool,
) -> TableOptions:
    schema = TableSchema(
        id=0,
        fields=fields,
        highest_field_id=0,
        partition_keys=partition_keys,
        primary_keys=primary_keys,
        options=dict(named),
    )
    return TableOptions(schema, table, bare_numbers=bare_numbers)


HONOURED_OPTIONS = options_under(*vars(TableOptions).values())


def _bucket_mode(schema: TableSchema, bucket: int) -> BucketMode:
    if bucket > 0:
        return BucketMode.FIXED
    if not schema.has_primary_key:
        return BucketMode.UNAWARE
    return BucketMode.POSTPONE if bucket == POSTPONE_BUCKET else BucketMode.DYNAMIC


def _column_stats_modes(reader: OptionReader, schema: TableSchema) -> dict[str, str]:
    modes = {}
    for name, text in reader.options.items():
        match = _COLUMN_STATS_MODE.fullmatch(name)
        if match is None:
            continue
        if match[1] not in schema.field_names:
            problem = wrong_value(text, " names a column that the table does not have").message
            raise InvalidOption(f"{reader.table}: {name}{problem}", option=name)
        modes[match[1]] = reader.parsed(name, STATS_MODE, text)
    return modes


def trimmed(options: Mapping[str, str]) -> dict[str, str]:
    """Options without surrounding blanks; an older name sets the newer one too."""
    given = {name.strip(): str(value).strip() for name, value in options.items()}
    for option in HONOURED_OPTIONS:
        for older in option.older_names:
            if older in given:
                given.setdefault(option.name, given[older])
    return given
