"""The figures of the report of a warehouse, which its page and its event in Dagster show alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakewright.platform.decide.debt import poor_state
from lakewright.platform.decide.kept_tables import KeptTables
from lakewright.platform.decide.overview import Overview, Overviews, TableLine
from lakewright.platform.decide.survey import TableSurvey
from lakewright.platform.decide.surveys import OWN_TABLES
from lakewright.platform.decide.upkeep_state import UpkeepState
from lakewright.platform.ledger.action import Action, Verdict
from lakewright.platform.ledger.intents import Decision, Intent
from lakewright.platform.ledger.savings import By, Saving, savings, total
from lakewright.platform.tables.declarations import rejects_name
from lakewright.platform.upkeep.words import (
    counted,
    duration_text,
    error_text,
    predicted_time,
    signed_size,
    size_text,
)
from lakewright.storage import Catalog
from lakewright.storage.secret_texts import without_secrets

# What is skipped comes last.
_ORDER = {"due": 0, "shadow": 1, "deferred": 2}
SAVING_COLUMNS = (
    *("verb", "runs", "failed", "predicted", "took", "error", "read", "wrote", "files removed"),
    *("error", "bytes saved", "freed"),
)
DECISION_COLUMNS = ("state", "table", "verb", "reads", "reason")
TABLE_COLUMNS = (
    *("table", "state", "debt", "files", "small", "size", "sorted runs", "snapshots", "due"),
)


@dataclass(frozen=True, slots=True)
class Shown:
    """A text that a page shows in a way of its own: by a class of its style, or as a link."""

    text: str
    css: str = ""
    table: str = ""


# A cell is a text or a number, or a number by which rows are sorted, and its text.
Cell = str | int | tuple[int, str] | Shown


def cell_text(cell: Cell) -> str:
    """A cell without what a page adds to it."""
    match cell:
        case Shown(text):
            return text
        case (_, text):
            return text
        case int():
            return f"{cell:,}"
        case _:
            return cell


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFigures:
    """One look at a warehouse: its tables, runs of the last 31 days, mistakes of policies."""

    uri: str
    seen: Overview
    states: Mapping[str, UpkeepState | None]
    acted: tuple[Action, ...]
    problems: tuple[str, ...] = ()

    @classmethod
    def of(cls, catalog: Catalog, kept: KeptTables) -> ReportFigures:
        """Look at all kept tables.

        Raises:
            StorageError: the warehouse cannot be listed, or its ledger not be read.
        """
        overviews = Overviews(catalog, kept)
        seen = overviews.look()
        return cls(
            uri=without_secrets(catalog.uri),
            seen=seen,
            states={table.table: overviews.state(table.table) for table in seen.tables},
            acted=tuple(
                action for action in overviews.actions if action.verdict is not Verdict.SHADOW
            ),
            problems=tuple(map(str, kept.problems)),
        )

    @property
    def name(self) -> str:
        """The name of the warehouse: the last part of its URI."""
        return self.uri.rstrip("/").rpartition("/")[2] or self.uri

    @property
    def lines(self) -> tuple[TableLine, ...]:
        """The tables of the warehouse's users."""
        own = {own_line.table for own_line in self.own_lines}
        return tuple(table for table in self.seen.tables if table.table not in own)

    @property
    def own_lines(self) -> tuple[TableLine, ...]:
        """The tables that Lakewright writes: its records, and the rejects of other tables."""
        names = {table.table for table in self.seen.tables}
        own = OWN_TABLES | {rejects_name(name) for name in names}
        return tuple(table for table in self.seen.tables if table.table in own)

    def survey(self, line: TableLine) -> TableSurvey:
        """The state of a table; of one that cannot be read, its problem alone."""
        state = self.states.get(line.table)
        if state is None:
            return TableSurvey(table=line.table, uuid="", taken_ms=0, problem=line.problem)
        return state.survey

    def totals(self) -> dict[str, str]:
        """The figures of the whole warehouse."""
        tables, spent = self.seen.tables, self.seen.spent
        surveys = [state.survey for state in self.states.values() if state is not None]
        files = sum(survey.files.files for survey in surveys)
        size = sum(survey.files.bytes for survey in surveys)
        sums, unread = total(self.acted), sum(survey.problem is not None for survey in surveys)
        poor = sum(poor_state(survey) is not None for survey in surveys)
        return {
            "tables": f"{len(tables):,}",
            "data": f"{size_text(size)} in {counted(files, 'file')}",
            "poor state": f"{poor:,}" + (f", {unread:,} unreadable" if unread else ""),
            "debt": counted(sum(table.debt.files for table in tables), "file"),
            "due": f"{sum(len(table.due) for table in tables):,}",
            "deferred": f"{sum(len(table.waits) for table in tables):,}",
            "runs": f"{sums.runs:,}" + (f", {sums.failed:,} failed" if sums.failed else ""),
            "freed": size_text(sums.benefit.bytes_freed),
            "spent today": f"{size_text(spent.bytes)}, {duration_text(spent.milliseconds)}",
        }

    def saving_rows(self) -> list[list[Cell]]:
        """What each verb cost and saved, and a row for all."""
        if not self.acted:
            return []
        return [_saving_cells(each) for each in (*savings(self.acted, By.VERB), total(self.acted))]

    def decision_rows(self) -> list[list[Cell]]:
        """What is due, deferred and skipped, and why."""
        found = [
            decision_cells(line, state, each)
            for line in (*self.lines, *self.own_lines)
            for state, each in decisions(line)
        ]
        return sorted(found, key=lambda row: _ORDER.get(str(row[0]), len(_ORDER)))

    def table_rows(self, lines: Sequence[TableLine]) -> list[list[Cell]]:
        """The state of each table."""
        return [self._table_cells(line, self.survey(line)) for line in lines]

    def _table_cells(self, line: TableLine, survey: TableSurvey) -> list[Cell]:
        files, state = survey.files, state_of(survey)
        verbs = [each.verb for each in line.due] + [wait.verb for wait in line.waits]
        return [
            Shown(line.table, table=line.table),
            Shown(state, css=state),
            line.debt.files,
            files.files,
            files.small_files,
            (files.bytes, size_text(files.bytes)),
            files.sorted_runs,
            survey.history.snapshots,
            ", ".join(map(words, verbs)),
        ]


