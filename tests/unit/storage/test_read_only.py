"""A warehouse that is opened to be read only: reads are those of before, and no write is done."""

from __future__ import annotations

from typing import Any

import pytest

from lakewright.storage import Catalog
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.files.read_only_files import ReadOnlyFiles
from tests.support.stores.watched_files import READS
from tests.support.tables.builders import EVENTS, events, new_table, rows
from tests.support.tables.fixtures import catalog, env, unchecked_catalog

__all__ = ["catalog", "env", "unchecked_catalog"]

# What makes earlier changes last is no change.
_ALLOWED = {*READS, "scheme", "uri", "under", "make_durable", "make_all_durable"}


def test_every_call_that_could_change_a_store_is_refused(catalog: Catalog) -> None:
    files = ReadOnlyFiles(catalog.fs)
    calls = {name for name in dir(files) if not name.startswith("_")} - _ALLOWED
    assert {"write_bytes", "put_if_absent", "delete", "delete_tree", "open_output"} <= calls
    path = f"{catalog.root}/x"
    for name in calls:
        given: list[Any] = [path]
        if name in ("write_bytes", "put_if_absent", "replace"):
            given.append(b"x")
        if name in ("copy", "move_if_absent"):
            given.append(f"{path}2")
        with pytest.raises(InvalidRequestError, match="read only"):
            getattr(files, name)(*given)
    assert not catalog.fs.exists(path)


def test_its_tables_are_read_and_not_written(catalog: Catalog) -> None:
    table = new_table(catalog, EVENTS)
    for number in range(3):
        table.write(rows(table, events(number, number + 1)))
    watched = catalog.read_only().table("db.t")
    assert watched.read().num_rows == 3
    before = catalog.fs.list_tree(catalog.root)
    for change in (
        lambda: watched.write(rows(table, events(3, 4))),
        lambda: watched.history.create_tag("t"),
        lambda: catalog.read_only().create_database("other"),
        lambda: watched.upkeep.compact(full=True),
    ):
        with pytest.raises(InvalidRequestError, match="read only"):
            change()
    assert catalog.fs.list_tree(catalog.root) == before
