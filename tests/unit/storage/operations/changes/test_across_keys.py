"""Differences of primary-key tables across a change of their partition keys, or of the key."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import UnsupportedError
from lakewright.storage.operations.changes.change_read import ChangeReader, collect_changes
from tests.support.tables.builders import expire, new_table, rows
from tests.support.tables.environment import FixedEnv
from tests.support.tables.late_commits import commit_late

pytestmark = pytest.mark.mission("PT1", "FS1")

COLUMNS = {"dt": "STRING NOT NULL", "hh": "INT NOT NULL", "id": "BIGINT NOT NULL", "v": "INT"}
KEY = ("dt", "hh", "id")
PARTITIONS: tuple[tuple[str, ...], ...] = ((), ("dt",), ("hh",), ("dt", "hh"), ("hh", "dt"))
Key = tuple[str, int, int]
Model = dict[Key, int | None]

KEYS = st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.integers(0, 3))
WRITES = st.lists(
    st.tuples(KEYS, st.one_of(st.none(), st.integers(0, 2)), st.sampled_from(["+I", "+I", "-D"])),
    min_size=1,
    max_size=8,
)
STEPS = st.lists(
    st.one_of(WRITES, WRITES, st.sampled_from(PARTITIONS), st.just("compact")),
    min_size=2,
    max_size=6,
)


def told(table: Table, first: int, last: int, **given: Any) -> list[tuple[Any, ...]]:
    found = table.read_changes(first, last, mode="diff", **given).to_pylist()
    return sorted(tuple(each.values()) for each in found)


def due(before: Model, after: Model) -> list[tuple[Any, ...]]:
    gone = [("-D", *key, value) for key, value in before.items() if key not in after]
    new = [
        ("+I", *key, value)
        for key, value in after.items()
        if key not in before or before[key] != value
    ]
    return sorted([*gone, *new], key=repr)


@settings(max_examples=12)
@given(
    steps=STEPS,
    between=st.sampled_from(PARTITIONS),
    first=st.sampled_from(PARTITIONS),
    buckets=st.sampled_from(["1", "2", "-1"]),
)
def test_a_difference_across_a_change_of_keys_is_that_of_two_dicts(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[Any],
    between: tuple[str, ...],
    first: tuple[str, ...],
    buckets: str,
) -> None:
    """Each state of a random history with a change in its midst, compared with each later one."""
    catalog = Catalog.open(str(tmp_path_factory.mktemp("w")), env=FixedEnv())
    table = new_table(catalog, COLUMNS, partitions=first, keys=KEY, options={"bucket": buckets})
    model: Model = {}
    states: dict[int, Model] = {}
    half = len(steps) // 2
    for step in [*steps[:half], between, *steps[half:]]:
        if isinstance(step, list):
            # Of several rows of a key the last one wins.
            model = dict(model)
            for key, value, kind in step:
                model.pop(key, None)
                if kind == "+I":
                    model[key] = value
            given = [dict(zip(KEY, key, strict=True), v=value) for key, value, _ in step]
            table.write(rows(table, given, [kind for *_, kind in step]))
        elif step == "compact":
            table.upkeep.compact(full=True)
        else:
            table.upkeep.respec(step)
            table = catalog.table("db.t")
        # A state during a change has the same rows, too.
        for each in table.history.snapshots():
            states.setdefault(each.id, model)
    keys = {
        each.id: table.table_files.at_schema(each.schema_id).schema.partition_keys
        for each in table.history.snapshots()
    }
    for before, old in states.items():
        for after, new in states.items():
            if before < after and keys[before] != keys[after]:
                found = sorted(told(table, before, after), key=repr)
                assert found == due(old, new), f"{before} to {after}"


@pytest.fixture
def changed(catalog: Catalog) -> Table:
    """A table by days that is one by hours since snapshot 5; row 2 changes on both sides."""
    table = new_table(catalog, COLUMNS, partitions=["dt"], keys=KEY, options={"bucket": "2"})
    every = [
        {"dt": day, "hh": number % 3, "id": number, "v": number}
        for day in "ab"
        for number in range(40)
    ]
    table.write(rows(table, every))
    table.write(rows(table, [{"dt": "a", "hh": 2, "id": 2, "v": 20}]))
    table.upkeep.respec(["dt", "hh"])
    table = catalog.table("db.t")
    table.write(rows(table, [{"dt": "a", "hh": 2, "id": 2, "v": 22}]))
    table.write(rows(table, [{"dt": "b", "hh": 0, "id": 3}], ["-D"]))
    return table


def test_tags_of_before_and_after_differ_in_the_rows_that_changed(
    catalog: Catalog, changed: Table
) -> None:
    changed.history.create_tag("before", snapshot=1)
    changed.history.create_tag("after")
    wanted = [("+I", "a", 2, 2, 22), ("-D", "b", 0, 3, 3)]
    assert told(changed, "before", "after") == wanted
    assert told(changed, 2, 5) == []
    assert told(changed, "before", "after", where="hh = 0") == wanted[1:]
    assert told(changed, "before", "after", where="v > 5 AND hh = 2") == wanted[:1]
    assert told(changed, "before", "after", columns=["id"]) == [("+I", 2), ("-D", 3)]


def test_rows_that_exceed_the_memory_meet_by_the_hash_of_their_key(changed: Table) -> None:
    plan = changed.scan_changes(1, 7, mode="diff").plan
    # Rows of one day cannot meet those of another.
    assert len(plan.splits) == 2
    reader = ChangeReader(
        changed.table_files,
        columns=None,
        predicate=None,
        snapshot_ids=plan.snapshot_ids,
        compared_bytes=64,
    )
    found = [tuple(each.values()) for each in collect_changes(reader, plan.splits).to_pylist()]
    assert sorted(found) == [("+I", "a", 2, 2, 22), ("-D", "b", 0, 3, 3)]


def test_states_of_the_former_keys_are_compared_as_they_were(changed: Table) -> None:
    """Their buckets are sorted by keys that the table has no more."""
    assert told(changed, 1, 2) == [("+I", "a", 2, 2, 20)]
    # In the midst of the change the files lie as the later keys want it.
    kinds = [each.id for each in changed.history.snapshots() if each.schema_id == 0]
    assert [told(changed, 2, each) for each in kinds[2:]] == [[]] * len(kinds[2:])


def test_a_reader_that_opened_the_table_before_compares_too(catalog: Catalog) -> None:
    table = new_table(catalog, COLUMNS, partitions=["dt"], keys=KEY, options={"bucket": "1"})
    table.write(rows(table, [{"dt": "a", "hh": 1, "id": 1, "v": 1}]))
    catalog.table("db.t").upkeep.respec(["dt", "hh"])
    now = catalog.table("db.t")
    now.write(rows(now, [{"dt": "a", "hh": 1, "id": 1, "v": 5}]))
    assert told(table, 1, now.history.latest_snapshot().id) == [("+I", "a", 1, 1, 5)]  # type: ignore[union-attr]


def test_changes_as_written_are_told_across_a_change_of_keys(changed: Table) -> None:
    found = changed.read_changes(1, 7, mode="delta").to_pylist()
    assert [tuple(each.values()) for each in found] == [
        ("+I", "a", 2, 2, 20),
        ("+I", "a", 2, 2, 22),
        ("-D", "b", 0, 3, None),
    ]


@pytest.mark.parametrize("after", [("dt", "hh"), (), ("hh",)], ids=str)
def test_changelogs_are_told_across_a_change_of_keys_and_the_change_tells_none(
    catalog: Catalog, after: tuple[str, ...]
) -> None:
    options = {"bucket": "1", "changelog-producer": "input"}
    table = new_table(catalog, COLUMNS, partitions=["dt"], keys=KEY, options=options)
    first = {"dt": "a", "hh": 1, "id": 1, "v": 1}
    table.write(rows(table, [first]))
    table.upkeep.respec(after)
    table = catalog.table("db.t")
    changes = [first, {**first, "v": 2}, {**first, "v": 2}]
    table.write(rows(table, changes, ["-U", "+U", "-D"]))
    last = table.history.latest_snapshot()
    assert last is not None
    found = table.read_changes(0, last.id, mode="changelog").to_pylist()
    assert [each.pop("_rowkind") for each in found] == ["+I", "-U", "+U", "-D"]
    assert found == [first, *changes]
    assert told(table, 1, last.id) == [("-D", "a", 1, 1, 1)]


def with_origin(catalog: Catalog) -> Table:
    """A table whose primary key got a column with its partition keys, since snapshot 4."""
    table = new_table(
        catalog,
        {"id": "BIGINT NOT NULL", "dt": "STRING NOT NULL", "origin": "STRING", "v": "INT"},
        partitions=["dt"],
        keys=["id", "dt"],
        options={"bucket": "1"},
    )
    given = [{"id": n, "dt": "a", "origin": "xy"[n % 2], "v": n} for n in range(4)]
    table.write(rows(table, given))
    table.upkeep.respec(["dt", "origin"], primary_key=["id", "dt", "origin"])
    return catalog.table("db.t")


def test_rows_are_compared_by_the_columns_of_both_primary_keys(catalog: Catalog) -> None:
    table = with_origin(catalog)
    assert told(table, 1, 4) == []
    table.write(rows(table, [{"id": 0, "dt": "a", "origin": "x", "v": 9}]))
    assert told(table, 1, 5) == [("+I", 0, "a", "x", 9)]
    # A filter on the column that joined leaves out what does not match, and not one half of it.
    table.write(rows(table, [{"id": 1, "dt": "a", "origin": "y"}], ["-D"]))
    table.write(rows(table, [{"id": 1, "dt": "a", "origin": "z", "v": 1}]))
    assert told(table, 1, 7, where="origin = 'y'") == []
    assert told(table, 1, 7, where="origin = 'z'") == [("+I", 1, "a", "z", 1)]


def test_rows_that_the_common_columns_do_not_tell_apart_are_refused_with_an_example(
    catalog: Catalog,
) -> None:
    table = with_origin(catalog)
    table.write(rows(table, [{"id": 2, "dt": "a", "origin": "z", "v": 9}]))
    with pytest.raises(
        UnsupportedError, match="compared by the columns of both keys, id, dt"
    ) as at:
        told(table, 1, 5)
    assert "primary key id, dt, origin, 2 rows have id=2, dt=a" in str(at.value)
    assert told(table, 4, 5) == [("+I", 2, "a", "z", 9)]


def test_a_key_that_another_client_renamed_or_dropped_since(catalog: Catalog) -> None:
    """We refuse to while files are partitioned by it; other clients do not."""
    table = with_origin(catalog)
    table.upkeep.respec(["dt"], primary_key=["id", "dt"])
    table = catalog.table("db.t")
    schema, last = table.schema, table.history.latest_snapshot()
    assert last is not None
    fields = [replace(each, name=each.name.replace("origin", "src")) for each in schema.fields]
    renamed = replace(schema, id=schema.id + 1, fields=tuple(fields))
    assert table.table_files.schemas.put_schema(renamed)
    table = catalog.table("db.t")
    assert told(table, 1, last.id) == told(table, 4, last.id) == told(table, 1, 4) == []
    fields = [each for each in fields if each.name != "src"]
    dropped = replace(schema, id=schema.id + 2, fields=tuple(fields))
    assert table.table_files.schemas.put_schema(dropped)
    table = catalog.table("db.t")
    assert told(table, 1, last.id) == []
    with pytest.raises(UnsupportedError, match=r"'origin' of db\.t was in its keys"):
        told(table, 4, last.id)


def test_a_state_with_rows_of_a_client_that_knew_the_former_keys_is_not_guessed(
    catalog: Catalog,
) -> None:
    table = opened = new_table(
        catalog, COLUMNS, partitions=["dt"], keys=KEY, options={"bucket": "1"}
    )
    table.write(rows(table, [{"dt": "a", "hh": 1, "id": 1, "v": 1}]))
    late = opened.stage(rows(opened, [{"dt": "a", "hh": 1, "id": 1, "v": 7}]))
    table.upkeep.respec(["dt", "hh"])
    before = table.history.latest_snapshot()
    commit_late(opened, late)
    table = catalog.table("db.t")
    mixed = table.history.latest_snapshot()
    assert before is not None
    assert mixed is not None
    for first in (1, before.id):
        with pytest.raises(UnsupportedError, match="before its keys changed"):
            told(table, first, mixed.id)
    table.upkeep.respec(["dt", "hh"])
    last = table.history.latest_snapshot()
    assert last is not None
    assert told(table, 1, last.id) == told(table, before.id, last.id) == [("+I", "a", 1, 1, 7)]
    # The state of the late rows is refused for as long as it is there.
    expire(table)
