"""`lakewright trend`: the health of tables over time, as looks recorded it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command
from lakewright.cli.grammar.values import age_ms
from lakewright.cli.output.answers import Answer, listed
from lakewright.cli.output.tables import TextColumn
from lakewright.cli.output.text import Cell

if TYPE_CHECKING:
    from lakewright.platform.decide.survey_rows import HealthFigures
    from lakewright.platform.decide.trend import Trend

_WEEK = "7d"
_STEPS = 24
_MOST_POINTS = 200
_UNREAD = "cannot be read"


@command(
    "trend",
    of_table=False,
    notes="""
The upkeep sensor and `lakewright upkeep` record the states of tables in lakewright.surveys. The
debt of a table is the number of files that upkeep could take away.
""",
    examples="""
lakewright trend
lakewright trend nyc.flights --since 30d --format csv
""",
)
@click.argument("table", metavar="[TABLE]", required=False)
@click.option(
    "--since",
    "since_ms",
    type=age_ms,
    metavar="AGE",
    default=_WEEK,
    show_default=True,
    help="What was recorded since then.",
)
def trend(call: Call, *, table: str | None, since_ms: int) -> Answer:
    """Print the health of all tables over time, or the recorded figures of one."""
    from lakewright.platform.decide.surveys import Surveys
    from lakewright.platform.decide.trend import trends

    catalog = call.catalog()
    if table is not None:
        # A mistyped name is told as such.
        catalog.table(table)
    found = Surveys(catalog).figures(
        table=table,
        since_ms=max(catalog.env.now_ms() - since_ms, 0),
        most=_MOST_POINTS if table is None else None,
    )
    empty = "nothing was recorded: the upkeep sensor and `lakewright upkeep` record states"
    if table is not None:
        return listed(found, _FIGURES, cells=_cells, record=asdict, empty=empty)
    return listed(
        list(trends(found).values()), _TRENDS, cells=_trend_cells, record=_trend_record, empty=empty
    )


_FIGURES = [
    TextColumn("at (UTC)"),
    *(
        TextColumn(name, right=True)
        for name in (
            "snapshot",
            "files",
            "size",
            "small",
            "runs",
            "rows that wait",
            "snapshots",
            "manifests",
            "debt",
        )
    ),
]
_TRENDS = [
    TextColumn("table"),
    TextColumn("debt over time"),
    TextColumn("debt", right=True),
    TextColumn("most", right=True),
    TextColumn("files", right=True),
    TextColumn("size", right=True),
    TextColumn("snapshots", right=True),
    TextColumn("states", right=True),
]


def _cells(each: HealthFigures) -> list[Cell]:
    from lakewright.platform.upkeep.words import size_text, time_text

    if not each.is_readable:
        taken = time_text(each.taken_ms).removesuffix(" UTC")
        return [taken, _UNREAD, *["-"] * (len(_FIGURES) - 2)]
    return [
        time_text(each.taken_ms).removesuffix(" UTC"),
        each.snapshot_id,
        each.files,
        size_text(each.bytes),
        each.small_files,
        each.sorted_runs,
        each.waiting_rows,
        each.snapshots,
        each.manifests,
        each.debt_files,
    ]


def _trend_cells(each: Trend) -> list[Cell]:
    from lakewright.platform.decide.trend import sparkline
    from lakewright.platform.upkeep.words import size_text

    if not each.last.is_readable:
        unknown: list[Cell] = ["-"] * (len(_TRENDS) - 3)
        return [each.table, _UNREAD, *unknown, len(each.points)]
    return [
        each.table,
        sparkline(each.debt(_STEPS)),
        each.last.debt_files,
        max(point.debt_files for point in each.points),
        each.last.files,
        size_text(each.last.bytes),
        each.last.snapshots,
        len(each.points),
    ]


def _trend_record(each: Trend) -> dict[str, object]:
    return {
        "table": each.table,
        "states": len(each.points),
        "most_debt_files": max(point.debt_files for point in each.points),
        **{f"first_{name}": value for name, value in asdict(each.first).items() if name != "table"},
        **{f"last_{name}": value for name, value in asdict(each.last).items() if name != "table"},
    }
