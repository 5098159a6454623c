"""Alters a table: writes the next version of its schema, and no other file.

1. Plan: apply the changes to the current schema, check keys, options, casts and defaults, and ask
   the gate what the new schema breaks (`gate.py`). A change that is refused is a finding too.
2. Run: apply and judge them again, until the rows of the latest snapshot are judged, and create the
   schema file of the next id. If another client has changed the schema since the plan, nothing is
   written, and the error names what it changed.
3. Read the base again: a fast-forward beside the alter may have replaced it.
4. If rows were committed since they were judged, judge them too, and take the change back by one
   more version if they do not fit. Later commits check their rows by the new version.

Data files stay as they are. Readers map each file from its own schema (`spec/schema_mapping.py`).
Source: FLIP-226; Paimon `SchemaManager.commitChanges`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import get_args

from lakewright.storage.codec.default_values import check_default
from lakewright.storage.codec.json_values import MalformedJson
from lakewright.storage.codec.typed_json import value_of
from lakewright.storage.errors import (
    CommitConflictError,
    InvalidRequestError,
    SchemaDenied,
    SchemaMoved,
    SchemaNotFound,
    StorageError,
    UnsupportedError,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.running.delete_files import delete_files
from lakewright.storage.operations.running.engine import Engine, engine_or_local
from lakewright.storage.operations.running.plan import Plan
from lakewright.storage.operations.schema.gate import judge
from lakewright.storage.operations.schema.locked_out_readers import check_readers
from lakewright.storage.operations.schema.named_folders import check_folders_keep_names
from lakewright.storage.operations.schema.proposed_schema import ProposedSchema
from lakewright.storage.operations.schema.refusals import Refusal, refusals_of
from lakewright.storage.spec.client_rules import check_clients_open
from lakewright.storage.spec.partition_expiry import check_partition_times
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.schema_change import SchemaChange, SetOption
from lakewright.storage.spec.schema_difference import differences
from lakewright.storage.spec.schema_evolution import EvolvingTable, evolved_as_far_as_possible
from lakewright.storage.spec.schema_gate import (
    Finding,
    GateRules,
    GateVerdict,
    Rule,
    Severity,
    verdict_of,
)
from lakewright.storage.spec.shown import Shown
from lakewright.storage.spec.supported_options import Use, check_option_secret, check_supported

# How often the rows of other commits are judged before an alter gives up.
_MOST_ROUNDS = 10

_KINDS = {kind.__name__: kind for kind in get_args(SchemaChange)}


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPlan(Plan["AlterResult"]):
    """The changes of a schema, and what differs after them, one line each.

    A change is the record of a class in `spec/schema_change.py`, with its name as `change`.
    `losses` are the differences by which stored values may change. `findings` are what the gate
    found, by `rules`.
    """

    table: str
    schema_id: int
    changes: tuple[dict[str, object], ...]
    differences: tuple[str, ...]
    losses: tuple[str, ...] = ()
    rules: GateRules = field(default_factory=GateRules)
    findings: tuple[Finding, ...] = ()

    @property
    def verdict(self) -> GateVerdict:
        """What the gate answers."""
        return verdict_of(self.findings)

    @property
    def rewrite_bytes(self) -> int:
        """Size of the data files that must be rewritten before the change."""
        sizes: dict[str, object] = {}
        for finding in self.findings:
            files = finding.details.get("files")
            if finding.rule is Rule.REWRITE_FIRST and finding.counts and isinstance(files, dict):
                # Two columns may be reasons to rewrite the same file.
                sizes.update(files)
        return sum(size for size in sizes.values() if isinstance(size, int))


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterResult(Shown):
    """What an alter changed; the schema is the current one, also if nothing changed."""

    schema: TableSchema
    previous_schema_id: int
    differences: tuple[str, ...]


def plan_alter(
    files: TableFiles,
    changes: Sequence[SchemaChange],
    rules: GateRules | None = None,
    engine: Engine | None = None,
) -> AlterPlan:
    """Plan changes of the schema, applied in their order, with all that they would break.

    A refused change is a finding of the plan, not an error. `engine` reads values if the rules ask
    for a scan.

    Raises:
        InvalidRequestError: there is no change, something is none, or the rules name an unknown
            client.
        SchemaMoved: the schema changed since the table was opened.
        InvalidOption: an option holds a secret, which the plan would keep too.
    """
    if not changes:
        raise InvalidRequestError(f"no change of {files.name} is given; name one or more")
    _check_no_secret(files, changes)
    _check_current(files, files.schema)
    rules = rules or GateRules()
    check_readers(rules.readers)
    records = tuple(map(_record, changes))
    evolution = _evolved(files, [_change(record) for record in records])
    return AlterPlan(
        table=files.name,
        schema_id=files.schema.id,
        changes=records,
        differences=_told(files.schema, evolution.schema),
        losses=tuple(
            str(difference)
            for difference in differences(files.schema, evolution.schema)
            if difference.loss is not None
        ),
        rules=rules,
        findings=judge(_proposed(files, evolution, rules, engine), evolution.refused),
    )


def run_alter(files: TableFiles, plan: AlterPlan, engine: Engine | None = None) -> AlterResult:
    """Carry a plan out; the new schema exists as a whole, or not at all.

    The gate judges the change again, with a scan if the plan had one, and the findings of the plan
    decide nothing: `engine` reads values.

    Raises:
        SchemaMoved: another client changed the schema since the plan; plan again.
        InvalidSchema: a column or type does not exist, exists already, or does not fit.
        ColumnInUse: a key, an option or an older partitioning uses a column.
        InvalidOption: an option cannot change, or its value is invalid.
        UnsupportedError: the new schema has an option or a type that is not implemented.
        SchemaDenied: the change breaks something else, or several things; the message has all.
        CommitConflictError: other clients commit faster than their rows are judged.
        InvalidRequestError: an edited plan names other changes.
    """
    planned = files.at_schema(plan.schema_id).reading_once()
    _check_current(files, planned.schema)
    evolution = _evolved(planned, [_change(change) for change in plan.changes])
    proposed = _proposed(planned, evolution, plan.rules, engine)
    judged = _check_latest_rows(files, evolution, replace(proposed, decides=True))
    schema = evolution.schema
    if schema.id != plan.schema_id:
        if not files.schemas.put_schema(schema):
            raise _moved(files, planned.schema)
        if files.server is None:
            _keep_on_base(files, planned.schema, schema)
        else:
            # The server says when it was made, and makes it of its latest one.
            schema = files.schemas.read(schema.id)
        _keep_if_rows_fit(files, evolution, judged)
    return AlterResult(
        schema=schema, previous_schema_id=plan.schema_id, differences=_told(planned.schema, schema)
    )


def _check_latest_rows(
    files: TableFiles, evolution: _Evolved, proposed: ProposedSchema
) -> ProposedSchema:
    """Judge the change, and again while other clients commit, until the latest snapshot is judged.

    What a scan counted in a file is not counted again.
    """
    for _ in range(_MOST_ROUNDS):
        _check_allowed(files, evolution, judge(proposed, evolution.refused))
        if not proposed.stored.is_outdated():
            return proposed
        # A copy reads the snapshot anew.
        proposed = replace(proposed)
    raise CommitConflictError(
        f"the rows of {files.name} changed {_MOST_ROUNDS} times while the change of its schema was "
        "judged, and the rows of the latest commit are not judged; try again when fewer writers "
        "commit"
    )


def _check_allowed(files: TableFiles, evolution: _Evolved, findings: Sequence[Finding]) -> None:
    if verdict_of(findings) is GateVerdict.ALLOW:
        return
    against = [
        finding
        for finding in findings
        if finding.counts and finding.severity in (Severity.BREAKING, Severity.REWRITE)
    ]
    if len(against) == 1 and against[0].rule is Rule.REFUSED:
        raise next(each.error for each in evolution.refused if each.waits_for is None)
    told = "; ".join(f"{number}. {each}" for number, each in enumerate(against, start=1))
    raise SchemaDenied(
        f"the change of {files.name} is denied for {len(against)} reasons: {told}"
        if len(against) > 1
        else f"the change of {files.name} is denied: {against[0]}",
        findings=tuple(against),
    )


def _record(change: SchemaChange) -> dict[str, object]:
    if type(change).__name__ not in _KINDS:
        raise InvalidRequestError(
            f"{change!r:.200} is no change of a schema: the changes are {', '.join(_KINDS)}"
        )
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


@dataclass(frozen=True, slots=True)
class _Evolved:
    """The schema after the changes that are possible, and the other changes with their errors."""

    schema: TableSchema
    refused: tuple[Refusal, ...]


def _evolved(files: TableFiles, changes: Sequence[SchemaChange]) -> _Evolved:
    old = files.schema
    state = EvolvingTable(
        files.name,
        has_snapshots=files.snapshots.latest_id() is not None,
        former_keys=_former_keys(files),
    )
    new, refused = evolved_as_far_as_possible(old, changes, state, time_millis=files.env.now_ms())
    found: list[tuple[SchemaChange | None, StorageError]] = [*refused]
    for check in (_check_options, check_folders_keep_names, _check_defaults):
        try:
            check(files, new)
        except (InvalidRequestError, UnsupportedError) as error:
            found.append((None, error))
    return _Evolved(new, refusals_of(found))


def _proposed(
    files: TableFiles, evolution: _Evolved, rules: GateRules, engine: Engine | None
) -> ProposedSchema:
    return ProposedSchema(
        files=files,
        old=files.schema,
        new=evolution.schema,
        rules=rules,
        engine=engine_or_local(engine, files.env),
    )


def _check_options(files: TableFiles, new: TableSchema) -> None:
    for use in (Use.READ, Use.WRITE):
        check_supported(new, use, table=files.name)
    check_clients_open(new, table=files.name, before=files.schema)
    check_partition_times(new, table=files.name, before=files.schema)


def _check_no_secret(files: TableFiles, changes: Sequence[SchemaChange]) -> None:
    for change in changes:
        if isinstance(change, SetOption):
            check_option_secret(change.name, change.value, table=files.name)


def _check_defaults(files: TableFiles, new: TableSchema) -> None:
    known = {(field.default_value, field.type) for field in files.schema.fields}
    for column in new.fields:
        if column.default_value is not None and (column.default_value, column.type) not in known:
            check_default(column, files.name)


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

    A fast-forward may put other fields under the same id; `_keep_on_base` compares the rest.

    Raises:
        SchemaMoved: another version is the latest; the message names what differs.
    """
    latest = files.schemas.latest(table=files.name)
    if (latest.id, latest.fields) != (base.id, base.fields):
        raise _moved(files, base)


