"""Reads a sample of the stored rows under a new schema before it is made, as a validation does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lakewright.storage.operations.schema.proposed_schema import ProposedSchema
from lakewright.storage.operations.schema.validate_rows import (
    FileProfile,
    ValidateRowsOptions,
    plan_validate_rows,
    run_validate_rows,
)
from lakewright.storage.spec.schema_gate import Finding, Rule, Severity


def misread_rows(proposed: ProposedSchema) -> Iterator[Finding]:
    """A finding for each file of the sample that cannot be read, or is not what its metadata says.

    The sample has some files of every schema version that live files use. What casts do to values
    is counted in all files (`lost_values.py`), so errors of files with cast columns are left out.
    """
    if proposed.rules.is_scanned and proposed.new.id != proposed.old.id:
        if not proposed.sampled:
            proposed.sampled.append(tuple(_findings(proposed)))
        yield from proposed.sampled[0]


def _findings(proposed: ProposedSchema) -> Iterator[Finding]:
    files = replace(proposed.files, schema=proposed.new)
    plan = plan_validate_rows(files, ValidateRowsOptions())
    profiles = run_validate_rows(files, plan, proposed.engine).profiles
    failed = tuple(profile.file for profile in profiles if profile.error is not None)
    present = replace(plan, files=failed, schema_id=proposed.old.id)
    now = run_validate_rows(proposed.files, present, proposed.engine) if failed else None
    errors_now = (
        {} if now is None else {profile.file.file: profile.error for profile in now.profiles}
    )
    for profile in profiles:
        is_broken = errors_now.get(profile.file.file) is not None
        told = _told(profile)
        if told is None or (not is_broken and profile.error and _is_cast(proposed, profile)):
            continue
        is_new = profile.error is not None and not is_broken
        yield Finding(
            rule=Rule.ROWS_MISREAD,
            severity=Severity.BREAKING if is_new else Severity.WARNING,
            column=None,
            message=f"data file {profile.file.file} of {proposed.files.name} (schema "
            f"{profile.file.schema_id}) {told}",
            way_out="rewrite the file by a full compaction first"
            if is_new
            else "it is so before the change, too: see what wrote the file",
            details={"file": profile.file.file, "schema_id": profile.file.schema_id},
        )


def _told(profile: FileProfile) -> str | None:
    if profile.error is not None:
        return f"cannot be read: {profile.error}"
    for part in profile.parts:
        if part.held != part.declared:
            return f"holds column {part.column} as {part.held}, and its schema says {part.declared}"
    return None


def _is_cast(proposed: ProposedSchema, profile: FileProfile) -> bool:
    stored = proposed.files.at_schema(profile.file.schema_id).schema
    return bool(proposed.parts_of(proposed.files, stored))
