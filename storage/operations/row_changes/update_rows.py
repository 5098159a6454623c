"""UPDATE: rows that a filter selects get new values, in one snapshot.

1. Refuse tables whose merge engine does not take a new value in place of the old one, and
   expressions that cannot be computed.
2. Plan: find the files with matching rows, and count these.
3. Compute the new values of the rows, and stage the rows; a partition column may change.
4. Append tables: take the rows of before out of their files, as a delete does. Primary-key tables:
   the staged rows replace them.
5. Commit both in one snapshot, unless another commit has changed the same files, or rows of a
   primary-key table; then begin again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.row_changes.accepted import (
    check_changes_rows,
    check_new_values,
    check_updates,
)
from lakewright.storage.operations.row_changes.expressions import Assignments
from lakewright.storage.operations.row_changes.matches import find_matches
from lakewright.storage.operations.row_changes.statement import (
    RowChangePlan,
    RowChangeResult,
    carried_out,
    change_matches,
    check_same_statement,
    with_kind,
)
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.spec.options import ChangelogProducer
from lakewright.storage.spec.predicate import Predicate
from lakewright.storage.spec.row_tracking import holds_row_ids
from lakewright.storage.spec.rows import RowKind
from lakewright.storage.spec.schema import SEQUENCE_NUMBER


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRowsPlan(RowChangePlan["RowChangeResult"]):
    """The rows that a filter selects, and the expressions of their new values by column."""

    values: dict[str, str]
    where: str | None = None
    row: str = "t"


def plan_update_rows(
    files: TableFiles,
    assignments: Assignments,
    predicate: Predicate | None,
    where: str | None,
    engine: Engine,
) -> UpdateRowsPlan:
    """Plan to give the rows for which a filter is true new values; all rows without one.

    Raises:
        InvalidRequestError: an expression cannot be computed, or a key would change.
        UnsupportedError: the merge engine does not take new values in place of old ones.
        SchemaMoved: the schema changed since the table was opened.
    """
    _check(files, assignments)
    matches = find_matches(files, predicate, engine)
    values = dict(assignments.of_columns)
    return UpdateRowsPlan.of(files, matches, values=values, where=where, row=assignments.row)


def run_update_rows(
    files: TableFiles, plan: UpdateRowsPlan, predicate: Predicate | None, engine: Engine
) -> RowChangeResult:
    """Give the rows for which the filter of the plan is true now their new values.

    Raises:
        InvalidRows: a value does not fit its column; nothing is written.
        CommitConflictError: others changed the same rows again and again; nothing is written.
        VerificationFailed: rows written differ from rows that stay; nothing is written.
    """
    check_same_statement(files, plan)
    assignments = Assignments(tuple(plan.values.items()), plan.row)
    _check(files, assignments)
    update = _Update(assignments)

    def attempt(files: TableFiles) -> RowChangeResult:
        result, count = change_matches(files, predicate, update, engine)
        return replace(result, updated=count)

    return carried_out(files, engine, attempt)


def _check(files: TableFiles, assignments: Assignments) -> None:
    check_changes_rows(files)
    check_updates(files, assignments.columns)
    assignments.check(files)


@dataclass(frozen=True, slots=True)
class _Update:
    """Rows with their new values, and with their kinds in a primary-key table."""

    assignments: Assignments

    def __call__(self, files: TableFiles, rows: pa.Table) -> pa.Table:
        return replaced_rows(files, rows, self.assignments.applied(files, rows))


def replaced_rows(files: TableFiles, before: pa.Table, after: pa.Table) -> pa.Table:
    """What to write to replace rows by others: with their kinds in a primary-key table.

    Raises:
        InvalidRows: the merge engine would keep a row of before.
    """
    if holds_row_ids(files.schema):
        at = after.column_names.index(SEQUENCE_NUMBER)
        return after.set_column(at, SEQUENCE_NUMBER, pa.nulls(after.num_rows, pa.int64()))
    if not files.schema.is_keyed:
        return after
    check_new_values(files, before, after)
    new = with_kind(after, RowKind.UPDATE_AFTER)
    if files.options.changelog_producer is not ChangelogProducer.INPUT:
        return new
    # The changelog of such a table is what was written.
    old = with_kind(before, RowKind.UPDATE_BEFORE).cast(new.schema)
    return pa.concat_tables([old, new])
