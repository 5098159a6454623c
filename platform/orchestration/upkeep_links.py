"""The upkeep sensor and jobs as metadata: links, where the code location is known."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

import dagster as dg

from lakewright.platform.ledger.kept_verbs import VALIDATE_SCHEMA
from lakewright.platform.orchestration.names import UPKEEP, UpkeepNames


def upkeep_links(
    names: UpkeepNames, location: str | None, verbs: Iterable[str] = ()
) -> dict[str, dg.MetadataValue[Any]]:
    """The jobs that carry out these verbs, and the sensor; their names without a location."""
    # The rows of a table are judged by checks, which have a job of their own.
    jobs = dict.fromkeys(each if each == VALIDATE_SCHEMA else UPKEEP for each in verbs)
    links = {f"job of {each}": _job(names.job(each), location) for each in jobs}
    return {**links, "lakewright/upkeep_sensor": _sensor(names.sensor, location)}


def _job(name: str, location: str | None) -> dg.MetadataValue[Any]:
    if location is None:
        return dg.MetadataValue.text(name)
    return dg.MetadataValue.job(job_name=name, location_name=location)


def _sensor(name: str, location: str | None) -> dg.MetadataValue[Any]:
    if location is None:
        return dg.MetadataValue.text(name)
    # A path of the web server; Dagster has no metadata for a sensor.
    return dg.MetadataValue.url(f"/locations/{quote(location, safe='')}/sensors/{name}")
