"""The verb `evolve_schema`: a table becomes as declared, and ingestion goes on."""

from __future__ import annotations

import json

import pytest

from lakewright.platform.ledger.action import Verdict
from lakewright.platform.ledger.ledger import Ledger
from lakewright.storage import AddColumn
from tests.pipelines.lake import EVENTS, Lake, events


@pytest.fixture
def filled(lake: Lake) -> Lake:
    lake.declare(EVENTS)
    lake.give(events("2024-01-01", 0, 3))
    lake.materialize(partitions="2024-01-01")
    return lake


CHANGED = EVENTS.replace(
    "      - {name: amount, type: DOUBLE}\n",
    "      - {name: price, type: DOUBLE, was: amount}\n      - {name: city, type: STRING}\n",
).replace("column: amount", "column: price")


@pytest.mark.mission("SE2", "SE5")
def test_an_edited_declaration_is_proposed_made_and_ingested(filled: Lake) -> None:
    filled.declare(CHANGED)
    later = [{"dt": "2024-01-02", "id": 9, "price": 2.0, "city": "Ulm"}]
    filled.give(later)
    refused = filled.materialize(partitions="2024-01-02", fails=True)
    assert "rename column amount to price" in refused.failure
    assert (
        "run `lakewright evolve-schema shop.events` (evolve_schema in the job upkeep)"
        in refused.failure
    )

    filled.run("evolve_schema", dry_run=True)
    assert filled.table().schema.field_names == ("dt", "id", "amount")

    evolved = filled.run("evolve_schema")
    assert evolved.observations[None]["lakewright/schema_id"] == 1
    filled.materialize(partitions="2024-01-02")
    assert sorted(filled.rows(), key=lambda row: row["id"]) == [
        *({"dt": "2024-01-01", "id": n, "price": 1.0, "city": None} for n in range(3)),
        *later,
    ]
    filled.run("evolve_schema")
    assert filled.table().schema.id == 1
    recorded = Ledger(filled.catalog).actions(table="shop.events", verb="evolve_schema")
    assert [each.verdict for each in recorded] == [Verdict.DONE, Verdict.NOTHING_TO_DO]


def test_columns_that_only_the_table_has_stay_until_a_run_says_otherwise(filled: Lake) -> None:
    filled.declare(EVENTS.replace("{engine: local}", "{engine: local, mode: append}"))
    filled.table().alter(AddColumn("extra", "STRING"))
    filled.give(events("2024-01-02", 3, 5))
    filled.materialize(partitions="2024-01-02")
    waiting = filled.run("evolve_schema")
    assert filled.table().schema.field_names[-1] == "extra"
    shown = waiting.observations[None]
    assert shown["lakewright/changes_to_accept"] == 1
    assert shown["lakewright/accept_by_command"] == "lakewright alter shop.events --drop extra"
    config = json.loads(shown["lakewright/accept_by_run_config"])
    filled.run("evolve_schema", **config)
    assert filled.table().schema.field_names == ("dt", "id", "amount")


def test_a_run_applies_the_changes_of_its_config(filled: Lake) -> None:
    filled.run("evolve_schema", add=["n INT"], comment=["id:who"])
    assert filled.table().schema.field_names[-1] == "n"
    assert filled.table().schema.field("id").description == "who"
    refused = filled.run("evolve_schema", drop=["dt"], fails=True)
    assert "the table is partitioned by it" in refused.failure


NARROWED = EVENTS.replace(
    "      - {name: amount, type: DOUBLE}\n",
    '      - {name: amount, type: "DECIMAL(4, 1)", default: 0}\n'
    "      - {name: city, type: STRING}\n",
)
POLICY = """
    schema: {on_destructive: %s}
"""


def test_a_destructive_change_waits_for_a_person_while_the_others_are_made(filled: Lake) -> None:
    filled.declare(NARROWED)
    evolved = filled.run("evolve_schema")
    fields = {field.name: field for field in filled.table().schema.fields}
    assert (str(fields["amount"].type), fields["amount"].default_value) == ("DOUBLE", None)
    assert str(fields["city"].type) == "STRING"
    shown = evolved.observations[None]
    assert "more than 3 digits before the point become null" in shown["reasons"]
    assert shown["lakewright/accept_by_command"] == (
        "lakewright alter shop.events --type 'amount:DECIMAL(4, 1)' --default amount:0"
    )
    filled.run("evolve_schema", on_destructive="allow")
    amount = filled.table().schema.field("amount")
    assert (str(amount.type), amount.default_value) == ("DECIMAL(4, 1)", "0")
    # Nothing is left to make, and nothing is told.
    assert filled.run("evolve_schema").observations == {}


def test_a_policy_that_refuses_changes_nothing_and_names_what_is_destructive(filled: Lake) -> None:
    filled.declare(NARROWED + POLICY % "refuse")
    refused = filled.run("evolve_schema", fails=True)
    assert "change the type of column amount to DECIMAL(4, 1)" in refused.failure
    assert "schema.on_destructive is refuse" in refused.failure
    assert filled.table().schema.id == 0
    # A run may say otherwise.
    filled.run("evolve_schema", on_destructive="plan")
    assert filled.table().schema.field_names[-1] == "city"


def test_a_policy_that_allows_makes_all_changes(filled: Lake) -> None:
    filled.table().alter(AddColumn("extra", "STRING"))
    filled.declare(NARROWED + POLICY % "allow")
    filled.run("evolve_schema")
    assert filled.table().schema.field_names == ("dt", "id", "amount", "city")
    assert str(filled.table().schema.field("amount").type) == "DECIMAL(4, 1)"


def test_a_policy_that_is_misspelt_is_told(lake: Lake) -> None:
    lake.declare(EVENTS + POLICY % "deny")
    assert "deny is not one of refuse, plan or allow" in lake.wrong
    lake.declare(EVENTS + "    schema: {on_destruct: plan}\n")
    assert "schema.on_destruct: " in lake.wrong
    assert "'on_destructive'" in lake.wrong
