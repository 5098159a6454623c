"""Foresees how long a plan will take, by what earlier runs of the warehouse took.

Runs of the verb itself tell it best: those on the table, else those on all tables. A verb that is
seldom carried out is foreseen by verbs that rewrite rows as it does, which say how fast this
machine rewrites rows of this table. Without any, the measured model alone says it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from lakewright.platform.ledger.calibrate import FEWEST_RUNS, Calibration, kind_of, modelled_ms
from lakewright.platform.ledger.kept_verbs import COMPACT, RESPEC, SORT_COMPACT
from lakewright.platform.upkeep.measures import Cost, Measures
from lakewright.platform.upkeep.procedure import AnyProcedure, Outcome, Report
from lakewright.platform.upkeep.words import counted, duration_text, size_text
from lakewright.storage import Table

# Verbs whose plans tell what they will take, and other verbs that rewrite rows as they do.
_LIKE = {RESPEC: (COMPACT, SORT_COMPACT)}
Learned = Callable[[str, str], Calibration]


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """What a plan will take; `by` says which runs tell it, and `runs` how many there are."""

    milliseconds: int
    bytes_read: int
    bytes_written: int
    runs: int
    by: str


def foreseen(learned: Learned, verb: str, table: str, planned: Measures) -> Foreseen:
    """What a plan will take, by what was `learned` of a verb and a table."""
    cost = planned.cost
    for of, calibration, of_table in _sources(learned, verb, table, cost):
        known = calibration.ratios[of, of_table]
        expected = calibration.measures(verb, table, planned).cost
        own = of == kind_of(verb, cost)
        return Foreseen(
            milliseconds=expected.milliseconds if own else round(known.milliseconds_of(cost, verb)),
            bytes_read=cost.bytes,
            bytes_written=expected.bytes_written if own else cost.bytes_written,
            runs=known.runs,
            by=f"{counted(known.runs, 'past run')} of {of} "
            + (f"on {table}" if of_table else "in this warehouse"),
        )
    verbs = (verb, *(_LIKE.get(verb, ()) if cost.bytes else ()))
    return Foreseen(
        milliseconds=round(modelled_ms(cost, verb)),
        bytes_read=cost.bytes,
        bytes_written=cost.bytes_written,
        runs=0,
        by=f"the measured default, as there are fewer than {FEWEST_RUNS} past runs of "
        f"{' or '.join(verbs)}",
    )


def _sources(
    learned: Learned, verb: str, table: str, cost: Cost
) -> Iterator[tuple[str, Calibration, str | None]]:
    """Verbs and tables whose runs are known, from the best; others tell nothing of metadata."""
    own, kind = learned(verb, table), kind_of(verb, cost)
    yield from ((kind, own, each) for each in (table, None) if (kind, each) in own.ratios)
    if not cost.bytes:
        return
    others = [(each, learned(each, table)) for each in _LIKE.get(verb, ())]
    for of_table in (table, None):
        for each, known in others:
            if (each, of_table) in known.ratios:
                yield each, known, of_table


def with_estimate(
    learned: Learned,
    verb: AnyProcedure,
    table: Table,
    planned: Outcome[Any, Any, Any],
    report: Report,
) -> Report:
    """The report of a plan with what it will take, for verbs of which that is told."""
    if verb.name not in _LIKE or verb.measures is None or report.is_empty:
        return report
    found = foreseen(learned, verb.name, table.name, verb.measures(table, planned))
    seconds = round(found.milliseconds / 1000, 3)
    told = (
        f"it takes about {duration_text(found.milliseconds)}, to read "
        f"{size_text(found.bytes_read)} and write {size_text(found.bytes_written)}, by {found.by}"
    )
    facts = {
        "estimated_seconds": seconds,
        "estimated_bytes_read": found.bytes_read,
        "estimated_bytes_written": found.bytes_written,
        "estimated_by": found.by,
    }
    estimate = {"seconds": seconds, **asdict(found)}
    record = report.facts if report.record is None else report.record
    return replace(
        report,
        facts={**report.facts, **facts},
        record={**record, "estimate": estimate},
        notes=(told, *report.notes),
    )
