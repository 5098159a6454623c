"""A stream in Dagster: the asset of its source, how far it is read, and the lag."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import dagster as dg
from dagster._core.definitions.data_version import DATA_VERSION_TAG, get_input_data_version_tag

from lakewright.connectors.registry import CONNECTORS, installed
from lakewright.connectors.rests import without_rests
from lakewright.connectors.runtime import Offset
from lakewright.platform.ingest.stream_lag import StreamLag
from lakewright.platform.orchestration.names import TableNames
from lakewright.platform.tables.declaration_checks import LAG
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.upkeep.words import counted, duration_text
from lakewright.storage.errors import StorageError
from lakewright.storage.secret_texts import shown_value

_MOST_TEXT = 1_000
# Without `freshness`, rows that wait so many times as long as declared are worth a warning.
_LATE = 3


def source_key(declaration: TableDeclaration, names: TableNames) -> dg.AssetKey | None:
    """The key of the topic, table or folder that a connector reads; None without a connector."""
    stream = declaration.stream
    if stream is None or stream.connector is None:
        return None
    try:
        factory = installed().factory(CONNECTORS, stream.connector)
    except StorageError:
        # A run says what is wrong with it.
        return names.source_key(stream.connector, ())
    named_by = getattr(factory, "named_by", ())
    return names.source_key(stream.connector, [stream.options.get(each, "") for each in named_by])


def source_spec(declaration: TableDeclaration, names: TableNames) -> dg.AssetSpec | None:
    """The source as an asset: nothing here writes it, and its data version is its end.

    It is the same for all tables that read it, which may be those of several components.
    """
    key, stream = source_key(declaration, names), declaration.stream
    if key is None or stream is None or stream.connector is None:
        return None
    return dg.AssetSpec(
        key,
        group_name="sources",
        description=f"A source that streams read by the connector {stream.connector}.",
        kinds={stream.connector},
    )


def source_observation(key: dg.AssetKey, lag: StreamLag) -> dg.AssetObservation:
    """The end of a source, as it was seen."""
    rows = lag.backlog.rows
    by_part = {} if rows is None else {"rows behind the table": dg.MetadataValue.json(dict(rows))}
    return dg.AssetObservation(
        key,
        metadata={"lakewright/end": shown_offset(lag.backlog.end), **by_part},
        tags={DATA_VERSION_TAG: version_of(lag.backlog.end)},
    )


def read_version(key: dg.AssetKey, lag: StreamLag) -> Mapping[str, str]:
    """The tag of a materialization that says how far a source was read.

    Dagster itself would say how far it went when the run began.
    """
    return {get_input_data_version_tag(key): version_of(lag.start)}


def version_of(offset: Offset) -> str:
    """A short text that is the same for the same offset."""
    text = _text(offset)
    is_short = len(text) <= 64 and text.isascii()
    return text if is_short else hashlib.sha256(text.encode()).hexdigest()[:24]


def lag_metadata(lag: StreamLag, now_ms: int) -> Mapping[str, Any]:
    """How far the table is read and how far it is behind, where the source tells."""
    rows, seconds = lag.row_count, lag.seconds(now_ms)
    found: dict[str, Any] = {"lakewright/position": shown_offset(lag.start)}
    if rows is not None:
        found["lakewright/lag_rows"] = rows
    if seconds is not None:
        found["lakewright/lag_seconds"] = seconds
    if lag.is_behind and lag.backlog.rows:
        found["lag by part"] = dg.MetadataValue.json(dict(lag.backlog.rows))
    return found


def lag_specs(declaration: TableDeclaration, names: TableNames) -> list[dg.AssetCheckSpec]:
    """Of a continuous stream, the check whether the rows of the source come in time."""
    if declaration.continuous_ms is None:
        return []
    late = duration_text(next(limit for limit in _limits(declaration) if limit is not None))
    told = f"Whether rows wait at the source of {declaration.table} no longer than {late}."
    return [dg.AssetCheckSpec(LAG, asset=names.asset_key, description=told)]


def lag_result(
    declaration: TableDeclaration, lag: StreamLag, seconds: float | None
) -> dg.AssetCheckResult:
    """The check `lag`: rows wait for so many seconds, None if it is unknown."""
    rows = lag.row_count
    error_ms, warn_ms = _limits(declaration)
    waited_ms = 0 if seconds is None else int(seconds * 1000)
    is_late = error_ms is not None and waited_ms > error_ms
    told = "the table has all rows of the source"
    if lag.is_behind:
        what = "rows" if rows is None else counted(rows, "row")
        since = "" if seconds is None else f", for up to {duration_text(waited_ms)}"
        told = f"{what} behind the source{since}"
    figures = {"lakewright/lag_rows": rows, "lakewright/lag_seconds": seconds}
    return dg.AssetCheckResult(
        check_name=LAG,
        passed=not is_late and (warn_ms is None or waited_ms <= warn_ms),
        severity=dg.AssetCheckSeverity.ERROR if is_late else dg.AssetCheckSeverity.WARN,
        description=told,
        metadata={name: value for name, value in figures.items() if value is not None},
    )


def unreachable(declaration: TableDeclaration, since_ms: int, why: str) -> dg.AssetCheckResult:
    """The check `lag` while its source cannot be asked, since the table may lack rows."""
    error_ms, _ = _limits(declaration)
    is_late = error_ms is not None and since_ms > error_ms
    return dg.AssetCheckResult(
        check_name=LAG,
        passed=False,
        severity=dg.AssetCheckSeverity.ERROR if is_late else dg.AssetCheckSeverity.WARN,
        description=f"it is unknown how far {declaration.table} is behind its source: {why}",
    )


def _limits(declaration: TableDeclaration) -> tuple[int | None, int | None]:
    """After how many milliseconds the check fails, and after how many it warns."""
    freshness, delay = declaration.freshness, declaration.continuous_ms
    if freshness is not None and freshness.within is not None:
        return freshness.within, freshness.warn_after
    return None, None if delay is None else _LATE * delay


def shown_offset(offset: Offset) -> dg.MetadataValue:
    """An offset as metadata; a long one, such as the names of many files, by its checksum."""
    if len(_text(offset)) > _MOST_TEXT:
        return dg.MetadataValue.text(version_of(offset))
    return dg.MetadataValue.json(shown_value(dict(without_rests(offset))))


def _text(offset: Offset) -> str:
    return json.dumps(dict(without_rests(offset)), sort_keys=True, separators=(",", ":"))
