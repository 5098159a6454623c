"""States of tables as rows: figures that any client reads, and what a decision reads, as JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from lakewright.platform.decide.debt import debt_of
from lakewright.platform.decide.upkeep_state import UpkeepState
from lakewright.platform.ledger.action_rows import MONTH, month_of
from lakewright.platform.upkeep.health import PartitionHealth

# The partitions with the most files to join; a row stays below some 40 kB.
_MOST_PARTITIONS = 100
_STATES = TypeAdapter(UpkeepState)
# The end of the last year that a date can have.
_END_MS = 253_402_300_800_000


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthFigures:
    """What is followed over time of a table: each number is a column, and `lakewright trend`.

    `debt_files` and `debt_bytes` are what upkeep could take away (`Debt`). Of a table that could
    not be read, all figures are zero; the column `fingerprint` tells.
    """

    table: str
    taken_ms: int
    snapshot_id: int | None = None
    files: int = 0
    bytes: int = 0
    small_files: int = 0
    sorted_runs: int = 0
    waiting_rows: int = 0
    snapshots: int = 0
    manifests: int = 0
    debt_files: int = 0
    debt_bytes: int = 0
    is_readable: bool = True


_NAMES = {"table": "table_name"}
_TEXTS = {"table"}
_COLUMNS = {
    field.name: _NAMES.get(field.name, field.name)
    for field in fields(HealthFigures)
    if field.name != "is_readable"
}
_FINGERPRINT = "fingerprint"
# Of a table that could be read; a problem stands before the first slash, and may begin with one.
_READ = re.compile(r"(?:/[^/]*){8}")
FIGURES = (*_COLUMNS.values(), _FINGERPRINT)


def survey_columns() -> dict[str, str]:
    """The columns of recorded surveys, with their types; the partition key comes first."""
    figures = {
        column: "STRING" if name in _TEXTS else "BIGINT" for name, column in _COLUMNS.items()
    }
    texts = dict.fromkeys(("table_uuid", _FINGERPRINT, "state"), "STRING")
    return {MONTH: "STRING NOT NULL", **figures, **texts}


def figures_of(state: UpkeepState) -> HealthFigures:
    """The figures of a state."""
    survey, debt = state.survey, debt_of(state.survey)
    return HealthFigures(
        table=survey.table,
        taken_ms=survey.taken_ms,
        snapshot_id=survey.history.latest_snapshot,
        files=survey.files.files,
        bytes=survey.files.bytes,
        small_files=survey.files.small_files,
        sorted_runs=survey.files.sorted_runs,
        waiting_rows=survey.files.waiting_rows,
        snapshots=survey.history.snapshots,
        manifests=survey.manifests.manifests,
        debt_files=debt.files,
        debt_bytes=debt.bytes,
        is_readable=survey.problem is None,
    )


def fingerprint_of(state: UpkeepState) -> str:
    """A text that changes with every commit, and with tags, consumers and what is condemned."""
    survey, history = state.survey, state.survey.history
    parts = (
        survey.problem,
        history.latest_snapshot,
        history.snapshots,
        history.tags,
        history.branches,
        history.changelogs,
        history.oldest_consumer_snapshot,
        survey.manifests.manifests,
        state.collect_due_ms,
    )
    return "/".join("" if part is None else str(part) for part in parts)


def survey_row(state: UpkeepState) -> dict[str, object]:
    """A state as values by column."""
    figures = figures_of(state)
    row: dict[str, object] = {column: getattr(figures, name) for name, column in _COLUMNS.items()}
    return {
        MONTH: month_of(state.survey.taken_ms),
        **row,
        "table_uuid": state.survey.uuid,
        _FINGERPRINT: fingerprint_of(state),
        "state": _STATES.dump_json(_shortened(state), exclude_defaults=True).decode(),
    }


def is_placed(row: Mapping[str, Any]) -> bool:
    """Whether a row names its table and a moment; any client may write others."""
    moment = row["taken_ms"]
    return row["table_name"] is not None and moment is not None and 0 <= moment < _END_MS


def state_of_row(row: Mapping[str, Any]) -> UpkeepState | None:
    """The state of a row; None if a version that is not known here wrote it otherwise."""
    try:
        return _STATES.validate_json(row["state"])
    except ValidationError:
        return None


def figures_of_row(row: Mapping[str, Any]) -> HealthFigures:
    """The figures of a row."""
    found = {name: row[column] for name, column in _COLUMNS.items()}
    return HealthFigures(
        **{name: value for name, value in found.items() if value is not None},
        is_readable=not row[_FINGERPRINT] or _READ.fullmatch(row[_FINGERPRINT]) is not None,
    )


def _shortened(state: UpkeepState) -> UpkeepState:
    """The state without what no decision reads, and with the worst partitions only."""
    files = replace(state.survey.files, shapes=())
    survey = replace(state.survey, worst=(), options={}, location="", files=files)
    worst = tuple(map(_plain, state.health.partitions[:_MOST_PARTITIONS]))
    return replace(state, survey=survey, health=replace(state.health, partitions=worst))


def _plain(partition: PartitionHealth) -> PartitionHealth:
    spec = {name: None if value is None else str(value) for name, value in partition.spec.items()}
    return replace(partition, spec=spec)
