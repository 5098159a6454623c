"""`lakewright ledger`, `savings` and `metrics`: what upkeep did, cost and saved."""

from __future__ import annotations

import csv
import datetime as dt
import io
import re
from dataclasses import replace
from typing import Any

import pytest

from lakewright.platform.ledger.action import Verdict
from lakewright.platform.ledger.ledger import LEDGER, Ledger
from lakewright.platform.ledger.recording import LEDGER_VARIABLE
from lakewright.platform.ledger.savings import day_of
from lakewright.storage import Catalog, Table
from tests.support.tables.builders import events, new_table, rows
from tests.unit.cli.conftest import Lakewright


@pytest.fixture
def table(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> Table:
    monkeypatch.delenv(LEDGER_VARIABLE, raising=False)
    made = new_table(catalog, name='db.a"b', partitions=("day",))
    for at in range(3):
        made.write(rows(made, events(at, at + 1)))
    return made


def test_commands_are_recorded_from_the_creation_of_the_ledger_on(
    catalog: Catalog, table: Table, lakewright: Lakewright
) -> None:
    lakewright(catalog, "compact", table.name, "--min-files", "9")
    none = lakewright(catalog, "ledger")
    assert "or `lakewright ledger --create`" in none.out

    lakewright(catalog, "ledger", "--create")
    again = lakewright(catalog, "ledger", "--create", "--format", "json")
    assert again.json == {"ledger": LEDGER, "created": False}
    assert lakewright(catalog, "ledger").lines == ["no such action is recorded"]
    lakewright(catalog, "compact", table.name, "--full", "--dry-run")
    lakewright(catalog, "compact", table.name, "--full")
    lakewright(catalog, "drop-partitions", table.name, "--where", "day = 'a'")

    told = lakewright(catalog, "ledger", table.name, "--format", "json").json
    assert [(each["verb"], each["verdict"]) for each in told] == [
        ("compact", "done"),
        ("drop_partitions", "done"),
    ]
    assert told[0]["run"].startswith("lakewright compact (")
    shown = lakewright(catalog, "ledger", "--verb", "drop-partitions").lines
    assert len(shown) == 3
    assert "drop_partitions" in shown[-1]
    assert lakewright(catalog, "ledger", "--since", "1d", "--run", "x").out.startswith("no such")
    short = told[0]["run"][-9:-1]
    assert len(lakewright(catalog, "ledger", "--run", short).lines) == 3


def test_the_history_of_an_unknown_table_names_a_similar_one(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table = new_table(catalog, name="db.orders")
    lakewright(catalog, "ledger", "--create")
    unknown = lakewright(catalog, "ledger", "db.order", code=3)
    assert "no table db.order" in unknown.err
    assert "did you mean db.orders?" in unknown.err
    # A table that exists, or that was dropped since, is known.
    assert lakewright(catalog, "ledger", "db.orders").lines == ["no such action is recorded"]
    for number in range(3):
        table.write(rows(table, events(number, number + 1)))
    lakewright(catalog, "compact", "db.orders", "--full")
    catalog.drop_table("db.orders")
    lakewright(catalog, "ledger", "db.orders")
    lakewright(catalog, "ledger", "db.orders", "--verb", "collect")


def test_history_and_ledger_are_the_same_command(
    catalog: Catalog, table: Table, lakewright: Lakewright
) -> None:
    lakewright(catalog, "ledger", "--create")
    lakewright(catalog, "compact", table.name, "--full")
    (told,) = lakewright(catalog, "ledger", table.name, "--format", "json").json
    assert (told["verb"], told["verdict"]) == ("compact", "done")
    assert lakewright(catalog, "ledger", table.name, "--format", "json").json == [told]
    help_text = lakewright(catalog, "--help").out
    for name in ("ledger", "undo", "trend"):
        assert re.search(rf"^  {name} ", help_text, re.MULTILINE), name


def test_a_plan_that_is_carried_out_later_is_recorded_then(
    catalog: Catalog, table: Table, lakewright: Lakewright, tmp_path: Any
) -> None:
    Ledger(catalog).create()
    plan = str(tmp_path / "plan.json")
    lakewright(catalog, "compact", table.name, "--full", "--save-plan", plan)
    assert Ledger(catalog).actions() == ()

    lakewright(catalog, "compact", table.name, "--plan", plan)

    (action,) = Ledger(catalog).actions()
    assert action.verdict is Verdict.DONE
    assert action.predicted_cost is not None
    assert action.predicted_cost.files == 3


def test_a_ledger_that_cannot_be_written_is_told_and_the_command_succeeds(
    catalog: Catalog, table: Table, lakewright: Lakewright
) -> None:
    catalog.create_table(LEDGER, {"id": "INT"})

    ended = lakewright(catalog, "compact", table.name, "--full")

    assert "warning: compact of" in ended.err
    assert "is not a ledger of Lakewright" in ended.err
    assert len(table.at().files()) == 1


@pytest.mark.parametrize("by", ["table", "verb", "day"])
def test_savings_sum_up_what_upkeep_cost_and_saved(
    catalog: Catalog, table: Table, lakewright: Lakewright, by: str
) -> None:
    Ledger(catalog).create()
    before = sum(each.file.file_size for each in table.at().files())
    lakewright(catalog, "compact", table.name, "--full")
    after = sum(each.file.file_size for each in table.at().files())
    lakewright(catalog, "compact", table.name, "--full")

    (told,) = lakewright(catalog, "savings", "--by", by, "--format", "json").json

    day = day_of(Ledger(catalog).actions()[0].started_ms)
    assert told[by] == {"table": table.name, "verb": "compact", "day": day}[by]
    assert (told["runs"], told["done"], told["failed"]) == (2, 1, 0)
    assert (told["cost_bytes"], told["cost_bytes_written"]) == (before, after)
    assert told["benefit_files_fewer"] == told["predicted_benefit_files_fewer"] == 2
    assert told["benefit_bytes_fewer"] == before - after
    assert told["error_files_fewer"] == 0
    foreseen = told["predicted_cost_bytes_written"]
    assert told["error_bytes_written"] == pytest.approx(abs(foreseen - after) / after)
    assert told["error_bytes_written"] < 1
    shown = lakewright(catalog, "savings", "--by", by).lines
    assert shown[-3].startswith("all")
    assert "2 / 2" in shown[-3]
    assert shown[-1].startswith("two figures are ACTUAL / PREDICTED")
    (row,) = csv.DictReader(
        io.StringIO(lakewright(catalog, "savings", "--by", by, "--format", "csv").out)
    )
    assert int(row["benefit_files_fewer"]) == 2


def test_savings_are_those_of_the_last_week(
    catalog: Catalog, table: Table, lakewright: Lakewright
) -> None:
    Ledger(catalog).create()
    lakewright(catalog, "compact", table.name, "--full")
    (action,) = Ledger(catalog).actions()
    long_ago = action.started_ms - 8 * 86_400_000
    Ledger(catalog).record([replace(action, id="old", started_ms=long_ago)])

    (week,) = lakewright(catalog, "savings", "--format", "json").json
    (month,) = lakewright(catalog, "savings", "--since", "30d", "--format", "json").json

    assert (week["runs"], month["runs"]) == (1, 2)
    assert lakewright(catalog, "savings", "db.none").lines == ["no run is recorded"]


_HELP = re.compile(r"# (HELP|TYPE) ([a-z_]+) (.+)")
_LABEL = r'[a-z_]+="(?:[^"\\\n]|\\["\\n])*"'
_SAMPLE = re.compile(rf"([a-z_]+)\{{({_LABEL}(?:,{_LABEL})*)\}} (\S+)")


def parsed(text: str) -> dict[tuple[str, str], float]:
    """The samples of a text in Prometheus's format, by the rules of the format."""
    assert text.endswith("\n")
    samples: dict[tuple[str, str], float] = {}
    told: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            found = _HELP.fullmatch(line)
            assert found, line
            told.setdefault(found[2], []).append(found[1])
            family = found[2]
            continue
        found = _SAMPLE.fullmatch(line)
        assert found, line
        # Each family is in one piece, after its help and its type.
        assert found[1] == family
        assert (found[1], found[2]) not in samples
        samples[found[1], found[2]] = float(found[3])
    assert set(map(tuple, told.values())) <= {("HELP", "TYPE")}
    return samples


def test_metrics_are_in_the_format_of_prometheus(
    catalog: Catalog, table: Table, lakewright: Lakewright
) -> None:
    Ledger(catalog).create()
    lakewright(catalog, "compact", table.name, "--full")
    lakewright(catalog, "compact", table.name, "--full")
    done, idle = Ledger(catalog).actions()

    samples = parsed(lakewright(catalog, "metrics").out)

    of = r'table="db.a\"b",verb="compact"'
    assert samples["lakewright_upkeep_runs_total", f'{of},verdict="done"'] == 1
    assert samples["lakewright_upkeep_runs_total", f'{of},verdict="nothing_to_do"'] == 1
    assert samples["lakewright_upkeep_files_fewer", of] == 2
    took_ms = done.cost.milliseconds + idle.cost.milliseconds
    assert samples["lakewright_upkeep_seconds_total", of] == pytest.approx(took_ms / 1000)
    assert (
        samples["lakewright_upkeep_last_run_timestamp_seconds", f'{of},verdict="done"']
        == done.ended_ms / 1000
    )


def test_reads_are_counted_in_a_table_that_any_statement_fills(
    catalog: Catalog, table: Table, lakewright: Lakewright
) -> None:
    assert lakewright(catalog, "reads").lines[0].startswith("no reads are counted")
    made = lakewright(catalog, "reads", "--create", "--format", "json").json
    assert made == {"reads": "lakewright.reads", "created": True}
    yesterday = dt.datetime.now(dt.UTC).date() - dt.timedelta(days=1)
    values = f"('{table.name}', 'a', 70, '{yesterday}'), ('{table.name}', NULL, 7, '{yesterday}')"
    lakewright(catalog, "sql", f"INSERT INTO lakewright.reads VALUES {values}")
    assert lakewright(catalog, "reads", table.name, "--format", "json").json == [
        {"table": table.name, "partition": None, "reads_a_day": 1.0},
        {"table": table.name, "partition": "a", "reads_a_day": 10.0},
    ]
    lakewright(catalog, "reads", "db.none", code=3)
