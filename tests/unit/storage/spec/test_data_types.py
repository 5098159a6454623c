"""Types: what prints, what parses, and what is refused with words that help."""

from __future__ import annotations

import pytest

from lakewright.storage.errors import InvalidSchema
from lakewright.storage.spec.data_types import (
    ArrayType,
    AtomicType,
    DataField,
    RowType,
    TypeRoot,
    nested_fields,
    not_null,
    parse_data_type,
)

SPELLINGS = {
    "INTEGER": "INT",
    "numeric(5, 1)": "DECIMAL(5, 1)",
    "dec(5)": "DECIMAL(5, 0)",
    "DECIMAL": "DECIMAL(10, 0)",
    "double precision": "DOUBLE",
    "TIMESTAMP": "TIMESTAMP(6)",
    "TIMESTAMP WITHOUT TIME ZONE": "TIMESTAMP(6)",
    "TIMESTAMP(3) WITH LOCAL TIME ZONE": "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "TIMESTAMP_LTZ(9)": "TIMESTAMP(9) WITH LOCAL TIME ZONE",
    "TIME": "TIME(0)",
    "CHAR": "CHAR(1)",
    "VARCHAR(2147483647)": "STRING",
    "VARBINARY(2147483647)": "BYTES",
    "int not null": "INT NOT NULL",
    "INT NULL": "INT",
    "array<int not null> NOT NULL": "ARRAY<INT NOT NULL> NOT NULL",
    "MAP<STRING,ARRAY<ROW<a INT>>>": "MAP<STRING, ARRAY<ROW<a INT>>>",
    "STRUCT<`b c` STRING>": "ROW<`b c` STRING>",
    "MULTISET<STRING>": "MULTISET<STRING>",
    "ROW<`a``b` INT, NOT INT>": "ROW<`a``b` INT, NOT INT>",
}


@pytest.mark.parametrize(("written", "printed"), SPELLINGS.items())
def test_a_type_is_read_in_every_spelling_and_printed_in_one(written: str, printed: str) -> None:
    parsed = parse_data_type(written)
    assert str(parsed) == printed
    assert parse_data_type(printed) == parsed


WRONG = {
    "": "ends too early",
    "NUMBER": "NUMBER is not a type",
    "VARIANT": "VARIANT is not implemented",
    "BLOB": "not implemented",
    "DECIMAL(39)": "precision 39 is not between 1 and 38",
    "DECIMAL(5, 6)": "scale 6",
    "DECIMAL(0)": "precision 0",
    "TIMESTAMP(10)": "precision 10 is not between 0 and 9",
    "CHAR(0)": "length 0",
    "VARCHAR(2147483648)": "length 2147483648",
    "INT INT": "unexpected 'INT'",
    "INT NOT": "NULL expected",
    "ARRAY<INT": "> expected",
    "ARRAY INT": "< expected",
    "MAP<INT>": ", expected",
    "DECIMAL(x)": "'x' is not a number",
    "TIMESTAMP WITH TIME ZONE": "use WITH LOCAL TIME ZONE",
    "INT;": "not understood at ';'",
}


@pytest.mark.parametrize(("written", "words"), WRONG.items())
def test_what_is_no_type_is_refused_with_the_reason(written: str, words: str) -> None:
    with pytest.raises(InvalidSchema) as caught:
        parse_data_type(written)
    assert words in str(caught.value)
    assert repr(written) in str(caught.value)


def test_members_are_found_at_any_depth() -> None:
    parsed = parse_data_type("MAP<INT, ARRAY<ROW<a INT, b ROW<c MULTISET<ROW<d INT>>>>>>")
    assert [each.name for each in nested_fields(parsed)] == ["a", "b", "c", "d"]


def test_a_required_type_is_another_one() -> None:
    row = RowType((DataField(1, "a", AtomicType(TypeRoot.INT)),))
    for nullable in (ArrayType(AtomicType(TypeRoot.INT)), row, AtomicType(TypeRoot.DATE)):
        assert str(not_null(nullable)) == f"{nullable} NOT NULL"
        assert not_null(not_null(nullable)) == not_null(nullable)
