"""The job `sql`: statements of the config, whose inserts a retry does not make twice."""

from __future__ import annotations

from lakewright.platform.orchestration.run_identity import commit_user
from lakewright.session import Session
from tests.pipelines.lake import EVENTS, Lake, Outcome, events


def test_statements_run_as_a_job_and_a_wrong_one_fails_the_run(lake: Lake) -> None:
    lake.declare(EVENTS)
    lake.give(events("2024-01-01", 0, 3))
    lake.materialize(partitions="2024-01-01")
    table = lake.table().name
    copied = f"CREATE TABLE copied LIKE {table}; INSERT INTO copied BY NAME SELECT * FROM {table}"

    done = _sql(lake, copied)

    catalog = lake.warehouse.catalog()
    name = f"{table.partition('.')[0]}.copied"
    assert catalog.table(name).read().num_rows == 3
    failed = _sql(lake, "INSERT INTO copied VALUES (1)", fails=True)
    assert "the query gives 1 columns" in failed.failure
    run = lake.instance.get_run_by_id(done.run_id)
    assert run is not None
    again = Session(catalog, run_name=commit_user(lake.instance, run, "sql"))
    again.sql(f"SHOW DATABASES; INSERT INTO {name} BY NAME SELECT * FROM {table}")
    assert catalog.table(name).read().num_rows == 3


def _sql(lake: Lake, statements: str, *, fails: bool = False) -> Outcome:
    config = {"statements": statements, "database": lake.table().name.partition(".")[0]}
    return lake.run_job("sql", {"ops": {"sql": {"config": config}}}, fails=fails)
