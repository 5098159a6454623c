"""The gate in front of `evolve_schema`: a change of a column in use is denied."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest

from tests.pipelines.lake import EVENTS, Lake, Outcome, events

RENAMED = EVENTS.replace("name: amount, type: DOUBLE", "name: price, type: DOUBLE, was: amount")
RENAMED = RENAMED.replace("column: amount", "column: price")


@pytest.fixture
def filled(lake: Lake) -> Lake:
    lake.declare(EVENTS)
    lake.give(events("2024-01-01", 0, 3))
    lake.materialize(partitions="2024-01-01")
    return lake


def failure_metadata(outcome: Outcome) -> dict[str, Any]:
    """The metadata of the failed step."""
    for event in outcome.result.all_events:
        if event.event_type_value == "STEP_FAILURE":
            data = event.event_specific_data.user_failure_data
            return {name: each.value for name, each in data.metadata.items()}
    return {}


def test_a_denied_change_fails_the_run_with_all_findings_and_changes_nothing(filled: Lake) -> None:
    folder = filled.folder / "tables"
    (folder / "report.sql").write_text("SELECT sum(amount) FROM shop.events")
    (folder / "all.sql").write_text("SELECT * FROM shop.events")
    filled.declare(RENAMED)
    before = filled.rows()

    filled.run("evolve_schema", dry_run=True)
    denied = filled.run("evolve_schema", fails=True)
    assert "SQL file report.sql uses column amount" in denied.failure
    told = failure_metadata(denied)
    assert "denied: 1 breaking" in told["verdict"]
    lines = told["findings"].splitlines()
    assert lines[0] == "| severity | rule | column | message | way out |"
    used = [line for line in lines if "column-used" in line]
    assert [line.split(" | ")[:3] for line in used] == [
        ["| breaking", "column-used", "amount"],
        ["| warning", "column-used", "amount"],
    ]
    assert filled.table().schema.id == 0
    assert filled.rows() == before

    filled.run("evolve_schema", waive=["column-used"], owner="reports", until="2999-01-31")
    assert filled.table().schema.field_names == ("dt", "id", "price")


def test_changes_of_run_config_ask_the_declaration_and_its_checks(filled: Lake) -> None:
    denied = filled.run("evolve_schema", rename=["amount:price"], fails=True)
    findings = failure_metadata(denied)["findings"]
    assert "declaration shop.events uses column amount" in findings
    assert "asset check amount_between uses column amount" in findings
    assert filled.table().schema.id == 0


def test_assets_that_no_declaration_knows_are_asked_by_their_lineage(filled: Lake) -> None:
    upstream = dg.AssetKey(["shop", "events"])

    @dg.asset(deps=[upstream])
    def totals() -> dg.MaterializeResult[None]:
        column = dg.TableColumnDep(asset_key=upstream, column_name="amount")
        lineage = dg.TableColumnLineage(deps_by_column={"total": [column]})
        return dg.MaterializeResult(metadata={"dagster/column_lineage": lineage})

    @dg.asset(deps=[totals])
    def mail() -> None: ...

    @dg.asset(deps=[upstream])
    def other() -> None: ...

    definitions = dg.Definitions(assets=[totals, mail, other])
    job = definitions.resolve_implicit_global_asset_job_def()
    assert job.execute_in_process(instance=filled.instance).success
    filled.declare(RENAMED)
    denied = filled.run("evolve_schema", fails=True)
    findings = failure_metadata(denied)["findings"]
    assert "| breaking | column-used | amount | column totals.total uses column amount" in findings
    assert "| warning | column-used | amount | asset mail (through totals) may use" in findings
    assert "| warning | column-used | amount | asset other may use column amount" in findings


def test_declared_lineage_is_told_with_each_materialization(lake: Lake) -> None:
    daily = """
        table: shop.daily
        columns:
          - {name: dt, type: STRING NOT NULL, from: [shop.events.dt]}
          - {name: total, type: DOUBLE, from: [shop.events.amount]}
        source: {python: "tests.pipelines.sources:rows"}
        write: {engine: local}
        depends_on: [shop.events]
    """
    lake.declare(EVENTS)
    lake.declare(daily, "daily.yaml")
    lake.give(events("2024-01-01", 0, 3))
    lake.materialize(partitions="2024-01-01")
    lake.give([{"dt": "2024-01-01", "total": 3.0}], "shop.daily")
    outcome = lake.materialize("shop.daily")
    lineage = outcome.materializations[None]["dagster/column_lineage"]
    assert {
        name: [str(each.column_name) for each in deps]
        for name, deps in lineage.deps_by_column.items()
    } == {"dt": ["dt"], "total": ["amount"]}
    denied = lake.run("evolve_schema", drop=["amount"], fails=True)
    assert "column shop.daily.total uses column amount" in failure_metadata(denied)["findings"]