def _keep_on_base(files: TableFiles, base: TableSchema, new: TableSchema) -> None:
    """Delete a new version again if the version that it was made of is not there any more.

    A fast-forward copies the latest version first. So if the base is another one, a version of the
    branch under the id of the new one is there too, and stays.

    Raises:
        SchemaMoved: the base was replaced or deleted.
    """
    with suppress(SchemaNotFound):
        if files.schemas.read(base.id) == base:
            return
    with suppress(SchemaNotFound):
        if files.schemas.read(new.id) == new:
            delete_files(files.fs, [files.paths.schema(new.id)])
            files.schemas.tell_latest()
    raise _moved(files, base)


def _keep_if_rows_fit(files: TableFiles, evolution: _Evolved, judged: ProposedSchema) -> None:
    """Take the new version back if rows that were committed since the judgement do not fit it.

    Another client may have opened the table under it, so its file stays, and one more version has
    the fields and options of before.

    Raises:
        SchemaDenied: the change is taken back.
    """
    if not judged.stored.is_outdated():
        return
    old, new = judged.old, judged.new
    try:
        _check_latest_rows(files, evolution, replace(judged))
    except StorageError as error:
        back = replace(
            old,
            id=new.id + 1,
            highest_field_id=new.highest_field_id,
            time_millis=files.env.now_ms(),
        )
        told = (
            f"schema {new.id} stood for a moment, and schema {back.id} is as schema {old.id} was"
            if files.schemas.put_schema(back)
            else f"another client altered schema {new.id} meanwhile, so it stays: alter the table"
        )
        raise SchemaDenied(
            f"rows were committed to {files.name} while its schema changed: {error.message}; "
            f"{told}",
            **error.details,
        ) from error


def _moved(files: TableFiles, base: TableSchema) -> SchemaMoved:
    latest = files.schemas.latest(table=files.name)
    told = "; ".join(_told(base, latest)) or "nothing that differs"
    return SchemaMoved(
        f"the schema of {files.name} is {latest.id} now, and the change was made for schema "
        f"{base.id}; another client changed since: {told}; open the table and plan again"
    )


def _told(old: TableSchema, new: TableSchema) -> tuple[str, ...]:
    return tuple(str(difference) for difference in differences(old, new))
