"""Distributions as the options `bucket` and `bucket-key` of a table, and back.

A fixed number of buckets takes rows by a hash of the bucket key. Without a number, an index holds
the bucket of each primary key, so only whole primary keys are distributed so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakewright.storage.errors import InvalidOption, InvalidSchema, UnsupportedError
from lakewright.storage.spec.flink_columns import unstored_columns
from lakewright.storage.spec.options import BucketMode, read_options, trimmed
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.table_distribution import (
    Kind,
    TableDistribution,
    check_distribution,
)

BUCKET, BUCKET_KEY = "bucket", "bucket-key"
BUCKET_OPTIONS = frozenset({BUCKET, BUCKET_KEY})


class HashBuckets:
    """The ability of Paimon tables; the store chooses a hash of the whole primary key."""

    def list_algorithms(self) -> frozenset[Kind]:
        return frozenset({Kind.HASH, Kind.UNKNOWN})

    def requires_bucket_count(self) -> bool:
        return False


def said_bucket_keys(schema: TableSchema) -> tuple[str, ...]:
    """The columns that the option `bucket-key` names; none for the whole key."""
    said = trimmed(schema.options).get(BUCKET_KEY, "")
    return tuple(key.strip() for key in said.split(",") if key.strip())


def have_same_bucket_keys(one: TableSchema, other: TableSchema) -> bool:
    """Whether rows are hashed by the same columns, but for a change of the partition keys."""
    first, second = said_bucket_keys(one), said_bucket_keys(other)
    return first == second or (first or one.key_names) == (second or other.key_names)


def distribution_of(schema: TableSchema) -> TableDistribution | None:
    """How a table distributes its rows; None for one bucket without a bucket key, or none."""
    options = read_options(schema)
    if options.bucket_mode is BucketMode.DYNAMIC:
        return TableDistribution.of_hash(schema.trimmed_primary_keys or schema.primary_keys)
    if options.bucket_mode is not BucketMode.FIXED:
        return None
    if BUCKET_KEY in trimmed(schema.options):
        return TableDistribution.of_hash(options.bucket_keys, options.bucket)
    return TableDistribution.of_unknown(options.bucket) if options.bucket > 1 else None


def check_said_once(
    distribution: TableDistribution | None, options: Mapping[str, str], table: str
) -> None:
    """Check that the clause and the options do not both speak of buckets.

    Raises:
        InvalidOption: they do.
    """
    both = sorted(BUCKET_OPTIONS & trimmed(options).keys())
    if distribution is not None and both:
        raise InvalidOption(
            f"{table}: DISTRIBUTED {distribution} and option {both[0]}={options[both[0]]} both say "
            "how rows are distributed; leave one of them out",
            option=both[0],
        )


def distributed(
    schema: TableSchema, distribution: TableDistribution | None, table: str
) -> TableSchema:
    """The schema of a table with this distribution in place of its own; None is the default.

    Raises:
        InvalidSchema: a bucket key is no stored column, or not in the primary key.
        UnsupportedError: Paimon tables have no such distribution.
    """
    options = {name: text for name, text in schema.options.items() if name not in BUCKET_OPTIONS}
    if distribution is None:
        return replace(schema, options={**options, BUCKET: "1" if schema.is_keyed else "-1"})
    check_distribution(distribution, HashBuckets(), table)
    keys, count = distribution.bucket_keys, distribution.bucket_count
    _check_stored(schema, keys, table)
    if count is None:
        _check_indexed(schema, distribution, table)
        return replace(schema, options={**options, BUCKET: "-1"})
    if not keys and not schema.is_keyed:
        raise UnsupportedError(
            f"{table} has no primary key, and clients of the format find the bucket of a row by "
            f"its columns; write DISTRIBUTED BY (column) {distribution}, or leave the clause out: "
            "then any task writes any row"
        )
    options[BUCKET] = str(count)
    return replace(schema, options={**options, BUCKET_KEY: ",".join(keys)} if keys else options)


def _check_stored(schema: TableSchema, keys: tuple[str, ...], table: str) -> None:
    unstored = {column.name: column for column in unstored_columns(schema.options)}
    for key in keys:
        if key in unstored:
            kind = "computed" if unstored[key].expression is not None else "metadata"
            raise InvalidSchema(
                f"{table} cannot be distributed by {key}, a {kind} column: rows find their bucket "
                "by stored columns"
            )
        if key not in schema.field_names:
            raise InvalidSchema(
                f"{table} cannot be distributed by {key}, which is no column; it has "
                f"{', '.join(schema.field_names)}"
            )
        if key in schema.partition_keys:
            raise InvalidSchema(
                f"{table} cannot be distributed by {key}: a partition key is the same in all rows "
                "of a partition, and chooses no bucket"
            )
        if schema.has_primary_key and key not in schema.primary_keys:
            raise InvalidSchema(
                f"{table} cannot be distributed by {key}, which is not in the primary key "
                f"({', '.join(schema.primary_keys)}): rows of one key could lie in two buckets"
            )


def _check_indexed(schema: TableSchema, distribution: TableDistribution, table: str) -> None:
    whole = schema.trimmed_primary_keys
    if not whole or set(distribution.bucket_keys) != set(whole):
        have = f"the whole primary key ({', '.join(whole)})" if whole else "a primary key"
        raise UnsupportedError(
            f"{table}: without a number of buckets an index holds the bucket of each row, which "
            f"needs {have}; write DISTRIBUTED {distribution} INTO n BUCKETS"
        )
