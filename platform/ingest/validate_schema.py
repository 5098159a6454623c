"""Validating stored rows as a verb: storage samples and profiles them, and the profiles are judged.

Of each schema version that live files use, some files are read under the current schema. Their
profiles are facts, one line for each part of a column, which keeps the evaluation small however
many columns, rows and versions there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lakewright.platform.tables.declarations import SchemaValidation
from lakewright.platform.upkeep.procedure import Command, Outcome, Procedure, Report, run_verb
from lakewright.platform.upkeep.run_options import OnEngine
from lakewright.platform.upkeep.words import counted, size_text
from lakewright.storage import Table
from lakewright.storage.operations.schema.validate_rows import (
    FileProfile,
    ValidateRowsOptions,
    ValidateRowsPlan,
    ValidateRowsResult,
)
from lakewright.storage.upkeep import Upkeep

# Of many misfits of one kind in a sample, so many are told.
_MOST_TOLD = 20


@dataclass(frozen=True, kw_only=True)
class ValidateRun(OnEngine, ValidateRowsOptions):
    """How much of each schema version is read."""

    @classmethod
    def declared(cls, policy: SchemaValidation) -> ValidateRun:
        """The options of a declaration."""
        return cls(
            files_per_version=policy.files_per_version,
            rows_per_file=policy.rows_per_file,
            engine=policy.engine,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Validated:
    """The profiles of the sampled rows, and what of them does not fit.

    `misfits` are schema id, partition, file and a sentence each; of many, the first of each kind.
    """

    sampled: ValidateRowsResult
    misfits: tuple[dict[str, object], ...]

    @property
    def has_passed(self) -> bool:
        return not self.misfits


def judged(sampled: ValidateRowsResult) -> Validated:
    """What of the profiles is not as schemas and manifests say."""
    by_kind: dict[str, list[dict[str, object]]] = {}
    for profile in sampled.profiles:
        file = profile.file
        where = {"schema_id": file.schema_id, "partition": file.partition, "file": file.file}
        for kind, told in _misfits(profile):
            by_kind.setdefault(kind, []).append({**where, "misfit": told})
    kinds = [by_kind[kind][:_MOST_TOLD] for kind in _KINDS if kind in by_kind]
    return Validated(sampled=sampled, misfits=tuple(each for one in kinds for each in one))


_KINDS = ("types", "nulls", "ranges", "counts", "reads")


def _misfits(profile: FileProfile) -> Iterator[tuple[str, str]]:
    """What does not fit in a file, with its kind."""
    for part in profile.parts:
        column = f"column {part.column}"
        if part.held != part.declared:
            told = f"{column} holds {part.held}, and the schema of the file says {part.declared}"
            yield "types", told
        if part.nulls:
            told = f"{column} refuses null, and {part.nulls} of the sampled values are null"
            yield "nulls", told
        if part.lost:
            told = (
                f"{column}: {part.lost} of the sampled values change as they are read, such as "
                f"{part.example} ({part.loss})"
            )
            yield "ranges", told
    held, named = profile.rows_in_file, profile.file.rows
    if held != named and (held is not None or profile.error is None):
        yield "counts", f"the file holds {held} rows, its manifest says {named}"
    if profile.error is not None:
        yield "reads", profile.error


# --- the verb ------------------------------------------------------------------------------------


def _report(_: Table, done: Outcome[ValidateRun, ValidateRowsPlan, Validated]) -> Report:
    plan, found = done.plan, done.result
    count = counted(len(plan.files), "file")
    versions = counted(len(plan.versions), "schema version")
    facts: dict[str, object] = {
        "schema_id": plan.schema_id,
        "schema_versions": len(plan.versions),
        "sampled_files": len(plan.files),
    }
    if found is None or not plan.files:
        return Report(
            summary=(
                f"{plan.table}: {count} of {versions} to read under schema {plan.schema_id}, about "
                f"{size_text(plan.bytes)}"
            ),
            facts=facts,
            tables={"versions": _versions(plan, None)},
            is_empty=not plan.files,
        )
    said = "all fit" if found.has_passed else "some do not fit"
    rows = sum(profile.rows_read for profile in found.sampled.profiles)
    misfits = found.misfits
    return Report(
        summary=(
            f"{plan.table}: {counted(rows, 'row')} of {count} and {versions} read under schema "
            f"{plan.schema_id}, {said}"
        ),
        facts={
            **facts,
            "sampled_rows": rows,
            "passed": found.has_passed,
            "misfits": list(misfits),
        },
        tables={"versions": _versions(plan, found)},
        notes=tuple(
            f"schema {misfit['schema_id']}, file {_place(misfit)}: {misfit['misfit']}"
            for misfit in misfits
        ),
    )


def _place(misfit: Mapping[str, object]) -> str:
    return "/".join(str(misfit[name]) for name in ("partition", "file") if misfit[name])


def _versions(plan: ValidateRowsPlan, found: Validated | None) -> list[dict[str, object]]:
    files = Counter(file.schema_id for file in plan.files)
    rows: Counter[int] = Counter()
    misfits: Counter[object] = Counter()
    if found is not None:
        for profile in found.sampled.profiles:
            rows[profile.file.schema_id] += profile.rows_read
        misfits.update(misfit["schema_id"] for misfit in found.misfits)
    return [
        {
            "schema_id": version.schema_id,
            "files": version.files,
            "rows": version.rows,
            "sampled_files": files[version.schema_id],
            **(
                {}
                if found is None
                else {
                    "sampled_rows": rows[version.schema_id],
                    "misfits": misfits[version.schema_id],
                }
            ),
        }
        for version in plan.versions
    ]


VALIDATE_SCHEMA: Procedure[ValidateRun, ValidateRowsPlan, Validated] = Procedure(
    verb=Upkeep.validate_rows,
    options=ValidateRun,
    run=lambda table, plan, options, work: judged(
        run_verb(Upkeep.validate_rows, table, plan, options, work)
    ),
    report=_report,
    command=Command(
        purpose="Upkeep",
        notes="""
Nothing is written. Of each schema version that live files have, the first rows of some files are
read, and Great Expectations judges them: types, nulls, values that a cast changes, and row counts.
JSON has `passed`, and the schema id and the file of what does not fit. Exit codes:
  0    all sampled rows fit
  1    some do not fit
""",
        examples="""
lakewright validate-schema nyc.flights
lakewright validate-schema nyc.flights --files-per-version 10 --engine spark --format json
""",
        exit_code=lambda done: 0 if done.result is None or done.result.has_passed else 1,
    ),
)
