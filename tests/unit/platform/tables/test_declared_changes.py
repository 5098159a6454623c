"""From a table to its declaration: the changes, and what cannot be changed."""

from __future__ import annotations

from typing import Any

import pytest

from lakewright.platform.tables.declaration_checks import check_declaration
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.declared_changes import declared_changes
from lakewright.platform.tables.open_declared import check_rows_fit, open_declared
from lakewright.storage import (
    AddColumn,
    Catalog,
    ChangeDefault,
    RenameColumn,
    SetOption,
    Table,
    TableSchema,
)
from lakewright.storage.errors import InvalidSchema
from lakewright.storage.spec.schema_change_text import parse_changes, shown, texts_in_turn
from tests.support.tables.builders import new_table, rows


def declared(columns: dict[str, Any], **given: Any) -> TableDeclaration:
    listed = [
        {"name": name, **({"type": text} if isinstance(text, str) else text)}
        for name, text in columns.items()
    ]
    return TableDeclaration.model_validate(
        {"table": "db.t", "columns": listed, "source": {"csv": "x.csv"}, **given}
    )


def names_and_types(schema: TableSchema) -> list[str]:
    return [f"{field.name} {field.type}" for field in schema.fields]


def opened(catalog: Catalog, declaration: TableDeclaration) -> Table:
    """The declared table, which a run may write."""
    table, drift = open_declared(catalog, declaration)
    check_rows_fit(drift)
    return table


BEFORE = {"k": "INT", "a": "INT", "b": "STRING", "r": "ROW<x INT, y STRING>", "l": "ARRAY<INT>"}
CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing": (BEFORE, []),
    "added at the end": ({**BEFORE, "n": "DATE"}, ["add column n DATE"]),
    "added between": (
        {"k": "INT", "n": "DATE", **BEFORE},
        ["add column n DATE", "move column n after k"],
    ),
    "dropped": ({k: v for k, v in BEFORE.items() if k != "b"}, ["drop column b"]),
    "renamed": (
        {"k": "INT", "a2": {"type": "INT", "was": "a"}, **{n: BEFORE[n] for n in "brl"}},
        ["rename column a to a2"],
    ),
    "retyped": ({**BEFORE, "a": "BIGINT"}, ["change the type of column a to BIGINT"]),
    "members": (
        {**BEFORE, "r": "ROW<x BIGINT, z INT>"},
        ["drop column r.y", "add column r.z INT", "change the type of column r.x to BIGINT"],
    ),
    "all members": (
        {**BEFORE, "r": "ROW<z INT>"},
        ["add column r.z INT", "drop column r.x", "drop column r.y"],
    ),
    "members in another order": (
        {**BEFORE, "r": "ROW<y STRING, x INT>"},
        ["move column r.y first"],
    ),
    "elements": (
        {**BEFORE, "l": "ARRAY<BIGINT>"},
        ["change the type of column l.element to BIGINT"],
    ),
    "comments": (
        {**BEFORE, "a": {"type": "INT", "comment": "how many"}},
        ["comment column a as 'how many'"],
    ),
    "added with a default": (
        {**BEFORE, "n": {"type": "STRING", "default": "it's"}},
        ['add column n STRING default "it\'s"'],
    ),
    "a default": ({**BEFORE, "a": {"type": "INT", "default": 7}}, ["default column a to '7'"]),
    "all of it": (
        {
            "k": {"type": "BIGINT", "default": 1, "comment": "the key"},
            "a2": {"type": "BIGINT", "was": "a"},
            "n": "DATE",
            "r": "ROW<z INT, y STRING>",
            "l": "ARRAY<BIGINT>",
        },
        [
            "drop column b",
            "drop column r.x",
            "rename column a to a2",
            "add column n DATE",
            "add column r.z INT",
            "change the type of column k to BIGINT",
            "change the type of column a2 to BIGINT",
            "change the type of column l.element to BIGINT",
            "default column k to '1'",
            "comment column k as 'the key'",
            "move column r.z first",
            "move column n after a2",
        ],
    ),
    "reversed": (
        dict(reversed(BEFORE.items())),
        [
            "move column l first",
            "move column r after l",
            "move column b after r",
            "move column a after b",
        ],
    ),
    "exchanged": (
        {
            "k": "INT",
            "b": {"type": "STRING", "comment": "x"},
            "a": "BIGINT",
            "r": BEFORE["r"],
            "l": BEFORE["l"],
        },
        [
            "change the type of column a to BIGINT",
            "comment column b as 'x'",
            "move column b after k",
        ],
    ),
}