def state_of(survey: TableSurvey) -> str:
    """The state of a table in one word."""
    if survey.problem is not None:
        return "unreadable"
    return "good" if poor_state(survey) is None else "poor"


def decisions(line: TableLine) -> Iterator[tuple[str, Decision]]:
    """What is decided about a table, each with its state in a word."""
    yield from (("due" if line.mode == "live" else line.mode, each) for each in line.due)
    yield from (("deferred", wait) for wait in line.waits)
    yield from ((words(each.why_not.value), each) for each in line.left)


def decision_cells(line: TableLine, state: str, decision: Decision) -> list[Cell]:
    """The row of a decision."""
    size = decision.cost.bytes if isinstance(decision, Intent) else 0
    reason = decision.reason.removeprefix(f"{line.table}, {words(decision.verb)}: ")
    return [
        state,
        Shown(line.table, table=line.table),
        words(decision.verb),
        (size, size_text(size) if size else ""),
        Shown(reason.removeprefix(f"{line.table}: "), css="long"),
    ]


def _saving_cells(each: Saving) -> list[Cell]:
    cost, benefit, hoped = each.cost, each.benefit, each.predicted_benefit
    written = f"{size_text(cost.bytes_written)} / {size_text(each.predicted_cost.bytes_written)}"
    less = f"{signed_size(benefit.bytes_fewer)} / {signed_size(hoped.bytes_fewer)}"
    return [
        words(each.key),
        each.runs,
        each.failed,
        (each.predicted_cost.milliseconds, duration_text(each.predicted_cost.milliseconds)),
        (cost.milliseconds, duration_text(cost.milliseconds)),
        (0, error_text(each.error.milliseconds)),
        (cost.bytes, size_text(cost.bytes)),
        (cost.bytes_written, written),
        (benefit.files_fewer, files_cell(each)),
        (0, error_text(each.error.files_fewer)),
        (benefit.bytes_fewer, less),
        (benefit.bytes_freed, size_text(benefit.bytes_freed)),
    ]


def time_cell(each: Saving) -> str:
    """`predicted 50 ms, took 26 ms`."""
    return predicted_time(each.predicted_cost.milliseconds, each.cost.milliseconds)


def files_cell(each: Saving) -> str:
    """Files removed, actual / predicted."""
    return f"{each.benefit.files_fewer:,} / {each.predicted_benefit.files_fewer:,}"


def words(name: str) -> str:
    """The name of a verb or a state, as people read it."""
    return name.replace("_", " ")
