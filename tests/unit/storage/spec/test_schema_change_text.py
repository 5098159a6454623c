"""Changes of a schema as short texts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakewright.storage import (
    AddColumn,
    ChangeComment,
    ChangeDefault,
    ChangeNullability,
    ChangeTableComment,
    ChangeType,
    DropColumn,
    MoveColumn,
    Position,
    RenameColumn,
    ResetOption,
    SetOption,
    Side,
)
from lakewright.storage.errors import InvalidSchema
from lakewright.storage.spec.schema_change import SchemaChange, path_of
from lakewright.storage.spec.schema_change_text import parse_changes, text_of, texts_in_turn

READ: list[tuple[str, str, SchemaChange]] = [
    ("add", "c INT", AddColumn("c", "INT")),
    ("add", " r.c  DECIMAL(10, 2) ", AddColumn("r.c", "DECIMAL(10, 2)")),
    ("add", "`a:b c` INT first", AddColumn("`a:b c`", "INT", position=Position(Side.FIRST))),
    (
        "add",
        "c ROW<first INT, after STRING, `last` DATE> DEFAULT 'it''s 5' COMMENT 'of, x' AFTER b",
        AddColumn(
            "c",
            "ROW<first INT, after STRING, `last` DATE>",
            comment="of, x",
            default="it's 5",
            position=Position(Side.AFTER, "b"),
        ),
    ),
    (
        "add",
        "c INT default 5 before `a b`",
        AddColumn("c", "INT", default="5", position=Position(Side.BEFORE, "a b")),
    ),
    (
        "add",
        "t TIMESTAMP(3) WITH LOCAL TIME ZONE LAST",
        AddColumn("t", "TIMESTAMP(3) WITH LOCAL TIME ZONE", position=Position(Side.LAST)),
    ),
    ("drop", "r.c", DropColumn("r.c")),
    ("rename", "r.c:`a.b`", RenameColumn("r.c", "a.b")),
    ("type", "c: MAP<STRING, INT>", ChangeType("c", "MAP<STRING, INT>")),
    ("nullable", "c", ChangeNullability("c", nullable=True)),
    ("not_null", "c", ChangeNullability("c", nullable=False)),
    ("comment", "c:at 10:30, or later", ChangeComment("c", "at 10:30, or later")),
    ("no_comment", "c", ChangeComment("c", None)),
    ("default", "`a:b`:x:y", ChangeDefault("`a:b`", "x:y")),
    ("no_default", "c", ChangeDefault("c", None)),
    ("move", "c after b", MoveColumn("c", Position(Side.AFTER, "b"))),
    ("move", "r.c FIRST", MoveColumn("r.c", Position(Side.FIRST))),
    ("set", "file.format = orc", SetOption("file.format", "orc")),
    ("set", "x=a=b", SetOption("x", "a=b")),
    ("reset", "file.format", ResetOption("file.format")),
    ("table_comment", "all: of it", ChangeTableComment("all: of it")),
]


@pytest.mark.parametrize(("kind", "text", "change"), READ)
def test_a_text_is_the_change_that_it_says(kind: str, text: str, change: SchemaChange) -> None:
    assert parse_changes({kind: [text]}) == [change]


WRITTEN = [
    AddColumn("r.`a b`", "ROW<x INT COMMENT 'y'>", "it's", "'", Position(Side.BEFORE, "a,b")),
    AddColumn("größe", "INT NOT NULL", default=" "),
    RenameColumn("a", "b:c"),
    ChangeDefault("c", "'x'"),
    MoveColumn("a", Position(Side.AFTER, "first")),
]


@pytest.mark.parametrize("change", [*(change for _, _, change in READ), *WRITTEN], ids=str)
def test_the_text_of_a_change_says_the_same_change(change: SchemaChange) -> None:
    kind, text = text_of(change)
    (read,) = parse_changes({kind: [text]})
    assert text_of(read) == (kind, text)
    if isinstance(change, AddColumn):
        assert isinstance(read, AddColumn)
        assert path_of(read.column) == path_of(change.column)
        read = replace(read, column=change.column)
    assert read == change


@pytest.mark.parametrize("text", ["", " x "])
def test_a_default_with_blanks_is_written_in_quotes(text: str) -> None:
    kind, written = text_of(ChangeDefault("c", text))
    assert parse_changes({kind: [written]}) == [ChangeDefault("c", f"'{text}'")]


def test_changes_are_told_in_one_call_unless_their_order_needs_two() -> None:
    drop, add, add_too = DropColumn("a"), AddColumn("b", "INT"), AddColumn("c", "INT")
    assert texts_in_turn([drop, add, add_too]) == [{"drop": ["a"], "add": ["b INT", "c INT"]}]
    assert texts_in_turn([add, drop]) == [{"add": ["b INT"]}, {"drop": ["a"]}]
    assert texts_in_turn([]) == []


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("add", "c", "write NAME TYPE"),
        ("add", "c INT AFTER", "is no place"),
        ("add", "", "write NAME TYPE"),
        ("rename", "a", "of the form OLD:NEW"),
        ("rename", "a:", "of the form OLD:NEW"),
        ("rename", "a:b.c", "is no new name"),
        ("type", ":INT", "of the form COLUMN:TYPE"),
        ("move", "c", "is no place"),
        ("move", "c up", "is no place"),
        ("set", "x", "of the form OPTION=VALUE"),
        ("set", "=x", "of the form OPTION=VALUE"),
        ("split", "x", "'split' is no change; there are drop, rename, add"),
    ],
)
def test_a_text_that_is_not_understood_shows_its_form(kind: str, text: str, message: str) -> None:
    with pytest.raises(InvalidSchema, match=message):
        parse_changes({kind: [text]})


def test_columns_are_dropped_and_renamed_before_others_take_their_names() -> None:
    changes = parse_changes({"type": ["b:INT"], "add": ["a INT"], "rename": ["a:b"], "drop": ["b"]})
    assert [type(each).__name__ for each in changes] == [
        "DropColumn",
        "RenameColumn",
        "AddColumn",
        "ChangeType",
    ]
