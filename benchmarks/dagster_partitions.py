"""Very many partitions of a table in Dagster: `python -m benchmarks.dagster_partitions`.

A table has a dynamic partition for each of 100,000 customers, of which 2,000 have been written. A
web server of its own loads the definitions, and answers what its pages ask. Then a backfill of
1,000 partitions is cut into runs, which are counted and not launched: once of partitions that
follow each other, and once of every second one. Last, the job `backfill` writes every second one,
in this process; `--backfill` does this alone. A line of JSON for each figure.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
from dagster._core.definitions.automation_tick_evaluation_context import (
    build_run_requests_with_backfill_policies,
)
from dagster._core.definitions.events import AssetKeyPartitionKey
from dagster._core.definitions.partitions.context import partition_loading_context

from lakewright.definitions import build_definitions
from lakewright.platform.ingest.sources import SourceRequest

_KEYS, _WRITTEN, _BACKFILLED = 100_000, 2_000, 1_000
_TABLE, _ASSET = "shop.orders", ["shop", "orders"]
_DECLARATION = """
table: shop.orders
columns:
  - {name: customer, type: STRING NOT NULL}
  - {name: id, type: BIGINT NOT NULL}
partition_keys: [customer]
source: {python: "benchmarks.dagster_partitions:orders"}
"""
_HOME = """
event_log_storage:
  module: lakewright.platform.orchestration.event_log
  class: BatchedSqliteEventLog
"""
_PORT = 43117
_LOCATION = "{ workspaceOrError { ... on Workspace { locationEntries { loadStatus } } } }"
_LOADED = """{ workspaceOrError { ... on Workspace { locationEntries {
  locationOrLoadError { __typename ... on PythonError { message } } } } } }"""
# What the page of all assets, the page of one, and the dialog of a backfill ask.
_PAGES = {
    "asset list": """query($key: AssetKeyInput!) { assetNodes(assetKeys: [$key]) {
        partitionDefinition { type name } partitionStats { numMaterialized numPartitions } } }""",
    "partitions of an asset": """query($key: AssetKeyInput!) { assetNodeOrError(assetKey: $key) {
        ... on AssetNode { partitionKeysByDimension { partitionKeys }
          assetPartitionStatuses { ... on DefaultPartitionStatuses {
            materializedPartitions failedPartitions unmaterializedPartitions } } } } }""",
    "dialog of a backfill": """query($key: AssetKeyInput!) { assetNodeOrError(assetKey: $key) {
        ... on AssetNode { partitionKeysByDimension { name type partitionKeys } } } }""",
}


def main() -> None:
    """Make the instance and measure."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "orders.yaml").write_text(_DECLARATION)
        (folder / "home").mkdir()
        (folder / "home" / "dagster.yaml").write_text(_HOME)
        os.environ |= {
            "DAGSTER_EVENT_BATCH_SIZE": "500",
            "DAGSTER_HOME": str(folder / "home"),
            "LAKEWRIGHT_TABLES": str(folder / "orders.yaml"),
            "LAKEWRIGHT_WAREHOUSE": str(folder / "warehouse"),
        }
        with dg.DagsterInstance.get() as instance:
            if "--backfill" not in sys.argv:
                _fill(instance)
                with _web_server(folder):
                    _ask_pages()
                _cut_backfills(instance)
            _backfill(instance)


def orders(request: SourceRequest) -> pa.Table:
    """Ten orders of each customer."""
    customers = [each for each in request.values("customer") for _ in range(10)]
    return pa.table({"customer": customers, "id": range(len(customers))})


def _fill(instance: dg.DagsterInstance) -> None:
    definitions = build_definitions([os.environ["LAKEWRIGHT_TABLES"]])
    (asset,) = [
        each for each in definitions.resolve_all_asset_specs() if list(each.key.path) == _ASSET
    ]
    assert isinstance(asset.partitions_def, dg.DynamicPartitionsDefinition)
    name = asset.partitions_def.name
    assert name is not None
    keys = [_key(number) for number in range(_KEYS)]
    _told("register partitions", lambda: instance.add_dynamic_partitions(name, keys), keys=_KEYS)

    def report() -> None:
        for key in keys[:_WRITTEN]:
            event = dg.AssetMaterialization(dg.AssetKey(_ASSET), partition=key)
            instance.report_runless_asset_event(event)

    _told("report written partitions", report, keys=_WRITTEN)


