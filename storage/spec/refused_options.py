"""Options that rule out some uses of a table, each with the reason why.

Names, types and defaults: Paimon, `CoreOptions` and the options of its engines.
"""

from __future__ import annotations

from lakewright.storage.spec.known_options import (
    ALL,
    ROWS,
    UPKEEP,
    WRITES,
    Kind,
    Option,
    Refusal,
    Use,
    refused,
)

FALLBACK_BRANCH = "scan.fallback-branch"
# Readers read the branch in one of these options together with the table.
OPTIONS_THAT_NAME_BRANCHES = frozenset(
    {
        FALLBACK_BRANCH,
        "scan.primary-branch",
        "scan.fallback-snapshot-branch",
        "scan.fallback-delta-branch",
    }
)
_TABLES = frozenset({"table", "materialized-table"})
_TYPE = Option(
    "type",
    Kind.CHOICE,
    "table",
    meaning="what kind of table it is",
    refusals=(
        Refusal(
            ALL,
            "the table has no snapshots; a format table is opened by `lakewright format-table`, "
            "by statements of `lakewright sql` and by Catalog.format_table",
            _TABLES,
        ),
        Refusal(frozenset({Use.WRITE}), "its query defines its rows", frozenset({"table"})),
    ),
    immutable=True,
)

