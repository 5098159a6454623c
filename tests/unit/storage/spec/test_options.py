"""Options: read as values, or refused by name before anything changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakewright.storage import Catalog
from lakewright.storage.errors import InvalidOption, UnsupportedError
from lakewright.storage.spec.ignored_options import IGNORED_OPTIONS
from lakewright.storage.spec.option_values import parse_duration_ms, parse_size
from lakewright.storage.spec.options import BucketMode, read_options
from lakewright.storage.spec.refused_options import REFUSED_OPTIONS
from lakewright.storage.spec.schema import TableSchema, new_schema
from lakewright.storage.spec.supported_options import KNOWN_OPTIONS, Use, check_supported
from tests.support.stores.watched_files import watched
from tests.support.tables.builders import EVENTS, events, new_table, rows, spec, with_options


def schema_with(keyed: bool = True, **given: str) -> TableSchema:
    options = {"bucket": "1"} if keyed else {}
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in given.items()}
    return new_schema(
        spec(EVENTS, keys=["id"] if keyed else [], options={**options, **named}), time_millis=0
    )


READ, WRITE, COMPACT, TAG, EXPIRE, ORPHANS = Use
EVERY = frozenset(Use)
# The uses that an option rules out; it allows all others.
REFUSED: list[tuple[str, str, set[Use] | frozenset[Use]]] = [
    ("type", "format-table", EVERY),
    ("type", "materialized-table", {WRITE}),
    ("index-file-in-data-file-dir", "true", EVERY),
    ("branch", "other", EVERY),
    ("merge-engine", "of-a-later-version", {READ, WRITE, COMPACT}),
    ("query-auth.enabled", "true", {READ, WRITE, COMPACT}),
    ("sequence.snapshot-ordering", "true", {WRITE}),
    ("pk-clustering-override", "true", {WRITE, COMPACT}),
    ("bucket-function.type", "hive", {READ, WRITE, COMPACT}),
    ("fields.v.map.storage-layout", "shared-shredding", {READ, WRITE, COMPACT}),
    ("postpone.merge-on-read", "true", {READ}),
    ("scan.mode", "from-snapshot", {READ}),
    ("log.scan", "from-timestamp", {READ}),
    ("scan.snapshot-id", "3", {READ}),
    ("incremental-between", "1,2", {READ}),
    ("file.format", "csv", {WRITE, COMPACT}),
    ("changelog-file.format", "json", {WRITE, COMPACT}),
    ("data-file.external-paths.strategy", "round-robin", {WRITE, COMPACT, EXPIRE}),
    ("postpone.batch-write-fixed-bucket", "true", {WRITE}),
    ("upsert-key", "v", {WRITE}),
    ("tag.create-success-file", "true", {WRITE, TAG}),
    ("clustering.incremental", "true", {COMPACT}),
    ("metadata.iceberg.storage", "hive-catalog", EVERY - {READ}),
    ("pk-btree.index.columns", "v", {WRITE, COMPACT}),
    ("bucket-order-of-a-later-version", "x", EVERY - {READ}),
    ("sequence.of-a-later-version", "x", EVERY - {READ}),
    ("deletion-vectors.of-a-later-version", "x", EVERY - {READ}),
    ("merge-engine-of-a-later-version", "x", EVERY - {READ}),
]


@pytest.mark.parametrize(("name", "value", "uses"), REFUSED)
@pytest.mark.parametrize("use", list(Use))
def test_an_option_is_refused_by_name_for_what_it_stands_in_the_way_of_and_nothing_else(
    name: str, value: str, uses: set[Use], use: Use
) -> None:
    schema = schema_with()
    schema = replace(schema, options={**schema.options, name: value})
    if use not in uses:
        check_supported(schema, use, table="db.t")
        return
    with pytest.raises(UnsupportedError) as caught:
        check_supported(schema, use, table="db.t")
    assert f"{name}={value}" in str(caught.value)
    assert caught.value.details == {"option": name}


HARMLESS = {
    "merge-engine": "DEDUPLICATE",
    "write-only": "true",
    "write-buffer-size": "256 mb",
    "snapshot.expire.execution-mode": "async",
    "metadata.stats-dense-store": "false",
    "page-size": "64 kb",
    "sink.parallelism": "4",
    "dynamic-bucket.assigner-parallelism": "4",
    "postpone.batch-write-fixed-bucket.max-parallelism": "4",
    "local-merge-buffer-size": "64 mb",
    "file-index.bloom-filter.columns": "id,v",
    "file-index.bloom-filter.id.items": "1000",
    "file-index.in-manifest-threshold": "1 kb",
    "bucket-append-ordered": "false",
    "partition.timestamp-pattern": "$dt",
    "partition.expiration-time": "7 d",
    "partition.expiration-strategy": "update-time",
    "target-file-row-num": "1000",
    "metadata.stats-keep-first-n-columns": "1",
    "clustering.columns": "v",
    "clustering.strategy": "zorder",
    "scan.mode": "latest-full",
    "manifest.delete-file-drop-stats": "true",
    "manifest-sort.enabled": "true",
    "write.sequence-number-init-mode": "snapshot",
    "snapshot.watermark-idle-timeout": "1 min",
    "file-reader-async-threshold": "1 mb",
    "bucket-function.type": "default",
    "materialized-table.definition-query": "SELECT 1",
    "parquet.page.row.count.limit": "100",
    "commit.callback.a.b.C.param": "x",
    # A user's properties, whose names begin unlike Paimon's.
    "team": "payments",
    "owner.email": "a@example.com",
    "transient_lastDdlTime": "1",
    "data_classification": "public",
    "hive.stored-as": "x",
}


@pytest.mark.parametrize(("name", "value"), HARMLESS.items())
def test_an_option_that_changes_no_row_is_left_alone(name: str, value: str) -> None:
    schema = schema_with()
    schema = replace(schema, options={**schema.options, name: value})
    for use in Use:
        check_supported(schema, use, table="db.t")


def test_an_option_is_obeyed_by_the_name_that_it_had() -> None:
    options = {"bucket": "1", "write.compaction-skip": "true"}
    schema = replace(schema_with(), options=options)
    assert read_options(schema).write_only
    newer = replace(schema, options={**options, "write-only": "false"})
    assert not read_options(newer).write_only


def test_every_option_is_described_once_and_says_what_is_done_about_it() -> None:
    names = [name for option in KNOWN_OPTIONS for name in (option.name, *option.older_names)]
    assert len(set(names)) == len(names)
    for option in KNOWN_OPTIONS:
        assert option.meaning, option.name
    assert [each.name for each in IGNORED_OPTIONS if each.refusals] == []
    assert [each.name for each in REFUSED_OPTIONS if not each.refusals] == []


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("file.fromat", "parquet", "did you mean 'file.format'"),
        ("snapshot.num-retained.mn", "3", "did you mean 'snapshot.num-retained.min'"),
        ("bukcet", "2", "did you mean 'bucket'"),
        ("file-index.read.enabled", "maybe", "is not true or false"),
        ("write-buffer-size", "large", "is not a size"),
        ("partition.expiration-time", "a while", "is not a duration"),
        # A compression without its codec.
        ("manifest.compression", "snappy", "snappy"),
    ],
)
def test_a_wrong_option_of_a_new_table_is_told_before_anything_is_written(
    catalog: Catalog, name: str, value: str, words: str
) -> None:
    with pytest.raises((UnsupportedError, InvalidOption), match=words):
        new_table(catalog, options={name: value})
    assert catalog.list_databases() == ()


def test_a_new_table_keeps_its_owners_properties_and_has_no_options_that_nothing_knows(
    catalog: Catalog,
) -> None:
    table = new_table(catalog, options={"team": "payments"})
    assert table.schema.options["team"] == "payments"
    with pytest.raises(UnsupportedError, match="may be an option of a later version"):
        new_table(catalog, name="db.other", options={"manifest.colour": "blue"})


_NUMBER = (InvalidOption, "needs a bucket key of type INT or BIGINT")
_ONE = (InvalidOption, "needs one bucket key")
BUCKETS: list[tuple[bool, dict[str, str], type[Exception], str]] = [
    (True, {"bucket": "0"}, InvalidOption, "or -2 to give rows a bucket later"),
    (True, {"bucket": "-3"}, InvalidOption, "or -2 to give rows a bucket later"),
    (True, {"bucket": "-1", "bucket_key": "id"}, InvalidOption, "fixed number of buckets"),
    (False, {"bucket": "0"}, InvalidOption, "write -1 or a positive number"),
    (False, {"bucket": "-2"}, InvalidOption, "write -1 or a positive number"),
    (False, {"bucket": "2"}, InvalidOption, "without a bucket-key"),
    (False, {"bucket_key": "id"}, InvalidOption, "fixed number of buckets"),
    (True, {"bucket": "2", "bucket_function__type": "mod", "bucket_key": "v"}, *_NUMBER),
    (False, {"bucket": "2", "bucket_function__type": "mod", "bucket_key": "id,v"}, *_NUMBER),
    (False, {"bucket": "2", "bucket_function__type": "mod", "bucket_key": "id,id"}, *_ONE),
    (False, {"bucket": "2", "bucket_key": "nope"}, InvalidOption, "which is not a column"),
    (True, {"bucket": "2", "bucket_key": "v"}, InvalidOption, "not in the primary key"),
]


@pytest.mark.parametrize(("keyed", "given", "kind", "words"), BUCKETS)
@pytest.mark.mission("BK11", "BK16")
def test_bucket_settings_that_contradict_each_other_are_refused(
    keyed: bool, given: dict[str, str], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        check_supported(schema_with(keyed, **given), Use.READ, table="db.t")


@pytest.mark.mission("BK2", "BK13")
def test_buckets_go_by_the_bucket_key_or_else_the_trimmed_primary_key() -> None:
    columns = {"day": "DATE", "id": "INT", "n": "INT"}
    keyed = spec(columns, keys=["day", "id", "n"], partitions=["day"], options={"bucket": "4"})
    options = read_options(new_schema(keyed, time_millis=0))
    assert options.bucket_keys == ("id", "n")
    assert options.bucket_mode is BucketMode.FIXED
    chosen = spec(
        columns,
        keys=["day", "id", "n"],
        partitions=["day"],
        options={"bucket": "4", "bucket-key": " n "},
    )
    assert read_options(new_schema(chosen, time_millis=0)).bucket_keys == ("n",)
    unaware = read_options(new_schema(spec(columns), time_millis=0))
    assert (unaware.bucket, unaware.bucket_mode) == (-1, BucketMode.UNAWARE)


WRONG_VALUES = {
    "bucket": "many",
    "target-file-size": "big",
    "snapshot.time-retained": "a while",
    "snapshot.num-retained.min": "0",
    "manifest.merge-min-count": "1",
    "data-file.path-directory": "../elsewhere",
    "metadata.stats-mode": "sometimes",
    "fields.nope.stats-mode": "full",
    "fields.v.stats-mode": "sometimes",
    "partition.legacy-name": "maybe",
    "file.compression": "zip",
    "manifest.compression": "zip",
    "commit.max-retries": "-1",
    "dynamic-partition-overwrite": "2",
    "compaction.min.file-num": "1",
    "manifest.target-file-size": "0 b",
}


@pytest.mark.parametrize(("name", "value"), WRONG_VALUES.items())
def test_a_value_that_cannot_be_read_is_told_with_its_name(name: str, value: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        read_options(schema_with(**{name: value}), table="db.t")
    assert value in str(caught.value) or name in str(caught.value)


def test_sizes_and_durations_are_read_with_every_unit() -> None:
    sizes = {"1": 1, "2 b": 2, "3kb": 3072, "4 MB": 4 << 20, "1 g": 1 << 30, "1tb": 1 << 40}
    assert {text: parse_size(text) for text in sizes} == sizes
    times = {"5": 5, "1 ms": 1, "2s": 2000, "1 min": 60_000, "1 h": 3_600_000, "7d": 604_800_000}
    assert {text: parse_duration_ms(text) for text in times} == times
    for wrong in ("", "-1 b", "1.5 mb", "1 parsec"):
        with pytest.raises(InvalidOption):
            parse_size(wrong)


def test_defaults_are_those_of_the_format() -> None:
    keyed = read_options(schema_with())
    assert (keyed.target_file_size, keyed.max_level) == (128 << 20, 5)
    assert read_options(schema_with(num_sorted_run__compaction_trigger="9")).max_level == 9
    append = read_options(schema_with(keyed=False))
    assert append.target_file_size == 256 << 20
    assert (append.snapshot_num_retained_min, append.snapshot_time_retained_ms) == (10, 3_600_000)
    assert append.stats_mode == "truncate(16)"
    assert append.dynamic_partition_overwrite
    assert append.manifest_merge_min_count == 30


def test_every_accepted_manifest_compression_can_be_written(catalog: Catalog) -> None:
    for compression in ("zstd", "none", "null", "deflate"):
        table = new_table(
            catalog, name=f"db.{compression}", options={"manifest.compression": compression}
        )
        table.write(rows(table, events(0, 2)))
        assert table.read().num_rows == 2


@pytest.mark.parametrize("compression", ["zstd", "none", "snappy", "gzip", "lz4"])
def test_every_accepted_file_compression_can_be_written(catalog: Catalog, compression: str) -> None:
    table = new_table(catalog, options={"file.compression": compression})
    table.write(rows(table, events(0, 2)))
    assert table.read().num_rows == 2


REFUSED_VERBS: dict[str, Any] = {
    "read": lambda table: table.read(),
    "write": lambda table: table.write(rows(table, events(0, 1))),
    "compact": lambda table: table.upkeep.plan_compact(full=True),
    "tag": lambda table: table.history.create_tag("now"),
    "branch": lambda table: table.history.create_branch("b"),
    "analyze": lambda table: table.upkeep.plan_analyze(),
    "expire": lambda table: table.upkeep.plan_expire_snapshots(grace_ms=0),
    "orphans": lambda table: table.upkeep.plan_remove_orphans(),
}


@pytest.mark.parametrize("verb", list(REFUSED_VERBS))
def test_nothing_is_touched_when_a_table_is_refused(catalog: Catalog, verb: str) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 1)))
    refused, fs = watched(with_options(table, type="object-table"))
    with pytest.raises(UnsupportedError, match="and was not changed"):
        REFUSED_VERBS[verb](refused)
    assert fs.changes == []


def test_rows_are_not_written_when_their_writer_could_not_compact_them(catalog: Catalog) -> None:
    table = new_table(catalog)
    refused, fs = watched(with_options(table, clustering__incremental="true"))
    with pytest.raises(UnsupportedError, match=r"clustering\.incremental=true"):
        refused.write(rows(table, events(0, 1)), compact=True)
    assert fs.changes == []
    refused.write(rows(table, events(0, 1)))
    assert table.read().num_rows == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bucket", "9" * 5000),
        ("bucket", "2147483648"),
        ("num-levels", "99999999999"),
        ("target-file-size", "9" * 30),
        ("target-file-size", "9223372036854775807 kb"),
        ("target-file-size", "9" * 5000 + " mb"),
        ("snapshot.time-retained", "9" * 5000),
        ("snapshot.time-retained", "999999999999999 d"),
        ("snapshot.time-retained", "٣ h"),
        ("file.format.per.level", "9" * 5000 + ":orc"),
        ("file.format.per.level", "99999999999:orc"),
        ("file.format.per.level", "٣:orc"),
        ("dynamic-bucket.target-row-num", "9223372036854775808"),
        ("metadata.stats-mode", "truncate(" + "9" * 5000 + ")"),
    ],
)
def test_numbers_with_more_bits_than_other_clients_read_are_refused_by_name(
    name: str, value: str
) -> None:
    schema = replace(schema_with(), options={name: value})
    with pytest.raises(InvalidOption) as refused:
        read_options(schema, table="t")
    assert name in refused.value.message
    assert len(refused.value.message) < 400


def test_numbers_that_other_clients_read_are_read() -> None:
    given = {
        "dynamic-bucket.target-row-num": "9223372036854775807",
        "target-file-size": "9223372036854775807",
        "num-levels": "0" * 40 + "7",
    }
    options = read_options(replace(schema_with(), options=given), table="t")
    assert options.dynamic_bucket_target_row_num == options.target_file_size == 2**63 - 1
    assert options.num_levels == 7


def test_files_without_a_prefix_are_written_and_read_as_java_does(catalog: Catalog) -> None:
    given = {"data-file.prefix": "", "changelog-file.prefix": "", "changelog-producer": "input"}
    table = new_table(catalog, keys=["id"], options={"bucket": "1", **given})
    table.write(rows(table, events(0, 3)))
    (entry,) = table.at().files()
    assert not entry.file.file_name.startswith(("data-", "changelog-"))
    assert table.read().num_rows == 3
    assert table.read_changes(0, 1).num_rows == 3
