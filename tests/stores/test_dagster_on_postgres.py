"""Dagster's own storage in PostgreSQL, as docs/how-to/deploying.md sets it up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dagster as dg
import pytest
import yaml

from lakewright.demo.dagster_server import DagsterServer
from lakewright.storage import Catalog
from tests.support.stores.servers import ROOT, SECRET, postgres_server
from tests.support.tables.builders import rows as rows_of
from tests.unit.platform.orchestration.test_event_log import home, materialize_all, told

pytestmark = pytest.mark.servers

DECLARED = """\
table: shop.events
columns:
  - {name: dt, type: STRING NOT NULL}
  - {name: id, type: BIGINT NOT NULL}
partition_keys: [dt]
partitions: {daily: {column: dt, start: 2024-01-01}}
source: {csv: ROWS}
write: {mode: overwrite}
maintenance: {compaction: {min_bytes: 0 b, small_files: 3, interval: 5s}}
"""


@pytest.fixture(scope="module")
def server() -> Iterator[dict[str, str]]:
    """The variables that docs/how-to/deploying.md asks for."""
    pytest.importorskip("dagster_postgres", reason="run make test-stores")
    with postgres_server() as url:
        parts = urlsplit(url)
        yield {
            "DAGSTER_PG_USER": str(parts.username),
            "DAGSTER_PG_PASSWORD": SECRET,
            "DAGSTER_PG_HOST": str(parts.hostname),
            "DAGSTER_PG_PORT": str(parts.port),
            "DAGSTER_PG_DB": parts.path.strip("/"),
        }


@pytest.fixture
def folder(server: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Dagster home with the settings of the page in the place of the log in SQLite."""
    page = (ROOT / "docs" / "how-to" / "deploying.md").read_text()
    (block,) = re.findall(r"```yaml\n(storage:.*?)```", page, re.DOTALL)
    settings = yaml.safe_load((ROOT / "dagster_home" / "dagster.yaml").read_text())
    del settings["event_log_storage"]
    assert SECRET not in block
    made = tmp_path / "home"
    made.mkdir()
    (made / "dagster.yaml").write_text(yaml.safe_dump({**settings, **yaml.safe_load(block)}))
    for name, value in {**server, "DAGSTER_HOME": str(made)}.items():
        monkeypatch.setenv(name, value)
    return made


def test_a_run_over_many_partitions_leaves_the_events_that_it_leaves_in_sqlite(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_EVENT_BATCH_SIZE", "16")
    with dg.DagsterInstance.from_config(str(folder)) as instance:
        assert type(instance.event_log_storage).__name__ == "PostgresEventLogStorage"
        found = told(instance, materialize_all(instance))
    with home(tmp_path / "sqlite", monkeypatch, batched=True) as instance:
        assert told(instance, materialize_all(instance)) == found


def test_runs_are_launched_by_a_person_and_by_the_sensor(
    folder: Path, server: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "tables").mkdir()
    rows = tmp_path / "rows.csv"
    rows.write_text("dt,id\n" + "".join(f"2024-01-0{day},{day}\n" for day in range(1, 9)))
    declared = DECLARED.replace("ROWS", str(rows))
    (tmp_path / "tables" / "events.yaml").write_text(declared)
    environment = {
        **server,
        "LAKEWRIGHT_TABLES": str(tmp_path / "tables"),
        "LAKEWRIGHT_WAREHOUSE": str(tmp_path / "warehouse"),
        "DAGSTER_EVENT_BATCH_SIZE": "500",
    }
    with DagsterServer(None, folder, environment) as served:
        run = served.launch_assets(["shop.events"], partitions=("2024-01-01", "2024-01-08"))
        ended = until_ended(served, run)
        assert ended == "SUCCESS", served.failure_of(run)
        table = Catalog.open(str(tmp_path / "warehouse")).table("shop.events")
        assert table.read().num_rows == 8
        for number in range(4):
            table.write(rows_of(table, [{"dt": "2024-01-01", "id": number}]))
        found = None
        while found is None:
            served.env.sleep_ms(500)
            found = next((each.id for each in served.runs() if each.verb == "compact"), None)
        assert until_ended(served, found) == "SUCCESS", served.failure_of(found)
    assert len(table.at().files(where="dt = '2024-01-01'")) == 1
    # Nothing of it lies in the folder.
    assert not list(folder.rglob("*.db"))


def until_ended(server: DagsterServer, run: str) -> Any:
    """The status of a run, once it has ended."""
    while True:
        (status,) = [each.status for each in server.runs() if each.id == run]
        if status in ("SUCCESS", "FAILURE", "CANCELED"):
            return status
        server.env.sleep_ms(500)
