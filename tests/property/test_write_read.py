"""What was written is what is read: any schema, any rows, any order of operations."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.storage import Catalog, Column, SchemaSpec, Table
from lakewright.storage.spec.rows import ROW_KIND_COLUMN
from tests.oracles.arrow_values import canonical_rows
from tests.support.models.table import TableModel
from tests.support.tables.builders import compact, comparable, expire, rows
from tests.support.tables.environment import FixedEnv
from tests.support.tables.fixtures import empty_memory, memory_uri
from tests.support.tables.invariants import assert_sound
from tests.support.values.strategies import (
    atomic_types,
    data_types,
    known_values,
    names,
    partition_types,
    values,
)

_NAMES = itertools.count()
# An example here writes tables, so a quarter of what other laws try has to do.
FEWER = settings().max_examples // 4


@pytest.fixture(autouse=True)
def _empty_memory() -> Any:
    yield
    empty_memory()


@dataclass(frozen=True)
class Kind:
    """A drawn table: its schema, and where rows of it come from."""

    spec: SchemaSpec
    rows: st.SearchStrategy[list[dict[str, Any]]]


@st.composite
def kinds(draw: st.DrawFn, *, keyed: bool, nanoseconds: bool = False) -> Kind:
    """A table with up to two partition columns, and keys if `keyed`."""
    folder_types = draw(st.lists(partition_types(), max_size=2))
    key_column_types = draw(st.lists(_keys(), min_size=1, max_size=2)) if keyed else []
    other_types = draw(
        st.lists(data_types(nanoseconds=nanoseconds), min_size=0 if keyed else 1, max_size=4)
    )
    column_names = draw(
        st.lists(
            names(),
            min_size=len(folder_types) + len(key_column_types) + len(other_types),
            max_size=len(folder_types) + len(key_column_types) + len(other_types),
            unique=True,
        )
    )
    split = len(folder_types)
    partitions = tuple(column_names[:split])
    keys = tuple(column_names[split : split + len(key_column_types)])
    primary = (*partitions, *keys) if keyed else ()
    types = [*folder_types, *key_column_types, *other_types]
    columns = [Column(name, kind) for name, kind in zip(column_names, types, strict=True)]
    order = draw(st.permutations(columns))
    options = {"bucket": str(draw(st.integers(1, 3)))} if keyed else {}
    if draw(st.booleans()):
        # So small that every row begins a new file, and every manifest is merged.
        options |= {"target-file-size": "1 b", "manifest.merge-min-count": "2"}
    spec = SchemaSpec(
        columns=tuple(order), partition_keys=partitions, primary_keys=primary, options=options
    )
    # Few values in keys and partitions, so that rows meet.
    pools = {
        name: st.sampled_from(
            draw(st.lists(_required(kind, name in primary), min_size=1, max_size=3))
        )
        for name, kind in zip(column_names, types, strict=True)
        if name in partitions or name in keys
    }
    row = st.fixed_dictionaries(
        {each.name: pools.get(each.name, values(each.type)) for each in order}
    )
    return Kind(spec, st.lists(row, max_size=6))


def _keys() -> st.SearchStrategy[Any]:
    return atomic_types()


def _required(kind: Any, required: bool) -> st.SearchStrategy[Any]:
    return known_values(kind) if required else values(kind)


def _new_table(kind: Kind, folder: str) -> Table:
    env = FixedEnv()
    return Catalog.open(folder, env=env).create_table(f"db.t{next(_NAMES)}", kind.spec)


def _on_both_stores(check: Callable[[str], None]) -> None:
    check(memory_uri())
    with TemporaryDirectory() as folder:
        check(str(Path(folder) / "warehouse"))


@settings(max_examples=FEWER)
@given(data=st.data())
@pytest.mark.parametrize("keyed", [False, True], ids=["append", "keyed"])
def test_rows_of_any_schema_are_read_as_written(data: st.DataObject, keyed: bool) -> None:
    kind = data.draw(kinds(keyed=keyed))
    given_rows = data.draw(kind.rows)

    def check(folder: str) -> None:
        table = _new_table(kind, folder)
        model = TableModel(kind.spec.partition_keys, kind.spec.primary_keys)
        written = rows(table, given_rows)
        table.write(written)
        model.write(canonical_rows(written))
        assert comparable(table.read()) == model.comparable()
        assert_sound(table)

    _on_both_stores(check)


@st.composite
def steps(draw: st.DrawFn, kind: Kind) -> list[tuple[str, Any]]:
    """Operations with what they need."""
    found: list[tuple[str, Any]] = []
    for _ in range(draw(st.integers(1, 5))):
        name = draw(
            st.sampled_from(
                ["write", "write", "delete", "overwrite", "static", "compact", "expire"]
            )
        )
        match name:
            case "write" | "overwrite":
                found.append((name, draw(kind.rows)))
            case "static":
                partition_keys = kind.spec.partition_keys
                fixed = draw(st.sets(st.sampled_from(partition_keys))) if partition_keys else set()
                found.append((name, (sorted(fixed), draw(kind.rows), draw(st.booleans()))))
            case "delete":
                found.append((name, draw(kind.rows)))
            case "compact":
                found.append((name, draw(st.booleans())))
            case _:
                found.append((name, draw(st.integers(1, 3))))
    return found


def apply(table: Table, model: TableModel, step: tuple[str, Any]) -> None:
    """One operation, on the table and on the model."""
    match step:
        case "write", new:
            written = rows(table, new)
            table.write(written)
            model.write(canonical_rows(written))
        case "delete", new:
            if not table.schema.has_primary_key:
                return
            written = rows(table, new)
            marks = ["-D"] * len(new)
            table.write(written.append_column(ROW_KIND_COLUMN, pa.array(marks, pa.string())))
            model.write(canonical_rows(written), marks)
        case "overwrite", new:
            written = rows(table, new)
            table.write(written, mode="overwrite")
            dynamic = bool(table.schema.partition_keys)
            model.overwrite(canonical_rows(written), dynamic=dynamic)
        case "static", (fixed, new, dynamic):
            _overwrite_within(table, model, fixed, new, dynamic)
        case "compact", full:
            compact(table, full=full, min_files=2)
        case "expire", keep:
            expire(table, keep=keep)
        case other:
            raise AssertionError(other)


def _overwrite_within(
    table: Table, model: TableModel, fixed: list[str], new: list[Any], dynamic: bool
) -> None:
    """Overwrite with some partition columns fixed to the values of the first row."""
    if not new or not fixed:
        table.write(rows(table, new), mode="overwrite", dynamic=False)
        model.overwrite(canonical_rows(rows(table, new)))
        return
    written = rows(table, new)
    first = written.slice(0, 1)
    # Stored values are taken as such where Python has the same ones.
    spec = {name: first.column(name)[0].as_py() for name in fixed}
    shown = canonical_rows(first)[0]
    inside = [row for row in canonical_rows(written) if all(row[n] == shown[n] for n in fixed)]
    mask = [all(row[n] == shown[n] for n in fixed) for row in canonical_rows(written)]
    kept = written.filter(pa.array(mask)).drop_columns(fixed)
    table.write(kept, mode="overwrite", partition=spec, dynamic=dynamic)
    model.overwrite(inside, spec={name: shown[name] for name in fixed}, dynamic=dynamic)


@settings(max_examples=FEWER)
@given(data=st.data())
@pytest.mark.parametrize("keyed", [False, True], ids=["append", "keyed"])
@pytest.mark.mission("PT12", "PT24", "PT27", "PT28", "PT31", "PT35", "FS2", "FS14", "FS16")
def test_any_operations_leave_the_rows_that_the_model_has(data: st.DataObject, keyed: bool) -> None:
    kind = data.draw(kinds(keyed=keyed))
    operations = data.draw(steps(kind))
    table = _new_table(kind, memory_uri())
    model = TableModel(kind.spec.partition_keys, kind.spec.primary_keys)
    for step in operations:
        apply(table, model, step)
        assert comparable(table.read()) == model.comparable(), step
    assert_sound(table)
