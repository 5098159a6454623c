"""Finds what else reads or writes a column as it was: tags, branches, consumers, open writes.

Nothing is listed for a change that only adds columns, moves them, or changes comments and options.

1. Tags are read by their own schemas. A branch keeps the schemas that it began with, and a
   fast-forward brings them back.
2. A consumer reads what it has not read yet in the new schema, also rows that were written before.
3. Kept batches are checked as their commit will check them. Of the rows under a lease of a writer
   nothing is known, so each lease is named if the change is one that refuses rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakewright.storage.errors import SchemaMoved
from lakewright.storage.operations.commit.check_rows_fit import check_rows_fit, may_refuse_rows
from lakewright.storage.operations.commit.pending import pending_batches
from lakewright.storage.operations.leases.leases import list_leases
from lakewright.storage.operations.references.consumers import list_consumers
from lakewright.storage.operations.schema.proposed_schema import ProposedSchema
from lakewright.storage.operations.state.branch_files import whole_branches
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.reference_names import MAIN_BRANCH
from lakewright.storage.spec.schema_difference import ColumnDifference, column_differences
from lakewright.storage.spec.schema_gate import Finding, Rule, Severity


def referencing(proposed: ProposedSchema) -> Iterator[Finding]:
    """Tags, branches and consumers that know a column which goes or gets another name or type."""
    changes = column_differences(proposed.old, proposed.new)
    if changes:
        yield from _tags(proposed, changes)
        yield from _branches(proposed, changes)
        yield from _consumers(proposed, changes)


def _has_as_it_was(fields: Sequence[DataField], change: ColumnDifference) -> bool:
    """Whether a schema has a column, and not as it is after the change."""
    held = next((field for field in fields if field.id == change.before.id), None)
    if held is None:
        return False
    after = change.after
    return after is None or (held.name, held.type) != (after.name, after.type)


def _tags(proposed: ProposedSchema, changes: tuple[ColumnDifference, ...]) -> Iterator[Finding]:
    files = proposed.files
    tags = files.references.tags().values()
    schema_ids = {tag.snapshot.schema_id for tag in tags}
    fields = {schema_id: files.at_schema(schema_id).schema.fields for schema_id in schema_ids}
    for change in changes:
        names = [tag.name for tag in tags if _has_as_it_was(fields[tag.snapshot.schema_id], change)]
        if names:
            yield Finding(
                rule=Rule.REFERENCED,
                severity=Severity.INFO,
                column=change.column,
                message=f"{_named('tag', names)} of {files.name} {_keep(names)} column "
                f"{change.column} as it was, which {change.told}",
                way_out="nothing to do; a rollback to a tag keeps the new schema",
                details={"tags": names},
            )


def _branches(proposed: ProposedSchema, changes: tuple[ColumnDifference, ...]) -> Iterator[Finding]:
    files = proposed.files
    others = [seen for seen in whole_branches(files) if seen.paths.branch != files.paths.branch]
    for change in changes:
        names = [
            seen.paths.branch or MAIN_BRANCH
            for seen in others
            if _has_as_it_was(proposed.shared_fields(seen, seen.schema), change)
        ]
        if not names:
            continue
        is_main = not files.paths.branch
        then = (
            "a fast-forward of main to it brings the column back as it was"
            if is_main
            else "a fast-forward of main to this branch brings the change there"
        )
        yield Finding(
            rule=Rule.REFERENCED,
            severity=Severity.WARNING if is_main else Severity.INFO,
            column=change.column,
            message=f"{_named('branch', names)} of {files.name} {_keep(names)} column "
            f"{change.column} as it was, which {change.told}; {then}",
            way_out="make the same change on the branch, or delete the branch"
            if is_main
            else "nothing to do",
            details={"branches": names},
        )


def _consumers(
    proposed: ProposedSchema, changes: tuple[ColumnDifference, ...]
) -> Iterator[Finding]:
    files = proposed.files
    consumers = list_consumers(files)
    if not consumers:
        return
    positions = {consumer.name: consumer.next_snapshot_id for consumer in consumers}
    told = ", ".join(f"{name} (at snapshot {each})" for name, each in positions.items())
    who = _named("consumer", list(positions), told)
    reads = "reads" if len(positions) == 1 else "read"
    for change in changes:
        yield Finding(
            rule=Rule.REFERENCED,
            severity=Severity.WARNING,
            column=change.column,
            message=f"{who} of {files.name} {reads} what follows in the new schema, also rows that "
            f"were written before: column {change.column} {change.told}",
            way_out="let their jobs read up to the latest snapshot, stop them, alter, and start "
            "them for the new schema",
            details={"consumers": positions, "latest": files.snapshots.latest_id()},
        )


def _named(kind: str, names: list[str], told: str | None = None) -> str:
    plural = "es" if kind.endswith("h") else "s"
    return f"{kind}{plural if len(names) > 1 else ''} {told or ', '.join(names)}"


def _keep(names: list[str]) -> str:
    return "keep" if len(names) > 1 else "keeps"


# --- writes that began before ---------------------------------------------------------------------


def open_writes(proposed: ProposedSchema) -> Iterator[Finding]:
    """Kept batches and writers at work whose rows the commit may refuse after the change."""
    files = proposed.files
    if not may_refuse_rows(proposed.old, proposed.new, table=proposed.files.name):
        return
    for batch in pending_batches(files):
        written = [file for message in batch.messages for file in message.new_files]
        try:
            check_rows_fit(files, proposed.new, written)
        except SchemaMoved as error:
            yield Finding(
                rule=Rule.OPEN_WRITE,
                severity=Severity.WARNING,
                column=None,
                message=f"batch {batch.commit_identifier} of {batch.commit_user} will be refused: "
                f"{error.message}",
                way_out="commit it before the change",
                details={"user": batch.commit_user, "identifier": batch.commit_identifier},
            )
    for lease in list_leases(files):
        if lease.kind.is_write and lease.scope.branch == files.paths.branch:
            yield Finding(
                rule=Rule.OPEN_WRITE,
                severity=Severity.WARNING,
                column=None,
                message=f"{lease.holder} works under a lease ({lease.kind.value} on {lease.scope}, "
                f"owner {lease.owner}), and its rows are refused if they do not fit the change",
                way_out="wait until it has committed",
                details={"holder": lease.holder, "owner": lease.owner, "kind": lease.kind.value},
            )
