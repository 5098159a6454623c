"""Verbs on partitions of a table whose change of partition keys was stopped part-way."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import SchemaMoved
from tests.support.stores.watched_files import Call, Crashed, WatchedFiles, looked_at
from tests.support.tables.builders import content, new_table, remove_orphans, rows

HOURLY = {"dt": "STRING", "hh": "INT", "id": "BIGINT", "v": "STRING"}
VALUES = {"dt": "2020-01-01", "hh": 1, "id": 1}
DAYS = ("2020-01-01", "2020-01-02")
LAYOUTS: dict[str, dict[str, Any]] = {
    "append": {},
    "keyed": {"keys": ("dt", "hh", "id"), "options": {"bucket": "2"}},
    "dynamic": {
        "keys": ("dt", "hh", "id"),
        "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "2"},
    },
}
CHANGES = {
    "keys come": (("dt",), ("dt", "hh")),
    "keys go": (("dt", "hh"), ("dt",)),
    "a key is replaced": (("dt", "hh"), ("dt", "id")),
}
Spec = dict[str, object]


def _exchange(catalog: Catalog, table: Table, spec: Spec) -> None:
    other = f"{table.name}_other"
    if not catalog.table_exists(other):
        settings = LAYOUTS[layout_of(table.name)]
        new_table(catalog, HOURLY, name=other, partitions=table.schema.partition_keys, **settings)
    catalog.table(other).upkeep.exchange_partition(table.name, [spec])


# What each does to the partition with the values.
VERBS: dict[str, Callable[[Catalog, Table, Spec], object]] = {
    "drop": lambda _, table, spec: table.upkeep.drop_partitions(partitions=[spec]),
    "rename": lambda _, table, spec: table.upkeep.rename_partition(spec, {"dt": "2020-01-09"}),
    "mark": lambda _, table, spec: table.upkeep.mark_done(partitions=[spec]),
    "exchange": _exchange,
}


def layout_of(name: str) -> str:
    return name.split("_")[1]


def filled(catalog: Catalog, name: str, keys: tuple[str, ...]) -> Table:
    table = new_table(catalog, HOURLY, name=name, partitions=keys, **LAYOUTS[layout_of(name)])
    given = [{"dt": d, "hh": h, "id": n, "v": d} for d in DAYS for h in (1, 2) for n in (1, 2)]
    table.write(rows(table, given))
    return table


def stopped(catalog: Catalog, table: Table, keys: tuple[str, ...], step: int) -> Table | None:
    """The table after the process that changed its keys died with a snapshot or schema.

    None if it made fewer of them.
    """
    left = step

    def die(call: Call) -> None:
        nonlocal left
        if "/schema/schema-" in call.path or "/snapshot/snapshot-" in call.path:
            left -= 1
            if not left:
                files.dead = True
                raise Crashed

    files = WatchedFiles(catalog.fs, after=looked_at(die))
    with suppress(Crashed):
        replace(catalog, fs=files).table(table.name).upkeep.respec(keys)
    return catalog.table(table.name) if files.dead else None


def refusal(act: Callable[[], object]) -> str | None:
    """What a verb says to which the keys of the table are changing."""
    try:
        act()
    except SchemaMoved as error:
        return str(error)
    return None


@pytest.mark.sampled(2)
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_verb_on_partitions_works_amid_a_stopped_change_of_keys_or_names_what_ends_it(
    catalog: Catalog, layout: str, change: str, verb: str
) -> None:
    before, after = CHANGES[change]
    refused = 0
    for step in range(1, 20):
        whole = filled(catalog, f"db.t_{layout}_{step}", before)
        due = content(whole)
        table = stopped(catalog, whole, after, step)
        if table is None:
            break
        keys = table.schema.partition_keys
        spec: Spec = {name: value for name, value in VALUES.items() if name in keys}
        told = refusal(partial(VERBS[verb], catalog, table, spec))
        if told is not None:
            refused += 1
            assert f"lakewright respec {table.name} --keys '{','.join(keys)}'" in told
            assert content(table) == due
            table.upkeep.respec(keys)
            table = catalog.table(table.name)
            VERBS[verb](catalog, table, spec)
        chosen = [each for each in due if spec.items() <= json.loads(each).items()]
        assert chosen
        left = [each for each in due if each not in chosen]
        if verb == "rename":
            left += [each.replace(f'"dt": "{DAYS[0]}"', '"dt": "2020-01-09"') for each in chosen]
        if verb == "exchange":
            assert content(catalog.table(f"{table.name}_other")) == chosen
        assert content(table) == (due if verb == "mark" else sorted(left))
        table.write(rows(table, [{"dt": DAYS[1], "hh": 3, "id": 3, "v": "x"}]))
        assert len(content(table)) == 1 + (len(due) if verb == "mark" else len(left))
        remove_orphans(table)
    assert refused
