"""Plans that were edited after they were made, and what a table holds before and after a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from lakewright.storage import Table
from lakewright.storage.errors import StorageError
from lakewright.storage.operations.running.plan import DeletionPlan, Plan

PlanT = TypeVar("PlanT", bound=Plan[Any])


def edited(plan: PlanT, **changes: object) -> PlanT:
    """The plan after a change of the named parts of its JSON."""
    return type(plan).from_json(json.dumps(json.loads(plan.to_json()) | changes))


def with_files(plan: DeletionPlan[Any], *paths: str, **more: int) -> list[dict[str, object]]:
    """The files of a plan in JSON, and further ones, with `more` fields."""
    files: list[dict[str, object]] = json.loads(plan.to_json())["files"]
    return [*files, *({"path": path, "size_bytes": 1, **more} for path in paths)]


def content_of(table: Table) -> dict[str, bytes]:
    """The bytes of all files of a table, by their paths below it."""
    fs, root = table.table_files.fs, table.table_files.paths.root
    return {
        each.path.removeprefix(f"{root}/"): fs.read_bytes(each.path) for each in fs.list_tree(root)
    }


def assert_changes_nothing(
    table: Table, run: Callable[[], object], *errors: type[StorageError]
) -> None:
    """Check that a run is refused with one of the errors, and writes and deletes nothing."""
    before = content_of(table)
    with pytest.raises(errors):
        run()
    assert content_of(table) == before
