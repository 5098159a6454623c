"""Every promised verb is a job, a command and a call, also where no table is declared."""

from __future__ import annotations

import json

import click
import dagster as dg
import pytest

from lakewright.cli import main
from lakewright.cli.grammar.root import ROOT
from lakewright.definitions import build_definitions
from lakewright.platform.ledger.action import Verdict
from lakewright.platform.ledger.ledger import Ledger
from lakewright.platform.orchestration.names import UPKEEP
from lakewright.platform.upkeep import evolve
from lakewright.storage import Table
from lakewright.storage.history import History
from lakewright.storage.upkeep import Upkeep
from lakewright.storage.verb import Verb
from tests.pipelines.lake import EVENTS, Lake
from tests.support.tables.builders import events, new_table, rows
from tests.support.tables.landed import land_beside

# By the job: the command, and the call of Python.
PROMISED = {
    "compact": ("compact", Upkeep.compact),
    "sort_compact": ("sort-compact", Upkeep.sort_compact),
    "expire_snapshots": ("expire-snapshots", Upkeep.expire_snapshots),
    "expire_partitions": ("expire-partitions", Upkeep.expire_partitions),
    "expire_tags": ("tag expire", Upkeep.expire_tags),
    "expire_changelogs": ("changelog expire", Upkeep.expire_changelogs),
    "remove_orphans": ("remove-orphans", Upkeep.remove_orphans),
    "collect": ("condemned collect", Upkeep.collect),
    "rewrite_manifests": ("rewrite-manifests", Upkeep.rewrite_manifests),
    "publish_iceberg": ("publish-iceberg", Upkeep.publish_iceberg),
    "rescale": ("rescale", Upkeep.rescale),
    "respec": ("respec", Upkeep.respec),
    "evolve_schema": ("evolve-schema", evolve.evolution_to),
    "rollback": ("rollback", History.rollback),
    "analyze": ("analyze", Upkeep.analyze),
    "put_back": ("condemned put-back", Upkeep.put_back),
    "repair_partitions": ("repair-partitions", Upkeep.repair_partitions),
}


@pytest.fixture
def adopted(lake: Lake) -> Lake:
    """A warehouse with a table that nothing declares."""
    table = new_table(lake.catalog, name="shop.events", partitions=["day"])
    for day in "abc":
        table.write(rows(table, events(0, 3, day=day)))
    lake.definitions_are(build_definitions([], warehouse=lake.warehouse, adopted=["*"]))
    return lake


@pytest.fixture(scope="module")
def jobs() -> dict[str, dg.JobDefinition]:
    """The jobs of a warehouse that has only adopted tables."""
    found = build_definitions([], adopted=["*"]).get_repository_def().get_all_jobs()
    return {each.name: each for each in found}


@pytest.mark.parametrize("verb", PROMISED)
def test_each_promised_verb_is_a_job_a_command_and_a_call(
    verb: str, jobs: dict[str, dg.JobDefinition]
) -> None:
    words, call = PROMISED[verb]
    assert call.name == verb if isinstance(call, Verb) else callable(call)
    command: click.Command | None = ROOT
    for word in words.split():
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), word)
    assert command is not None
    assert "dry_run" in {each.name for each in command.params}
    (node,) = jobs[UPKEEP].graph.nodes
    fields = node.definition.config_schema.config_type.fields  # type: ignore[union-attr]
    fields = fields["verb"].config_type.fields[verb].config_type.fields
    # What the builder of the job makes takes tables by name, each with options or a plan.
    assert set(fields) >= {"tables", "dry_run"}
    assert "plan" in fields["tables"].config_type.inner_type.fields


def run(lake: Lake, job: str, **config: object) -> None:
    lake.run_verb(job, {"tables": {"shop.events": config}})


# What a run of each job says, and the same as words of its command.
ASKED: dict[str, tuple[dict[str, object], list[str]]] = {
    "sort_compact": ({"by": ["id"]}, ["--by", "id"]),
    "rescale": ({"buckets": 3}, ["--buckets", "4"]),
    "respec": ({"keys": ["day", "id"]}, ["--keys", "day"]),
    "rollback": ({"snapshot": 2}, ["--snapshot", "1"]),
    "analyze": ({"columns": ["id"]}, ["--columns", "id"]),
    "expire_partitions": ({"older_than": "1d"}, ["--older-than", "1d"]),
    "evolve_schema": ({"add": ["city STRING"]}, ["--tables", "declared.yaml"]),
}
DECLARED = """
table: shop.events
columns:
  - {name: id, type: BIGINT}
  - {name: day, type: STRING}
  - {name: v, type: STRING}
  - {name: city, type: STRING}
  - {name: n, type: INT}
partition_keys: [day]
partitions:
  daily: {column: day, start: 2024-01-01}
source: {parquet: "rows-{day}.parquet"}
"""


