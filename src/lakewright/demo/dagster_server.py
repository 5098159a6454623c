"""A `dagster dev` of our own: started on loopback, driven over its GraphQL, stopped.

This is what a person does in the UI, done by a program: the same daemon, queue,
pools, backfills and sensors run.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lakewright.platform.orchestration.names import VERB_TAG
from lakewright.project.report_server import HOST
from lakewright.project.serve import LOCATION, dagster_dev_command, heed_interrupts
from lakewright.storage.env import SystemEnv
from lakewright.storage.errors import UnavailableError

REPOSITORY = "__repository__"
ASSET_JOB = "__ASSET_JOB"
ENDED = frozenset({"SUCCESS", "FAILURE", "CANCELED"})

_START_SECONDS = 300
# Loading the definitions again takes longest.
_ANSWER_SECONDS = 300
_STOP_SECONDS = 30
_POLL_MS = 500
_LAST_LINES = 30

_READINESS = """{
  repositoriesOrError { ... on RepositoryConnection { nodes { name } } }
  workspaceOrError { ... on Workspace { locationEntries { name locationOrLoadError {
    ... on PythonError { message causes { message } } } } } }
  instance { daemonHealth { allDaemonStatuses { required healthy } } }
}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedRun:
    """One run as the instance sees it; times are seconds since the epoch."""

    id: str
    job: str
    status: str
    tags: Mapping[str, str]
    started: float | None
    ended: float | None

    @property
    def verb(self) -> str:
        """The work of a run of upkeep."""
        return self.tags.get(VERB_TAG, "")

    @property
    def seconds(self) -> float | None:
        """How long it ran, once it has ended."""
        return None if self.started is None or self.ended is None else self.ended - self.started


