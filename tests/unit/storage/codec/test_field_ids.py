"""Ids in data files: those of Java Paimon 2.0 for columns, members, elements, keys and values."""

from __future__ import annotations

import re

import pyarrow.parquet as pq
import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.codec import arrow_types
from tests.support.tables.builders import compact

COLUMNS = {
    "id": "BIGINT NOT NULL",
    "a": "ARRAY<INT>",
    "m": "MAP<STRING, INT>",
    "l": "ARRAY<ROW<k INT, x ARRAY<ARRAY<INT>>>>",
    "c": "MULTISET<STRING>",
}
# As a file of Java Paimon 2.0.0 has them; the inner ones by `SpecialFields` of its source.
OF_JAVA = {
    "id": 0,
    "a": 1,
    "a.list.element": 536871936,
    "m": 2,
    "m.key_value.key": 536868862,
    "m.key_value.value": 536872960,
    "l": 3,
    "l.list.element": 536873984,
    "l.list.element.k": 4,
    "l.list.element.x": 5,
    "l.list.element.x.list.element": 536876032,
    "l.list.element.x.list.element.list.element": 536876033,
    "c": 6,
    "c.key_value.key": 536864766,
    "c.key_value.value": 536877056,
}


def ids_of(table: Table) -> list[dict[str, int]]:
    """The ids in each data file, by the path of a column."""
    found = []
    for entry in table.at().files():
        path = table.table_files.data_file_path(entry.place, entry.file)
        ids: dict[str, int] = {}
        above: list[str] = []
        for line in str(pq.ParquetFile(path).schema).splitlines():
            node = re.match(r"( *)(?:required|optional|repeated) \S+ field_id=(-?\d+) (\w+)", line)
            if node is None:
                continue
            depth = len(node[1]) // 2
            above[depth:] = [node[3]]
            if int(node[2]) >= 0:
                ids[".".join(above[1:])] = int(node[2])
        found.append(ids)
    return found


def made(catalog: Catalog) -> Table:
    table = catalog.create_table("db.t", COLUMNS)
    table.write([row(1)])
    return table


def row(number: int) -> dict[str, object]:
    inner = [{"k": number, "x": [[number], None]}]
    return {"id": number, "a": [number, None], "m": {"x": number}, "l": inner, "c": {"y": 2}}


@pytest.mark.mission("FS16")
def test_parts_of_columns_have_the_ids_that_java_gives_them(catalog: Catalog) -> None:
    assert ids_of(made(catalog)) == [OF_JAVA]


def test_a_rewrite_gives_ids_to_files_without_them(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.setattr(arrow_types, "part_id", lambda *_: None)
        table = made(catalog)
        table.write([row(2)])
    (first, second) = ids_of(table)
    assert first == second == {at: number for at, number in OF_JAVA.items() if number < 100}
    due = table.read().to_pylist()
    compact(table, full=True)
    assert ids_of(table) == [OF_JAVA]
    assert table.read().to_pylist() == due
