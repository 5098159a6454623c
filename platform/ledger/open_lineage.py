"""Actions as run events of OpenLineage, which its own client sends (the extra `lineage`).

The client reads its settings itself: OPENLINEAGE_URL, OPENLINEAGE_API_KEY and OPENLINEAGE_ENDPOINT,
or OPENLINEAGE__TRANSPORT__TYPE (http, file, console) and the settings of that transport, or a file
that OPENLINEAGE_CONFIG names. OPENLINEAGE_DISABLED=true sends nothing.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lakewright.platform.ledger.action import Action, Verdict
from lakewright.storage import Catalog
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.extras import needed_for
from lakewright.storage.files.paths import DATABASE_SUFFIX
from lakewright.storage.secret_texts import without_secrets

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import RunEvent

_PRODUCER = "urn:lakewright"
_RECEIVERS = ("OPENLINEAGE_URL", "OPENLINEAGE__TRANSPORT__TYPE", "OPENLINEAGE_CONFIG")


def lineage_sink(catalog: Catalog) -> Callable[[Action], object] | None:
    """Sends an event for each action; None where the environment names no receiver.

    The client tries an event for up to 40 seconds. After one that was not taken, the sink sends
    nothing more, so that a receiver that is away holds a run up once.

    Raises:
        UnsupportedError: the client is not installed.
        InvalidRequestError: the client refuses its settings.
    """
    disabled = os.environ.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true"
    if disabled or not any(os.environ.get(each) for each in _RECEIVERS):
        return None
    client = _client()
    namespace = os.environ.get("OPENLINEAGE_NAMESPACE") or "lakewright"

    is_away = False

    def sink(action: Action) -> None:
        nonlocal is_away
        # A shadow did nothing.
        if is_away or action.verdict is Verdict.SHADOW:
            return
        is_away = True
        client.emit(run_event(action, catalog.uri, namespace=namespace))
        is_away = False

    return sink


def _client() -> OpenLineageClient:
    with needed_for("OpenLineage"):
        from openlineage.client import OpenLineageClient
    try:
        # A file gets all events; by itself the client would begin one for each.
        client = OpenLineageClient(config={"transport": {"append": True}})
    except Exception as error:  # noqa: BLE001  # each transport has errors of its own
        told = without_secrets(str(error)) or type(error).__name__
        raise InvalidRequestError(f"OpenLineage has wrong settings: {told}") from None
    if client.transport.kind == "console":
        # The client writes to this log. Standard output is the answer of a command.
        console = logging.getLogger("openlineage.client.transport.console")
        console.setLevel(logging.INFO)
        if not console.handlers:
            console.addHandler(logging.StreamHandler())
    return client


def run_event(action: Action, warehouse: str, *, namespace: str = "lakewright") -> RunEvent:
    """The event of an action: FAIL if it failed or was beaten, else COMPLETE."""
    from openlineage.client import event_v2, facet_v2
    from openlineage.client.generated.base import RunFacet

    place, name = _place_of(action.table, warehouse)
    cost = action.cost
    symlinks = facet_v2.symlinks_dataset.SymlinksDatasetFacet(
        [facet_v2.symlinks_dataset.Identifier(place, action.table, "TABLE")], producer=_PRODUCER
    )
    upkeep = RunFacet(producer=_PRODUCER).with_additional_properties(
        run=action.run,
        verdict=action.verdict.value,
        reason=action.reason,
        summary=action.summary,
        cost=asdict(cost),
        benefit=asdict(action.benefit),
        predictedCost=action.predicted_cost and asdict(action.predicted_cost),
        predictedBenefit=action.predicted_benefit and asdict(action.predicted_benefit),
        snapshotBefore=action.snapshot_before,
        snapshotAfter=action.snapshot_after,
    )
    facets: dict[str, Any] = {
        "nominalTime": facet_v2.nominal_time_run.NominalTimeRunFacet(
            _time(action.started_ms), _time(action.ended_ms), producer=_PRODUCER
        ),
        "lakewright_upkeep": upkeep,
    }
    if action.error is not None:
        facets["errorMessage"] = facet_v2.error_message_run.ErrorMessageRunFacet(
            action.error, "python", producer=_PRODUCER
        )
    failed = action.verdict in (Verdict.FAILED, Verdict.BEATEN)
    job_type = facet_v2.job_type_job.JobTypeJobFacet(
        "BATCH", "LAKEWRIGHT", "UPKEEP", producer=_PRODUCER
    )
    read = facet_v2.input_statistics_input_dataset.InputStatisticsInputDatasetFacet(
        size=cost.bytes, fileCount=cost.files, producer=_PRODUCER
    )
    wrote = facet_v2.output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        size=cost.bytes_written, producer=_PRODUCER
    )
    return event_v2.RunEvent(
        eventType=event_v2.RunState.FAIL if failed else event_v2.RunState.COMPLETE,
        eventTime=_time(action.ended_ms),
        producer=_PRODUCER,
        run=event_v2.Run(action.id, facets),
        job=event_v2.Job(namespace, f"{action.table}.{action.verb}", {"jobType": job_type}),
        inputs=[
            event_v2.InputDataset(
                place, name, {"inputStatistics": read}, facets={"symlinks": symlinks}
            )
        ],
        outputs=[
            event_v2.OutputDataset(
                place, name, {"outputStatistics": wrote}, facets={"symlinks": symlinks}
            )
        ],
    )


def _place_of(table: str, warehouse: str) -> tuple[str, str]:
    """The namespace and the name that OpenLineage has for the place of a table's files."""
    place = urlsplit(without_secrets(warehouse))
    database, _, name = table.partition(".")
    folder = name.partition("$")[0]
    host = place.netloc.rpartition("@")[2]
    namespace = "file" if place.scheme in ("", "file") else f"{place.scheme}://{host}"
    path = f"{place.path.rstrip('/')}/{database}{DATABASE_SUFFIX}/{folder}"
    return namespace, path if namespace == "file" else path.lstrip("/")


def _time(moment_ms: int) -> str:
    return datetime.fromtimestamp(moment_ms / 1000, UTC).isoformat(timespec="milliseconds")
