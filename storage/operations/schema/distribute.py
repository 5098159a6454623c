"""Changes how a table distributes its rows over buckets.

1. A table without snapshots gets other options. One whose bucket keys stay is rescaled.
2. One that gets other bucket keys must have one bucket, in each state that is kept: clients find
   buckets of the past, too, by the present bucket keys, and in one bucket every row lies by any.
   The option `bucket-key` changes first, then the table is rescaled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakewright.storage.errors import CommitConflictError, SchemaMoved, UnsupportedError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.references.roots import Root, RootKind, all_roots
from lakewright.storage.operations.rewrite.rescale import RescaleOptions, plan_rescale, run_rescale
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.state.live_files import live_entries
from lakewright.storage.spec.bucketing import BUCKET, BUCKET_KEY, distributed, said_bucket_keys
from lakewright.storage.spec.client_rules import check_clients_open
from lakewright.storage.spec.options import BucketMode, read_options
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.supported_options import Use, check_supported
from lakewright.storage.spec.table_distribution import Kind, TableDistribution


def distribute(
    files: TableFiles, distribution: TableDistribution | None, engine: Engine
) -> TableSchema:
    """Distribute rows as asked, or by the store's default; rows that are there move.

    Returns the schema as it is then.

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
        return files.schema if is_same else _changed(files, wanted.options).schema
    if now.bucket_mode is not BucketMode.FIXED or then.bucket_mode is not BucketMode.FIXED:
        raise UnsupportedError(
            f"{files.name} has rows with bucket={now.bucket}, and they cannot go to "
            f"bucket={then.bucket}, by which rows are found in another way; create a table with "
            "this distribution from a query of this one, and rename it"
        )
    if now.bucket_keys != then.bucket_keys:
        _check_one_bucket(files)
    if files.schema.options.get(BUCKET_KEY) != wanted.options.get(BUCKET_KEY):
        files = _changed(files, {**wanted.options, BUCKET: str(now.bucket)})
    return _rescaled(files, then.bucket, engine)


def _check_one_bucket(files: TableFiles) -> None:
    """Check that rows lie in one bucket in every state that can be read, or come back."""
    found = (_several_buckets(files, root) for root in all_roots(files))
    # What is written meanwhile has the number of the option.
    new = "new partitions" if files.options.bucket != 1 else None
    name = new or next(filter(None, found), None)
    if name is not None:
        keys = ", ".join(files.options.bucket_keys)
        raise UnsupportedError(
            f"rows of {files.name} lie by other bucket keys ({keys}) in {name}, in which clients "
            "would look for them by the new ones; distribute the table into one bucket, and expire "
            "or delete all snapshots, tags, branches and changelogs of before; or create a table "
            "with this distribution from a query, and rename it"
        )


def _several_buckets(files: TableFiles, root: Root) -> str | None:
    """What keeps rows in several buckets, or may; None if rows are in one."""
    if root.branch != files.paths.branch:
        return f"branch {root.branch or 'main'}"
    counts = {entry.total_buckets for entry in live_entries(root.files, root.snapshot)}
    is_one = root.kind is not RootKind.CHANGELOG and counts <= {1}
    return None if is_one else f"{root.kind.value} {root.label}"


def _rescaled(files: TableFiles, buckets: int, engine: Engine) -> TableSchema:
    """The whole table in so many buckets.

    Raises:
        CommitConflictError: some partitions are not.
    """
    done = run_rescale(files, plan_rescale(files, RescaleOptions(buckets)), engine)
    if done.dropped:
        raise CommitConflictError(
            f"other clients wrote to {files.name} while its rows moved to other buckets; all rows "
            "are there: try again when no writer is at work"
        )
    return files.schemas.read(done.schema_id)


def _changed(files: TableFiles, options: Mapping[str, str]) -> TableFiles:
    """The table with the next schema, which has other options.

    Raises:
        SchemaMoved: another client changed the schema; nothing is changed.
    """
    schema = replace(
        files.schema, id=files.schema.id + 1, options=options, time_millis=files.env.now_ms()
    )
    if not files.schemas.put_schema(schema):
        raise SchemaMoved(
            f"another client changed the schema of {files.name} just now; open the table again"
        )
    return replace(files, schema=files.schemas.read(schema.id))
