"""The last update of a partition, across changes of the partition keys."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spec.manifest import ManifestEntry
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


def test_a_file_that_stays_tells_the_partition_of_keys_that_came(catalog: Catalog) -> None:
    table = new_table(catalog, COLUMNS, partitions=("dt",))
    first, second = write(table, row("a", 1)), write(table, row("a", 2))
    third = write(table, row("b", 1))
    table = respec(table, ("dt", "hh"), catalog)
    assert updates(table) == {("a", 1): first, ("a", 2): second, ("b", 1): third}
    last = write(table, row("a", 1))
    assert updates(table) == {("a", 1): last, ("a", 2): second, ("b", 1): third}


def test_a_filter_leaves_the_answers_as_they_are(catalog: Catalog) -> None:
    table = new_table(catalog, COLUMNS, partitions=("dt",))
    first = write(table, row("a", 1))
    write(table, row("b", 1), row("b", 2))
    table = respec(table, ("dt", "hh"), catalog)
    (one,) = table.at().partitions("dt = 'a'", last_update=True)
    assert one.last_update is not None
    assert one.last_update.id == first


def test_what_a_later_file_may_have_changed_is_not_known(catalog: Catalog) -> None:
    """The file of two hours was split, so an older file of one of them is not its last update."""
    table = new_table(catalog, COLUMNS, partitions=("dt",))
    write(table, row("a", 1))
    write(table, row("a", 1, 1), row("a", 2))
    third = write(table, row("b", 1))
    table = respec(table, ("dt", "hh"), catalog)
    assert updates(table) == {("a", 1): "not known", ("a", 2): "not known", ("b", 1): third}


def test_a_removal_under_fewer_keys_counts_for_each_partition_that_it_may_have_met(
    catalog: Catalog,
) -> None:
    table = new_table(catalog, COLUMNS, partitions=("dt",))
    write(table, row("a", 1), row("a", 2))
    write(table, row("b", 2))
    third = write(table, row("a", 1), mode="overwrite", partition={"dt": "a"})
    table = respec(table, ("dt", "hh"), catalog)
    assert updates(table) == {("a", 1): third, ("b", 2): 2}


@pytest.mark.parametrize("settings", [{}, KEYED], ids=["append", "keyed"])
def test_each_change_of_finer_partitions_is_one_of_the_coarser_one(
    catalog: Catalog, settings: dict[str, Any]
) -> None:
    table = new_table(catalog, COLUMNS, partitions=("dt", "hh"), **settings)
    write(table, row("a", 1), row("b", 1))
    write(table, row("b", 2))
    third = write(table, row("a", 2))
    fourth = table.upkeep.drop_partitions(partitions=[{"dt": "b", "hh": 2}]).snapshot
    compact(table, full=True)
    table = respec(table, ("dt",), catalog)
    assert fourth is not None
    assert updates(table) == {("a",): third, ("b",): fourth.id}


def test_a_table_that_was_written_anew_does_not_say_that_its_snapshots_expired(
    catalog: Catalog,
) -> None:
    table = new_table(catalog, COLUMNS, partitions=("dt",), **KEYED)
    write(table, row("a", 1), row("b", 1))
    table = respec(table, ("dt", "hh"), catalog)
    assert updates(table) == {("a", 1): "not known", ("b", 1): "not known"}
    last = write(table, row("a", 1))
    assert updates(table) == {("a", 1): last, ("b", 1): "not known"}
    expire(table, keep=1)
    assert updates(table) == {("a", 1): last, ("b", 1): "expired"}


def test_live_files_are_read_for_their_names_only_amid_other_keys(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def live_entries(files: TableFiles, _: object) -> list[ManifestEntry]:
        read.append(files.name)
        return []

    monkeypatch.setattr(
        "lakewright.storage.operations.partitions.last_updates.live_entries", live_entries
    )
    table = new_table(catalog, COLUMNS, partitions=("dt",))
    write(table, row("a", 1))
    write(table, row("b", 1))
    assert updates(table) == {("a",): 1, ("b",): 2}
    assert not read
    updates(respec(table, ("dt", "hh"), catalog))
    assert read == [table.name]


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
