"""Another client updates rows of a primary-key table whose change of keys was stopped part-way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from lakewright.storage import Catalog, Table
from tests.interop.test_they_read_ours import as_read_by
from tests.oracles.client import WritingOracle
from tests.support.stores.watched_files import Call, Crashed, Fault, WatchedFiles
from tests.support.tables.builders import content, new_table, remove_orphans, rows

COLUMNS = {"dt": "STRING NOT NULL", "hh": "INT NOT NULL", "id": "BIGINT NOT NULL", "v": "STRING"}


def _is_step(call: Call) -> bool:
    return call.changes and ("/snapshot/snapshot-" in call.path or "/schema/schema-" in call.path)


def _stopped(catalog: Catalog, table: Table, keys: tuple[str, ...], step: int) -> bool:
    fs = WatchedFiles(catalog.fs, fail_at=step, fault=Fault.DIES_AFTER, counts=_is_step)
    try:
        replace(catalog, fs=fs).table(table.name).upkeep.respec(keys)
    except Crashed:
        return True
    return False


def _given(ids: Iterable[int], value: str, model: dict[int, str]) -> list[dict[str, object]]:
    """Rows with a value, which the model of values by id gets too."""
    given = list(ids)
    model.update(dict.fromkeys(given, value))
    return [{"dt": "a", "hh": 1, "id": each, "v": value} for each in given]


@pytest.mark.mission("PT1")
@pytest.mark.parametrize(("before", "after"), [(("dt",), ("dt", "hh")), (("dt", "hh"), ("dt",))])
@pytest.mark.parametrize("buckets", ["1", "3"])
def test_rows_that_a_client_updates_amid_a_stopped_change_win(
    catalog: Catalog,
    released_pypaimon: WritingOracle,
    before: tuple[str, ...],
    after: tuple[str, ...],
    buckets: str,
) -> None:
    """It opens the table anew, and does not find the rows of the change in its buckets."""
    for step in range(1, 20):
        table = new_table(
            catalog,
            COLUMNS,
            name=f"db.t{step}",
            partitions=before,
            keys=("dt", "hh", "id"),
            options={"bucket": buckets},
        )
        model: dict[int, str] = {}
        for value in ("old", "older"):
            table.write(rows(table, _given(range(12), value, model)))
        died = _stopped(catalog, table, after, step)
        released_pypaimon.write(catalog.root, table.name, _given(range(6), "new", model))
        table = catalog.table(table.name)
        table.write(rows(table, _given([11], "last", model)))
        catalog.table(table.name).upkeep.respec(after)
        table = catalog.table(table.name)
        found = {each["id"]: each["v"] for each in table.read().to_pylist()}
        assert (found, len(content(table))) == (model, len(model)), step
        assert as_read_by(released_pypaimon, catalog, table) == content(table), step
        remove_orphans(table)
        if not died:
            return
    raise AssertionError("the change has more steps than were tried")
