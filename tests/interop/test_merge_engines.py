"""What merge engines make of a key's rows, one file each: Java's answer is ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from pyroaring import BitMap

from lakewright.storage import Catalog
from lakewright.storage.errors import InvalidOption, InvalidRows
from lakewright.storage.spec.schema_change import SetOption
from tests.interop.test_they_read_ours import as_read_by
from tests.oracles.arrow_values import canonical_rows
from tests.oracles.client import JavaOracle, LatestJavaOracle
from tests.support.tables.builders import compact, content, new_table, rows

Columns = Mapping[str, Any]
Written = tuple[Any, ...]

NUMBER = {"v": "INT"}
LIST = {"v": {"type": "ARRAY", "element": "INT"}}
MAP = {"v": {"type": "MAP", "key": "STRING", "value": "INT"}}
PAIR = {"a": "INT", "b": "INT"}
GROUP = {"g": "INT", **PAIR}
PARTIAL = {"merge-engine": "partial-update"}
GROUPED = {**PARTIAL, "fields.g.sequence-group": "a,b"}


def aggregating(function: str, **more: str) -> dict[str, str]:
    named = {f"fields.v.{name.replace('_', '-')}": value for name, value in more.items()}
    return {"merge-engine": "aggregation", "fields.v.aggregate-function": function, **named}


# Columns, options, the rows by kind and columns, and what they become; None is no row.
CASES: dict[str, tuple[Columns, dict[str, str], list[Written], Written | None]] = {
    "sum": (NUMBER, aggregating("sum"), [("+I", 5), ("-U", 5), ("+U", 7)], (7,)),
    "sum of what is taken back": (NUMBER, aggregating("sum"), [("+I", 5), ("-D", 5)], (0,)),
    "sum taken back first": (NUMBER, aggregating("sum"), [("-D", 5), ("+I", 7)], (2,)),
    "sum only taken back": (NUMBER, aggregating("sum"), [("-D", 5), ("-D", 7)], (-12,)),
    "long decimals that do not fit": (
        {"v": "DECIMAL(20, 0)"},
        aggregating("sum"),
        [("+I", "9" * 20), ("+I", "1")],
        (None,),
    ),
    "product": (NUMBER, aggregating("product"), [("+I", 7), ("+I", 3), ("-U", 2)], (10,)),
    "product of decimals": (
        {"v": "DECIMAL(4, 2)"},
        aggregating("product"),
        [("+I", "1.05"), ("+I", "0.50")],
        ("0.53",),
    ),
    "max without retractions": (
        NUMBER,
        aggregating("max", ignore_retract="true"),
        [("+I", 7), ("-U", 9), ("+I", 8)],
        (8,),
    ),
    "first": (NUMBER, aggregating("first_value"), [("+I", None), ("+I", 2)], (None,)),
    "first there": (NUMBER, aggregating("first_non_null_value"), [("+I", None), ("+I", 2)], (2,)),
    "last taken back": (NUMBER, aggregating("last_value"), [("+I", 2), ("-D", 2)], (None,)),
    "last there, null taken back": (
        NUMBER,
        aggregating("last_non_null_value"),
        [("+I", 7), ("-U", None)],
        (7,),
    ),
    "texts": (
        {"v": "STRING"},
        aggregating("listagg", list_agg_delimiter="; "),
        [("+I", "a"), ("+I", None), ("+I", "a")],
        ("a; a",),
    ),
    "lists": (LIST, aggregating("collect"), [("+I", [1, 2]), ("+I", [1])], ([1, 2, 1],)),
    "lists taken back": (
        LIST,
        aggregating("collect"),
        [("+I", [1, 2, 1, 3]), ("-U", [1, 5])],
        ([2, 1, 3],),
    ),
    "maps": (
        MAP,
        aggregating("merge_map"),
        [("+I", [["a", 1], ["b", 2]]), ("+I", [["a", 3]]), ("-U", [["b", 0]])],
        ([["a", 3]],),
    ),
    "partial rows": (PAIR, PARTIAL, [("+I", 1, None), ("+I", None, 2), ("+I", 3, None)], (3, 2)),
    "deletions ignored": (
        PAIR,
        {**PARTIAL, "ignore-delete": "true"},
        [("+I", 1, 2), ("-D", 1, 2)],
        (1, 2),
    ),
    "deletions remove": (
        PAIR,
        {**PARTIAL, "partial-update.remove-record-on-delete": "true"},
        [("+I", 1, 2), ("-D", 1, 2)],
        None,
    ),
    "late rows of a group": (
        GROUP,
        GROUPED,
        [("+I", 2, 1, 1), ("+I", 1, 5, 5), ("+I", None, 6, 6)],
        (2, 1, 1),
    ),
    "nulls of a group": (GROUP, GROUPED, [("+I", 2, 1, 1), ("+I", 2, None, 7)], (2, None, 7)),
    "deletion of a group": (GROUP, GROUPED, [("+I", 2, 1, 1), ("-D", 3, 5, 5)], (3, None, None)),
    "late deletion of a group": (GROUP, GROUPED, [("+I", 2, 1, 1), ("-D", 1, 5, 5)], (2, 1, 1)),
    "group that begins with a deletion": (
        GROUP,
        GROUPED,
        [("-D", 2, 5, 5), ("+I", 1, 7, 7)],
        (2, None, None),
    ),
    "aggregated group": (
        GROUP,
        {**GROUPED, "fields.a.aggregate-function": "sum"},
        [("+I", 2, 1, 1), ("+I", 1, 5, 5), ("+I", None, 100, 100), ("-D", 1, 2, 2)],
        (2, 4, 1),
    ),
    "first of a group with late rows": (
        GROUP,
        {
            **GROUPED,
            "fields.a.aggregate-function": "first_value",
            "fields.b.aggregate-function": "first_non_null_value",
        },
        [("+I", 2, 1, 1), ("+I", 3, 2, 2), ("+I", 1, 9, None), ("+I", 0, 8, None)],
        (3, 8, None),
    ),
    "deletions passed over": (NUMBER, {"ignore-delete": "true"}, [("+I", 1), ("-D", 1)], (1,)),
    "old half of an update last": (NUMBER, {}, [("+I", 1), ("-U", 1)], None),
    "sequence field": (
        GROUP,
        {"sequence.field": "g"},
        [("+I", 2, 1, 1), ("+I", 1, 5, 5)],
        (2, 1, 1),
    ),
}


@pytest.mark.sampled(12)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.mission("FS2")
def test_java_and_we_merge_alike(case: str, catalog: Catalog, java: JavaOracle) -> None:
    columns, options, written, expected = CASES[case]
    root, name = catalog.root, "db.t"
    fields = {"k": "INT NOT NULL", **columns}
    options = {"bucket": "1", "file.format": "parquet", "write-only": "true", **options}
    java.create(root, name, fields, primary_keys=["k"], options=options)
    for kind, *values in written:
        row = {"k": 1, **dict(zip(columns, values, strict=True))}
        java.write(root, name, [row], kinds=[kind])
    merged = [] if expected is None else [{"k": 1, **dict(zip(columns, expected, strict=True))}]
    table = catalog.table(name)
    assert java.read(root, name) == merged
    assert canonical_rows(table.read()) == merged
    compact(table, full=True)
    assert java.read(root, name) == merged


@pytest.mark.parametrize("engine", ["aggregation", "partial-update"])
def test_bitmaps_are_united_to_the_bytes_that_java_writes(
    unchecked_catalog: Catalog, java_latest: LatestJavaOracle, engine: str
) -> None:
    options = {"bucket": "1", "merge-engine": engine, "fields.r.aggregate-function": "rbm32"}
    if engine == "partial-update":
        options["fields.at.sequence-group"] = "r"
    columns = {"id": "BIGINT NOT NULL", "at": "INT", "r": "BYTES"}
    table = new_table(unchecked_catalog, columns, keys=("id",), options=options)
    bitmaps: list[Iterable[int] | None] = [
        [1, 7, 2**32 - 1],
        range(5, 9000),
        None,
        range(0, 2**20, 3),
        [],
    ]
    for number, values in enumerate(bitmaps):
        held = None if values is None else BitMap(values).serialize()
        other = {"id": number + 2, "at": 9 - number, "r": held}
        table.write(rows(table, [{"id": 1, "at": number, "r": held}, other]))
        table.write(rows(table, [{"id": 3, "at": number, "r": held}]))
        assert content(table) == as_read_by(java_latest, unchecked_catalog, table)
    (whole,) = table.read(where="id = 1").column("r").to_pylist()
    assert BitMap.deserialize(whole) == BitMap([1, 7, 2**32 - 1]) | BitMap(range(5, 9000)) | BitMap(
        range(0, 2**20, 3)
    )
    due = content(table)
    compact(table, full=True)
    assert content(table) == as_read_by(java_latest, unchecked_catalog, table) == due
    table.write(rows(table, [{"id": 1, "at": 9, "r": b"no bitmap"}]))
    with pytest.raises(InvalidRows, match="not a Roaring bitmap"):
        table.read()


@pytest.mark.parametrize("function", ["sum", "product"])
def test_whole_numbers_that_do_not_fit_are_what_java_makes_of_them(
    function: str, catalog: Catalog, java: JavaOracle
) -> None:
    root, bits = catalog.root, {"t": 8, "s": 16, "i": 32, "b": 64}
    kinds = {"t": "TINYINT", "s": "SMALLINT", "i": "INT", "b": "BIGINT"}
    options = {
        "bucket": "1",
        "file.format": "parquet",
        "write-only": "true",
        "merge-engine": "aggregation",
        **{f"fields.{name}.aggregate-function": function for name in kinds},
    }
    for table, last in (("db.added", "+I"), ("db.retracted", "-D")):
        java.create(
            root, table, {"k": "INT NOT NULL", **kinds}, primary_keys=["k"], options=options
        )
        for kind, number in (("+I", 1), ("+I", 3), ("+I", 2), (last, 7)):
            greatest = {name: 2 ** (size - 1) - number for name, size in bits.items()}
            java.write(root, table, [{"k": 1, **greatest}], kinds=[kind])
        merged = java.read(root, table)
        found = catalog.table(table)
        assert canonical_rows(found.read()) == merged
        compact(found, full=True)
        assert java.read(root, table) == canonical_rows(found.read()) == merged


def test_a_table_made_here_refuses_sums_that_do_not_fit_until_it_may_wrap(
    unchecked_catalog: Catalog, java: JavaOracle
) -> None:
    options = {"bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
    table = unchecked_catalog.create_table(
        "db.t", {"k": "INT NOT NULL", "v": "TINYINT"}, primary_keys=["k"], options=options
    )
    for _ in range(2):
        table.write([{"k": 1, "v": 100}])
    with pytest.raises(InvalidRows, match=r"does not fit .* set lakewright\.overflow=wrap"):
        table.read()
    table = table.alter(SetOption("lakewright.overflow", "wrap"))
    assert (
        table.read().to_pylist()
        == java.read(unchecked_catalog.root, "db.t")
        == [{"k": 1, "v": -56}]
    )
    with pytest.raises(InvalidOption, match="neither refuse nor wrap"):
        table.alter(SetOption("lakewright.overflow", "saturate"))
