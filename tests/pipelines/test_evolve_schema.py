"""The job `evolve_schema`: a table becomes as declared, and ingestion goes on."""

from __future__ import annotations

import pytest

from lakewright.storage import AddColumn
from tests.pipelines.lake import EVENTS, Lake, events


@pytest.fixture
def filled(lake: Lake) -> Lake:
    lake.declare(EVENTS)
    lake.give(events("2024-01-01", 0, 3))
    assert lake.materialize(partitions="2024-01-01").success
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
    refused = filled.materialize(partitions="2024-01-02")
    assert not refused.success
    assert "rename column amount to price" in refused.failure
    assert "run the job evolve_schema" in refused.failure

    dry = filled.run("evolve_schema", dry_run=True)
    assert dry.success, dry.failure
    assert filled.table().schema.field_names == ("dt", "id", "amount")

    evolved = filled.run("evolve_schema")
    assert evolved.success, evolved.failure
    assert evolved.observations[None]["lakewright/schema_id"] == 1
    assert filled.materialize(partitions="2024-01-02").success
    assert sorted(filled.rows(), key=lambda row: row["id"]) == [
        *({"dt": "2024-01-01", "id": n, "price": 1.0, "city": None} for n in range(3)),
        *later,
    ]
    again = filled.run("evolve_schema")
    assert again.success, again.failure
    assert filled.table().schema.id == 1


def test_columns_that_only_the_table_has_stay_until_a_run_says_otherwise(filled: Lake) -> None:
    filled.declare(EVENTS.replace("{engine: local}", "{engine: local, mode: append}"))
    filled.table().alter(AddColumn("extra", "STRING"))
    filled.give(events("2024-01-02", 3, 5))
    assert filled.materialize(partitions="2024-01-02").success
    assert filled.run("evolve_schema").success
    assert filled.table().schema.field_names[-1] == "extra"
    assert filled.run("evolve_schema", drop_undeclared=True).success
    assert filled.table().schema.field_names == ("dt", "id", "amount")


def test_a_run_applies_the_changes_of_its_config(filled: Lake) -> None:
    outcome = filled.run("evolve_schema", add=["n INT"], comment=["id:who"])
    assert outcome.success, outcome.failure
    assert filled.table().schema.field_names[-1] == "n"
    assert filled.table().schema.field("id").description == "who"
    refused = filled.run("evolve_schema", drop=["dt"])
    assert not refused.success
    assert "the table is partitioned by it" in refused.failure


def test_a_change_by_which_values_are_lost_needs_a_word(filled: Lake) -> None:
    filled.declare(EVENTS.replace("type: DOUBLE", 'type: "DECIMAL(4, 1)"'))
    refused = filled.run("evolve_schema")
    assert not refused.success
    assert "more than 3 digits before it become null" in refused.failure
    assert filled.run("evolve_schema", allow_loss=True).success
    assert str(filled.table().schema.field("amount").type) == "DECIMAL(4, 1)"