@pytest.mark.parametrize("case", list(CASES))
def test_the_changes_are_those_that_were_made_and_lead_to_the_declaration(
    catalog: Catalog, case: str
) -> None:
    columns, expected = CASES[case]
    table = new_table(catalog, BEFORE)
    table.write(rows(table, [{"k": 1, "a": 5, "b": "x", "r": {"x": 1, "y": "z"}}]))
    declaration = declared(columns)
    found = declared_changes(declaration, table.schema)
    assert [shown(each) for each in found.changes] == expected
    calls = texts_in_turn(found.changes)
    assert len(calls) == (2 if case == "all members" else bool(expected))
    assert found.others == ()
    assert len(found.destructive) == sum(each.startswith("drop") for each in expected)
    for texts in calls:
        table = table.alter(*parse_changes(texts))
    assert names_and_types(table.schema) == [
        f"{column.name} {column.type}" for column in declaration.columns
    ]
    assert not declared_changes(declaration, table.schema)
    assert opened(catalog, declaration).read(columns=["k"]).num_rows == 1


def test_a_default_goes_with_its_line_and_is_there_at_creation(catalog: Catalog) -> None:
    given = {"type": "STRING", "default": "it's"}
    table = opened(catalog, declared({"k": "INT", "a": given}))
    assert table.schema.field("a").default_value == "it's"
    table.write(rows(table, [{"k": 1, "a": None}]))
    assert table.read().to_pylist() == [{"k": 1, "a": "it's"}]
    without = declared({"k": "INT", "a": "STRING"})
    assert [shown(each) for each in declared_changes(without, table.schema).changes] == [
        "no default for a"
    ]
    # The rows of a source would get a value that it did not give.
    with pytest.raises(InvalidSchema, match="differs by: no default for a"):
        opened(catalog, without)
    quoted = table.alter(ChangeDefault("a", "'it's'"))
    assert not declared_changes(declared({"k": "INT", "a": given}), quoted.schema)


def test_a_default_that_is_no_value_of_its_column_creates_no_table(catalog: Catalog) -> None:
    with pytest.raises(InvalidSchema, match="column a is INT and has the default 'many'"):
        opened(catalog, declared({"a": {"type": "INT", "default": "many"}}))
    assert not catalog.table_exists("db.t")


def test_what_a_change_destroys_is_told_and_left_out_of_the_rest(catalog: Catalog) -> None:
    table = new_table(catalog, BEFORE)
    wanted = {
        "k": "INT",
        "a": {"type": "SMALLINT", "default": "5"},
        "r": "ROW<x DATE, y STRING>",
        "l": "ARRAY<BIGINT>",
        "n": "DATE",
    }
    found = declared_changes(declared(wanted), table.schema)
    assert found.others == ("column r.x is declared DATE and is INT, which is not cast to it",)
    assert {shown(each): said for each, said in found.losses.items()} == {
        "drop column b": "its values can no longer be read",
        "change the type of column a to SMALLINT": "values beyond -32768 to 32767 wrap around",
    }
    assert [shown(each) for each in found.harmless] == [
        "add column n DATE",
        "change the type of column l.element to BIGINT",
    ]


def test_a_rename_is_over_once_it_was_made(catalog: Catalog) -> None:
    table = new_table(catalog, {"k": "INT", "a": "INT"})
    declaration = declared({"k": "INT", "b": {"type": "INT", "was": "a"}})
    altered = table.alter(*declared_changes(declaration, table.schema).changes)
    assert altered.schema.field("b").id == 1
    again = altered.alter(AddColumn("a", "INT"))
    assert [shown(each) for each in declared_changes(declaration, again.schema).changes] == [
        "drop column a"
    ]


