"""The report of a warehouse: one HTML page for people, which needs no other file and no network.

1. One look, as `lakewright top` takes it, with the ledger's last month and the recorded states.
2. Sections of HTML, in which every text is escaped; values of plots lie beside them as JSON.
3. The page: its style, and Vega's JavaScript, of which its policy lets no other script run.

The file is long since each section of the page stands here, in the order of the page.
"""

from __future__ import annotations

import datetime as dt
import json
from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from lakewright.platform.decide.debt import poor_state
from lakewright.platform.decide.kept_tables import IN_FORCE, KeptTables
from lakewright.platform.decide.overview import Overview, TableLine
from lakewright.platform.decide.report_figures import (
    DECISION_COLUMNS,
    SAVING_COLUMNS,
    TABLE_COLUMNS,
    Cell,
    ReportFigures,
    Shown,
    decision_cells,
    decisions,
    files_cell,
    state_of,
    time_cell,
    words,
)
from lakewright.platform.decide.report_plots import SPECS, size_range
from lakewright.platform.decide.survey import TableSurvey
from lakewright.platform.decide.trend import Trend, debt_by_table
from lakewright.platform.decide.upkeep_state import UpkeepState
from lakewright.platform.ledger.action import Action, Verdict
from lakewright.platform.ledger.calibrate import WORTH_AN_ERROR_MS
from lakewright.platform.ledger.savings import By, day_of, savings, total
from lakewright.platform.upkeep.measures import Cost
from lakewright.platform.upkeep.words import (
    counted,
    duration_text,
    predicted_time,
    size_text,
    time_text,
)
from lakewright.storage import Catalog
from lakewright.storage.errors import UnsupportedError

_STEPS = 120
# More colours are hard to tell apart; the other tables are one area.
_MOST_NAMED = 6
_MOST_POINTS = 1000
_MOST_DEFERRED, _MOST_ACTIONS, _MOST_OF_TABLE, _MOST_PARTITIONS = 200, 50, 10, 10
_SECOND_MS, _MINUTE_MS, _HOUR_MS = 1000, 60_000, 3_600_000
_HERE = Path(__file__).parent
_OWN = "Tables of Lakewright itself"
_NO_PLOT = '<p class="faint">{}</p>'


def warehouse_report(
    catalog: Catalog,
    kept: KeptTables,
) -> str:
    """The page.

    Raises:
        UnsupportedError: the package that draws the plots is not installed.
        StorageError: the warehouse cannot be listed, or its ledger not be read.
    """
    return page_of(ReportFigures.of(catalog, kept))


def page_of(figures: ReportFigures) -> str:
    """The page of figures.

    Raises:
        UnsupportedError: the package that draws the plots is not installed.
    """
    script, seen = _script(), figures.seen
    body = [
        f"<h1>{escape(figures.name)}</h1>",
        f'<p class="faint">{escape(figures.uri)}<br>{time_text(seen.at_ms)}; the last 31 days</p>',
        *(
            f'<p class="failed">{escape(f"{problem}; {IN_FORCE}")}</p>'
            for problem in figures.problems
        ),
        _cards(figures),
        *_debt(seen),
        *_savings(figures),
        *_deferred(figures),
        *_tables(figures),
        *_last_actions(seen),
        *_each_table(figures),
    ]
    return Template((_HERE / "report.html").read_text(encoding="utf-8")).substitute(
        title=escape(f"Lakewright: {figures.name}"),
        digest="sha256-" + b64encode(sha256(script.encode()).digest()).decode(),
        body="\n".join(body),
        specs=_json(SPECS),
        script=script,
    )


@cache
def _script() -> str:
    """Vega with all that it needs, and what this page does with it."""
    try:
        import vl_convert  # noqa: PLC0415 - an extra has it
    except ImportError:
        told = "the report draws by vl-convert-python; run: pip install 'lakewright[report]'"
        raise UnsupportedError(told) from None
    ours = (_HERE / "report.js").read_text(encoding="utf-8")
    # No text of the script may look like its end.
    return vl_convert.javascript_bundle(ours).replace("</script", "<\\/script")


# --- the warehouse ------------------------------------------------------------------------------


def _cards(figures: ReportFigures) -> str:
    shown = "".join(
        f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>"
        for name, value in figures.totals().items()
    )
    return f'<dl class="cards">{shown}</dl>'


