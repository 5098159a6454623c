"""Actions as run events of OpenLineage (spec 2-0-2): to an HTTP endpoint, a file or the console.

The settings are those of OpenLineage's own clients: OPENLINEAGE_URL, OPENLINEAGE_API_KEY and
OPENLINEAGE_ENDPOINT, or OPENLINEAGE__TRANSPORT__TYPE (http, file, console) with its URL, ENDPOINT,
AUTH__API_KEY, LOG_FILE_PATH. OPENLINEAGE_DISABLED=true sends nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from lakewright.platform.warehouse.action import Action, Verdict
from lakewright.storage import Catalog
from lakewright.storage.errors import InvalidRequestError, UnavailableError
from lakewright.storage.files.paths import DATABASE_SUFFIX
from lakewright.storage.files.store_failures import without_secrets

_PRODUCER = "urn:lakewright"
_SPEC = "https://openlineage.io/spec"
_TRANSPORT = "OPENLINEAGE__TRANSPORT__"
_ENDPOINT = "api/v1/lineage"
# Upkeep does not wait for a receiver that hangs.
_TIMEOUT_SECONDS = 5

Event = dict[str, Any]


def lineage_sink(
    catalog: Catalog, environment: Mapping[str, str]
) -> Callable[[Action], object] | None:
    """Sends an event for each action; None where no receiver is named.

    Raises:
        InvalidRequestError: the settings name no receiver that is known.
    """
    send = _transport(environment)
    if send is None:
        return None
    namespace = environment.get("OPENLINEAGE_NAMESPACE") or "lakewright"

    def sink(action: Action) -> None:
        # A shadow did nothing.
        if action.verdict is not Verdict.SHADOW:
            send(run_event(action, catalog.uri, namespace=namespace))

    return sink


def run_event(action: Action, warehouse: str, *, namespace: str = "lakewright") -> Event:
    """The event of an action: FAIL if it failed or was beaten, else COMPLETE."""
    failed = action.verdict in (Verdict.FAILED, Verdict.BEATEN)
    dataset = _dataset(action.table, warehouse)
    cost = action.cost
    read = {"size": cost.bytes, "fileCount": cost.files}
    wrote = {"size": cost.bytes_written}
    run: Event = {
        "nominalTime": _facet(
            "facets/1-0-1/NominalTimeRunFacet.json",
            nominalStartTime=_time(action.started_ms),
            nominalEndTime=_time(action.ended_ms),
        ),
        "lakewright_upkeep": _facet(
            "2-0-2/OpenLineage.json#/$defs/RunFacet",
            run=action.run,
            verdict=action.verdict.value,
            reason=action.reason,
            summary=action.summary,
            cost=asdict(cost),
            benefit=asdict(action.benefit),
            predictedCost=None if action.predicted_cost is None else asdict(action.predicted_cost),
            predictedBenefit=None
            if action.predicted_benefit is None
            else asdict(action.predicted_benefit),
            snapshotBefore=action.snapshot_before,
            snapshotAfter=action.snapshot_after,
        ),
    }
    if action.error is not None:
        run["errorMessage"] = _facet(
            "facets/1-0-1/ErrorMessageRunFacet.json",
            message=action.error,
            programmingLanguage="python",
        )
    return {
        "eventType": "FAIL" if failed else "COMPLETE",
        "eventTime": _time(action.ended_ms),
        "producer": _PRODUCER,
        "schemaURL": f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent",
        "run": {"runId": action.id, "facets": run},
        "job": {
            "namespace": namespace,
            "name": f"{action.table}.{action.verb}",
            "facets": {
                "jobType": _facet(
                    "facets/2-0-3/JobTypeJobFacet.json",
                    processingType="BATCH",
                    integration="LAKEWRIGHT",
                    jobType="UPKEEP",
                )
            },
        },
        "inputs": [
            {
                **dataset,
                "inputFacets": {
                    "inputStatistics": _facet(
                        "facets/1-0-0/InputStatisticsInputDatasetFacet.json", **read
                    )
                },
            }
        ],
        "outputs": [
            {
                **dataset,
                "outputFacets": {
                    "outputStatistics": _facet(
                        "facets/1-0-2/OutputStatisticsOutputDatasetFacet.json", **wrote
                    )
                },
            }
        ],
    }


def _dataset(table: str, warehouse: str) -> Event:
    """A table by the place of its files, as OpenLineage names datasets, and by its own name."""
    place = urlsplit(without_secrets(warehouse))
    database, _, name = table.partition(".")
    folder = name.partition("$")[0]
    host = place.netloc.rpartition("@")[2]
    namespace = "file" if place.scheme in ("", "file") else f"{place.scheme}://{host}"
    path = f"{place.path.rstrip('/')}/{database}{DATABASE_SUFFIX}/{folder}"
    return {
        "namespace": namespace,
        "name": path if namespace == "file" else path.lstrip("/"),
        "facets": {
            "symlinks": _facet(
                "facets/1-0-1/SymlinksDatasetFacet.json",
                identifiers=[{"namespace": namespace, "name": table, "type": "TABLE"}],
            )
        },
    }


def _facet(schema: str, **values: object) -> Event:
    return {"_producer": _PRODUCER, "_schemaURL": f"{_SPEC}/{schema}", **values}


def _time(moment_ms: int) -> str:
    return datetime.fromtimestamp(moment_ms / 1000, UTC).isoformat(timespec="milliseconds")


# --- transports ----------------------------------------------------------------------------------


def _transport(environment: Mapping[str, str]) -> Callable[[Event], None] | None:
    def said(name: str) -> str:
        return environment.get(f"{_TRANSPORT}{name}", "").strip()

    if environment.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return None
    url = said("URL") or environment.get("OPENLINEAGE_URL", "").strip()
    kind = said("TYPE").lower() or ("http" if url else "")
    match kind:
        case "":
            return None
        case "console":
            return _to_console
        case "file":
            return _to_file(said("LOG_FILE_PATH"))
        case "http" if urlsplit(url).scheme in ("http", "https"):
            endpoint = (
                said("ENDPOINT") or environment.get("OPENLINEAGE_ENDPOINT", "").strip() or _ENDPOINT
            )
            key = said("AUTH__API_KEY") or environment.get("OPENLINEAGE_API_KEY", "").strip()
            return _to_http(f"{url.rstrip('/')}/{endpoint.lstrip('/')}", key)
        case "http":
            raise InvalidRequestError(
                f"OpenLineage's URL {without_secrets(url)!r} is none of http:// or https://"
            )
        case _:
            raise InvalidRequestError(
                f"OpenLineage's transport {kind!r} is none of http, file and console"
            )


def _to_console(event: Event) -> None:
    # Standard output is the answer of a command.
    sys.stderr.write(json.dumps(event) + "\n")


def _to_file(path: str) -> Callable[[Event], None]:
    if not path:
        raise InvalidRequestError(
            f"OpenLineage's transport file names no file: set {_TRANSPORT}LOG_FILE_PATH"
        )

    def send(event: Event) -> None:
        with Path(path).open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(event) + "\n")

    return send


def _to_http(url: str, key: str) -> Callable[[Event], None]:
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"

    def send(event: Event) -> None:
        request = Request(  # noqa: S310  # the scheme is checked
            url, data=json.dumps(event).encode(), headers=headers, method="POST"
        )
        try:
            with urlopen(request, timeout=_TIMEOUT_SECONDS):  # noqa: S310  # as above
                pass
        except (URLError, TimeoutError) as error:
            raise UnavailableError(
                f"OpenLineage at {without_secrets(url)} did not take the event: {error}"
            ) from None

    return send