def test_a_chain_of_renames_keeps_every_column_and_is_over_once_it_was_made(
    catalog: Catalog,
) -> None:
    table = new_table(catalog, {"k": "INT", "a": "INT", "b": "INT"})
    table.write(rows(table, [{"k": 1, "a": 2, "b": 3}]))
    chain = declared(
        {"k": "INT", "b": {"type": "INT", "was": "a"}, "c": {"type": "INT", "was": "b"}}
    )
    changes = declared_changes(chain, table.schema).changes
    assert [shown(each) for each in changes] == ["rename column b to c", "rename column a to b"]
    (texts,) = texts_in_turn(changes)
    altered = table.alter(*parse_changes(texts))
    assert altered.read().to_pylist() == [{"k": 1, "b": 2, "c": 3}]
    assert not declared_changes(chain, altered.schema)


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"b": "a", "a": "b"}, "columns are renamed in a circle, b → a → b"),
        ({"c": "b", "a": "c", "b": "a"}, "in a circle, a → b → c → a"),
        ({"a": "a"}, "in a circle, a → a; leave was out"),
        ({"x": "a", "y": "a"}, "'a' is the former name of 'x' too; only one of the two can be"),
    ],
)
def test_former_names_that_mix_columns_are_refused(
    catalog: Catalog, columns: dict[str, str], told: str
) -> None:
    declaration = declared({new: {"type": "INT", "was": old} for new, old in columns.items()})
    ((place, message),) = check_declaration(declaration)
    assert told in message
    assert place == ("columns", len(columns) - 1, "was")
    table = new_table(catalog, {"a": "INT", "b": "INT", "c": "INT"})
    assert message in declared_changes(declaration, table.schema).others


def test_a_former_name_that_the_table_lacks_drops_no_other_column_unnoticed(
    catalog: Catalog,
) -> None:
    actual = new_table(catalog, {"k": "INT", "a": "INT"}).schema
    column = {"type": "INT", "was": "aa"}
    (told,) = declared_changes(declared({"k": "INT", "b": column}), actual).others
    assert told.startswith("column b was 'aa', and db.t has no such column; it has a, which is not")
    # Nothing would be lost, or the rename is over.
    for columns in ({"k": "INT", "a": "INT", "b": column}, {"k": "INT", "a": column}):
        assert declared_changes(declared(columns), actual).others == ()


def test_other_partition_keys_are_a_change_of_their_own(catalog: Catalog) -> None:
    table = new_table(catalog, {"k": "INT", "a": "INT", "b": "INT"}, partitions=["k"])
    columns = {"k": "INT", "a": "INT", "b": "INT"}
    found = declared_changes(declared(columns, partition_keys=["k", "a"]), table.schema)
    assert (found.changes, found.others) == ((), ())
    assert found
    assert found.keys is not None
    assert found.keys.keys == ("k", "a")
    assert str(found.keys) == "change the partition keys from (k) to (k, a)"
    gone = declared_changes(declared(columns), table.schema).keys
    assert str(gone) == "change the partition keys from (k) to ()"
    assert not declared_changes(declared(columns, partition_keys=["k"]), table.schema)


def test_partition_keys_of_a_primary_key_table_are_no_change_that_can_be_made(
    catalog: Catalog,
) -> None:
    columns = {"k": "INT", "a": "INT"}
    table = new_table(catalog, columns, keys=["k", "a"], partitions=["k"], options={"bucket": "1"})
    declaration = declared(columns, primary_key=["k", "a"], partition_keys=["a"])
    found = declared_changes(declaration, table.schema)
    assert found.keys is None
    assert found.others == ("the partition key is declared (a) and is (k)",)


def test_what_no_change_of_a_schema_does_is_told(catalog: Catalog) -> None:
    table = new_table(catalog, {"k": "INT", "a": "INT"}, keys=["k"], options={"bucket": "2"})
    options = {"bucket": "3", "file.format": "orc", "snapshot.time-retained": "2 h"}
    found = declared_changes(
        declared({"k": "INT", "a": "INT"}, primary_key=["a"], options=options), table.schema
    )
    assert [shown(each) for each in found.changes][2:] == [
        "set option file.format to orc",
        "set option snapshot.time-retained to 2 h",
    ]
    assert found.others == (
        "option bucket is declared 3 and is 2 (lakewright rescale changes it)",
        "the primary key is declared (a) and is (k)",
    )