def _debt(seen: Overview) -> Iterator[str]:
    yield "<h2>Debt over time</h2>"
    yield (
        '<p class="faint">Debt is the number of files that upkeep could take away; states are '
        "recorded by the upkeep sensor and by <code>lakewright upkeep</code>.</p>"
    )
    recorded = [each.trend for each in seen.tables if each.trend is not None]
    debts = debt_by_table(recorded, _STEPS, until_ms=seen.at_ms)
    if len(debts) < 2:
        yield _NO_PLOT.format("No change was recorded in the last 7 days.")
        return
    # What is recorded last may be older than this look.
    debts[seen.at_ms] = {e.table: e.debt.files for e in seen.tables if e.trend is not None}
    worst = sorted(
        {table for found in debts.values() for table in found},
        key=lambda table: -max(found.get(table, 0) for found in debts.values()),
    )
    named = worst[:_MOST_NAMED]
    values: list[dict[str, object]] = []
    for at_ms, found in debts.items():
        areas = [(table, found.get(table, 0)) for table in named]
        if len(worst) > len(named):
            others = sum(files for table, files in found.items() if table not in named)
            areas.append((counted(len(worst) - len(named), "other table"), others))
        values += [
            {"at": at_ms, "table": table, "files": files, "rank": rank}
            for rank, (table, files) in enumerate(areas)
        ]
    yield _plot_until(seen.at_ms, "debt", values)


def _savings(figures: ReportFigures) -> Iterator[str]:
    yield "<h2>What upkeep cost and saved</h2>"
    acted = figures.acted
    if not acted:
        yield _NO_PLOT.format("No run is recorded in the last 31 days.")
        return
    yield (
        '<p class="faint">Two sizes or counts are actual / predicted. An error is the median over '
        "runs; of times, over those of a second and more. Days are those of UTC.</p>"
    )
    yield _table(SAVING_COLUMNS, figures.saving_rows())
    days = {saving.key: saving for saving in savings(acted, By.DAY)}
    # A day without a run is a bar of no height, up to the day of the report.
    shown = {day: days.get(day, total((), day)) for day in _days(min(days), figures.seen.at_ms)}
    took = [
        _of_day(day, each.cost.milliseconds / _MINUTE_MS, time_cell(each))
        for day, each in shown.items()
    ]
    fewer = [
        _of_day(day, each.benefit.files_fewer, files_cell(each)) for day, each in shown.items()
    ]
    yield f'<div class="side"><div><h3>Time of upkeep each day</h3>{_plot("took", took)}</div>'
    yield f"<div><h3>Files removed each day</h3>{_plot('saved', fewer)}</div></div>"
    yield "<h3>Predicted and actual time</h3>"
    points = [
        {
            "at": each.started_ms,
            "table": each.table,
            "verb": words(each.verb),
            "predicted": round(predicted.milliseconds / _SECOND_MS, 3),
            "ratio": round(each.cost.milliseconds / predicted.milliseconds, 3),
            "told": predicted_time(predicted.milliseconds, each.cost.milliseconds),
        }
        for each in acted
        if each.verdict is Verdict.DONE
        and (predicted := each.predicted_cost) is not None
        and predicted.milliseconds
        and each.cost.milliseconds
        and max(predicted.milliseconds, each.cost.milliseconds) >= WORTH_AN_ERROR_MS
    ]
    if not points:
        yield _NO_PLOT.format("No run took a second, or was predicted to.")
        return
    yield (
        '<p class="faint">A point is a run of a second or more; above the line it took longer than '
        "predicted.</p>"
    )
    yield _plot("predicted", points[-_MOST_POINTS:])


def _days(first: str, at_ms: int) -> Iterator[str]:
    """The days from the first to that of a moment."""
    day, last = dt.date.fromisoformat(first), dt.date.fromisoformat(day_of(at_ms))
    while day <= last:
        yield day.isoformat()
        day += dt.timedelta(days=1)


def _of_day(day: str, value: float, told: str) -> dict[str, object]:
    shown = dt.date.fromisoformat(day).strftime("%b %d")
    return {"day": shown, "value": round(value, 3), "told": told}


def _deferred(figures: ReportFigures) -> Iterator[str]:
    yield "<h2>Due and deferred</h2>"
    rows = figures.decision_rows()
    if not rows:
        yield _NO_PLOT.format("Nothing is due, and nothing is deferred.")
        return
    yield _table(DECISION_COLUMNS, rows[:_MOST_DEFERRED], is_sortable=True)
    yield from _left_out(len(rows) - _MOST_DEFERRED, "more row")


