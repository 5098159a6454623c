"""Changes how a table distributes its rows over buckets.

1. A table without snapshots gets other options. One whose bucket keys stay is rescaled.
2. Other bucket keys go by way of one bucket, in which every row lies by any bucket key: rescale to
   one bucket, change the option `bucket-key`, and rescale to the number of buckets asked for.

At each moment every client finds each row. A run that stops leaves a table with one bucket, and
another run goes on. What another client opened the table for before, and commits after step 2,
lies in buckets of the former keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lakewright.storage.errors import CommitConflictError, SchemaMoved, UnsupportedError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.pending import pending_batches
from lakewright.storage.operations.references.branches import branch_names
from lakewright.storage.operations.rewrite.rescale import plan_rescale, run_rescale
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.spec.bucketing import BUCKET, BUCKET_KEY, distributed, said_bucket_keys
from lakewright.storage.spec.client_rules import check_clients_open
from lakewright.storage.spec.options import BucketMode, read_options
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.shown import Shown
from lakewright.storage.spec.supported_options import Use, check_supported
from lakewright.storage.spec.table_distribution import Kind, TableDistribution


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributeResult(Shown):
    """The schema as it is then, and how many partitions were written anew."""

    schema: TableSchema
    partitions: int


def distribute(
    files: TableFiles, distribution: TableDistribution | None, engine: Engine
) -> DistributeResult:
    """Distribute rows as asked, or by the store's default; rows that are there move.

    Raises:
        InvalidSchema: a bucket key is no stored column, or not in the primary key.
        UnsupportedError: Paimon tables have no such distribution, or rows cannot change to it.
        SchemaMoved: another client changed the schema.
        CommitConflictError: other clients committed to partitions while they were written anew.
    """
    keys = said_bucket_keys(files.schema)
    if distribution is not None and distribution.kind is Kind.UNKNOWN and keys:
        # The rule is the store's choice, and the present one spares a second rewrite.
        distribution = TableDistribution.of_hash(keys, distribution.bucket_count)
    wanted = distributed(files.schema, distribution, files.name)
    for use in (Use.READ, Use.WRITE):
        check_supported(wanted, use, table=files.name)
    check_clients_open(wanted, table=files.name, before=files.schema)
    now, then = files.options, read_options(wanted, table=files.name)
    is_same = wanted.options == files.schema.options
    if files.snapshots.latest_id() is None or (is_same and now.bucket_mode is not BucketMode.FIXED):
        changed = files if is_same else _changed(files, wanted.options)
        return DistributeResult(schema=changed.schema, partitions=0)
    if now.bucket_mode is not BucketMode.FIXED or then.bucket_mode is not BucketMode.FIXED:
        raise UnsupportedError(
            f"{files.name} has rows with bucket={now.bucket}, and they cannot go to "
            f"bucket={then.bucket}, by which rows are found in another way; create a table with "
            "this distribution from a query of this one, and rename it",
            table=files.name,
        )
    moved = 0
    if now.bucket_keys != then.bucket_keys:
        _check_rekeyed(files)
        first = _rescaled(files, 1, engine)
        files, moved = replace(files, schema=first.schema), first.partitions
    if files.schema.options.get(BUCKET_KEY) != wanted.options.get(BUCKET_KEY):
        files = _changed(files, {**wanted.options, BUCKET: str(files.options.bucket)})
    if now.bucket_keys != then.bucket_keys:
        # A writer that has another schema may have begun a partition meanwhile. From here on, our
        # committers see the new schema.
        _rescaled(files, 1, engine)
    last = _rescaled(files, then.bucket, engine)
    return replace(last, partitions=max(moved, last.partitions))


def _check_rekeyed(files: TableFiles) -> None:
    """Refuse what keeps rows in buckets of the former keys."""
    if branches := branch_names(files):
        raise UnsupportedError(
            f"{files.name} has branch {branches[0]}, whose rows lie by the present bucket keys; "
            f"delete it first (lakewright branch delete {files.name} {branches[0]})",
            table=files.name,
        )
    if waiting := pending_batches(files):
        raise UnsupportedError(
            f"{files.name} has {len(waiting)} pending batches, whose rows lie by the present "
            "bucket keys; commit or abort them first (lakewright pending)",
            table=files.name,
        )


def _rescaled(files: TableFiles, buckets: int, engine: Engine) -> DistributeResult:
    """The whole table in so many buckets.

    Raises:
        CommitConflictError: some partitions are not.
    """
    done = run_rescale(files, plan_rescale(files, buckets), engine)
    if done.dropped:
        raise _followed(files)
    return DistributeResult(schema=files.schemas.read(done.schema_id), partitions=done.partitions)


def _changed(files: TableFiles, options: Mapping[str, str]) -> TableFiles:
    """The table with the next schema, which has other options.

    Raises:
        SchemaMoved: another client changed the schema; nothing is changed.
    """
    schema = replace(
        files.schema,
        id=files.schema.id + 1,
        options=options,
        time_millis=files.env.now_ms(),
    )
    if not files.schemas.put_schema(schema):
        raise SchemaMoved(
            f"another client changed the schema of {files.name} just now; open the table again",
            table=files.name,
        )
    return replace(files, schema=schema)


def _followed(files: TableFiles) -> CommitConflictError:
    return CommitConflictError(
        f"other clients wrote to {files.name} while its rows moved to other buckets; all rows are "
        "there: try again when no writer is at work",
        table=files.name,
    )