def _key(number: int) -> str:
    return f"customer-{number:06d}"


def _told(what: str, work: Callable[[], object], **more: object) -> Any:
    began = time.perf_counter()
    result = work()
    seconds = round(time.perf_counter() - began, 2)
    sys.stdout.write(json.dumps({"what": what, "seconds": seconds, **more}) + "\n")
    sys.stdout.flush()
    return result


@contextmanager
def _web_server(folder: Path) -> Iterator[None]:
    """A web server, with the process of the definitions below it."""
    workspace = folder / "workspace.yaml"
    workspace.write_text("load_from:\n  - python_module: lakewright.definitions\n")
    command = [sys.executable, "-m", "dagster_webserver", "-h", "127.0.0.1", "-p", str(_PORT)]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([*command, "-w", str(workspace)], stdout=log, stderr=log)
        try:
            _told("load definitions, from start of the server to its answer", _wait_for_location)
            yield
        finally:
            server.terminate()
            server.wait()


def _wait_for_location() -> None:
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        with suppress(OSError, KeyError, TypeError):
            (entry,) = _answer(_LOADED)["data"]["workspaceOrError"]["locationEntries"]
            loaded = entry["locationOrLoadError"]
            if loaded is not None:
                assert loaded["__typename"] == "RepositoryLocation", loaded
                return
        time.sleep(0.2)
    raise TimeoutError("the web server did not load the definitions")


def _answer(query: str, **variables: object) -> Any:
    request = urllib.request.Request(
        f"http://127.0.0.1:{_PORT}/graphql",
        json.dumps({"query": query, "variables": variables}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=600) as response:
        return json.load(response)


def _ask_pages() -> None:
    for page, query in _PAGES.items():
        for turn in ("first", "again"):
            answer = _told(f"{page}, {turn}", lambda q=query: _answer(q, key={"path": _ASSET}))
            assert "errors" not in answer, answer
            assert page == "asset list" or len(json.dumps(answer)) > 1_000_000


def _backfill(instance: dg.DagsterInstance) -> None:
    """Every second one of twice as many partitions, in one run, and each in a run of its own."""
    job = build_definitions([os.environ["LAKEWRIGHT_TABLES"]]).resolve_job_def("backfill")
    keys = [_key(number) for number in range(0, 2 * _BACKFILLED, 2)]
    for what, runs, size in (
        (f"{_BACKFILLED:,} partitions at once", [keys], None),
        (f"{_BACKFILLED:,} partitions in batches of 100", [keys], 100),
        ("20 partitions, each in a run", [[key] for key in keys[:20]], None),
    ):
        began, cpu = time.perf_counter(), time.process_time()
        for named in runs:
            choice = {"partitions": named} | ({} if size is None else {"batch": size})
            done = job.execute_in_process(
                instance=instance,
                run_config={
                    "ops": {"backfill": {"config": {"tables": {_TABLE: choice}}}},
                    "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
                },
            )
            assert done.success
        took = {
            "seconds": round(time.perf_counter() - began, 2),
            "cpu": round(time.process_time() - cpu, 2),
        }
        sys.stdout.write(json.dumps({"what": what, **took, "runs": len(runs)}) + "\n")


def _cut_backfills(instance: dg.DagsterInstance) -> None:
    graph = build_definitions([os.environ["LAKEWRIGHT_TABLES"]]).resolve_asset_graph()
    chosen = {
        "follow each other": range(_BACKFILLED),
        "are every second one": range(0, 2 * _BACKFILLED, 2),
    }
    for how, numbers in chosen.items():
        asked = [AssetKeyPartitionKey(dg.AssetKey(_ASSET), _key(number)) for number in numbers]
        began = time.perf_counter()
        with partition_loading_context(dynamic_partitions_store=instance):
            runs = build_run_requests_with_backfill_policies(asked, graph, instance)
        seconds = round(time.perf_counter() - began, 2)
        what = f"cut a backfill of {_BACKFILLED:,} partitions that {how}"
        sys.stdout.write(json.dumps({"what": what, "seconds": seconds, "runs": len(runs)}) + "\n")


if __name__ == "__main__":
    main()