def kept(lake: Lake, verb: str) -> tuple[Table, dict[str, object], list[str]]:
    """A table that a verb has work on, with the config of a run and the words of a command."""
    options = {"bucket": "2"} if verb == "rescale" else {}
    keys = ["id", "day"] if verb == "rescale" else []
    table = new_table(
        lake.catalog, name="shop.events", keys=keys, partitions=["day"], options=options
    )
    for number in (1, 2, 3):
        table.write(rows(table, events(0, 3, day=f"2024-01-0{number}")))
    if verb == "put_back":
        for first in (3, 6):
            table.stage(rows(table, events(first, first + 3, day="2024-01-01")))
            table.upkeep.remove_orphans(older_than_ms=0, even_recent=True)
        one, two = (each.id for each in table.upkeep.condemned())
        return table, {"record": one}, [two]
    if verb == "repair_partitions":
        table.upkeep.add_partitions(land_beside(table, "x"), age_ms=0)
    config, words = ASKED.get(verb, ({}, []))
    return table, config, words


@pytest.mark.parametrize("verb", PROMISED)
@pytest.mark.sampled(5)
def test_each_promised_verb_leaves_a_row_in_the_ledger_by_its_job_and_by_its_command(
    verb: str, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEWRIGHT_WAREHOUSE", str(lake.catalog.root))
    monkeypatch.delenv("LAKEWRIGHT_TABLES", raising=False)
    monkeypatch.chdir(lake.folder)
    (lake.folder / "declared.yaml").write_text(DECLARED)
    table, config, words = kept(lake, verb)
    lake.definitions_are(build_definitions([], warehouse=lake.warehouse, adopted=["*"]))

    run(lake, verb, **config)
    command, _ = PROMISED[verb]
    assert main([*command.split(), table.name, *words]) == 0

    if verb == "put_back":
        # What came back is orphaned as it was.
        table.upkeep.remove_orphans(older_than_ms=0, even_recent=True)

    by_job, by_command = Ledger(lake.catalog).actions(table=table.name)
    # Of a table without declared columns, the job makes the changes that it is told.
    assert by_job.verb == ("alter" if verb == "evolve_schema" else verb)
    assert by_command.verb == verb
    assert not by_job.run.startswith("lakewright ")
    assert by_command.run.startswith("lakewright ")
    for action in (by_job, by_command):
        assert action.verdict in (Verdict.DONE, Verdict.NOTHING_TO_DO)
        assert action.predicted_cost is not None


def test_the_keys_and_columns_of_an_adopted_table_change_by_jobs(adopted: Lake) -> None:
    run(adopted, "respec", keys=["day", "id"])
    assert adopted.table().schema.partition_keys == ("day", "id")
    run(adopted, "evolve_schema", add=["city STRING"])
    assert adopted.table().schema.field_names[-1] == "city"
    assert adopted.table().read().num_rows == 9


def test_the_job_of_all_tables_takes_declared_keys_where_a_table_has_some(lake: Lake) -> None:
    lake.declare(EVENTS)
    lake.give([{"dt": "2024-01-01", "id": each, "amount": 1.0} for each in range(3)])
    lake.materialize(partitions="2024-01-01")
    lake.table().upkeep.respec(("dt", "id"))
    run(lake, "respec")
    assert lake.table().schema.partition_keys == ("dt",)


def test_the_command_evolves_a_schema_as_the_job_does(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.declare(EVENTS)
    lake.give([{"dt": "2024-01-01", "id": each, "amount": 1.0} for each in range(3)])
    lake.materialize(partitions="2024-01-01")
    monkeypatch.setenv("LAKEWRIGHT_WAREHOUSE", str(lake.catalog.root))
    monkeypatch.delenv("LAKEWRIGHT_TABLES", raising=False)
    lake.declare(
        EVENTS.replace(
            "      - {name: amount, type: DOUBLE}\n",
            "      - {name: price, type: DOUBLE, was: amount}\n"
            "      - {name: city, type: STRING}\n",
        ).replace("column: amount", "column: price")
    )
    words = ["evolve-schema", "shop.events"]
    assert main(words) == 2
    assert "no declaration of shop.events" in capsys.readouterr().err
    words += ["--tables", str(lake.folder / "tables")]

    code = main([*words, "--dry-run", "--format", "json"])
    planned = json.loads(capsys.readouterr().out)
    # A rename breaks readers of before, which is a warning.
    assert (code, planned["operation"]) == (1, "evolve-schema")
    assert lake.table().schema.field_names == ("dt", "id", "amount")
    assert main([*words, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema_id"] == 1
    assert lake.table().schema.field_names == ("dt", "id", "price", "city")
    assert main([*words, "--format", "json"]) == 0
    assert lake.table().schema.id == 1