def _tables(figures: ReportFigures) -> Iterator[str]:
    yield "<h2>Tables</h2>"
    if not figures.seen.tables:
        yield _NO_PLOT.format("The warehouse has no table that is kept.")
        return
    yield '<input id="find" type="search" placeholder="Part of a name" aria-label="Find a table">'
    for heading, lines in (("", figures.lines), (_OWN, figures.own_lines)):
        if not lines:
            continue
        if heading:
            yield f"<h3>{heading}</h3>"
        names = [line.table for line in lines]
        yield _table(TABLE_COLUMNS, figures.table_rows(lines), names=names, is_sortable=True)


def _last_actions(seen: Overview) -> Iterator[str]:
    yield "<h2>Runs of the last 24 hours</h2>"
    if not seen.actions:
        yield _NO_PLOT.format("No run.")
        return
    yield _actions_table(seen.actions[:_MOST_ACTIONS], with_table=True)
    yield from _left_out(len(seen.actions) - _MOST_ACTIONS, "earlier run")


# --- each table ---------------------------------------------------------------------------------


def _each_table(figures: ReportFigures) -> Iterator[str]:
    of_table: dict[str, list[Action]] = defaultdict(list)
    for each in figures.acted:
        of_table[each.table].append(each)
    for heading, lines in (("Table by table", figures.lines), (_OWN, figures.own_lines)):
        if lines:
            yield f"<h2>{heading}</h2>"
        for line in lines:
            yield from _details(figures, line, of_table[line.table])


def _details(figures: ReportFigures, line: TableLine, runs: Sequence[Action]) -> Iterator[str]:
    survey, name = figures.survey(line), escape(line.table)
    state, at_ms = state_of(survey), figures.seen.at_ms
    mode = "" if line.mode == "live" else f", {escape(line.mode)}"
    yield f'<details id="{_id(line.table)}" data-name="{name}">'
    yield f'<summary>{name} <span class="{state}">{state}</span>'
    yield f'<span class="faint"> debt {counted(line.debt.files, "file")}{mode}</span></summary>'
    yield from _of_table(line, survey, figures.states.get(line.table))
    if line.trend is not None and len(line.trend.points) > 1:
        values = _trend_values(line, survey, line.trend, at_ms)
        yield f"<h3>Files and debt over time</h3>{_plot_until(at_ms, 'trend', values)}"
    if runs:
        yield "<h3>Last runs</h3>"
        yield _actions_table(list(reversed(runs[-_MOST_OF_TABLE:])), with_table=False)
    yield "</details>"


def _of_table(line: TableLine, survey: TableSurvey, state: UpkeepState | None) -> Iterator[str]:
    yield f"<p>{escape(_facts(survey))}</p>"
    notes = [*line.findings, *(f"in progress: {each}" for each in line.working)]
    if (poor := poor_state(survey)) is not None:
        notes.insert(0, poor)
    if notes:
        yield f"<ul>{''.join(f'<li>{escape(note)}</li>' for note in notes)}</ul>"
    rows = [decision_cells(line, said, each) for said, each in decisions(line)]
    if rows:
        columns = [each for each in DECISION_COLUMNS if each != "table"]
        yield _table(columns, [[row[0], *row[2:]] for row in rows])
    if survey.files.files:
        yield f"<h3>Files by size{' and level' if survey.keyed else ''}</h3>"
        yield _plot("files", _file_values(survey))
    partitions = [] if state is None else state.health.partitions[:_MOST_PARTITIONS]
    if partitions and survey.partition_keys:
        yield "<h3>Partitions with the most to join</h3>"
        what = "sorted runs" if survey.keyed else "small files"
        columns = ["partition", "files", f"{what} in its worst bucket", "size", "rows"]
        yield _table(
            columns,
            [
                [
                    partition.key,
                    partition.file_count,
                    partition.sorted_runs if survey.keyed else partition.small_files,
                    (partition.size_bytes, size_text(partition.size_bytes)),
                    partition.row_count,
                ]
                for partition in partitions
            ],
        )


def _facts(survey: TableSurvey) -> str:
    files, history, layout = survey.files, survey.history, survey.layout
    if survey.problem is not None:
        return ""
    parts = [survey.kind or "a table"]
    if survey.primary_keys:
        parts.append(f"primary key {', '.join(survey.primary_keys)}")
    if survey.partition_keys:
        keys = ", ".join(survey.partition_keys)
        parts.append(f"{counted(layout.partitions, 'partition')} by {keys}")
    parts += [
        counted(layout.buckets, "bucket"),
        counted(files.rows, "row"),
        f"{counted(files.files, 'file')} of {size_text(files.bytes)}",
        counted(history.snapshots, "snapshot"),
        counted(survey.manifests.manifests, "manifest"),
    ]
    if layout.last_write_ms is not None:
        parts.append(f"last written {time_text(layout.last_write_ms)}")
    return "; ".join(parts)