@pytest.mark.mission("BK2", "BK8")
def test_another_distribution_is_told_with_the_way_to_it(catalog: Catalog) -> None:
    columns = {"k": "INT", "a": "INT"}
    table = new_table(catalog, columns, keys=["k", "a"], options={"bucket": "2"})
    said = declared(
        {"k": "INT NOT NULL", "a": "INT NOT NULL"},
        primary_key=["k", "a"],
        distribution={"by": ["a"], "buckets": 3},
    )
    way = "(ALTER TABLE … MODIFY DISTRIBUTION changes it)"
    assert declared_changes(said, table.schema).others == (
        "option bucket is declared 3 and is 2 (lakewright rescale changes it)",
        f"option bucket-key is declared a and is not set {way}",
    )
    same = declared(
        {"k": "INT NOT NULL", "a": "INT NOT NULL"},
        primary_key=["k", "a"],
        distribution={"buckets": 2},
    )
    assert not declared_changes(same, table.schema)


def test_a_table_ahead_of_its_declaration_is_opened_where_no_value_is_lost(
    catalog: Catalog,
) -> None:
    appended = declared({"k": "INT", "a": "INT"}, write={"mode": "append"})
    table: Table = opened(catalog, appended)
    ahead = table.alter(AddColumn("n", "STRING"))
    assert opened(catalog, appended).schema == ahead.schema
    replacing = declared({"k": "INT", "a": "INT"})
    assert opened(catalog, replacing).schema == ahead.schema
    # Rows that replace others would replace the values of the column too.
    ahead.write(rows(ahead, [{"k": 1, "a": 2, "n": "x"}]))
    with pytest.raises(InvalidSchema, match="differs by: drop column n"):
        opened(catalog, replacing)
    ahead.alter(RenameColumn("a", "b"))
    with pytest.raises(InvalidSchema, match=r"differs by: add column a INT; run `lakewright evo"):
        opened(catalog, appended)


def test_a_default_of_a_column_that_is_left_out_replaces_no_value(catalog: Catalog) -> None:
    appended = declared({"k": "INT", "a": "INT"}, write={"mode": "append"})
    opened(catalog, appended).alter(AddColumn("n", "STRING", default="none"))
    opened(catalog, appended)
    with pytest.raises(InvalidSchema, match="differs by: drop column n"):
        opened(catalog, declared({"k": "INT", "a": "INT"}))


@pytest.mark.parametrize(
    ("there", "wanted", "fits"), [("7", "07", True), ("7", "8", False), (None, "7", False)]
)
def test_rows_fit_beside_a_default_that_fills_the_same_value(
    catalog: Catalog, there: str | None, wanted: str, fits: bool
) -> None:
    table = new_table(catalog, {"k": "INT", "a": "INT"})
    if there is not None:
        table.alter(ChangeDefault("a", there))
    given = declared({"k": "INT", "a": {"type": "INT", "default": wanted}})
    _, drift = open_declared(catalog, given)
    assert drift
    assert drift.reasons == (() if fits else (f"default column a to '{wanted}'",))


def test_columns_may_stand_in_another_order_and_members_of_rows_may_not(catalog: Catalog) -> None:
    new_table(catalog, {"k": "INT", "r": "ROW<x INT, y STRING>"})
    opened(catalog, declared({"r": "ROW<x INT, y STRING>", "k": "INT"}))
    with pytest.raises(InvalidSchema, match=r"differs by: move column r\.y first"):
        opened(catalog, declared({"k": "INT", "r": "ROW<y STRING, x INT>"}))


def test_a_column_that_decides_which_row_wins_is_not_left_out(catalog: Catalog) -> None:
    keyed = {"primary_key": ["k"], "options": {"merge-engine": "partial-update"}}
    declaration = declared({"k": "INT NOT NULL", "a": "INT"}, **keyed)
    table = opened(catalog, declaration).alter(AddColumn("n", "INT"))
    assert opened(catalog, declaration).schema == table.schema
    table.alter(AddColumn("ts", "INT"), SetOption("sequence.field", "ts"))
    with pytest.raises(InvalidSchema, match="drop column ts"):
        opened(catalog, declaration)