@dataclass
class DagsterServer:
    """A running `dagster dev`; use it as a context."""

    workspace: Path | None
    home: Path
    environment: Mapping[str, str]
    env: SystemEnv = field(default_factory=SystemEnv)
    port: int = 0
    _process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.port = free_port()
        self.home.mkdir(parents=True, exist_ok=True)
        heed_interrupts()
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                dagster_dev_command(
                    None if self.workspace else LOCATION, self.port, self.workspace
                ),
                env={**os.environ, **self.environment, "DAGSTER_HOME": str(self.home)},
                stdout=log,
                stderr=subprocess.STDOUT,
                # Its own group, so that stopping it takes daemon, web server and code server along.
                start_new_session=True,
            )
        try:
            self._wait_until_ready()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    @property
    def session(self) -> int:
        """The session of the server's processes, but for those of runs."""
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> Path:
        """What the processes print."""
        return self.home / "demo.log"

    def query(self, text: str, **variables: object) -> Any:
        """Run a GraphQL operation.

        Raises:
            UnavailableError: the server does not answer, or answers with errors.
        """
        request = urllib.request.Request(  # the address is ours
            f"http://{HOST}:{self.port}/graphql",
            json.dumps({"query": text, "variables": variables}).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as response:  # noqa: S310
                answer = json.load(response)
        except (OSError, urllib.error.URLError) as error:
            raise UnavailableError(
                f"dagster does not answer on port {self.port}: {error}"
            ) from error
        if "errors" in answer:
            raise UnavailableError(f"dagster refuses: {answer['errors'][0]['message']}")
        return answer["data"]

    # --- what a person does in the UI -------------------------------------------------------------

    def launch_backfill(
        self, assets: Sequence[str], partitions: Sequence[str], *, title: str
    ) -> str:
        """Backfill assets over partitions; the backfill's id."""
        answer = self.query(
            """mutation($p: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $p) {
                 __typename ... on LaunchBackfillSuccess { backfillId }
                 ... on PythonError { message } } }""",
            p={
                "assetSelection": [{"path": asset.split(".")} for asset in assets],
                "partitionNames": list(partitions),
                "title": title,
            },
        )["launchPartitionBackfill"]
        return str(_successful(answer, "LaunchBackfillSuccess")["backfillId"])

    def launch_assets(
        self,
        assets: Sequence[str],
        *,
        partitions: tuple[str, str] | None = None,
        config: Mapping[str, object] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> str:
        """Materialize assets in one run, over a range of partitions if given; the run's id."""
        labels = dict(tags or {})
        if partitions is not None:
            labels["dagster/asset_partition_range_start"] = partitions[0]
            labels["dagster/asset_partition_range_end"] = partitions[1]
        return self._launch(
            {
                "jobName": ASSET_JOB,
                "assetSelection": [{"path": asset.split(".")} for asset in assets],
            },
            config or {},
            labels,
        )

    def reload(self) -> None:
        """Load the definitions again, as after a change of a declaration."""
        answer = self.query(
            """mutation($l: String!) { reloadRepositoryLocation(repositoryLocationName: $l) {
                 __typename ... on WorkspaceLocationEntry { locationOrLoadError {
                   __typename ... on PythonError { message } } }
                 ... on UnauthorizedError { message } ... on PythonError { message } } }""",
            l=LOCATION,
        )["reloadRepositoryLocation"]
        loaded = _successful(answer, "WorkspaceLocationEntry")["locationOrLoadError"]
        _successful(loaded, "RepositoryLocation")

    def launch_job(self, job: str, config: Mapping[str, object] | None = None) -> str:
        """Launch a named job; the run's id."""
        return self._launch({"jobName": job}, config or {}, {})

    def _launch(
        self,
        selector: Mapping[str, object],
        config: Mapping[str, object],
        tags: Mapping[str, str],
    ) -> str:
        answer = self.query(
            """mutation($p: ExecutionParams!) { launchRun(executionParams: $p) {
                 __typename ... on LaunchRunSuccess { run { runId } }
                 ... on RunConfigValidationInvalid { errors { message } }
                 ... on InvalidSubsetError { message } ... on PipelineNotFoundError { message }
                 ... on PythonError { message } } }""",
            p={
                "selector": {
                    "repositoryName": REPOSITORY,
                    "repositoryLocationName": LOCATION,
                    **selector,
                },
                "runConfigData": config,
                "executionMetadata": {
                    "tags": [{"key": key, "value": value} for key, value in tags.items()]
                },
            },
        )["launchRun"]
        return str(_successful(answer, "LaunchRunSuccess")["run"]["runId"])

    def runs(self, limit: int = 100) -> list[ServedRun]:
        """The latest runs, newest first."""
        answer = self.query(
            """query($n: Int!) { runsOrError(limit: $n) { ... on Runs { results {
                 runId jobName status startTime endTime tags { key value } } } } }""",
            n=limit,
        )
        return [
            ServedRun(
                id=each["runId"],
                job=each["jobName"],
                status=each["status"],
                tags={tag["key"]: tag["value"] for tag in each["tags"]},
                started=each["startTime"],
                ended=each["endTime"],
            )
            for each in answer["runsOrError"]["results"]
        ]

    def last_tick(self, sensor: str) -> Mapping[str, Any] | None:
        """What a sensor did when it last looked: status, skipReason, runIds, timestamp."""
        answer = self.query(
            """query($s: SensorSelector!) { sensorOrError(sensorSelector: $s) { __typename
                 ... on Sensor { sensorState { ticks(limit: 1) {
                   status skipReason runIds timestamp } } } } }""",
            s={
                "repositoryName": REPOSITORY,
                "repositoryLocationName": LOCATION,
                "sensorName": sensor,
            },
        )["sensorOrError"]
        ticks = _successful(answer, "Sensor")["sensorState"]["ticks"]
        return ticks[0] if ticks else None

    def observed(self, run_id: str) -> Mapping[str, int | str]:
        """The numbers and texts of a run's last observation, by their labels."""
        answer = self.query(
            """query($id: ID!) { runOrError(runId: $id) { ... on Run {
                 eventConnection(limit: 1000) { events { ... on ObservationEvent {
                   metadataEntries { label
                     ... on IntMetadataEntry { intValue }
                     ... on TextMetadataEntry { text } } } } } } } }""",
            id=run_id,
        )
        found = [each for each in answer["runOrError"]["eventConnection"]["events"] if each]
        entries = found[-1]["metadataEntries"] if found else ()
        return {
            entry["label"]: entry["intValue"] if "intValue" in entry else entry["text"]
            for entry in entries
            if "intValue" in entry or "text" in entry
        }

    def failure_of(self, run_id: str) -> str:
        """The last error message of a failed run."""
        answer = self.query(
            """query($id: ID!) { runOrError(runId: $id) { ... on Run {
                 eventConnection(limit: 1000) { events { __typename
                   ... on MessageEvent { message }
                   ... on ExecutionStepFailureEvent { error { message } } } } } } }""",
            id=run_id,
        )
        events = answer["runOrError"]["eventConnection"]["events"]
        errors = [
            event["error"]["message"].strip()
            for event in events
            if event["__typename"] == "ExecutionStepFailureEvent" and event.get("error")
        ]
        return errors[-1] if errors else str(events[-1]["message"] if events else "no event")

    # --- the process --------------------------------------------------------------------------

    def _wait_until_ready(self) -> None:
        deadline = self.env.now_ms() + _START_SECONDS * 1000
        while self.env.now_ms() < deadline:
            if self._process is None or self._process.poll() is not None:
                raise UnavailableError(f"dagster did not start; its last words:\n{self._tail()}")
            if self._is_ready():
                return
            self.env.sleep_ms(_POLL_MS)
        raise UnavailableError(
            f"dagster was not ready after {_START_SECONDS} s; its last words:\n{self._tail()}"
        )

    def _is_ready(self) -> bool:
        try:
            answer = self.query(_READINESS)
        except UnavailableError:
            return False
        for entry in answer["workspaceOrError"].get("locationEntries", ()):
            failure = entry["locationOrLoadError"] or {}
            if "message" in failure:
                told = [each["message"].strip() for each in (failure, *failure["causes"])]
                raise UnavailableError(f"dagster cannot load {entry['name']}: " + "\n".join(told))
        daemons = answer["instance"]["daemonHealth"]["allDaemonStatuses"]
        healthy = all(daemon["healthy"] for daemon in daemons if daemon["required"])
        return healthy and bool(answer["repositoriesOrError"].get("nodes"))

    def _tail(self) -> str:
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-_LAST_LINES:])

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(timeout=_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _successful(answer: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    if answer.get("__typename") != kind:
        errors = answer.get("errors")
        said = errors[0]["message"] if errors else answer.get("message", answer)
        raise UnavailableError(f"dagster refuses ({answer.get('__typename')}): {said}")
    return answer


def free_port() -> int:
    """A port of this machine on which nothing listens."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
