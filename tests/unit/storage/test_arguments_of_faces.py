"""Arguments of a table's methods: one value in place of several is refused by its name."""

from __future__ import annotations

import inspect

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import StorageError
from tests.support.tables.builders import EVENTS, events, new_table, rows
from tests.support.tables.fixtures import memory_uri

NEEDED = {"by": ["id"], "source": "db.t", "folder": "/nowhere", "bucket_count": 2, "keys": []}
NEEDED |= {"partitions": [], "record_id": "q"}
WRONG = ("ab", b"ab", 5, {"day": "a"}, [5], [None], [["day"]])


@pytest.fixture(scope="module")
def table() -> Table:
    made = new_table(Catalog.open(memory_uri()), EVENTS)
    made.write(rows(made, events(0, 3)))
    return made


@pytest.mark.parametrize("face", ["table", "upkeep", "at"])
def test_one_value_in_place_of_several_is_refused_by_its_name(table: Table, face: str) -> None:
    called = {"table": table, "upkeep": table.upkeep, "at": table.at()}[face]
    names = ("scan", "partitions", "partition_properties")
    asked = 0
    for name in dir(type(called)):
        method = getattr(called, name)
        if not name.startswith("plan_") and name not in names:
            continue
        taken = inspect.signature(method).parameters
        given = {
            each: NEEDED[each]
            for each, parameter in taken.items()
            if parameter.default is inspect.Parameter.empty and each in NEEDED
        }
        if name == "plan_respec":
            given["keys"] = ["day"]
        for argument, parameter in taken.items():
            kind = str(parameter.annotation)
            if not kind.startswith(("Sequence[", "Collection[")):
                continue
            for wrong in WRONG:
                if kind.startswith("Sequence[int]") and wrong == [5]:
                    continue
                asked += 1
                with pytest.raises(StorageError, match=argument):
                    method(**{**given, argument: wrong})
    assert asked


def test_a_lookup_of_no_keys_finds_no_rows() -> None:
    catalog = Catalog.open(memory_uri())
    keyed = new_table(catalog, {"id": "BIGINT NOT NULL", "v": "STRING"}, keys=["id"])
    keyed.write([{"id": 1, "v": "a"}])
    assert keyed.lookup([], columns=["v"]).to_pydict() == {"v": []}
