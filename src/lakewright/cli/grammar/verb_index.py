"""The commands of verbs, without their modules; written by tools/write_verb_index.py."""

from __future__ import annotations

from typing import NamedTuple


class IndexedVerb(NamedTuple):
    """What help says of a verb, and where it is defined."""

    purpose: str
    summary: str
    module: str
    constant: str


VERB_INDEX = {
    "compact": IndexedVerb(
        "Upkeep",
        "merge small files into fewer, larger ones",
        "lakewright.platform.upkeep.compact",
        "COMPACT",
    ),
    "sort-compact": IndexedVerb(
        "Upkeep",
        "sort rows, so that filters skip files",
        "lakewright.platform.upkeep.sort_compact",
        "SORT_COMPACT",
    ),
    "expire-snapshots": IndexedVerb(
        "Upkeep",
        "delete old snapshots, and the files that only they need",
        "lakewright.platform.upkeep.expire",
        "EXPIRE_SNAPSHOTS",
    ),
    "expire-partitions": IndexedVerb(
        "Partitions",
        "drop the partitions that are past their time",
        "lakewright.platform.upkeep.expire_partitions",
        "EXPIRE_PARTITIONS",
    ),
    "rewrite-manifests": IndexedVerb(
        "Upkeep",
        "merge manifests, so that plans of reads open fewer",
        "lakewright.platform.upkeep.rewrite_manifests",
        "REWRITE_MANIFESTS",
    ),
    "publish-iceberg": IndexedVerb(
        "Upkeep",
        "bring Iceberg metadata up to the table's snapshots",
        "lakewright.platform.upkeep.publish_iceberg",
        "PUBLISH_ICEBERG",
    ),
    "remove-orphans": IndexedVerb(
        "Upkeep",
        "condemn unreferenced files, to be deleted after a while",
        "lakewright.platform.upkeep.clean",
        "REMOVE_ORPHANS",
    ),
    "analyze": IndexedVerb(
        "Upkeep",
        "compute and publish statistics of columns",
        "lakewright.platform.upkeep.analyze",
        "ANALYZE",
    ),
    "respec": IndexedVerb(
        "Upkeep",
        "change the partition keys of a live table",
        "lakewright.platform.upkeep.respec",
        "RESPEC",
    ),
    "settle": IndexedVerb(
        "Upkeep",
        "bring files into the folders of changed partition keys",
        "lakewright.platform.upkeep.settle",
        "SETTLE",
    ),
    "add-primary-key": IndexedVerb(
        "Upkeep",
        "give a table without a primary key one",
        "lakewright.platform.upkeep.add_primary_key",
        "ADD_PRIMARY_KEY",
    ),
    "rescale": IndexedVerb(
        "Upkeep",
        "change the number of buckets",
        "lakewright.platform.upkeep.rescale",
        "RESCALE",
    ),
    "postpone-compact": IndexedVerb(
        "Upkeep",
        "assign postponed rows to buckets",
        "lakewright.platform.upkeep.postpone_compact",
        "POSTPONE_COMPACT",
    ),
    "revert": IndexedVerb(
        "References",
        "take back what snapshots did; later ones stay",
        "lakewright.platform.upkeep.revert",
        "REVERT",
    ),
    "rollback": IndexedVerb(
        "References",
        "return to an earlier snapshot; later ones are deleted",
        "lakewright.platform.upkeep.history",
        "ROLLBACK",
    ),
    "expire-consumers": IndexedVerb(
        "References",
        "forget readers of changes that have not moved for long",
        "lakewright.platform.upkeep.expire_consumers",
        "EXPIRE_CONSUMERS",
    ),
    "add-partitions": IndexedVerb(
        "Partitions",
        "take over folders of files of other systems",
        "lakewright.platform.upkeep.external_partitions",
        "ADD_PARTITIONS",
    ),
    "repair-partitions": IndexedVerb(
        "Partitions",
        "compare with the folders that were taken over",
        "lakewright.platform.upkeep.external_partitions",
        "REPAIR_PARTITIONS",
    ),
    "delete": IndexedVerb(
        "Rows",
        "delete rows that match a filter",
        "lakewright.platform.upkeep.change_rows",
        "DELETE_ROWS",
    ),
    "update": IndexedVerb(
        "Rows",
        "give rows that match a filter new values",
        "lakewright.platform.upkeep.change_rows",
        "UPDATE_ROWS",
    ),
    "drop-partitions": IndexedVerb(
        "Partitions",
        "drop whole partitions",
        "lakewright.platform.upkeep.drop_partitions",
        "DROP_PARTITIONS",
    ),
    "rename-partition": IndexedVerb(
        "Partitions",
        "give the rows of a partition other values of its keys",
        "lakewright.platform.upkeep.rename_partition",
        "RENAME_PARTITION",
    ),
    "exchange-partition": IndexedVerb(
        "Partitions",
        "move partitions of another table to this one",
        "lakewright.platform.upkeep.exchange_partition",
        "EXCHANGE_PARTITION",
    ),
    "mark-done": IndexedVerb(
        "Partitions",
        "mark partitions as done, by a success file",
        "lakewright.platform.upkeep.mark_done",
        "MARK_DONE",
    ),
    "merge": IndexedVerb(
        "Rows",
        "change rows by those of a file that match",
        "lakewright.platform.ingest.merge_rows",
        "MERGE_ROWS",
    ),
    "validate-schema": IndexedVerb(
        "Upkeep",
        "read samples of old rows under the current schema",
        "lakewright.platform.ingest.validate_schema",
        "VALIDATE_SCHEMA",
    ),
}
