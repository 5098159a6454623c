"""Finds readers that a change breaks, by the mode of compatibility and the columns under contract.

1. Forward: readers that know an older schema, by names and types, and read rows of the new one. A
   break of a protected reader denies the change; another one is a warning, or nothing if the
   change only widens a type.
2. Backward: readers of the new schema on rows of an older one. `lost_values.py` finds what they
   lose; here is what they read in another sense.
3. A transitive mode asks for each schema that live files, tags, branches or kept batches still use,
   of the columns that this change touches. No manifest is read for any other mode.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.pending import pending_batches
from lakewright.storage.operations.schema.proposed_schema import ProposedSchema
from lakewright.storage.operations.state.branch_files import whole_branches
from lakewright.storage.spec.data_types import AtomicType, DataField, DataType, TypeRoot
from lakewright.storage.spec.reader_breaks import ReaderBreak, reader_breaks
from lakewright.storage.spec.reference_names import MAIN_BRANCH
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.schema_casts import casts_of
from lakewright.storage.spec.schema_change import path_text
from lakewright.storage.spec.schema_gate import Finding, Rule, Severity
from lakewright.storage.spec.schema_mapping import schema_mapping


def broken_readers(proposed: ProposedSchema) -> Iterator[Finding]:
    """Findings about readers of older schemas, of the new one, and by position."""
    yield from _forward(proposed)
    yield from _backward(proposed)
    yield from _by_position(proposed)


# --- readers of older schemas ---------------------------------------------------------------------


@dataclass
class _Used:
    """A schema that something still uses, and those of its fields that this branch shares."""

    schema: TableSchema
    fields: tuple[DataField, ...]
    users: set[str] = field(default_factory=set)


def _forward(proposed: ProposedSchema) -> Iterator[Finding]:
    rules = proposed.rules
    found: dict[tuple[int, ReaderBreak], list[_Used]] = {}
    touched = _Touched(proposed)
    for used in _schemas_to_keep(proposed):
        ids = {each.name: each.id for each in used.fields}
        for each in reader_breaks(used.fields, proposed.new.fields):
            name = each.path[0]
            if (ids[name], name) in touched:
                found.setdefault((ids[name], each), []).append(used)
    for (field_id, broken), users in found.items():
        name = proposed.top_level_name(field_id, broken.path[0])
        protected = rules.compatibility.is_forward and rules.is_under_contract(name)
        if broken.is_widening and not protected:
            continue
        schemas = sorted({used.schema.id for used in users})
        by = sorted({user for used in users for user in used.users})
        path = path_text(broken.path)
        yield Finding(
            rule=Rule.FORWARD,
            severity=Severity.BREAKING if protected else Severity.WARNING,
            column=path,
            message=f"readers that know schema {', '.join(map(str, schemas))} of "
            f"{proposed.files.name}{_used_by(by)} ask for column {path}, which {broken.told}",
            way_out="change those readers first; or add a column beside this one, fill both, and "
            "drop this one later",
            details={"schemas": schemas, "used_by": by, "is_widening": broken.is_widening},
        )


def _used_by(users: list[str]) -> str:
    return f" (used by {', '.join(users)})" if users else ""


@dataclass(frozen=True)
class _Touched:
    """Which columns this change, and not an earlier one, concerns."""

    proposed: ProposedSchema

    def __contains__(self, known: tuple[int, str]) -> bool:
        """Whether it concerns a column that a reader knows by this id and name."""
        field_id, name = known
        before, after = (by_id.get(field_id) for by_id, _ in self._sides)
        if before != after:
            return True
        held_before, held_after = (by_name.get(name) for _, by_name in self._sides)
        return held_after is not None and held_before != held_after

    @cached_property
    def _sides(self) -> list[tuple[dict[int, tuple[str, DataType]], dict[str, int]]]:
        return [
            (
                {each.id: (each.name, each.type) for each in schema.fields},
                {each.name: each.id for each in schema.fields},
            )
            for schema in (self.proposed.old, self.proposed.new)
        ]


def _touches_columns(proposed: ProposedSchema) -> bool:
    before = [(each.id, each.name, each.type) for each in proposed.old.fields]
    after = [(each.id, each.name, each.type) for each in proposed.new.fields]
    return sorted(before, key=str) != sorted(after, key=str)


def _schemas_to_keep(proposed: ProposedSchema) -> list[_Used]:
    """The current schema, or all that are used if the mode is transitive."""
    current = _Used(proposed.old, proposed.old.fields)
    if not proposed.rules.compatibility.is_transitive or not _touches_columns(proposed):
        return [current]
    own = proposed.files.paths.branch
    found = {(own, proposed.old.id): current}

    def add(seen: TableFiles, schema: TableSchema, user: str) -> None:
        used = _Used(schema, proposed.shared_fields(seen, schema))
        found.setdefault((seen.paths.branch, schema.id), used).users.add(user)

    for stored in proposed.stored.all:
        schema = proposed.stored.schemas_of(stored).schema_of(stored.file)
        if stored.is_live:
            add(stored.seen, schema, "live files")
        for name in stored.tags:
            add(stored.seen, schema, f"tag {name}")
        for name in stored.branches:
            add(stored.seen, schema, f"branch {name}")
    for tag in proposed.files.references.tags().values():
        schema = proposed.files.at_schema(tag.snapshot.schema_id).schema
        add(proposed.files, schema, f"tag {tag.name}")
    for seen in whole_branches(proposed.files):
        if seen.paths.branch != own:
            add(seen, seen.schema, f"branch {seen.paths.branch or MAIN_BRANCH}")
    for batch in pending_batches(proposed.files):
        for schema_id in {
            file.schema_id for message in batch.messages for file in message.new_files
        }:
            schema = proposed.files.at_schema(schema_id).schema
            add(proposed.files, schema, f"a batch of {batch.commit_user}")
    return list(found.values())


# --- readers of the new schema ----------------------------------------------------------------


def _backward(proposed: ProposedSchema) -> Iterator[Finding]:
    table, rules = proposed.files.name, proposed.rules
    known = {each.id for each in proposed.old.fields}
    zoned = [
        (column.field.id, path, old, new)
        for column in schema_mapping(proposed.old.fields, proposed.new.fields).columns.values()
        for path, old, new in casts_of(column)
        if _depends_on_zone(old, new)
    ]
    filled = [
        each
        for each in proposed.new.fields
        if each.id not in known and each.default_value is not None
    ]
    if not (zoned or filled) or proposed.files.snapshots.latest_id() is None:
        return
    for field_id, path, old, new in zoned:
        protected = rules.compatibility.is_backward and rules.is_under_contract(
            proposed.top_level_name(field_id, path)
        )
        yield Finding(
            rule=Rule.BACKWARD,
            severity=Severity.BREAKING if protected else Severity.WARNING,
            column=path,
            message=f"column {path} of {table} changes from {old} to {new}, so each reader reads "
            "the values of before in the time zone of its machine, and two may read different ones",
            way_out="add a column of the new type and fill it in the zone that the values are of",
        )
    for column in filled:
        yield Finding(
            rule=Rule.BACKWARD,
            severity=Severity.INFO,
            column=column.name,
            message=f"rows of {table} from before hold null in column {column.name}; its default "
            f"{column.default_value} is for rows that are written later",
            way_out="write the rows of before again if they need the default",
        )


def _depends_on_zone(old: DataType, new: DataType) -> bool:
    """Whether a cast converts between moments and wall clock times, in the zone of the machine."""
    if not isinstance(old, AtomicType) or not isinstance(new, AtomicType):
        return False
    if old.root is TypeRoot.TIMESTAMP_LTZ:
        # Seconds since 1970 are the same everywhere.
        return new.root is not TypeRoot.TIMESTAMP_LTZ and not new.root.is_integer
    return new.root is TypeRoot.TIMESTAMP_LTZ


# --- readers by position ------------------------------------------------------------------------


def _by_position(proposed: ProposedSchema) -> Iterator[Finding]:
    kept = {each.id for each in proposed.new.fields}
    before = [each.id for each in proposed.old.fields if each.id in kept]
    after = [each.id for each in proposed.new.fields]
    if before == after[: len(before)]:
        return
    yield Finding(
        rule=Rule.FORWARD,
        severity=Severity.INFO,
        column=None,
        message=f"columns of {proposed.files.name} stand in another order then: "
        f"{', '.join(proposed.new.field_names)}; writers and readers that count columns, as INSERT "
        "INTO without names, take one for another",
        way_out="let them name the columns",
    )
