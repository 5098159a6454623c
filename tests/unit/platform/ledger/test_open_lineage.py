"""OpenLineage: an event for each action, to an endpoint, a file or the console."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from openlineage.client.event_v2 import RunEvent
from openlineage.client.serde import Serde
from requests import RequestException

from lakewright.platform.ledger.action import Action, Verdict
from lakewright.platform.ledger.open_lineage import lineage_sink, run_event
from lakewright.platform.ledger.recording import Recorder
from lakewright.platform.upkeep.compact import COMPACT, CompactRun
from lakewright.platform.upkeep.measures import Cost
from lakewright.platform.upkeep.procedure import Work
from lakewright.storage import Catalog
from lakewright.storage.errors import InvalidRequestError
from tests.support.tables.builders import events, new_table, rows

ACTION = Action(
    id="8f14e45f-ceea-467f-a8d3-1d5c2a1b0c9e",
    run="a run",
    table="db.t$branch_b",
    table_uuid="u",
    verb="compact",
    started_ms=1_704_067_200_000,
    ended_ms=1_704_067_201_500,
    verdict=Verdict.DONE,
    cost=Cost(bytes=10, files=2, bytes_written=4),
)
_FILE = {
    "OPENLINEAGE__TRANSPORT__TYPE": "file",
    "OPENLINEAGE__TRANSPORT__LOG_FILE_PATH": "events.jsonl",
}


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client adds to the environment, too, where it finds settings of an older form."""
    monkeypatch.setattr(os, "environ", os.environ.copy())


def sent(event: RunEvent) -> Any:
    """The event as a receiver gets it."""
    return json.loads(Serde.to_json(event))


def test_an_event_has_what_the_specification_requires() -> None:
    event = sent(run_event(ACTION, "s3://key:word@lake/warehouse"))

    assert event["eventType"] == "COMPLETE"
    assert event["eventTime"] == "2024-01-01T00:00:01.500+00:00"
    assert event["schemaURL"].endswith("2-0-2/OpenLineage.json#/$defs/RunEvent")
    UUID(event["run"]["runId"])
    assert event["job"]["name"] == "db.t$branch_b.compact"
    (read,), (wrote,) = event["inputs"], event["outputs"]
    assert (read["namespace"], read["name"]) == ("s3://lake", "warehouse/db.db/t")
    assert read["inputFacets"]["inputStatistics"]["size"] == 10
    assert wrote["outputFacets"]["outputStatistics"]["size"] == 4
    assert "word" not in json.dumps(event)
    for facet in _facets(event):
        assert facet["_producer"]
        assert facet["_schemaURL"].startswith("https://openlineage.io/spec/")


