"""The last update of a partition, across changes of the partition keys."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from tests.support.tables.builders import compact, expire, new_table, rows
from tests.support.tables.late_commits import commit_late

COLUMNS = {"dt": "STRING NOT NULL", "hh": "INT NOT NULL", "id": "BIGINT NOT NULL", "v": "STRING"}
KEYED: dict[str, Any] = {"keys": ("dt", "hh", "id"), "options": {"bucket": "1"}}


def row(dt: str, hh: int, number: int = 0) -> dict[str, Any]:
    return {"dt": dt, "hh": hh, "id": number, "v": f"{number}"}


def write(table: Table, *given: dict[str, Any], **how: Any) -> int:
    """The snapshot of a write."""
    written = table.write(rows(table, given), **how).snapshot
    assert written is not None
    return written.id


def respec(table: Table, keys: Sequence[str], catalog: Catalog) -> Table:
    table.upkeep.respec(keys)
    return catalog.table(table.name)


def updates(table: Table) -> dict[tuple[object, ...], int | str]:
    """The snapshot that last changed each partition, or why none is told."""
    keys = table.schema.partition_keys
    return {
        tuple(each.spec[key] for key in keys): (
            each.last_update.id
            if each.last_update is not None
            else "not known"
            if each.last_update_unknown
            else "expired"
        )
        for each in table.at().partitions(last_update=True)
    }


@pytest.mark.parametrize("settings", [{}, KEYED], ids=["append", "keyed"])
def test_what_was_last_changed_under_other_keys_is_not_known_until_it_changes_again(
    catalog: Catalog, settings: dict[str, Any]
) -> None:
    table = new_table(catalog, COLUMNS, partitions=("dt",), **settings)
    write(table, row("a", 1), row("b", 1))
    table = respec(table, ("dt", "hh"), catalog)
    assert updates(table) == {("a", 1): "not known", ("b", 1): "not known"}
    last = write(table, row("a", 1))
    assert updates(table) == {("a", 1): last, ("b", 1): "not known"}
    expire(table, keep=1)
    assert updates(table) == {("a", 1): last, ("b", 1): "expired"}


def test_a_compaction_is_no_update(catalog: Catalog) -> None:
    table = new_table(catalog, COLUMNS, partitions=("dt",), **KEYED)
    first = write(table, row("a", 1))
    second = write(table, row("b", 1))
    compact(table, full=True)
    assert updates(table) == {("a",): first, ("b",): second}


KEYS = ((), ("dt",), ("dt", "hh"), ("hh",))
Hour = tuple[str, int]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.sampled(4)
def test_an_answer_is_that_of_a_plain_model_or_not_known(catalog: Catalog, seed: int) -> None:
    chance = random.Random(seed)
    table = new_table(catalog, COLUMNS, partitions=chance.choice(KEYS))
    changed: dict[Hour, int] = {}
    known = 0
    for _ in range(12):
        act = chance.choice(("append", "append", "overwrite", "respec", "compact", "late"))
        hours = [(chance.choice("ab"), chance.choice((1, 2))) for _ in range(chance.choice((1, 3)))]
        if act == "append":
            changed |= dict.fromkeys(hours, write(table, *(row(*each) for each in hours)))
        elif act == "overwrite":
            keys = table.schema.partition_keys
            there = {each: _of(each, keys) for each in changed}
            gone = [each for each, own in there.items() if own in {_of(h, keys) for h in hours}]
            done = write(table, *(row(*each) for each in hours), mode="overwrite")
            changed |= dict.fromkeys([*gone, *hours], done)
        elif act == "compact":
            compact(table, full=True)
        elif act == "respec":
            table = respec(table, chance.choice(KEYS), catalog)
        else:
            staged, opened = table.stage(rows(table, [row(*hours[0])])), table
            table = respec(table, chance.choice(KEYS), catalog)
            commit_late(opened, staged)
            changed[hours[0]] = table.history.snapshots()[-1].id
            table = respec(table, table.schema.partition_keys, catalog)
        keys = table.schema.partition_keys
        told = updates(table)
        due: dict[tuple[object, ...], int] = {}
        for each, snapshot in changed.items():
            own = _of(each, keys)
            if own in told:
                due[own] = max(snapshot, due.get(own, 0))
        for partition, answer in told.items():
            assert answer in ("not known", due[partition]), (partition, act)
            known += answer != "not known"
    assert known


def _of(hour: Hour, keys: Sequence[str]) -> tuple[object, ...]:
    return tuple(dict(zip(("dt", "hh"), hour, strict=True))[key] for key in keys)
