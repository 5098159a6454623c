"""Alters a table: writes the next version of its schema, and no other file.

1. Plan: apply the changes to the current schema, and check keys, options, casts and defaults.
2. Run: apply them again, and create the schema file of the next id. If another client has changed
   the schema since the plan, nothing is written, and the error names what that client changed.

Data files stay as they are. Readers map each file from its own schema (`spec/schema_mapping.py`).
Source: FLIP-226; Paimon `SchemaManager.commitChanges`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import get_args

from lakewright.storage.codec.default_values import default_value
from lakewright.storage.codec.json_values import MalformedJson
from lakewright.storage.codec.typed_json import value_of
from lakewright.storage.errors import InvalidRequestError, InvalidSchema, SchemaMoved
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.running.plan import Plan
from lakewright.storage.operations.state.live_files import LiveFiles
from lakewright.storage.spec.cast_rules import Cast, cast_rule
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.schema_casts import casts_of
from lakewright.storage.spec.schema_change import SchemaChange
from lakewright.storage.spec.schema_difference import differences
from lakewright.storage.spec.schema_evolution import TableState, evolved_schema
from lakewright.storage.spec.schema_mapping import schema_mapping
from lakewright.storage.spec.shown import Shown
from lakewright.storage.spec.supported_options import Use, check_supported

_KINDS = {kind.__name__: kind for kind in get_args(SchemaChange)}


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPlan(Plan["AlterResult"]):
    """The changes of a schema, and what differs after them, one line each.

    A change is the record of a class in `spec/schema_change.py`, with its name as `change`.
    `losses` are the differences by which stored values may change.
    """

    table: str
    schema_id: int
    changes: tuple[dict[str, object], ...]
    differences: tuple[str, ...]
    losses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterResult(Shown):
    """What an alter changed; the schema is the current one, also if nothing changed."""

    schema: TableSchema
    previous_schema_id: int
    differences: tuple[str, ...]


def plan_alter(files: TableFiles, changes: Sequence[SchemaChange]) -> AlterPlan:
    """Plan changes of the schema, applied in their order.

    Raises:
        InvalidSchema: a column or type does not exist, exists already, or does not fit.
        ColumnInUse: a key, an option or an older partitioning uses a column.
        InvalidOption: an option cannot change, or its value is invalid.
        UnsupportedError: the new schema has an option or a type that is not implemented.
        SchemaMoved: the schema changed since the table was opened.
    """
    if not changes:
        raise InvalidRequestError(f"no change of {files.name} is given; name one or more")
    _check_current(files, files.schema)
    schema = _evolved(files, changes)
    return AlterPlan(
        table=files.name,
        schema_id=files.schema.id,
        changes=tuple(map(_record, changes)),
        differences=_told(files.schema, schema),
        losses=tuple(
            str(each) for each in differences(files.schema, schema) if each.loss is not None
        ),
    )


def run_alter(files: TableFiles, plan: AlterPlan) -> AlterResult:
    """Carry a plan out; the new schema exists as a whole, or not at all.

    Raises:
        SchemaMoved: another client changed the schema since the plan; plan again.
        InvalidRequestError: as `plan_alter`, if an edited plan names other changes.
    """
    planned = files.at_schema(plan.schema_id)
    _check_current(files, planned.schema)
    schema = _evolved(planned, [_change(each) for each in plan.changes])
    if schema.id != plan.schema_id and not files.schemas.put_schema(schema):
        _check_current(files, planned.schema)
    return AlterResult(
        schema=schema,
        previous_schema_id=plan.schema_id,
        differences=_told(planned.schema, schema),
    )


def _record(change: SchemaChange) -> dict[str, object]:
    return {"change": type(change).__name__, **asdict(change)}


def _change(record: Mapping[str, object]) -> SchemaChange:
    values = dict(record)
    kind = _KINDS.get(str(values.pop("change", None)))
    try:
        if kind is None:
            raise MalformedJson(f"the changes are {', '.join(_KINDS)}")
        change: SchemaChange = value_of(kind, values)
    except ValueError as error:
        raise InvalidRequestError(
            f"{dict(record)!r:.200} is no change of a schema: {error}"
        ) from error
    return change


def _evolved(files: TableFiles, changes: Sequence[SchemaChange]) -> TableSchema:
    old = files.schema
    state = TableState(
        files.name,
        has_snapshots=files.snapshots.latest_id() is not None,
        former_keys=_former_keys(files),
    )
    new = evolved_schema(old, changes, state, time_millis=files.env.now_ms())
    if new is old:
        return old
    check_supported(new, Use.READ, table=files.name)
    check_supported(new, Use.WRITE, table=files.name)
    _check_stored_types(files, new)
    known = {(field.default_value, field.type) for field in old.fields}
    for field in new.fields:
        if field.default_value is not None and (field.default_value, field.type) not in known:
            default_value(field, files.name)
    return new


def _check_stored_types(files: TableFiles, new: TableSchema) -> None:
    """Check that the values of live files can be cast from the types of their own schemas.

    Two casts in turn may exist where the cast over both does not.

    Raises:
        InvalidSchema: a live file holds a column in a type that is not cast to the new one.
    """
    refused: dict[int, str] = {}
    for schema_id in files.schemas.ids():
        stored = files.at_schema(schema_id).schema
        for column in schema_mapping(stored.fields, new.fields).columns.values():
            for path, old, read in casts_of(column):
                if cast_rule(old, read).cast is Cast.REFUSED:
                    refused[schema_id] = f"column {path} as {old}, and no client casts it to {read}"
    if not refused:
        return
    for entry in LiveFiles(files).entries(files.snapshots.latest()):
        if entry.file.schema_id in refused:
            raise InvalidSchema(
                f"data file {entry.file.file_name} of {files.name} holds "
                f"{refused[entry.file.schema_id]}; compact the table fully first, so that its "
                "files have the types of today",
                table=files.name,
            )


def _former_keys(files: TableFiles) -> frozenset[int]:
    """The ids of columns that an earlier schema is partitioned by."""
    found: set[int] = set()
    for schema_id in files.schemas.ids():
        schema = files.at_schema(schema_id).schema
        if schema.partition_keys != files.schema.partition_keys:
            found.update(field.id for field in schema.partition_fields)
    return frozenset(found)


def _check_current(files: TableFiles, base: TableSchema) -> None:
    """Check that no client has changed the schema since the given version.

    Raises:
        SchemaMoved: another version is the latest; the message names what differs.
    """
    latest = files.schemas.latest(table=files.name)
    if latest.id != base.id:
        told = "; ".join(_told(base, latest)) or "nothing that differs"
        raise SchemaMoved(
            f"the schema of {files.name} is {latest.id} now, and the change was made for schema "
            f"{base.id}; another client changed since: {told}; open the table and plan again",
            table=files.name,
        )


def _told(old: TableSchema, new: TableSchema) -> tuple[str, ...]:
    return tuple(str(each) for each in differences(old, new))