def _facets(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        for name, each in value.items():
            if name in ("facets", "inputFacets", "outputFacets"):
                yield from each.values()
            yield from _facets(each)
    elif isinstance(value, list):
        for each in value:
            yield from _facets(each)


@pytest.mark.parametrize("verdict", [Verdict.FAILED, Verdict.BEATEN])
def test_a_run_that_failed_is_told_with_its_error(verdict: Verdict) -> None:
    event = sent(run_event(replace(ACTION, verdict=verdict, error="no answer"), "/lake"))

    assert event["eventType"] == "FAIL"
    assert event["run"]["facets"]["errorMessage"]["message"] == "no answer"
    assert (event["outputs"][0]["namespace"], event["outputs"][0]["name"]) == (
        "file",
        "/lake/db.db/t",
    )


def test_events_of_commands_and_jobs_go_to_a_file(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in _FILE.items():
        monkeypatch.setenv(name, value)
    table = new_table(catalog)
    table.write(rows(table, events(0, 1)))

    Recorder.of(catalog, warn=pytest.fail).carry_out(
        COMPACT, table, CompactRun(), Work(run="r", session=lambda: None)
    )

    (line,) = (tmp_path / "events.jsonl").read_text().splitlines()
    assert json.loads(line)["job"]["name"] == f"{table.name}.compact"


def test_a_transport_that_is_not_known_is_a_warning(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "pigeon")
    warnings: list[str] = []

    assert Recorder.of(catalog, warn=warnings.append).sinks == ()

    (told,) = warnings
    assert told.startswith("OpenLineage has wrong settings: ")
    assert "pigeon" in told


def test_without_its_client_a_warning_names_the_extra(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "openlineage.client", None)
    warnings: list[str] = []

    assert Recorder.of(catalog, warn=warnings.append).sinks == ()

    (told,) = warnings
    assert "pip install 'lakewright[lineage]'" in told


def test_a_shadow_is_no_run(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "events.jsonl"
    sink = sink_by(
        monkeypatch, catalog, _FILE | {"OPENLINEAGE__TRANSPORT__LOG_FILE_PATH": str(file)}
    )
    assert sink is not None

    sink(replace(ACTION, verdict=Verdict.SHADOW))
    assert not file.exists()
    sink(ACTION)
    sink(ACTION)
    assert len(file.read_text().splitlines()) == 2


def test_the_console_is_standard_error(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sink = sink_by(monkeypatch, catalog, {"OPENLINEAGE__TRANSPORT__TYPE": "console"})
    assert sink is not None
    sink(ACTION)
    (line,) = caplog.messages
    assert json.loads(line)["run"]["runId"] == ACTION.id


def sink_by(
    monkeypatch: pytest.MonkeyPatch, catalog: Catalog, settings: Mapping[str, str]
) -> Callable[[Action], object] | None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    return lineage_sink(catalog)


@dataclass
class Receiver:
    """An HTTP server that keeps what it gets."""

    got: list[tuple[str, str | None, Any]] = field(default_factory=list)
    status: int = 201
    url: str = ""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    kept = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            kept.got.append((self.path, self.headers["Authorization"], json.loads(body)))
            self.send_response(kept.status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        kept.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield kept
        server.shutdown()
        thread.join()


def test_events_are_posted_to_an_endpoint(
    catalog: Catalog, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"OPENLINEAGE_URL": receiver.url, "OPENLINEAGE_API_KEY": "open-sesame"}
    sink = sink_by(monkeypatch, catalog, settings)
    assert sink is not None

    sink(ACTION)

    ((path, key, event),) = receiver.got
    assert (path, key) == ("/api/v1/lineage", "Bearer open-sesame")
    assert event["run"]["runId"] == ACTION.id


def test_a_receiver_that_takes_no_event_is_a_warning_without_the_key(
    catalog: Catalog, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver.status = 404
    monkeypatch.setenv("OPENLINEAGE_URL", receiver.url.replace("//", "//user:open-sesame@"))
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "open-sesame")
    table = new_table(catalog)
    table.write(rows(table, events(0, 1)))
    warnings: list[str] = []

    Recorder.of(catalog, warn=warnings.append).carry_out(
        COMPACT, table, CompactRun(), Work(run="r", session=lambda: None)
    )

    (told,) = warnings
    assert "404" in told
    assert "open-sesame" not in told


def test_a_receiver_that_is_away_holds_a_run_up_once(
    catalog: Catalog, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = sink_by(monkeypatch, catalog, {"OPENLINEAGE_URL": receiver.url})
    assert sink is not None
    receiver.status = 404
    with pytest.raises(RequestException):
        sink(ACTION)
    sink(ACTION)
    assert len(receiver.got) == 1


def test_settings_that_name_no_receiver_are_refused_or_send_nothing(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lineage_sink(catalog) is None
    disabled = {"OPENLINEAGE_URL": "http://x", "OPENLINEAGE_DISABLED": "true"}
    assert sink_by(monkeypatch, catalog, disabled) is None
    monkeypatch.delenv("OPENLINEAGE_DISABLED")
    for name, wrong in (
        ("OPENLINEAGE_URL", "not a place"),
        ("OPENLINEAGE__TRANSPORT__TYPE", "file"),
        ("OPENLINEAGE__TRANSPORT__TYPE", "pigeon"),
    ):
        with pytest.raises(InvalidRequestError, match="OpenLineage"):
            sink_by(monkeypatch, catalog, {name: wrong})
