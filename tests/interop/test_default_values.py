"""Defaults of columns: Java and we write the same rows."""

from __future__ import annotations

from typing import Any

from lakewright.storage import Catalog
from tests.interop.test_they_read_ours import as_read_by, assert_read_alike
from tests.interop.test_we_read_theirs import create_theirs
from tests.oracles.client import LatestJavaOracle
from tests.support.tables.builders import compact, content, new_table, rows
from tests.support.tables.zones import machine_in
from tests.support.values.evolution import with_default_values

COLUMNS = {
    "k": "INT",
    "b": "BOOLEAN",
    "i": "INT",
    "f": "FLOAT",
    "d": "DECIMAL(5, 2)",
    "s": "STRING",
    "v": "VARCHAR(3)",
    "c": "CHAR(3)",
    "x": "BYTES",
    "t": "TIMESTAMP(3)",
    "z": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "day": "DATE",
}
DEFAULTS = {
    "b": "yes",
    "i": "'5'",
    "f": "1e400",
    "d": "1.005",
    "s": "it's '",
    "v": "abcdef",
    "c": "'a'",
    "x": "ä",
    "t": "2024-02-31",
    "z": "2024-01-01 00:00:00",
    "day": "2024-1-2",
}


def test_java_and_we_put_the_same_defaults_into_nulls(
    catalog: Catalog, java_latest: LatestJavaOracle
) -> None:
    table = with_default_values(catalog, create_theirs(catalog, java_latest, COLUMNS), DEFAULTS)
    given: list[dict[str, Any]] = [{"k": 1}, {"k": 2, "i": 9, "s": ""}]
    with machine_in("UTC"):
        java_latest.write(catalog.root, table.name, given)
        theirs = as_read_by(java_latest, catalog, table)
        table.write(rows(table, given))
        assert content(table) == sorted([*theirs, *theirs])
        assert_read_alike([java_latest], catalog, table)


def test_a_default_of_an_option_leaves_nulls_as_they_are_stored(
    catalog: Catalog, java_latest: LatestJavaOracle
) -> None:
    options = {"fields.v.default-value": "none"}
    for name, keys in (("db.plain", ()), ("db.keyed", ("id",))):
        table = new_table(
            catalog, name=name, keys=keys, options={**options, **({"bucket": "1"} if keys else {})}
        )
        java_latest.write(catalog.root, name, [{"id": 1}, {"id": 2, "v": "theirs"}])
        table.write(rows(table, [{"id": 3}, {"id": 4, "v": "ours"}]))
        assert as_read_by(java_latest, catalog, table) == content(table)
        assert table.read().sort_by("id").column("v").to_pylist() == [None, "theirs", None, "ours"]
        compact(table, full=True)
        assert as_read_by(java_latest, catalog, table) == content(table)
