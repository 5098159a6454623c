"""Changes of a schema: ids, places, names, options, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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
    TableSchema,
)
from lakewright.storage.errors import ColumnInUse, InvalidOption, InvalidSchema
from lakewright.storage.spec.column_uses import renamed_in_options, uses_of
from lakewright.storage.spec.data_types import nested_fields
from lakewright.storage.spec.schema import new_schema
from lakewright.storage.spec.schema_change import SchemaChange
from lakewright.storage.spec.schema_difference import differences
from lakewright.storage.spec.schema_evolution import EvolvingTable, evolved_schema
from tests.support.tables.builders import spec

NESTED = {
    "id": "INT",
    "r": "ROW<a INT, b STRING>",
    "l": "ARRAY<ROW<x INT>>",
    "m": "MAP<STRING, ROW<v INT>>",
    "n": "ARRAY<MAP<INT, INT>>",
}


def schema_of(columns: dict[str, str], **given: Any) -> TableSchema:
    return new_schema(spec(columns, **given), time_millis=1)


def evolve(
    schema: TableSchema, *changes: SchemaChange, empty: bool = False, former: set[int] = frozenset()
) -> TableSchema:
    state = EvolvingTable("db.t", has_snapshots=not empty, former_keys=frozenset(former))
    return evolved_schema(schema, changes, state, time_millis=9)


def shown(schema: TableSchema) -> list[str]:
    return [f"{field.id} {field.name} {field.type}" for field in schema.fields]


# --- what changes -----------------------------------------------------------------------------


@pytest.mark.mission("SE2", "SE22", "SE33")
def test_a_new_column_has_an_id_that_no_column_had() -> None:
    schema = schema_of({"a": "INT", "b": "INT"})
    dropped = evolve(schema, DropColumn("b"))
    again = evolve(dropped, AddColumn("b", "INT", comment="anew", default="7"))
    assert shown(again) == ["0 a INT", "2 b INT"]
    assert (again.fields[1].description, again.fields[1].default_value) == ("anew", "7")
    assert (again.id, again.highest_field_id, again.time_millis) == (2, 2, 9)
    within_one = evolve(schema, DropColumn("b"), AddColumn("b", "INT"), DropColumn("b"))
    assert within_one.highest_field_id == 2


@pytest.mark.parametrize(
    ("position", "names"),
    [
        (None, "abcx"),
        (Position(Side.FIRST), "xabc"),
        (Position(Side.LAST), "abcx"),
        (Position(Side.AFTER, "a"), "axbc"),
        (Position(Side.BEFORE, "c"), "abxc"),
    ],
)
def test_a_column_goes_where_it_is_asked_for(position: Position | None, names: str) -> None:
    schema = schema_of(dict.fromkeys("abc", "INT"))
    added = evolve(schema, AddColumn("x", "INT", position=position))
    assert "".join(added.field_names) == names
    if position is not None:
        moved = evolve(evolve(schema, AddColumn("x", "INT")), MoveColumn("x", position))
        assert "".join(moved.field_names) == names
    for name, where, expected in (("a", "c", "bca"), ("c", "a", "acb")):
        moved = evolve(schema, MoveColumn(name, Position(Side.AFTER, where)))
        assert "".join(moved.field_names) == expected


def test_new_columns_stand_before_partition_keys_if_the_table_says_so() -> None:
    options = {"add-column-before-partition": "true"}
    schema = schema_of({"a": "INT", "day": "DATE"}, partitions=["day"], options=options)
    assert evolve(schema, AddColumn("b", "INT")).field_names == ("a", "b", "day")


@pytest.mark.mission("SE3", "SE4", "SE5", "SE23")
def test_a_change_keeps_the_id() -> None:
    schema = schema_of({"a": "INT", "b": "STRING", "c": "INT"})
    changed = evolve(
        schema,
        RenameColumn("a", "aa"),
        ChangeType("aa", "BIGINT"),
        ChangeComment("aa", "wide"),
        ChangeDefault("aa", "1"),
        DropColumn("b"),
        ChangeTableComment("of all"),
    )
    assert shown(changed) == ["0 aa BIGINT", "2 c INT"]
    assert changed.id == 1
    assert [str(each) for each in differences(schema, changed)] == [
        "~ name of column aa: a -> aa",
        "~ type of column aa: INT -> BIGINT",
        "+ comment of column aa: 'wide'",
        "+ default of column aa: '1'",
        "- column b: STRING",
        "~ comment of the table: '' -> 'of all'",
    ]


def test_two_columns_exchange_their_names_in_one_change() -> None:
    schema = schema_of({"a": "INT", "b": "STRING"})
    swapped = evolve(schema, RenameColumn("a", "t"), RenameColumn("b", "a"), RenameColumn("t", "b"))
    assert shown(swapped) == ["0 b INT", "1 a STRING"]


@pytest.mark.mission("SE2", "SE5", "SE22")
def test_members_change_inside_rows_arrays_and_maps() -> None:
    schema = schema_of(NESTED)
    changed = evolve(
        schema,
        RenameColumn("r.b", "bb"),
        AddColumn("r.c", "ROW<d INT>", position=Position(Side.FIRST)),
        DropColumn("r.a"),
        ChangeType("l.element.x", "BIGINT"),
        AddColumn("m.value.w", "INT"),
        ChangeType("n.element.value", "BIGINT"),
        ChangeNullability("l.element.x", nullable=True),
    )
    assert shown(changed)[1:] == [
        "1 r ROW<c ROW<d INT>, bb STRING>",
        "4 l ARRAY<ROW<x BIGINT>>",
        "6 m MAP<STRING, ROW<v INT, w INT>>",
        "8 n ARRAY<MAP<INT, BIGINT>>",
    ]
    ids = {
        member.name: member.id for field in changed.fields for member in nested_fields(field.type)
    }
    assert ids == {"c": 9, "d": 10, "bb": 3, "x": 5, "v": 7, "w": 11}
    assert changed.highest_field_id == 11


def test_what_changes_nothing_makes_no_version() -> None:
    schema = schema_of({"a": "INT"})
    assert evolve(schema, ChangeType("a", "INT")) is schema
    assert evolve(schema, RenameColumn("a", "b"), RenameColumn("b", "a")) is schema


def test_options_follow_a_renamed_column() -> None:
    options = {
        "sequence.field": "ts, k",
        "fields.ts.aggregate-function": "max",
        "fields.ts.nested-key-null-strategy": "ignore",
        "fields.a.b.ignore-retract": "true",
        "fields.ts,g.sequence-group": "a.b,ts",
        "mine": "ts",
    }
    assert renamed_in_options(options, "ts", "at") == {
        "sequence.field": "at,k",
        "fields.at.aggregate-function": "max",
        "fields.at.nested-key-null-strategy": "ignore",
        "fields.a.b.ignore-retract": "true",
        "fields.at,g.sequence-group": "a.b,at",
        "mine": "ts",
    }
    schema = schema_of({"ts": "INT", "a.b": "INT"}, options=options)
    assert [use.option for use in uses_of(schema, "ts")][:3] == [
        "sequence.field",
        "fields.ts.aggregate-function",
        "fields.ts.nested-key-null-strategy",
    ]
    assert "fields.a.b.ignore-retract" in [use.option for use in uses_of(schema, "a.b")]


# --- what is refused --------------------------------------------------------------------------

KEYED = {
    "columns": {"k": "INT", "day": "DATE", "ts": "INT", "v": "INT", "w": "INT"},
    "keys": ["k", "day"],
    "partitions": ["day"],
    "options": {
        "bucket": "2",
        "merge-engine": "aggregation",
        "sequence.field": "ts",
        "fields.v.aggregate-function": "sum",
    },
}
IN_USE: dict[str, tuple[SchemaChange, str]] = {
    "drop a key": (DropColumn("k"), "cannot be dropped: it is a primary key"),
    "rename a key": (RenameColumn("k", "kk"), "cannot be renamed: it is a primary key"),
    "retype a key": (ChangeType("k", "BIGINT"), "another type: it is a primary key"),
    "nullable key": (ChangeNullability("k", nullable=True), "never null"),
    "drop an order": (DropColumn("ts"), "option sequence.field=ts names it"),
    "retype an order": (ChangeType("ts", "BIGINT"), "sequence.field=ts orders rows by it"),
    "drop an aggregate": (DropColumn("v"), "fields.v.aggregate-function=sum names it"),
}


@pytest.mark.parametrize("case", list(IN_USE))
@pytest.mark.mission("SE17", "SE18")
def test_a_column_that_is_needed_stays_and_its_user_is_named(case: str) -> None:
    change, message = IN_USE[case]
    with pytest.raises(ColumnInUse, match=message):
        evolve(schema_of(**KEYED), change)


@pytest.mark.parametrize(
    "change", [DropColumn("day"), RenameColumn("day", "d"), ChangeType("day", "TIMESTAMP(3)")]
)
@pytest.mark.mission("SE19")
def test_partition_keys_stay(change: SchemaChange) -> None:
    schema = schema_of({"a": "INT", "day": "DATE"}, partitions=["day"])
    with pytest.raises(ColumnInUse, match="partitioned by it"):
        evolve(schema, change)
    former = schema_of({"a": "INT", "day": "DATE"})
    with pytest.raises(ColumnInUse, match="older files of the table are partitioned by it"):
        evolve(former, change, former={1})


def test_bucket_keys_are_not_dropped_or_retyped_but_renamed() -> None:
    options = {"bucket": "2", "bucket-key": "a"}
    schema = schema_of({"a": "INT", "b": "INT"}, options=options)
    with pytest.raises(ColumnInUse, match="bucket-key=a names it"):
        evolve(schema, DropColumn("a"))
    with pytest.raises(ColumnInUse, match="assigns rows to buckets"):
        evolve(schema, ChangeType("a", "BIGINT"))
    assert evolve(schema, RenameColumn("a", "c")).options["bucket-key"] == "c"


def test_tables_that_count_rows_keep_their_columns() -> None:
    options = {"bucket": "2", "bucket-key": "a", "merge-engine": "value-count"}
    schema = schema_of({"a": "INT", "b": "INT"}, options=options)
    for change in (AddColumn("c", "INT"), MoveColumn("b", Position(Side.FIRST))):
        with pytest.raises(ColumnInUse, match="all its columns are its key"):
            evolve(schema, change)
    assert evolve(schema, ChangeComment("a", "x")).fields[0].description == "x"


WRONG: dict[str, tuple[SchemaChange, str]] = {
    "required": (AddColumn("x", "INT NOT NULL", default="1"), "leave NOT NULL out"),
    "there": (AddColumn("id", "INT"), "a column 'id' already"),
    "member there": (AddColumn("r.a", "INT"), "a column 'a' already"),
    "reserved": (AddColumn("_ROW_ID", "INT"), "is reserved"),
    "newline": (AddColumn("`a\nb`", "INT"), "the control character"),
    "empty member": (AddColumn("z", "ROW<` ` INT>"), "empty name"),
    "doubled member": (AddColumn("z", "ROW<a INT, a INT>"), "member 'a' more than once"),
    "NUL in a new name": (RenameColumn("a", "b\0"), "the control character"),
    "empty new name": (RenameColumn("a", " "), "empty name"),
    "no such neighbour": (
        AddColumn("x", "INT", position=Position(Side.AFTER, "zz")),
        "no column 'zz'",
    ),
    "case": (AddColumn("ID", "INT"), "a column 'id' already"),
    "renamed to another case": (RenameColumn("r.a", "B"), "a column 'b' already"),
    "nested default": (AddColumn("r.c", "INT", default="1"), "writers apply defaults to whole"),
    "unknown": (DropColumn("zz"), "no column 'zz'; there are id, r"),
    "unknown member": (DropColumn("r.zz"), "no column 'zz'; there are a, b"),
    "unknown row": (DropColumn("zz.a"), "no column 'zz'; there are id, r"),
    "inside of no row": (DropColumn("id.a"), "it has no members"),
    "no step": (DropColumn("l.x"), "write element"),
    "key of a map": (ChangeType("m.key", "INT"), "keys never change"),
    "name of an element": (RenameColumn("l.element", "e"), "a type alone"),
    "comment of a value": (ChangeComment("n.element.value", "e"), "a type alone"),
    "only member": (DropColumn("l.element.x"), "the only one of its row"),
    "itself": (MoveColumn("id", Position(Side.AFTER, "id")), "after itself"),
    "taken": (RenameColumn("id", "r"), "a column 'r' already"),
    "nested as a whole": (ChangeType("l", "ARRAY<BIGINT>"), "l.element of an array"),
    "no cast": (ChangeType("id", "DATE"), "no client casts it"),
    "explicit": (ChangeType("id", "SMALLINT"), "wrap around; set the option lakewright.cast-mode"),
    "no type": (ChangeType("id", "NUMBER"), "NUMBER is not a type"),
    "required later": (ChangeNullability("id", nullable=False), "may hold null there"),
}


@pytest.mark.parametrize("case", list(WRONG))
@pytest.mark.mission("SE1", "SE20", "SE38")
def test_a_change_that_does_not_fit_is_refused_with_the_way_out(case: str) -> None:
    change, message = WRONG[case]
    with pytest.raises(InvalidSchema, match=message):
        evolve(schema_of(NESTED), change)


def test_the_last_column_beside_partition_keys_stays() -> None:
    schema = schema_of({"a": "INT", "day": "DATE"}, partitions=["day"])
    with pytest.raises(InvalidSchema, match=r"the last of db\.t that is no partition key"):
        evolve(schema, DropColumn("a"))


@pytest.mark.mission("SE39")
def test_a_table_allows_explicit_casts_by_an_option() -> None:
    schema = schema_of({"a": "BIGINT"}, options={"lakewright.cast-mode": "explicit"})
    assert shown(evolve(schema, ChangeType("a", "INT"))) == ["0 a INT"]
    # In one call, the mode is set before the cast that needs it.
    mode = SetOption("lakewright.cast-mode", "explicit")
    together = evolve(schema_of({"a": "BIGINT"}), ChangeType("a", "INT"), mode)
    assert shown(together) == ["0 a INT"]
    forbidden = evolve(schema, SetOption("disable-explicit-type-casting", "true"))
    with pytest.raises(InvalidSchema, match="only an explicit cast"):
        evolve(forbidden, ChangeType("a", "INT"))
    for mode in ("implicit", "strict"):
        with pytest.raises((InvalidSchema, InvalidOption), match="cast"):
            evolve(schema, SetOption("lakewright.cast-mode", mode), ChangeType("a", "INT"))


@pytest.mark.parametrize("engine", ["partial-update", "aggregation"])
@pytest.mark.mission("SE41")
def test_no_value_becomes_null_where_the_rows_of_a_key_are_combined(engine: str) -> None:
    options = {"bucket": "1", "merge-engine": engine}
    schema = schema_of({"k": "INT NOT NULL", "n": "BIGINT"}, keys=["k"], options=options)
    mode = SetOption("lakewright.cast-mode", "explicit-null")
    refused = f"does not go with merge-engine={engine}.*to explicit-fail or explicit"
    with pytest.raises(InvalidOption, match=refused):
        evolve(schema, mode)
    with pytest.raises(InvalidSchema, match="one of explicit, explicit-fail to allow"):
        evolve(schema, ChangeType("n", "TINYINT"))
    # Another client may set any value of an option that it does not know.
    foreign = replace(schema, options={**options, mode.name: mode.value})
    for change in (ChangeType("n", "TINYINT"), ChangeType("n", "DECIMAL(3, 0)")):
        with pytest.raises(InvalidOption, match=refused):
            evolve(foreign, change)
    cured = evolve(foreign, SetOption(mode.name, "explicit"), ChangeType("n", "TINYINT"))
    assert shown(cured) == ["0 k INT NOT NULL", "1 n TINYINT"]
    for merge_engine in ("deduplicate", "first-row"):
        # One row of a key is chosen, so a null stays in its row.
        choosing = replace(schema, options={**options, "merge-engine": merge_engine})
        assert evolve(choosing, mode).options[mode.name] == mode.value


def test_nulls_are_refused_later_only_where_none_can_be() -> None:
    schema = schema_of({"a": "INT"})
    assert shown(evolve(schema, ChangeNullability("a", nullable=False), empty=True)) == [
        "0 a INT NOT NULL"
    ]
    allowed = evolve(schema, SetOption("alter-column-null-to-not-null.disabled", "false"))
    required = evolve(allowed, ChangeNullability("a", nullable=False))
    assert shown(required) == ["0 a INT NOT NULL"]
    assert shown(evolve(required, ChangeType("a", "BIGINT"))) == ["0 a BIGINT NOT NULL"]
    assert shown(evolve(required, ChangeNullability("a", nullable=True))) == ["0 a INT"]


# --- options ----------------------------------------------------------------------------------


def test_options_are_set_and_reset() -> None:
    schema = schema_of({"a": "INT"}, options={"file.format": "orc"})
    changed = evolve(schema, SetOption("owner", "me"), ResetOption("file.format"))
    assert changed.options == {"owner": "me"}
    assert [str(each) for each in differences(schema, changed)] == [
        "- option file.format: orc",
        "+ option owner: me",
    ]


FIXED: dict[str, tuple[SchemaChange, str]] = {
    "merge engine": (SetOption("merge-engine", "first-row"), "rows that are there depend on it"),
    "reset": (ResetOption("merge-engine"), "rows that are there depend on it"),
    "no buckets": (SetOption("bucket", "-1"), "another positive number"),
    "default buckets": (ResetOption("bucket"), "another positive number"),
    "vectors": (SetOption("deletion-vectors.enabled", "true"), "deletion-vectors.modifiable=true"),
    "misspelt": (SetOption("file.fromat", "orc"), "did you mean 'file.format'"),
    "no value": (SetOption("snapshot.num-retained.min", "few"), "is not a whole number"),
    "key": (SetOption("primary-key", "v"), "create a new table"),
    "type": (SetOption("type", "format-table"), "another type"),
    "unset": (ResetOption("file.format"), "does not set file.format"),
    "unnamed": (SetOption(" ", "x"), "without a name"),
}


@pytest.mark.parametrize("case", list(FIXED))
def test_options_that_rows_depend_on_stay(case: str) -> None:
    change, message = FIXED[case]
    with pytest.raises(InvalidOption, match=message):
        evolve(schema_of(**KEYED), change)


def test_rows_that_are_ignored_do_not_come_to_light() -> None:
    schema = schema_of(**{**KEYED, "options": {"bucket": "2", "ignore-delete": "true"}})
    for change in (SetOption("ignore-delete", "false"), ResetOption("ignore-delete")):
        with pytest.raises(InvalidOption, match="would take effect"):
            evolve(schema, change)
    assert evolve(schema, SetOption("ignore-update-before", "true")).id == 1


def test_the_member_that_merges_by_time_stays_the_last() -> None:
    columns = {"k": "INT", "m": "MAP<STRING, ROW<v INT, t INT>>"}
    options = {
        "bucket": "1",
        "merge-engine": "aggregation",
        "fields.m.aggregate-function": "merge_map_with_keytime",
    }
    schema = schema_of(columns, keys=["k"], options=options)
    for change in (AddColumn("m.value.n", "INT"), MoveColumn("m.value.v", Position(Side.LAST))):
        with pytest.raises(ColumnInUse, match="merges by the last member"):
            evolve(schema, change)
    assert evolve(schema, RenameColumn("m.value.v", "w")).id == 1


def test_a_table_without_data_may_change_them() -> None:
    schema = schema_of(**{**KEYED, "options": {"bucket": "2"}})
    changed = evolve(
        schema, SetOption("merge-engine", "first-row"), SetOption("bucket", "3"), empty=True
    )
    assert changed.options == {"bucket": "3", "merge-engine": "first-row"}
    assert evolve(schema, SetOption("bucket", "3")).options["bucket"] == "3"


@pytest.mark.mission("SE39")
def test_an_option_of_ours_that_does_not_exist_is_refused() -> None:
    schema = schema_of({"a": "BIGINT"})
    with pytest.raises(InvalidOption, match=r"did you mean 'lakewright\.cast-mode'"):
        evolve(schema, SetOption("lakewright.cast_mode", "explicit"))


@pytest.mark.parametrize("mode", ["explicit", "explicit-fail", "explicit-null"])
@pytest.mark.mission("SE39")
def test_each_explicit_mode_allows_explicit_casts_in_the_same_alter(mode: str) -> None:
    schema = schema_of({"a": "BIGINT"})
    changed = evolve(schema, SetOption("lakewright.cast-mode", mode), ChangeType("a", "INT"))
    assert str(changed.field("a").type) == "INT"
    with pytest.raises(InvalidSchema, match="one of explicit, explicit-fail, explicit-null to"):
        evolve(schema, ChangeType("a", "INT"))
