"""Validating stored rows as a verb: storage samples and profiles them, Great Expectations judges.

Of each schema version that live files use, some files are read under the current schema. Their
profiles are facts, one line for each part of a column, which keeps the evaluation small however
many columns, rows and versions there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import pyarrow as pa

from lakewright.platform.declare.declarations import ExpectationDeclaration, SchemaValidation
from lakewright.platform.declare.upkeep_policies import EngineChoice
from lakewright.platform.ingest.expectations import ExpectationOutcome, validate_arrow
from lakewright.platform.upkeep.verb import Outcome, Report, Verb, option
from lakewright.platform.upkeep.words import counted, size_text
from lakewright.storage import (
    FileProfile,
    Table,
    ValidateRowsPlan,
    ValidateRowsResult,
)

# What the parts of a file's columns must hold, and what a file must.
_OF_PARTS = tuple(
    map(
        ExpectationDeclaration.model_validate,
        (
            {
                "name": "types",
                "expect": "expect_column_pair_values_to_be_equal",
                "column_A": "held",
                "column_B": "declared",
            },
            {
                "name": "nulls",
                "expect": "expect_column_values_to_be_between",
                "column": "nulls",
                "max_value": 0,
            },
            {
                "name": "ranges",
                "expect": "expect_column_values_to_be_between",
                "column": "lost",
                "max_value": 0,
            },
        ),
    )
)
_OF_FILES = tuple(
    map(
        ExpectationDeclaration.model_validate,
        (
            {
                "name": "counts",
                "expect": "expect_column_pair_values_to_be_equal",
                "column_A": "rows_in_file",
                "column_B": "rows_in_manifest",
            },
            {"name": "reads", "expect": "expect_column_values_to_be_null", "column": "error"},
        ),
    )
)
_WHERE = (("schema_id", pa.int64()), ("partition", pa.string()), ("file", pa.string()))
_PARTS = pa.schema(
    [
        *_WHERE,
        ("column", pa.string()),
        ("held", pa.string()),
        ("declared", pa.string()),
        ("nulls", pa.int64()),
        ("lost", pa.int64()),
        ("loss", pa.string()),
        ("example", pa.string()),
    ]
)
_FILES = pa.schema(
    [
        *_WHERE,
        ("rows_in_manifest", pa.int64()),
        ("rows_in_file", pa.int64()),
        ("error", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateOptions:
    """How much of each schema version is read."""

    files_per_version: int = option(2, "How many files of each schema version are read.")
    rows_per_file: int = option(1000, "How many rows of each file are read, from its beginning.")
    engine: EngineChoice = option(
        EngineChoice.AUTO, "Where rows are read: spark, local, or auto, by size.", at_run=True
    )

    @classmethod
    def declared(cls, policy: SchemaValidation) -> ValidateOptions:
        """The options of a declaration."""
        return cls(
            files_per_version=policy.files_per_version,
            rows_per_file=policy.rows_per_file,
            engine=policy.engine,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Validated:
    """The profiles of the sampled rows, and what Great Expectations says of them."""

    sampled: ValidateRowsResult
    outcomes: tuple[ExpectationOutcome, ...]

    @property
    def has_passed(self) -> bool:
        return all(outcome.met for outcome in self.outcomes)

    @property
    def misfits(self) -> tuple[dict[str, object], ...]:
        """What does not fit: schema id, file and a sentence each; of many, the first."""
        return tuple(
            {**{name: row[name] for name, _ in _WHERE}, "misfit": _told(outcome.check_name, row)}
            for outcome in self.outcomes
            for row in outcome.sample
        )


def judged(sampled: ValidateRowsResult) -> Validated:
    """Evaluate the expectations on the profiles; a table without files meets them all."""
    if not sampled.profiles:
        return Validated(sampled=sampled, outcomes=())
    parts = [
        {**_where(profile), **asdict(part)}
        for profile in sampled.profiles
        for part in profile.parts
    ]
    files = [
        {
            **_where(profile),
            "rows_in_manifest": profile.file.rows,
            "rows_in_file": profile.rows_in_file,
            "error": profile.error,
        }
        for profile in sampled.profiles
    ]
    outcomes = (
        *validate_arrow(pa.Table.from_pylist(parts, _PARTS), _OF_PARTS).outcomes,
        *validate_arrow(pa.Table.from_pylist(files, _FILES), _OF_FILES).outcomes,
    )
    return Validated(sampled=sampled, outcomes=outcomes)


def _where(profile: FileProfile) -> dict[str, object]:
    file = profile.file
    return {"schema_id": file.schema_id, "partition": file.partition, "file": file.file}


def _told(check: str, row: Mapping[str, object]) -> str:
    column = f"column {row.get('column')}"
    match check:
        case "types":
            return (
                f"{column} holds {row['held']}, and the schema of the file says {row['declared']}"
            )
        case "nulls":
            return f"{column} refuses null, and {row['nulls']} of the sampled values are null"
        case "ranges":
            return (
                f"{column}: {row['lost']} of the sampled values change as they are read, such as "
                f"{row['example']} ({row['loss']})"
            )
        case "counts":
            counts = row["rows_in_file"], row["rows_in_manifest"]
            return "the file holds {} rows, its manifest says {}".format(*counts)
        case _:
            return str(row["error"])


# --- the verb ------------------------------------------------------------------------------------


def _report(_: Table, done: Outcome[ValidateOptions, ValidateRowsPlan, Validated]) -> Report:
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
    rows = sum(each.rows_read for each in found.sampled.profiles)
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
            f"schema {each['schema_id']}, file {_place(each)}: {each['misfit']}" for each in misfits
        ),
    )


def _place(misfit: Mapping[str, object]) -> str:
    return "/".join(str(misfit[name]) for name in ("partition", "file") if misfit[name])


def _versions(plan: ValidateRowsPlan, found: Validated | None) -> list[dict[str, object]]:
    files = Counter(each.schema_id for each in plan.files)
    rows: Counter[int] = Counter()
    misfits: Counter[object] = Counter()
    if found is not None:
        for profile in found.sampled.profiles:
            rows[profile.file.schema_id] += profile.rows_read
        misfits.update(each["schema_id"] for each in found.misfits)
    return [
        {
            "schema_id": each.schema_id,
            "files": each.files,
            "rows": each.rows,
            "sampled_files": files[each.schema_id],
            **(
                {}
                if found is None
                else {
                    "sampled_rows": rows[each.schema_id],
                    "misfits": misfits[each.schema_id],
                }
            ),
        }
        for each in plan.versions
    ]


VALIDATE_SCHEMA: Verb[ValidateOptions, ValidateRowsPlan, Validated] = Verb(
    name="validate_schema",
    description="read a sample of each schema version's rows under the current schema",
    options=ValidateOptions,
    plan_type=ValidateRowsPlan,
    plan=lambda table, options: table.upkeep.plan_validate_rows(
        files_per_version=options.files_per_version, rows_per_file=options.rows_per_file
    ),
    run=lambda table, plan, options, work: judged(
        table.upkeep.run(plan, work.engine(options.engine, plan.bytes))
    ),
    report=_report,
    only_reads=True,
)
