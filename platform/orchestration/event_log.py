"""Dagster's log of events in SQLite, which writes the events of many partitions at once.

Dagster's own class commits each event by itself, to the log of the run and to the index of all
assets: half of a backfill's time where a run materializes a year of days. Its class for PostgreSQL
writes batches. Both do so only where `DAGSTER_EVENT_BATCH_SIZE` says how many events one may hold.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import dagster as dg
from dagster._config import UserConfigSchema
from dagster._core.events import ASSET_EVENTS
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._serdes import ConfigurableClassData

from lakewright.storage.errors import InvalidRequestError


class BatchedSqliteEventLog(SqliteEventLogStorage):
    """The files of Dagster's own class, `history/runs` in the Dagster home unless told otherwise.

    A `dagster.yaml` names it as `event_log_storage`; either class reads what the other wrote.
    """

    @classmethod
    def config_type(cls) -> UserConfigSchema:
        """The one setting, `base_dir`."""
        return {"base_dir": dg.Field(dg.StringSource, is_required=False)}

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> Self:
        """The log of an instance."""
        return cls(config_value.get("base_dir") or _default_folder(), inst_data)

    def store_event_batch(self, events: Sequence[dg.EventLogEntry]) -> None:
        """Store the events of one run: those of assets in a transaction for each database.

        Dagster stores them one by one if this raises.
        """
        of_assets: list[dg.EventLogEntry] = []
        others: list[dg.EventLogEntry] = []
        for each in events:
            is_of_asset = each.is_dagster_event and each.dagster_event_type in ASSET_EVENTS
            (of_assets if is_of_asset else others).append(each)
        if of_assets:
            inserts = [self.prepare_insert_event(each) for each in of_assets]
            # The index first: it decides which partitions are there. It has all events or none, so
            # that those that Dagster then stores one by one are not there twice.
            with self.index_transaction() as index:
                ids = [_stored_id(index.execute(insert)) for insert in inserts]
                self._store_asset_event_tags(index, of_assets, ids)
                for event, event_id in zip(of_assets, ids, strict=True):
                    self._store_asset_event(index, event, event_id)
            with self.run_connection(of_assets[0].run_id) as run:
                for insert in inserts:
                    run.execute(insert)
        for event in others:
            self.store_event(event)


def _stored_id(result: Any) -> int:
    """The id of a row that was inserted."""
    stored: int = result.inserted_primary_key[0]
    return stored


def _default_folder() -> str:
    home = os.environ.get("DAGSTER_HOME")
    if not home:
        raise InvalidRequestError(
            "the log of events does not know its folder: set DAGSTER_HOME, or base_dir under "
            "event_log_storage in dagster.yaml"
        )
    return str(Path(home, "history", "runs").absolute())
