"""Refuses changes of rows that a table's options would not let happen as they are said."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.errors import InvalidRequestError, InvalidRows, UnsupportedError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.state.rewrite_schema import check_current_schema
from lakewright.storage.operations.state.row_ids import refuse_columns_apart
from lakewright.storage.spec.merge_spec import MergeEngine
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.spec.supported_options import Use, check_supported

_WRITE = "write rows in place of it: their merge engine decides what becomes of them"


def check_changes_rows(files: TableFiles) -> None:
    """Check that single rows of the table can change.

    Raises:
        SchemaMoved: the schema changed since the table was opened.
        UnsupportedError: an option is not implemented, or rows wait for their buckets.
    """
    check_supported(files.schema, Use.WRITE, table=files.name)
    check_supported(files.schema, Use.COMPACT, table=files.name)
    refuse_columns_apart(files, "a change of single rows")
    check_current_schema(files)
    if files.schema.counts_rows:
        raise UnsupportedError(
            f"{files.name} counts equal rows, and no single one of them can change; write rows "
            "with the kinds -D and +I"
        )
    if files.schema.is_keyed and files.options.bucket_mode is BucketMode.POSTPONE:
        raise UnsupportedError(
            f"{files.name} has bucket=-2: its rows are seen once a compaction gives them buckets, "
            "so that a change of them would miss rows that wait; " + _WRITE
        )


def check_deletes(files: TableFiles) -> None:
    """Check that the merge engine can delete rows.

    Raises:
        UnsupportedError: it cannot; the message names the engine and the option.
    """
    if not files.schema.is_keyed:
        return
    spec, what = files.merge_spec, f"rows of {files.name} cannot be deleted: "
    if spec.ignore_delete:
        raise UnsupportedError(f"{what}it sets ignore-delete=true")
    if spec.rowkind_field is not None:
        raise UnsupportedError(
            f"{what}its column {spec.rowkind_field} says what a row does (rowkind.field); write "
            "rows with -D there"
        )
    if spec.engine is MergeEngine.FIRST_ROW:
        raise UnsupportedError(f"{what}merge-engine=first-row keeps the first row of a key")
    removes = spec.remove_record_on_delete
    if spec.engine in (MergeEngine.PARTIAL_UPDATE, MergeEngine.AGGREGATION) and not removes:
        option = f"{spec.engine.value}.remove-record-on-delete"
        raise UnsupportedError(
            f"{what}merge-engine={spec.engine.value} deletes whole rows of tables that are created "
            f"with {option}=true; rewrite the partition by an overwrite"
        )


def check_updates(files: TableFiles, columns: Collection[str]) -> None:
    """Check that the merge engine puts new values in place of the old ones.

    Raises:
        UnsupportedError: it does not; the message names the engine.
        InvalidRequestError: a column of the primary key would change.
    """
    if not files.schema.is_keyed:
        return
    spec, what = files.merge_spec, f"rows of {files.name} cannot be updated: "
    keys = [name for name in columns if name in files.schema.primary_keys]
    if keys:
        raise InvalidRequestError(
            f"{keys[0]} is in the primary key of {files.name}, which an update leaves as it is; "
            "delete the rows, and insert them with other keys"
        )
    if spec.engine in (MergeEngine.FIRST_ROW, MergeEngine.AGGREGATION):
        raise UnsupportedError(
            f"{what}merge-engine={spec.engine.value} does not take a new value in place of the "
            f"old one; {_WRITE}"
        )
    if spec.sequence_groups or spec.aggregates:
        raise UnsupportedError(
            f"{what}its sequence groups or aggregates decide which value stays; {_WRITE}"
        )
    if spec.rowkind_field in columns:
        raise UnsupportedError(
            f"{what}its column {spec.rowkind_field} says what a row does (rowkind.field)"
        )


def check_new_values(files: TableFiles, before: pa.Table, after: pa.Table) -> None:
    """Check that the merge engine takes these rows in place of the ones before.

    Raises:
        InvalidRows: a partial update would ignore a null, or a sequence field falls.
    """
    if not files.schema.is_keyed:
        return
    spec = files.merge_spec
    if spec.engine is MergeEngine.PARTIAL_UPDATE:
        for name in after.column_names:
            lost = pc.and_(pc.is_null(after.column(name)), pc.is_valid(before.column(name)))
            if pc.any(lost).as_py():
                raise InvalidRows(
                    f"column {name} of {files.name} would become null, which "
                    "merge-engine=partial-update does not take for a value; give another value",
                    column=name,
                )
    names = [name for name in spec.sequence_fields if name in files.schema.field_names]
    if not names or all(before.column(name).equals(after.column(name)) for name in names):
        return
    count = before.num_rows
    both = pa.concat_tables([before.select(names), after.select(names)])
    order = "descending" if spec.sequence_descending else "ascending"
    orders = [(name, order, "at_start") for name in names]
    # Rank by the sequence fields: equal ones are no fall, and nulls come first as in a merge.
    indices = pc.sort_indices(both, sort_keys=orders).to_numpy()
    ordered = both.take(pa.array(indices))
    changed = np.zeros(2 * count, dtype=np.int64)
    for name in names:
        codes = ordered.column(name).combine_chunks().dictionary_encode("encode").indices
        changed[1:] |= np.diff(codes.to_numpy(zero_copy_only=False)) != 0
    ranks = np.empty(2 * count, dtype=np.int64)
    ranks[indices] = np.cumsum(changed)
    fallen = np.flatnonzero(ranks[count:] < ranks[:count])
    if len(fallen):
        at = int(fallen[0])
        raise InvalidRows(
            f"sequence.field {', '.join(names)} of {files.name} would fall in {len(fallen)} rows, "
            f"first from {before.select(names).slice(at, 1).to_pylist()[0]} to "
            f"{after.select(names).slice(at, 1).to_pylist()[0]}, so that the rows of before would "
            "stay; give it a value that is not below"
        )
