"""Options that rule out some uses of a table, each with the reason why.

Names, types and defaults: Paimon, `CoreOptions` and the options of its engines.
"""

from __future__ import annotations

from lakewright.storage.spec.known_options import (
    ALL,
    ROWS,
    UPKEEP,
    WRITES,
    Heading,
    Option,
    Refusal,
    Use,
    options_under,
)
from lakewright.storage.spec.option_values import BOOLEAN, CHOICE, INTEGER, TEXT

FALLBACK_BRANCH = "scan.fallback-branch"
CLUSTERING = "clustering.incremental"
_NO_SNAPSHOTS = Refusal(
    ALL,
    "the table has no snapshots; a format table is opened by `lakewright format-table`, by "
    "statements of `lakewright sql` and by Catalog.format_table",
    unless={"table", "materialized-table"},
)
_BY_QUERY = Refusal({Use.WRITE}, "its query defines its rows", unless={"table"})

REFUSED_OPTIONS = options_under(
    Heading("what kind of table it is"),
    Option("type", CHOICE, "table", refusals=(_NO_SNAPSHOTS, _BY_QUERY), immutable=True),
    Refusal(ALL, "index files in the folders of buckets are not supported"),
    Option("index-file-in-data-file-dir", BOOLEAN, "false", immutable=True),
    Refusal(ALL, "the table would be another branch than the requested one"),
    Option("branch", TEXT, "main"),
    Refusal(ROWS, "only the catalog that checks rights may show rows of this table"),
    Option("query-auth.enabled", BOOLEAN, "false"),
    Refusal(ROWS, "rows lie in a chain of branches that are read together"),
    Option("chain-table.enabled", BOOLEAN, "false"),
    Refusal(ROWS, "keys that are null are merged"),
    Option("primary-key.nullable", BOOLEAN, "false", immutable=True),
    Refusal(ROWS, "ORC files store timestamps with a time zone in another form"),
    Option("orc.timestamp-ltz.legacy.type", BOOLEAN, "true"),
    Refusal(ROWS, "Parquet files store maps in another form"),
    Option("fields.*.map.storage-layout", CHOICE, "default"),
    Refusal(ROWS, "it decides the meaning of rows from versions before 0.5", unless={"auto"}),
    Option("write-mode", CHOICE, "change-log"),
    Refusal({Use.READ}, "readers would have to merge rows in the postponed bucket"),
    Option("postpone.merge-on-read", BOOLEAN, "false"),
    Refusal(
        {Use.READ},
        "reads start at another state than the latest",
        unless={"default", "full", "latest", "latest-full"},
    ),
    Option("scan.mode", CHOICE, "default", older_names=("log.scan",)),
    Refusal({Use.READ}, "reads see another state than the latest"),
    Option("scan.snapshot-id", INTEGER),
    Option("scan.tag-name", TEXT),
    Option("scan.timestamp", TEXT),
    Option("scan.timestamp-millis", INTEGER, older_names=("log.scan.timestamp-millis",)),
    Option("scan.watermark", INTEGER),
    Option("scan.version", TEXT),
    Option("scan.creation-time-millis", INTEGER),
    Option("scan.file-creation-time-millis", INTEGER),
    Refusal({Use.READ}, "reads see changes, not rows"),
    Option("incremental-between", TEXT),
    Option("incremental-between-timestamp", TEXT),
    Option("incremental-to-auto-tag", TEXT),
    Refusal({Use.READ}, "reads see a part of the rows"),
    Option("scan.bucket", INTEGER),
    Option("scan.partitions", TEXT),
    Refusal(
        {Use.READ},
        "only reads of the latest rows in this process take rows of the branch too, and those of "
        "Spark, of keys, of changes and of older states do not",
        done="read in this way",
    ),
    Option(FALLBACK_BRANCH, TEXT),
    Refusal({Use.READ}, "reads see rows of other branches too"),
    Option("scan.primary-branch", TEXT),
    Option("scan.fallback-snapshot-branch", TEXT),
    Option("scan.fallback-delta-branch", TEXT),
    Refusal(WRITES | {Use.EXPIRE}, "new files must lie outside of the table"),
    Option("data-file.external-paths.strategy", CHOICE, "none"),
    Refusal(WRITES, "blobs must lie outside of the table"),
    Option("blob-external-storage-field", TEXT),
    Option("blob-external-storage-path", TEXT),
    Refusal(WRITES, "a padded column orders the rows"),
    Option("sequence.auto-padding", TEXT),
    Refusal(
        WRITES, "each commit after that snapshot must be checked against commits of other users"
    ),
    Option("commit.strict-mode.last-safe-snapshot", INTEGER),
    Refusal({Use.WRITE}, "new rows would have to be merged by columns outside of the key"),
    Option("upsert-key", TEXT),
    Refusal(
        {Use.WRITE},
        "rows must be written to a log system too; by statements of `lakewright sql` and by "
        "declarations, a table gets a log that follows its commits",
    ),
    Option("log.system", TEXT, "none"),
    Refusal({Use.WRITE}, "batches must be written to their buckets at once", unless={"false"}),
    Option("postpone.batch-write-fixed-bucket", BOOLEAN, "true"),
    Refusal({Use.WRITE}, "partitions that are no timestamps must be rejected"),
    Option("partition.timestamp-format.strict", BOOLEAN, "false"),
    Refusal({Use.WRITE, Use.TAG}, "each tag needs a success file"),
    Option("tag.create-success-file", BOOLEAN, "false"),
    Refusal({Use.WRITE, Use.TAG}, "each tag must be reported to a Java class", unless={""}),
    Option("tag.callbacks", TEXT),
    Refusal(
        {Use.COMPACT},
        "compactions must sort files by columns, level by level; in their place "
        "`lakewright sort-compact` sorts whole partitions by the option clustering.columns",
    ),
    Option(CLUSTERING, BOOLEAN, "false"),
    Refusal(UPKEEP, "Iceberg readers need Iceberg metadata for each snapshot"),
    Option("metadata.iceberg-compatible", BOOLEAN, "false"),
    Refusal(WRITES, "each commit of rows must maintain indexes beside them"),
    Option("pk-bitmap.index.columns", TEXT),
    Option("pk-btree.index.columns", TEXT),
    Option("pk-full-text.index.columns", TEXT),
    Option("pk-multivalue.index.columns", TEXT),
    Option("pk-vector.index.columns", TEXT),
)

# Readers read the branch in one of these options together with the table.
OPTIONS_THAT_NAME_BRANCHES = {
    each.name for each in REFUSED_OPTIONS if each.name.endswith("-branch")
}
