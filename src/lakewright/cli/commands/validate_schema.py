"""`lakewright validate-schema`: whether rows of older schemas read right under the current one."""

from __future__ import annotations

from lakewright.cli.upkeep.verbs import verb_command
from lakewright.platform.ingest.validate_schema import VALIDATE_SCHEMA

validate_schema = verb_command(
    VALIDATE_SCHEMA,
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
    code_of_result=lambda validated: 0 if validated.has_passed else 1,
)
