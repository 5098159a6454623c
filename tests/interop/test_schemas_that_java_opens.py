"""A schema that Java refuses to open is not written: each set of options is given to Java, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from lakewright.storage import Catalog
from lakewright.storage.errors import InvalidOption, StorageError
from lakewright.storage.files.metadata_stores import SchemaStore
from lakewright.storage.files.paths import TablePaths
from lakewright.storage.spec.client_rules import check_clients_open
from lakewright.storage.spec.schema import Column, SchemaSpec, TableSchema, new_schema
from lakewright.storage.spec.supported_options import check_new_options
from tests.oracles.client import LatestJavaOracle, OracleError

pytestmark = pytest.mark.interop

COLUMNS = {
    "k": "INT NOT NULL",
    "s": "STRING",
    "m": "MAP<INT, STRING>",
    "texts": "MAP<STRING, STRING>",
    "f": "DOUBLE",
    "a": "ARRAY<INT>",
    "r": "ROW<x INT>",
    "p": "STRING NOT NULL",
    "b": "BYTES",
    "i": "BIGINT",
    "d": "DECIMAL(10, 2)",
    "yes": "BOOLEAN",
    "at": "TIMESTAMP(3)",
}
# Partition keys, primary keys and options.
KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...], dict[str, str]]] = {
    "append": ((), (), {}),
    "append, in buckets": ((), (), {"bucket": "2", "bucket-key": "k"}),
    "append, partitioned": (("p",), (), {}),
    "keyed": ((), ("k",), {"bucket": "1"}),
    "keyed, partitioned": (("p",), ("p", "k"), {"bucket": "1"}),
    "dynamic": (("p",), ("p", "k"), {}),
    "postponed": ((), ("k",), {"bucket": "-2"}),
    "partial-update": ((), ("k",), {"bucket": "1", "merge-engine": "partial-update"}),
    "aggregation": ((), ("k",), {"bucket": "1", "merge-engine": "aggregation"}),
    "first-row": ((), ("k",), {"bucket": "1", "merge-engine": "first-row"}),
    "vectors": ((), ("k",), {"bucket": "1", "deletion-vectors.enabled": "true"}),
}
PRODUCERS = ("input", "lookup", "full-compaction")
CLUSTERED = {"clustering.incremental": "true", "clustering.columns": "s"}
SETS: tuple[dict[str, str], ...] = (
    {"snapshot.num-retained.max": "5"},
    {"snapshot.num-retained.max": "20"},
    {"snapshot.num-retained.min": "0"},
    {"snapshot.num-retained.min": "5", "snapshot.num-retained.max": "5"},
    {"snapshot.num-retained.min": "30", "snapshot.num-retained.max": "20"},
    {"snapshot.num-retained.min": "20", "changelog.num-retained.max": "15"},
    {"snapshot.num-retained.max": "20", "changelog.num-retained.max": "15"},
    {"changelog.num-retained.max": "5"},
    {"changelog.num-retained.min": "0"},
    {"changelog.num-retained.min": "5"},
    {"target-file-row-num": "0"},
    {"target-file-row-num": "1"},
    {"streaming-read-overwrite": "true"},
    {"full-compaction.delta-commits": "5"},
    *({"changelog-producer": each} for each in PRODUCERS),
    *({"changelog-producer": each, "streaming-read-overwrite": "true"} for each in PRODUCERS),
    *({"changelog-producer": each, "full-compaction.delta-commits": "5"} for each in PRODUCERS),
    *({"changelog-producer": each, "deletion-vectors.enabled": "true"} for each in PRODUCERS),
    *({"record-level.time-field": each} for each in (*COLUMNS, "none")),
    {"manifest-sort.enabled": "true"},
    {"manifest-sort.enabled": "true", "manifest-sort.partition-field": "p"},
    {"manifest-sort.enabled": "true", "manifest-sort.partition-field": "k"},
    {"manifest-sort.partition-field": "k"},
    CLUSTERED,
    {**CLUSTERED, "bucket-append-ordered": "false"},
    {**CLUSTERED, "bucket-append-ordered": "false", "deletion-vectors.enabled": "true"},
    {"clustering.columns": "none"},
    *(
        {f"file-index.{kind}.columns": each}
        for kind in ("bloom-filter", "bitmap", "bsi", "range-bitmap")
        for each in (*COLUMNS, "none", "m[x]", "texts[x]", "s[x]")
    ),
    {"file-index.no-such.columns": "s"},
    {"file-index.bloom-filter.columns": "s,none"},
    {"file-index.bloom-filter.columns": ""},
    {"file-index.bloom-filter.s.items": "10"},
    {"file-index.bloom-filter.columns": "s", "file-index.bloom-filter.s.items": "10"},
    {"vector-field": "s"},
    {"vector-field": "none"},
    {"blob-field": "b"},
    {"blob-descriptor-field": "b"},
    *({"bucket-key": each} for each in ("k", "k,k", "none", "a", "r")),
    *({"bucket": "2", "bucket-key": each} for each in ("k", "k,k", "none", "m", "k, s", "")),
    *({"bucket": each} for each in ("2", "0", "-1", "-2", "-3")),
    *({"sequence.field": each} for each in ("i", "none", "i,i", "")),
    {"sequence.field": "i", "fields.i.aggregate-function": "max"},
    {"sequence.field": "i", "merge-engine": "first-row"},
    {"rowkind.field": "s"},
    {"rowkind.field": "none"},
    {"fields.none.aggregate-function": "max"},
    {"fields.i.aggregate-function": "no_such"},
    {"fields.default-aggregate-function": "last_value"},
    {"fields.none.sequence-group": "s"},
    {"fields.i.sequence-group": "none"},
    {"fields.r.x.aggregate-function": "max"},
    {"merge-engine": "no-such"},
    {"sort-engine": "no-such"},
    {"sort-engine": "min-heap"},
    {"stream-scan-mode": "no-such"},
    {"merge-engine": "first-row", "deletion-vectors.enabled": "true"},
    *({"merge-engine": "first-row", "changelog-producer": each} for each in PRODUCERS),
    {"partition.expiration-time": "1 d"},
    {"table-read.sequence-number.enabled": "true"},
    {"scan.mode": "from-timestamp"},
    {"scan.mode": "latest", "scan.snapshot-id": "1"},
)
# Rules that came after the release that these tests run.
LATER = (
    "blob-field",
    "file-index.",
    "fields.r.x",
    "full-compaction.delta-commits",
    "manifest-sort",
    "target-file-row-num",
    # Java reads it when it merges, and these tables are empty.
    "sort-engine",
)


def schemas(kind: str) -> Iterator[tuple[Mapping[str, str], TableSchema]]:
    partitions, keys, options = KINDS[kind]
    catalog = Catalog.open("memory://java-opens")
    if not catalog.table_exists("db.columns"):
        catalog.create_table("db.columns", COLUMNS)
    columns = tuple(Column(f.name, f.type) for f in catalog.table("db.columns").schema.fields)
    for given in SETS:
        spec = SchemaSpec(
            columns=columns,
            partition_keys=partitions,
            primary_keys=keys,
            options={"file.format": "parquet", "bucket": "-1", **options, **given},
        )
        yield given, new_schema(spec, time_millis=1)


def refused_here(schema: TableSchema) -> StorageError | None:
    try:
        check_new_options(schema, table="db.t")
        check_clients_open(schema, table="db.t")
    except StorageError as error:
        return error
    return None


def refused_by(java: LatestJavaOracle, catalog: Catalog, name: str) -> str | None:
    try:
        java.read(catalog.root, name)
    except OracleError as error:
        return error.message
    return None


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.sampled(2)
def test_what_java_does_not_open_is_refused_here_and_nothing_else_for_its_sake(
    unchecked_catalog: Catalog, java_latest: LatestJavaOracle, kind: str
) -> None:
    unchecked_catalog.create_table("db.other", {"id": "INT"})
    opened, closed = 0, 0
    for number, (given, schema) in enumerate(schemas(kind)):
        root = f"{unchecked_catalog.root}/db.db/t{number}"
        SchemaStore(unchecked_catalog.fs, TablePaths(root)).put_schema(schema)
        ours = refused_here(schema)
        theirs = refused_by(java_latest, unchecked_catalog, f"db.t{number}")
        assert ours is not None or theirs is None, f"{given}: {theirs}"
        closed, opened = closed + (theirs is not None), opened + (theirs is None)
        is_rule = isinstance(ours, InvalidOption) and "would not open the table" in ours.message
        if theirs is None and is_rule:
            assert any(each.startswith(LATER) for each in given) or given.get("bucket-key") == ""
    assert opened > 20
    assert closed > 20
