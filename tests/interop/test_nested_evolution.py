"""Members of nested rows that another client renamed, dropped, added or retyped between writes."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

import pytest

from lakewright.storage import Catalog
from tests.interop.test_they_read_ours import as_read_by
from tests.interop.test_we_read_theirs import create_theirs
from tests.oracles.client import JavaOracle
from tests.support.tables.builders import compact, content

ROW = "ROW<a INT, b INT, s STRING>"
# How a column holds such rows, the path that leads to their members, and a value around two rows.
HOLDERS: dict[str, tuple[str, list[str], Any]] = {
    "row": (ROW, [], lambda one, two: one),
    "array": (f"ARRAY<{ROW}>", ["element"], lambda one, two: [one, None, two]),
    "map": (f"MAP<INT, {ROW}>", ["value"], lambda one, two: [[1, one], [2, two], [3, None]]),
    "inner": (f"ROW<r {ROW}, z INT>", ["r"], lambda one, two: {"r": two, "z": 1}),
    "arrays": (
        f"ARRAY<ARRAY<{ROW}>>",
        ["element", "element"],
        lambda one, two: [[one, two], None, []],
    ),
}


def change_of(name: str, path: list[str]) -> list[dict[str, Any]]:
    """What another client is asked to change in the rows at the end of a path."""
    match name:
        case "rename":
            return [{"rename_column": [*path, "a"], "to": "c"}]
        case "drop":
            return [{"drop_column": [*path, "a"]}]
        case "dropped_and_added":
            added = {"add_column": [*path, "a"], "type": "INT"}
            return [{"drop_column": [*path, "a"]}, added]
        case "swap":
            return [
                {"rename_column": [*path, "a"], "to": "x"},
                {"rename_column": [*path, "b"], "to": "a"},
                {"rename_column": [*path, "x"], "to": "b"},
            ]
        case "add":
            return [{"add_column": [*path, "c"], "type": "STRING"}]
        case "retype":
            return [{"update_type": [*path, "a"], "type": "BIGINT"}]
    raise AssertionError(name)


CHANGES = ("rename", "drop", "dropped_and_added", "swap", "add", "retype")


@pytest.mark.parametrize("keyed", [False, True], ids=["append", "keyed"])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.sampled(2)
def test_members_that_java_changed_are_read_and_rewritten_as_java_reads_them(
    catalog: Catalog, java_latest: JavaOracle, file_format: str, keyed: bool
) -> None:
    columns = {f"{holder}_{change}": HOLDERS[holder][0] for holder in HOLDERS for change in CHANGES}
    options = {"file.format": file_format, **({"bucket": "1"} if keyed else {})}
    keys = ("k",) if keyed else ()
    table = create_theirs(catalog, java_latest, {"k": "INT", **columns}, keys=keys, options=options)
    one, two = {"a": 1, "b": 10, "s": "x"}, {"a": None, "b": 20, "s": None}
    full = {f"{h}_{c}": HOLDERS[h][2](one, two) for h in HOLDERS for c in CHANGES}
    java_latest.write(catalog.root, table.name, [{"k": 1, **full}, {"k": 2}])
    steps = [
        change_of(change, [f"{holder}_{change}", *path])
        for holder, (_, path, _) in HOLDERS.items()
        for change in CHANGES
    ]
    # Java takes one renaming of a column at a time.
    for together in zip_longest(*steps):
        java_latest.alter(catalog.root, table.name, *[each for each in together if each])
    java_latest.write(catalog.root, table.name, [{"k": 3}])
    table = catalog.table(table.name)
    due = as_read_by(java_latest, catalog, table)
    assert content(table) == due
    compact(table, full=True, min_files=2)
    assert content(table) == due
    assert as_read_by(java_latest, catalog, table) == due


def test_rows_that_kept_none_of_their_members_are_null_for_java_and_rows_for_us(
    catalog: Catalog, java_latest: JavaOracle
) -> None:
    """Keys of maps and lengths of arrays are values too, so we keep them."""
    columns = {"k": "INT", "r": "ROW<a INT>", "m": "MAP<INT, ROW<a INT>>"}
    table = create_theirs(catalog, java_latest, columns)
    java_latest.write(catalog.root, table.name, [{"k": 1, "r": {"a": 1}, "m": [[1, {"a": 2}]]}])
    paths = [["r"], ["m", "value"]]
    added = [{"add_column": [*path, "b"], "type": "INT"} for path in paths]
    java_latest.alter(catalog.root, table.name, *added)
    java_latest.alter(catalog.root, table.name, *[{"drop_column": [*path, "a"]} for path in paths])
    table = catalog.table(table.name)
    assert java_latest.read(catalog.root, table.name) == [{"k": 1, "r": None, "m": None}]
    assert table.read().to_pylist() == [{"k": 1, "r": {"b": None}, "m": [(1, {"b": None})]}]
