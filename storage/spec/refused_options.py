"""Options that stand in the way of some uses of a table, each with the reason why.

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

# A branch that one of them names is read together with the table.
OPTIONS_THAT_NAME_BRANCHES = frozenset(
    {
        "scan.fallback-branch",
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
        Refusal(ALL, "it is no table with snapshots", _TABLES),
        Refusal(frozenset({Use.WRITE}), "its rows are what its query says", frozenset({"table"})),
    ),
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
        "index files in the buckets' folders are not found",
        Option("index-file-in-data-file-dir", Kind.BOOLEAN, "false"),
        unless={"false"},
    ),
    *refused(
        ALL,
        "the table would be another branch than the one asked for",
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
        "rows lie in branches that are read together, as links of a chain",
        Option("chain-table.enabled", Kind.BOOLEAN, "false"),
        unless={"false"},
    ),
    *refused(
        ROWS,
        "rows have ids and their columns may lie in several files",
        Option("row-tracking.enabled", Kind.BOOLEAN, "false"),
        Option("data-evolution.enabled", Kind.BOOLEAN, "false"),
        unless={"false"},
    ),
    *refused(
        ROWS,
        "the snapshot that brought a row decides which one wins",
        Option("sequence.snapshot-ordering", Kind.BOOLEAN, "false"),
        unless={"false"},
    ),
    *refused(
        ROWS,
        "keys that are null are merged",
        Option("primary-key.nullable", Kind.BOOLEAN, "false"),
        unless={"false"},
    ),
    *refused(
        ROWS,
        "files are sorted by other columns than the key",
        Option("pk-clustering-override", Kind.BOOLEAN, "false"),
        unless={"false"},
    ),
    *refused(
        ROWS,
        "timestamps with a time zone lie in ORC files in another form",
        Option("orc.timestamp-ltz.legacy.type", Kind.BOOLEAN, "true"),
        unless={"true"},
    ),
    *refused(
        ROWS,
        "maps lie in Parquet files in another form",
        Option("fields.*.map.storage-layout", Kind.CHOICE, "default"),
        unless={"default"},
    ),
    *refused(
        ROWS,
        "what a row of a version before 0.5 means depends on it",
        Option("write-mode", Kind.CHOICE, "change-log"),
        unless={"auto"},
    ),
    *refused(
        {Use.READ},
        "rows that no compaction has seen are to be merged by readers",
        Option("deletion-vectors.merge-on-read", Kind.BOOLEAN, "false"),
        unless={"false"},
    ),
    *refused(
        {Use.READ},
        "rows in the postponed bucket are to be merged by readers",
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
        "reads see rows of other branches too",
        Option("scan.primary-branch", Kind.TEXT),
        Option("scan.fallback-branch", Kind.TEXT),
        Option("scan.fallback-snapshot-branch", Kind.TEXT),
        Option("scan.fallback-delta-branch", Kind.TEXT),
    ),
    *refused(
        WRITES | {Use.EXPIRE},
        "files belong outside of the table",
        Option("data-file.external-paths.strategy", Kind.CHOICE, "none"),
        unless={"none"},
    ),
    *refused(
        WRITES,
        "blobs belong outside of the table",
        Option("blob-external-storage-field", Kind.TEXT),
        Option("blob-external-storage-path", Kind.TEXT),
    ),
    *refused(
        WRITES,
        "rows are ordered by a number made of a column and padded",
        Option("sequence.auto-padding", Kind.TEXT),
    ),
    *refused(
        WRITES,
        "commits after that snapshot are checked against those of other users",
        Option("commit.strict-mode.last-safe-snapshot", Kind.INTEGER),
    ),
    *refused(
        {Use.WRITE},
        "rows written are to be merged by columns that are no key",
        Option("upsert-key", Kind.TEXT),
    ),
    *refused(
        {Use.WRITE},
        "rows belong into a log system too",
        Option("log.system", Kind.TEXT, "none"),
        unless={"none"},
    ),
    *refused(
        {Use.WRITE},
        "batches belong into buckets at once",
        Option("postpone.batch-write-fixed-bucket", Kind.BOOLEAN, "true"),
        unless={"false"},
    ),
    *refused(
        {Use.WRITE},
        "partitions that are no times are to be rejected",
        Option("partition.timestamp-format.strict", Kind.BOOLEAN, "false"),
        unless={"false"},
    ),
    *refused(
        {Use.WRITE, Use.TAG},
        "each tag has a file that says it is complete",
        Option("tag.create-success-file", Kind.BOOLEAN, "false"),
        unless={"false"},
    ),
    *refused(
        {Use.WRITE, Use.TAG},
        "each tag is told to a class of Java",
        Option("tag.callbacks", Kind.TEXT),
        unless={""},
    ),
    *refused(
        {Use.COMPACT},
        "compactions drop rows that are too old",
        Option("record-level.expire-time", Kind.DURATION),
    ),
    *refused(
        {Use.COMPACT},
        "compactions sort files by columns, level by level",
        Option("clustering.incremental", Kind.BOOLEAN, "false"),
        unless={"false"},
    ),
    *refused(
        UPKEEP,
        "Iceberg readers need metadata of each snapshot, which names its files",
        Option("metadata.iceberg.storage", Kind.CHOICE, "disabled"),
        unless={"disabled"},
    ),
    *refused(
        UPKEEP,
        "Iceberg readers need metadata of each snapshot, which names its files",
        Option("metadata.iceberg-compatible", Kind.BOOLEAN, "false"),
        unless={"false"},
    ),
    *refused(
        UPKEEP,
        "indexes on the primary key belong to each compaction and snapshot",
        Option("pk-bitmap.index.columns", Kind.TEXT),
        Option("pk-btree.index.columns", Kind.TEXT),
        Option("pk-full-text.index.columns", Kind.TEXT),
        Option("pk-multivalue.index.columns", Kind.TEXT),
        Option("pk-vector.index.columns", Kind.TEXT),
    ),
)