REFUSED_OPTIONS: tuple[Option, ...] = (
    _TYPE,
    *refused(
        ALL,
        "manifests of another format are not read",
        Option("manifest.format", Kind.CHOICE, "avro"),
        unless={"avro"},
    ),
    *refused(
        ALL,
        "index files in the folders of buckets are not supported",
        Option("index-file-in-data-file-dir", Kind.BOOLEAN, "false", immutable=True),
        unless={"false"},
    ),
    *refused(
        ALL,
        "the table would be another branch than the requested one",
        Option("branch", Kind.TEXT, "main"),
        unless={"main"},
    ),
    *refused(
        ROWS,
        "only the catalog that checks rights may show rows of this table",
        Option("query-auth.enabled", Kind.BOOLEAN, "false"),
        unless={"false"},
    ),
    *refused(
        ROWS,
        "rows lie in a chain of branches that are read together",
        Option("chain-table.enabled", Kind.BOOLEAN, "false"),
        unless={"false"},
    ),
    *refused(
        ROWS,
        "rows have ids and their columns may lie in several files",
        Option("row-tracking.enabled", Kind.BOOLEAN, "false", immutable=True),
        Option("data-evolution.enabled", Kind.BOOLEAN, "false", immutable=True),
        unless={"false"},
    ),
    *refused(
        ROWS,
        "the snapshot that added a row decides which row wins",
        Option("sequence.snapshot-ordering", Kind.BOOLEAN, "false", immutable=True),
        unless={"false"},
    ),
    *refused(
        ROWS,
        "keys that are null are merged",
        Option("primary-key.nullable", Kind.BOOLEAN, "false", immutable=True),
        unless={"false"},
    ),
    *refused(
        ROWS,
        "files are sorted by other columns than the key",
        Option("pk-clustering-override", Kind.BOOLEAN, "false", immutable=True),
        unless={"false"},
    ),
    *refused(
        ROWS,
        "ORC files store timestamps with a time zone in another form",
        Option("orc.timestamp-ltz.legacy.type", Kind.BOOLEAN, "true"),
        unless={"true"},
    ),
    *refused(
        ROWS,
        "Parquet files store maps in another form",
        Option("fields.*.map.storage-layout", Kind.CHOICE, "default"),
        unless={"default"},
    ),
    *refused(
        ROWS,
        "it decides the meaning of rows from versions before 0.5",
        Option("write-mode", Kind.CHOICE, "change-log"),
        unless={"auto"},
    ),
    *refused(
        {Use.READ},
        "readers would have to merge rows that no compaction has merged",
        Option("deletion-vectors.merge-on-read", Kind.BOOLEAN, "false"),
        unless={"false"},
    ),
    *refused(
        {Use.READ},
        "readers would have to merge rows in the postponed bucket",
        Option("postpone.merge-on-read", Kind.BOOLEAN, "false"),
        unless={"false"},
    ),
    *refused(
        {Use.READ},
        "Paimon before 1.3 reads this value where null is stored, and later releases read null; "
        "remove the option to read what is stored",
        Option("fields.*.default-value", Kind.TEXT),
    ),
    *refused(
        {Use.READ},
        "reads start at another state than the latest",
        Option("scan.mode", Kind.CHOICE, "default", older_names=("log.scan",)),
        unless={"default", "full", "latest", "latest-full"},
    ),
    *refused(
        {Use.READ},
        "reads see another state than the latest",
        Option("scan.snapshot-id", Kind.INTEGER),
        Option("scan.tag-name", Kind.TEXT),
        Option("scan.timestamp", Kind.TEXT),
        Option("scan.timestamp-millis", Kind.INTEGER, older_names=("log.scan.timestamp-millis",)),
        Option("scan.watermark", Kind.INTEGER),
        Option("scan.version", Kind.TEXT),
        Option("scan.creation-time-millis", Kind.INTEGER),
        Option("scan.file-creation-time-millis", Kind.INTEGER),
    ),
    *refused(
        {Use.READ},
        "reads see changes, not rows",
        Option("incremental-between", Kind.TEXT),
        Option("incremental-between-timestamp", Kind.TEXT),
        Option("incremental-to-auto-tag", Kind.TEXT),
    ),
    *refused(
        {Use.READ},
        "reads see a part of the rows",
        Option("scan.bucket", Kind.INTEGER),
        Option("scan.partitions", Kind.TEXT),
    ),
    *refused(
        {Use.READ},
        "only reads of the latest rows in this process take rows of the branch too, and those of "
        "Spark, of keys, of changes and of older states do not",
        Option(FALLBACK_BRANCH, Kind.TEXT),
        done="read in this way",
    ),
    *refused(
        {Use.READ},
        "reads see rows of other branches too",
        Option("scan.primary-branch", Kind.TEXT),
        Option("scan.fallback-snapshot-branch", Kind.TEXT),
        Option("scan.fallback-delta-branch", Kind.TEXT),
    ),
    *refused(
        WRITES | {Use.EXPIRE},
        "new files must lie outside of the table",
        Option("data-file.external-paths.strategy", Kind.CHOICE, "none"),
        unless={"none"},
    ),
    *refused(
        WRITES,
        "blobs must lie outside of the table",
        Option("blob-external-storage-field", Kind.TEXT),
        Option("blob-external-storage-path", Kind.TEXT),
    ),
    *refused(
        WRITES,
        "a padded column orders the rows",
        Option("sequence.auto-padding", Kind.TEXT),
    ),
    *refused(
        WRITES,
        "each commit after that snapshot must be checked against commits of other users",
        Option("commit.strict-mode.last-safe-snapshot", Kind.INTEGER),
    ),
    *refused(
        {Use.WRITE},
        "new rows would have to be merged by columns outside of the key",
        Option("upsert-key", Kind.TEXT),
    ),
    *refused(
        {Use.WRITE},
        "rows must be written to a log system too; by statements of `lakewright sql` and by "
        "declarations, a table gets a log that follows its commits",
        Option("log.system", Kind.TEXT, "none"),
        unless={"none"},
    ),
    *refused(
        {Use.WRITE},
        "batches must be written to their buckets at once",
        Option("postpone.batch-write-fixed-bucket", Kind.BOOLEAN, "true"),
        unless={"false"},
    ),
    *refused(
        {Use.WRITE},
        "partitions that are no timestamps must be rejected",
        Option("partition.timestamp-format.strict", Kind.BOOLEAN, "false"),
        unless={"false"},
    ),
    *refused(
        {Use.WRITE, Use.TAG},
        "each tag needs a success file",
        Option("tag.create-success-file", Kind.BOOLEAN, "false"),
        unless={"false"},
    ),
    *refused(
        {Use.WRITE, Use.TAG},
        "each tag must be reported to a Java class",
        Option("tag.callbacks", Kind.TEXT),
        unless={""},
    ),
    *refused(
        {Use.COMPACT},
        "compactions must drop expired rows",
        Option("record-level.expire-time", Kind.DURATION),
    ),
    *refused(
        {Use.COMPACT},
        "compactions must sort files by columns, level by level",
        Option("clustering.incremental", Kind.BOOLEAN, "false"),
        unless={"false"},
    ),
    *refused(
        UPKEEP,
        "Iceberg readers need Iceberg metadata for each snapshot",
        Option("metadata.iceberg.storage", Kind.CHOICE, "disabled"),
        unless={"disabled"},
    ),
    *refused(
        UPKEEP,
        "Iceberg readers need Iceberg metadata for each snapshot",
        Option("metadata.iceberg-compatible", Kind.BOOLEAN, "false"),
        unless={"false"},
    ),
    *refused(
        UPKEEP,
        "each compaction and snapshot must maintain indexes on the primary key",
        Option("pk-bitmap.index.columns", Kind.TEXT),
        Option("pk-btree.index.columns", Kind.TEXT),
        Option("pk-full-text.index.columns", Kind.TEXT),
        Option("pk-multivalue.index.columns", Kind.TEXT),
        Option("pk-vector.index.columns", Kind.TEXT),
    ),
)
