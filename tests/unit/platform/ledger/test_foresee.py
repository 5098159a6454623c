"""What a plan will take: by runs of the verb, else by runs like it, else by the model."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from lakewright.platform.ledger.action import Action, Verdict
from lakewright.platform.ledger.calibrate import Calibration, modelled_ms
from lakewright.platform.ledger.foresee import Learned, foreseen
from lakewright.platform.ledger.ledger import Ledger
from lakewright.platform.ledger.recording import Recorder
from lakewright.platform.upkeep.measures import Cost, Measures
from lakewright.platform.upkeep.procedure import Work
from lakewright.platform.upkeep.respec import RESPEC, RespecRun
from lakewright.storage import Catalog, Table
from tests.support.tables.builders import new_table, rows

MIB = 1 << 20
SPLIT = Cost(files=100, bytes=200 * MIB, bytes_written=200 * MIB, files_named=1_000)
NAMED = Cost(files_named=50_000)


def runs(verb: str, table: str, slowness: float, cost: Cost, *, count: int = 3) -> list[Action]:
    """Runs of a verb on a machine so much slower than the measured one."""
    took = round(modelled_ms(cost, verb) * slowness)
    return [
        Action(
            id=f"{verb}-{table}-{number}",
            run="r",
            table=table,
            table_uuid="t",
            verb=verb,
            started_ms=number,
            ended_ms=number + took,
            verdict=Verdict.DONE,
            cost=Cost(
                files=cost.files,
                bytes=cost.bytes,
                bytes_written=cost.bytes // 2,
                files_named=cost.files_named,
                milliseconds=took,
            ),
        )
        for number in range(count)
    ]


def learned(actions: Iterable[Action]) -> Learned:
    known = list(actions)
    return lambda verb, _: Calibration.of(each for each in known if each.verb == verb)


REWRITTEN = Cost(files=40, bytes=300 * MIB)


@pytest.mark.parametrize(
    ("actions", "slowness", "written", "by"),
    [
        ([], 1, 200, "the measured default, as there are fewer than 3 past runs of respec or"),
        (runs("respec", "db.t", 9, SPLIT, count=2), 1, 200, "the measured default"),
        (runs("sort_compact", "db.u", 4, REWRITTEN), 4, 200, "3 past runs of sort_compact in this"),
        (
            [*runs("sort_compact", "db.t", 5, REWRITTEN), *runs("compact", "db.u", 4, REWRITTEN)],
            5,
            200,
            "3 past runs of sort_compact on db.t",
        ),
        (
            [*runs("compact", "db.t", 5, REWRITTEN), *runs("respec", "db.u", 3, SPLIT)],
            3,
            100,
            "3 past runs of respec in this warehouse",
        ),
        (
            [*runs("respec", "db.t", 2, SPLIT), *runs("respec", "db.u", 3, SPLIT)],
            2,
            100,
            "3 past runs of respec on db.t",
        ),
    ],
)
def test_the_nearest_runs_say_how_long_a_change_of_keys_takes(
    actions: list[Action], slowness: float, written: int, by: str
) -> None:
    found = foreseen(learned(actions), "respec", "db.t", Measures(cost=SPLIT))
    expected = modelled_ms(SPLIT, "respec") * slowness
    assert found.milliseconds == pytest.approx(expected, rel=0.01)
    assert (found.bytes_read, found.bytes_written) == (200 * MIB, written * MIB)
    assert found.by.startswith(by)


def test_runs_that_rewrite_rows_say_nothing_of_files_that_are_only_named_anew() -> None:
    actions = runs("compact", "db.t", 50, REWRITTEN)
    found = foreseen(learned(actions), "respec", "db.t", Measures(cost=NAMED))
    assert found.milliseconds == round(modelled_ms(NAMED, "respec"))
    assert found.by == "the measured default, as there are fewer than 3 past runs of respec"
    assert found.runs == 0


def filled(catalog: Catalog, number: int) -> Table:
    table = new_table(catalog, {"dt": "STRING", "v": "INT"}, name=f"db.t{number}")
    table.write(rows(table, [{"dt": day, "v": number} for day in "abc"]))
    return table


def test_what_changes_of_keys_took_in_a_warehouse_is_said_of_the_next(catalog: Catalog) -> None:
    recorder = Recorder.of(catalog, warn=pytest.fail, make=True)
    options = RespecRun(keys=("dt",))
    work = Work(run="r", session=pytest.fail)
    for number in range(3):
        recorder.carry_out(RESPEC, filled(catalog, number), options, work)
    done = Ledger(catalog).actions(verb="respec")
    assert [(each.cost.files, each.cost.files_named) for each in done] == [(1, 3)] * 3
    table = filled(catalog, 3)
    planned = recorder.carry_out(RESPEC, table, options, work, dry_run=True)
    report = recorder.foretell(RESPEC, table, planned, RESPEC.report(table, planned))
    assert report.facts["estimated_by"] == "3 past runs of respec in this warehouse"
    assert report.facts["estimated_bytes_read"] == planned.plan.split.bytes
    taken = sorted(each.cost.milliseconds for each in done)
    seconds = report.facts["estimated_seconds"]
    assert isinstance(seconds, float)
    # The clock of the test makes each run about as long.
    assert taken[0] * 0.5 <= seconds * 1000 <= taken[-1] * 2


def test_a_ledger_that_cannot_be_read_leaves_the_measured_default(catalog: Catalog) -> None:
    catalog.create_table("lakewright.ledger", {"other": "INT"})
    warnings: list[str] = []
    recorder = Recorder.of(catalog, warn=warnings.append)
    table = filled(catalog, 1)
    planned = recorder.carry_out(
        RESPEC, table, RespecRun(keys=("dt",)), Work(run="r", session=pytest.fail), dry_run=True
    )
    report = recorder.foretell(RESPEC, table, planned, RESPEC.report(table, planned))
    assert str(report.facts["estimated_by"]).startswith("the measured default")
    assert "past runs of respec cannot be read" in warnings[-1]


def test_runs_that_only_named_files_say_nothing_about_a_split() -> None:
    named = runs("respec", "db.t", 10.0, NAMED)
    split = foreseen(learned(named), "respec", "db.t", Measures(cost=SPLIT))
    assert split.milliseconds == round(modelled_ms(SPLIT, "respec"))
    assert split.runs == 0
    again = foreseen(learned(named), "respec", "db.t", Measures(cost=NAMED))
    assert again.milliseconds == pytest.approx(10 * modelled_ms(NAMED, "respec"), rel=0.01)
    assert again.by == "3 past runs of respec of names alone on db.t"

    both = learned([*named, *runs("respec", "db.t", 2.0, SPLIT)])
    split = foreseen(both, "respec", "db.t", Measures(cost=SPLIT))
    assert split.milliseconds == pytest.approx(2 * modelled_ms(SPLIT, "respec"), rel=0.01)
