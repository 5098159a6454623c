"""Defaults of columns: rows that are written have them where Java's writer would put them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidRows, UnsupportedError
from lakewright.storage.operations.write.default_values import with_left_out_columns
from tests.support.tables.builders import compact, content, new_table, rows
from tests.support.values.evolution import with_default_values

COLUMNS = {"id": "BIGINT NOT NULL", "n": "INT", "s": "STRING", "d": "DECIMAL(5, 2)", "plain": "INT"}
DEFAULTS = {"n": "7", "s": "'a b'", "d": "1.005"}


def read(table: Table) -> list[dict[str, Any]]:
    return list(table.read().sort_by("id").to_pylist())


def filled(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "n": 7,
        "s": "a b",
        "d": pa.scalar("1.01").cast(pa.decimal128(5, 2)).as_py(),
    }


@pytest.mark.parametrize("keys", [[], ["id"]], ids=["append", "keyed"])
def test_nulls_and_columns_left_out_become_the_defaults(catalog: Catalog, keys: list[str]) -> None:
    options = {"bucket": "1"} if keys else {}
    table = with_default_values(
        catalog, new_table(catalog, COLUMNS, keys=keys, options=options), DEFAULTS
    )
    table.write(rows(table, [{"id": 1}, {"id": 2, "n": 1, "s": "x", "plain": 3}]))
    table.write(pa.table({"id": [3, 4], "n": pa.array([None, 5], pa.int32())}))
    expected = [
        {**filled(1), "plain": None},
        {**filled(2), "n": 1, "s": "x", "plain": 3},
        {**filled(3), "plain": None},
        {**filled(4), "n": 5, "plain": None},
    ]
    assert read(table) == expected
    compact(table, full=True)
    assert read(table) == expected


def test_rows_written_before_a_default_was_set_keep_their_nulls(catalog: Catalog) -> None:
    table = new_table(catalog, COLUMNS)
    table.write(rows(table, [{"id": 1}]))
    changed = with_default_values(catalog, table, DEFAULTS)
    compact(changed, full=True)
    assert read(changed) == [{"id": 1, "n": None, "s": None, "d": None, "plain": None}]


def test_what_is_not_null_must_be_given_or_have_a_default(catalog: Catalog) -> None:
    table = new_table(catalog, {"id": "BIGINT NOT NULL", "n": "INT NOT NULL", "v": "INT"})
    with pytest.raises(InvalidRows, match="lack column id, n"):
        table.write(pa.table({"v": [1]}))
    changed = with_default_values(catalog, table, {"n": "7"})
    changed.write(pa.table({"id": [1]}))
    assert read(changed) == [{"id": 1, "n": 7, "v": None}]
    # A null that is given is refused, default or not.
    with pytest.raises(InvalidRows, match="column n is NOT NULL"):
        changed.write(pa.table({"id": [2], "n": pa.array([None], pa.int32())}))


def test_a_misspelt_column_is_not_taken_for_one_left_out(catalog: Catalog) -> None:
    table = new_table(catalog, COLUMNS)
    with pytest.raises(InvalidRows, match="lack column n, s, d, plain and have unknown column N"):
        table.write(pa.table({"id": [1], "N": [1]}))
    with pytest.raises(InvalidRows, match="lack column id, n, s, d, plain"):
        table.write(pa.table({}))


def test_a_partition_must_be_said(catalog: Catalog) -> None:
    table = new_table(catalog, {"id": "BIGINT", "day": "STRING", "v": "INT"}, partitions=["day"])
    with pytest.raises(InvalidRows, match="lack column day"):
        table.write(pa.table({"id": [1]}))
    table.write(pa.table({"id": [1]}), partition={"day": "a"})
    assert content(table) == ['{"day": "a", "id": 1, "v": null}']


@pytest.mark.parametrize(
    ("data_type", "default", "reason"),
    [
        ("INT", "seven", "cannot be read as INT"),
        ("INT", "current_date()", "cannot be read as INT"),
        ("ARRAY<INT>", "[1, 2]", "types with parts are not implemented"),
    ],
)
def test_a_default_that_is_not_understood_is_refused_only_where_it_is_needed(
    catalog: Catalog, data_type: str, default: str, reason: str
) -> None:
    table = with_default_values(
        catalog, new_table(catalog, {"id": "INT", "v": data_type}), {"v": default}
    )
    for given in (pa.table({"id": [1]}), rows(table, [{"id": 1}])):
        with pytest.raises(UnsupportedError, match=reason) as caught:
            table.write(given)
        assert caught.value.details["column"] == "v"
    value = [1] if data_type != "INT" else 1
    table.write(rows(table, [{"id": 1, "v": value}]))
    assert read(table) == [{"id": 1, "v": value}]


def test_rows_for_the_null_partition_of_a_column_with_a_default_are_refused(
    catalog: Catalog,
) -> None:
    """As in Java: they would land in the default's partition, which the overwrite leaves alone."""
    table = new_table(catalog, {"p": "INT", "k": "INT"}, partitions=["p"])
    table.write(rows(table, [{"p": None, "k": 1}, {"p": 7, "k": 7}]))
    table = with_default_values(catalog, table, {"p": "7"})
    before = content(table)
    for held in (pa.table({"k": [9]}), pa.table({"p": pa.nulls(1, pa.int32()), "k": [9]})):
        with pytest.raises(
            InvalidRows, match="has the default '7', so no row can be in that partition"
        ):
            table.write(held, mode="overwrite", partition={"p": None})
    assert content(table) == before
    table.write(table.arrow_schema.empty_table(), mode="overwrite", partition={"p": None})
    assert table.read().to_pylist() == [{"p": 7, "k": 7}]


@pytest.mark.parametrize("data_type", ["STRING", "BYTES"])
def test_a_default_that_is_no_text_is_refused(catalog: Catalog, data_type: str) -> None:
    table = new_table(catalog, {"id": "INT", "v": data_type})
    fields = tuple(
        replace(each, default_value="\udc00" if each.name == "v" else None)
        for each in table.schema.fields
    )
    files = replace(table.table_files, schema=replace(table.schema, fields=fields))
    with pytest.raises(UnsupportedError, match="column v is"):
        with_left_out_columns(pa.table({"id": [1]}), files)