def _file_values(survey: TableSurvey) -> list[dict[str, object]]:
    shapes = sorted(survey.files.shapes, key=lambda each: (each.least_bytes, each.level))
    return [
        {
            "level": f"level {shape.level}" if survey.keyed else "files",
            "size": size_range(shape.least_bytes),
            "files": shape.files,
            "bytes": size_text(shape.bytes),
        }
        for shape in shapes
    ]


def _trend_values(
    line: TableLine, survey: TableSurvey, trend: Trend, at_ms: int
) -> list[dict[str, object]]:
    counts = [(p.taken_ms, p.files, p.debt_files) for p in trend.points if p.is_readable]
    if survey.problem is None:
        counts.append((at_ms, survey.files.files, line.debt.files))
    return [
        {"at": moment_ms, "what": what, "count": count}
        for moment_ms, files, debt in counts
        for what, count in (("files", files), ("debt", debt))
    ]


# --- HTML ---------------------------------------------------------------------------------------


def _actions_table(actions: Sequence[Action], *, with_table: bool) -> str:
    columns = ["began (UTC)", "table", "verb", "result", "predicted", "took"]
    columns += ["files removed", "freed", "what"]
    rows: list[list[Cell]] = [
        [
            time_text(action.started_ms).removesuffix(" UTC"),
            action.table,
            words(action.verb),
            Shown(words(action.verdict.value), css=action.verdict.value),
            _predicted(action.predicted_cost),
            (action.cost.milliseconds, duration_text(action.cost.milliseconds)),
            action.benefit.files_fewer,
            (action.benefit.bytes_freed, size_text(action.benefit.bytes_freed)),
            Shown(action.error or action.summary, css="long"),
        ]
        for action in actions
    ]
    if with_table:
        return _table(columns, rows)
    return _table([columns[0], *columns[2:]], [[row[0], *row[2:]] for row in rows])


def _table(
    columns: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    names: Sequence[str] = (),
    is_sortable: bool = False,
) -> str:
    """A table; `names` are those by which its rows are found."""
    is_number = [isinstance(each, (int, tuple)) for each in rows[0]]
    head = "".join(
        f'<th class="number">{escape(each)}</th>' if right else f"<th>{escape(each)}</th>"
        for each, right in zip(columns, is_number, strict=True)
    )
    found_by = [f' data-name="{escape(each)}"' for each in names] or [""] * len(rows)
    body = "".join(
        f"<tr{name}>{''.join(map(_cell, row))}</tr>"
        for name, row in zip(found_by, rows, strict=True)
    )
    kind = ' class="sortable"' if is_sortable else ""
    return (
        f'<div class="scroll"><table{kind}><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cell(cell: Cell) -> str:
    match cell:
        case Shown(text, css="long"):
            return f'<td class="long">{escape(text)}</td>'
        case Shown(text, table=table) if table:
            return f'<td><a href="#{_id(table)}">{escape(text)}</a></td>'
        case Shown(text, css=css):
            return f'<td><span class="{css}">{escape(text)}</span></td>'
        case str():
            return f"<td>{escape(cell)}</td>"
        case int():
            return f'<td class="number" data-value="{cell}">{cell:,}</td>'
        case (value, text):
            return f'<td class="number" data-value="{value}">{escape(text)}</td>'


def _predicted(cost: Cost | None) -> Cell:
    predicted_ms = 0 if cost is None else cost.milliseconds
    return (predicted_ms, duration_text(predicted_ms) if predicted_ms else "-")


def _id(table: str) -> str:
    """The id of a table's section; a name may have any character."""
    return f"t{sha256(table.encode()).hexdigest()[:12]}"


def _plot(name: str, values: Sequence[Mapping[str, object]], of_time: str = "") -> str:
    """The place of a plot with its values, which the page draws when it is seen first."""
    return (
        f'<div class="plot"><div data-plot="{name}"{of_time}>'
        f'<script type="application/json">{_json(values)}</script></div></div>'
    )


def _plot_until(at_ms: int, name: str, values: Sequence[Mapping[str, Any]]) -> str:
    """A plot over time that ends at a moment, and shows an hour at least: a tick is a minute."""
    begin_ms = min([at_ms - _HOUR_MS, *(each["at"] for each in values)])
    return _plot(name, values, f' data-from="{begin_ms}" data-to="{at_ms}"')


def _json(value: object) -> str:
    """JSON in which no text ends the element that it stands in."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def _left_out(count: int, noun: str) -> Iterator[str]:
    if count > 0:
        yield f'<p class="faint">and {counted(count, noun)}</p>'
