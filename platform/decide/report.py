"""The report of a warehouse: one HTML page for people, which needs no other file and no network.

1. One look, as `lakewright top` takes it, with the ledger's last month and the recorded states.
2. Sections of HTML, in which every text is escaped; values of plots lie beside them as JSON.
3. The page: its style, and Vega's JavaScript, of which its policy lets no other script run.

The file is long since each section of the page stands here, in the order of the page.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from html import escape
from pathlib import Path
from string import Template

from lakewright.platform.decide.debt import poor_state
from lakewright.platform.decide.kept_tables import IN_FORCE, KeptTables
from lakewright.platform.decide.overview import Overview, Overviews, TableLine
from lakewright.platform.decide.report_plots import SPECS, size_range
from lakewright.platform.decide.survey import TableSurvey
from lakewright.platform.decide.trend import Trend, debt_by_table
from lakewright.platform.decide.upkeep_state import UpkeepState
from lakewright.platform.ledger.action import Action, Verdict
from lakewright.platform.ledger.intents import Decision, Intent
from lakewright.platform.ledger.savings import By, Saving, savings, total
from lakewright.platform.upkeep.words import (
    counted,
    duration_text,
    error_text,
    signed_size,
    size_text,
    time_text,
)
from lakewright.storage import Catalog
from lakewright.storage.errors import UnsupportedError
from lakewright.storage.secret_texts import without_secrets

_STEPS = 120
# More colours are hard to tell apart; the other tables are one area.
_MOST_NAMED = 6
_MOST_POINTS = 1000
_MOST_WAITING, _MOST_ACTIONS, _MOST_OF_TABLE, _MOST_PARTITIONS = 200, 50, 10, 10
_SECOND_MS, _MINUTE_MS = 1000, 60_000
# What is skipped comes last.
_ORDER = {"due": 0, "shadow": 1, "waits": 2}
_HERE = Path(__file__).parent
_NO_PLOT = '<p class="faint">{}</p>'


class Markup(str):
    """A text that is HTML already."""

    __slots__ = ()


# A cell is shown as it is, or is a number by which rows are sorted, and its text.
Cell = str | int | tuple[int, str]


def warehouse_report(
    catalog: Catalog,
    kept: KeptTables,
) -> str:
    """The page.

    Raises:
        UnsupportedError: the package that draws the plots is not installed.
        StorageError: the warehouse cannot be listed, or its ledger not be read.
    """
    script = _script()
    overviews = Overviews(catalog, kept)
    seen = overviews.look()
    acted = [each for each in overviews.actions if each.verdict is not Verdict.SHADOW]
    states = {each.table: overviews.state(each.table) for each in seen.tables}
    where = without_secrets(catalog.uri)
    body = [
        f"<h1>{escape(where)}</h1>",
        f'<p class="faint">{time_text(seen.at_ms)}; the last 31 days</p>',
        *(f'<p class="failed">{escape(f"{each}; {IN_FORCE}")}</p>' for each in kept.problems),
        _cards(seen, states.values(), acted),
        *_debt(seen),
        *_savings(acted),
        *_waiting(seen),
        *_tables(seen, states),
        *_last_actions(seen),
        *_each_table(seen, states, acted),
    ]
    return Template((_HERE / "report.html").read_text(encoding="utf-8")).substitute(
        title=escape(f"Lakewright: {where}"),
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


def _cards(seen: Overview, states: Iterable[UpkeepState | None], acted: Sequence[Action]) -> str:
    surveys = [each.survey for each in states if each is not None]
    files, size = sum(each.files.files for each in surveys), sum(s.files.bytes for s in surveys)
    debt = sum(each.debt.files for each in seen.tables)
    sums, spent = total(acted), seen.spent
    unread = sum(each.problem is not None for each in surveys)
    poor = sum(poor_state(each) is not None for each in surveys)
    told = {
        "tables": f"{len(seen.tables):,}",
        "data": f"{size_text(size)} in {counted(files, 'file')}",
        "poor state": f"{poor:,}" + (f", {unread:,} unreadable" if unread else ""),
        "debt": counted(debt, "file"),
        "due": f"{sum(len(each.due) for each in seen.tables):,}",
        "waiting": f"{sum(len(each.waits) for each in seen.tables):,}",
        "runs": f"{sums.runs:,}" + (f", {sums.failed:,} failed" if sums.failed else ""),
        "freed": size_text(sums.benefit.bytes_freed),
        "spent today": f"{size_text(spent.bytes)}, {duration_text(spent.milliseconds)}",
    }
    shown = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in told.items())
    return f'<dl class="cards">{shown}</dl>'


def _debt(seen: Overview) -> Iterator[str]:
    yield "<h2>Debt over time</h2>"
    yield (
        '<p class="faint">Debt is the number of files that upkeep could take away; states are '
        "recorded by the upkeep sensor and by <code>lakewright upkeep</code>.</p>"
    )
    debts = debt_by_table((each.trend for each in seen.tables if each.trend is not None), _STEPS)
    if len(debts) < 2:
        yield _NO_PLOT.format("No change was recorded in the last 7 days.")
        return
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
    yield _plot("debt", values)


def _savings(acted: Sequence[Action]) -> Iterator[str]:
    yield "<h2>What upkeep cost and saved</h2>"
    if not acted:
        yield _NO_PLOT.format("No action is recorded in the last 31 days.")
        return
    yield (
        '<p class="faint">Figures that were predicted are actual / predicted; an error is the '
        "median over runs. Days are those of UTC.</p>"
    )
    columns = ["verb", "runs", "failed", "took", "error", "read", "wrote", "files fewer"]
    columns += ["error", "read less", "freed"]
    verbs = [*savings(acted, By.VERB), total(acted)]
    yield _table(columns, [_saving_cells(each) for each in verbs])
    days = savings(acted, By.DAY)
    took = [_of_day(day, day.cost.milliseconds / _MINUTE_MS, _took(day)) for day in days]
    fewer = [_of_day(day, day.benefit.files_fewer, _fewer(day)) for day in days]
    yield f'<div class="side"><div><h3>Time of each day</h3>{_plot("took", took)}</div>'
    yield f"<div><h3>Files fewer of each day</h3>{_plot('saved', fewer)}</div></div>"
    yield "<h3>Predicted beside actual time</h3>"
    points = [
        {
            "at": each.started_ms,
            "table": each.table,
            "verb": _words(each.verb),
            "predicted": round(predicted.milliseconds / _SECOND_MS, 3),
            "ratio": round(each.cost.milliseconds / predicted.milliseconds, 3),
            "told": f"{duration_text(each.cost.milliseconds)} / "
            f"{duration_text(predicted.milliseconds)}",
        }
        for each in acted
        if each.verdict is Verdict.DONE
        and (predicted := each.predicted_cost) is not None
        and predicted.milliseconds
        and each.cost.milliseconds
    ]
    if not points:
        yield _NO_PLOT.format("No run with a prediction was done.")
        return
    yield '<p class="faint">A point is a run; above the line it took longer than predicted.</p>'
    yield _plot("predicted", points[-_MOST_POINTS:])


def _saving_cells(each: Saving) -> list[Cell]:
    cost, benefit, hoped = each.cost, each.benefit, each.predicted_benefit
    written = f"{size_text(cost.bytes_written)} / {size_text(each.predicted_cost.bytes_written)}"
    less = f"{signed_size(benefit.bytes_fewer)} / {signed_size(hoped.bytes_fewer)}"
    return [
        _words(each.key),
        each.runs,
        each.failed,
        (cost.milliseconds, _took(each)),
        (0, error_text(each.error.milliseconds)),
        (cost.bytes, size_text(cost.bytes)),
        (cost.bytes_written, written),
        (benefit.files_fewer, _fewer(each)),
        (0, error_text(each.error.files_fewer)),
        (benefit.bytes_fewer, less),
        (benefit.bytes_freed, size_text(benefit.bytes_freed)),
    ]


def _took(each: Saving) -> str:
    cost, predicted = each.cost.milliseconds, each.predicted_cost.milliseconds
    return f"{duration_text(cost)} / {duration_text(predicted)}"


def _fewer(each: Saving) -> str:
    return f"{each.benefit.files_fewer:,} / {each.predicted_benefit.files_fewer:,}"


def _of_day(each: Saving, value: float, told: str) -> dict[str, object]:
    return {"at": each.key, "day": each.key, "value": round(value, 3), "told": told}


def _waiting(seen: Overview) -> Iterator[str]:
    yield "<h2>What is due, and what waits</h2>"
    rows = [
        _decision_cells(line, state, decision)
        for line in seen.tables
        for state, decision in _decisions(line)
    ]
    if not rows:
        yield _NO_PLOT.format("Nothing is due, and nothing waits.")
        return
    rows.sort(key=lambda row: _ORDER.get(str(row[0]), len(_ORDER)))
    columns = ["state", "table", "verb", "reads", "reason"]
    yield _table(columns, rows[:_MOST_WAITING], is_sortable=True)
    yield from _left_out(len(rows) - _MOST_WAITING, "more row")


def _decisions(line: TableLine) -> Iterator[tuple[str, Decision]]:
    yield from (("due" if line.mode == "live" else line.mode, each) for each in line.due)
    yield from (("waits", each) for each in line.waits)
    yield from ((_words(each.why_not.value), each) for each in line.left)


def _decision_cells(line: TableLine, state: str, decision: Decision) -> list[Cell]:
    size = decision.cost.bytes if isinstance(decision, Intent) else 0
    reason = decision.reason.removeprefix(f"{line.table}, {_words(decision.verb)}: ")
    return [
        state,
        _link(line.table),
        _words(decision.verb),
        (size, size_text(size) if size else ""),
        _long(reason.removeprefix(f"{line.table}: ")),
    ]


def _tables(seen: Overview, states: Mapping[str, UpkeepState | None]) -> Iterator[str]:
    yield "<h2>Tables</h2>"
    if not seen.tables:
        yield _NO_PLOT.format("The warehouse has no table that is kept.")
        return
    yield '<input id="find" type="search" placeholder="Part of a name" aria-label="Find a table">'
    columns = ["table", "state", "debt", "files", "small", "size", "runs", "snapshots", "due"]
    rows: list[list[Cell]] = []
    for line in seen.tables:
        survey = _survey(states, line)
        files = survey.files
        verbs = [each.verb for each in line.due] + [each.verb for each in line.waits]
        due, state = ", ".join(map(_words, verbs)), _state(survey)
        rows.append(
            [
                _link(line.table),
                Markup(f'<span class="{state}">{state}</span>'),
                line.debt.files,
                files.files,
                files.small_files,
                (files.bytes, size_text(files.bytes)),
                files.sorted_runs,
                survey.history.snapshots,
                due,
            ]
        )
    yield _table(columns, rows, names=[each.table for each in seen.tables], is_sortable=True)


def _last_actions(seen: Overview) -> Iterator[str]:
    yield "<h2>What was done in 24 hours</h2>"
    if not seen.actions:
        yield _NO_PLOT.format("Nothing.")
        return
    yield _actions_table(seen.actions[:_MOST_ACTIONS], with_table=True)
    yield from _left_out(len(seen.actions) - _MOST_ACTIONS, "earlier action")


# --- each table ---------------------------------------------------------------------------------


def _each_table(
    seen: Overview, states: Mapping[str, UpkeepState | None], acted: Sequence[Action]
) -> Iterator[str]:
    yield "<h2>Table by table</h2>"
    of_table: dict[str, list[Action]] = defaultdict(list)
    for each in acted:
        of_table[each.table].append(each)
    for line in seen.tables:
        survey = _survey(states, line)
        state, name = _state(survey), escape(line.table)
        mode = "" if line.mode == "live" else f", {escape(line.mode)}"
        yield f'<details id="{_id(line.table)}" data-name="{name}">'
        yield f'<summary>{name} <span class="{state}">{state}</span>'
        yield f'<span class="faint"> debt {counted(line.debt.files, "file")}{mode}</span></summary>'
        yield from _of_table(line, survey, states.get(line.table))
        if line.trend is not None and len(line.trend.points) > 1:
            yield f"<h3>Files and debt over time</h3>{_plot('trend', _trend_values(line.trend))}"
        if actions := of_table[line.table]:
            yield "<h3>Last runs</h3>"
            yield _actions_table(list(reversed(actions[-_MOST_OF_TABLE:])), with_table=False)
        yield "</details>"


def _of_table(line: TableLine, survey: TableSurvey, state: UpkeepState | None) -> Iterator[str]:
    yield f"<p>{escape(_facts(survey))}</p>"
    notes = [*line.findings, *(f"at work: {each}" for each in line.working)]
    if (poor := poor_state(survey)) is not None:
        notes.insert(0, poor)
    if notes:
        yield f"<ul>{''.join(f'<li>{escape(each)}</li>' for each in notes)}</ul>"
    rows = [_decision_cells(line, said, each) for said, each in _decisions(line)]
    if rows:
        columns = ["state", "verb", "reads", "reason"]
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
                    each.key,
                    each.file_count,
                    each.sorted_runs if survey.keyed else each.small_files,
                    (each.size_bytes, size_text(each.size_bytes)),
                    each.row_count,
                ]
                for each in partitions
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
            "level": f"level {each.level}" if survey.keyed else "files",
            "size": size_range(each.least_bytes),
            "files": each.files,
            "bytes": size_text(each.bytes),
        }
        for each in shapes
    ]


def _trend_values(trend: Trend) -> list[dict[str, object]]:
    return [
        {"at": each.taken_ms, "what": what, "count": count}
        for each in trend.points
        if each.is_readable
        for what, count in (("files", each.files), ("debt", each.debt_files))
    ]


def _survey(states: Mapping[str, UpkeepState | None], line: TableLine) -> TableSurvey:
    state = states.get(line.table)
    if state is None:
        return TableSurvey(table=line.table, uuid="", taken_ms=0, problem=line.problem)
    return state.survey


def _state(survey: TableSurvey) -> str:
    if survey.problem is not None:
        return "unreadable"
    return "good" if poor_state(survey) is None else "poor"


# --- HTML ---------------------------------------------------------------------------------------


def _actions_table(actions: Sequence[Action], *, with_table: bool) -> str:
    columns = ["began (UTC)", "table", "verb", "result", "took", "files fewer", "freed", "what"]
    rows: list[list[Cell]] = [
        [
            time_text(each.started_ms).removesuffix(" UTC"),
            each.table,
            _words(each.verb),
            Markup(f'<span class="{each.verdict.value}">{_words(each.verdict.value)}</span>'),
            (each.cost.milliseconds, duration_text(each.cost.milliseconds)),
            each.benefit.files_fewer,
            (each.benefit.bytes_freed, size_text(each.benefit.bytes_freed)),
            _long(each.error or each.summary),
        ]
        for each in actions
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
        case Markup():
            return cell if cell.startswith("<td") else f"<td>{cell}</td>"
        case str():
            return f"<td>{escape(cell)}</td>"
        case int():
            return f'<td class="number" data-value="{cell}">{cell:,}</td>'
        case (value, text):
            return f'<td class="number" data-value="{value}">{escape(text)}</td>'


def _long(text: str) -> Markup:
    """The cell of a text that goes over several lines."""
    return Markup(f'<td class="long">{escape(text)}</td>')


def _link(table: str) -> Markup:
    return Markup(f'<a href="#{_id(table)}">{escape(table)}</a>')


def _id(table: str) -> str:
    """The id of a table's section; a name may have any character."""
    return f"t{sha256(table.encode()).hexdigest()[:12]}"


def _plot(name: str, values: Sequence[Mapping[str, object]]) -> str:
    """The place of a plot with its values, which the page draws when it is seen first."""
    return (
        f'<div class="plot"><div data-plot="{name}">'
        f'<script type="application/json">{_json(values)}</script></div></div>'
    )


def _json(value: object) -> str:
    """JSON in which no text ends the element that it stands in."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def _left_out(count: int, noun: str) -> Iterator[str]:
    if count > 0:
        yield f'<p class="faint">and {counted(count, noun)}</p>'


def _words(name: str) -> str:
    return name.replace("_", " ")
