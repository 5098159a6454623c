"""A damaged record of a staged change of keys costs its work: no row, and no verb for good."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import CorruptionError, StorageError, UnsupportedError
from tests.support.stores.watched_files import Call, WatchedFiles
from tests.support.tables.builders import compact, content, expire, remove_orphans, rows
from tests.support.tables.invariants import assert_nothing_missing, assert_only_reachable_files
from tests.unit.storage.codec.test_staged_change_json import BINARY, damages, resealed
from tests.unit.storage.operations.respec.test_staged_table import KEYS, row
from tests.unit.storage.operations.respec.test_staging import (
    check_done,
    data_files,
    die_after,
    go_on,
    made,
    records,
)

pytestmark = pytest.mark.mission("PT1", "PT50")

DAYS = 3
KIND = "dynamic"


def with_partition(data: bytes, **changes: object) -> bytes:
    first, *others = json.loads(data)["partitions"]
    return resealed(data, partitions=[{**first, **changes}, *others])


def with_message(data: bytes, **changes: object) -> bytes:
    (message,) = json.loads(data)["partitions"][0]["messages"][:1]
    return with_partition(data, messages=[{**message, **changes}])


# By the kind of record: what becomes of its bytes.
DAMAGES: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "an empty change": ("change-", lambda _: b""),
    "half a change": ("change-", lambda data: data[: len(data) // 2]),
    "a change of bytes": ("change-", lambda _: BINARY),
    "a change of other JSON": ("change-", lambda _: b'{"version": 2}'),
    "a change of numbers": ("change-", lambda data: resealed(data, keys=[1])),
    "keys that are no columns": ("change-", lambda data: resealed(data, keys=["dt", "nowhere"])),
    "one key twice": ("change-", lambda data: resealed(data, keys=["dt", "dt"])),
    "an empty record": ("staged-", lambda _: b""),
    "half a record": ("staged-", lambda data: data[: len(data) // 2]),
    "a record of bytes": ("staged-", lambda _: BINARY),
    "a record of other JSON": ("staged-", lambda _: b"[]"),
    "a record of a list": ("staged-", lambda data: resealed(data, partitions=[[]])),
    "a row of no value": ("staged-", lambda data: with_message(data, partition="00000000")),
    "a row of few bytes": ("staged-", lambda data: with_message(data, partition="000000020000")),
    "a row of nothing": ("staged-", lambda data: with_message(data, partition="")),
    "files of no manifest": ("staged-", lambda data: with_message(data, new_files="Zm9v")),
    "files of no base64": ("staged-", lambda data: with_message(data, new_files="§")),
}


def damage(table: Table, kind: str, change: Callable[[bytes], bytes]) -> str:
    """Change the first record of a kind; its path."""
    (path, *_) = sorted(each for each in records(table) if Path(each).name.startswith(kind))
    Path(path).write_bytes(change(Path(path).read_bytes()))
    return path


@pytest.mark.sampled(each="name")
@pytest.mark.parametrize("keys", KEYS, ids=["finer", "coarser"])
@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_record_stops_what_must_know_it_and_respec_begins_anew(
    catalog: Catalog, name: str, keys: tuple[str, ...]
) -> None:
    table, model = made(catalog, KIND)
    live = data_files(table)
    die_after(catalog, "db.t", keys, DAYS)
    staged = data_files(table) - live
    path = damage(table, *DAMAGES[name])

    with pytest.raises(CorruptionError) as told:
        remove_orphans(table)
    message = told.value.message
    assert message.startswith(path), message
    assert message.count(path) == 1
    assert message.endswith("the present keys (lakewright respec db.t --keys 'dt')")
    assert told.value.table == "db.t"
    assert data_files(table) == live | staged
    # No other verb looks at it.
    model.upsert(row(1, 0, 0, 9), row(97, 1, 1, 7))(table)
    compact(table)
    expire(table)
    assert content(table) == model.texts

    for planned in (keys, ("dt",)):
        plan = catalog.table("db.t").upkeep.plan_respec(planned)
        assert [each.split(" ")[0] for each in plan.damaged] == [path]
        assert not plan.changes_nothing
    go_on(catalog, "db.t", keys)
    now = catalog.table("db.t")
    assert not records(now)
    # What the record named is no one's.
    remove_orphans(now)
    check_done(catalog, model, keys)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", DAMAGES)
def test_the_present_keys_give_a_change_with_a_damaged_record_up(
    catalog: Catalog, name: str
) -> None:
    table, model = made(catalog, KIND)
    live = data_files(table)
    die_after(catalog, "db.t", ("dt", "hh"), DAYS)
    damage(table, *DAMAGES[name])
    table.upkeep.respec(("dt",))
    assert not records(table)
    assert catalog.table("db.t").upkeep.plan_respec(("dt",)).changes_nothing
    remove_orphans(table)
    assert data_files(table) == live
    assert content(table) == model.texts
    assert_only_reachable_files(table)
    check_done(catalog, model, ("dt",))


def test_files_that_are_not_there_are_staged_again(catalog: Catalog) -> None:
    table, model = made(catalog, KIND)
    live = data_files(table)
    die_after(catalog, "db.t", ("dt", "hh"), DAYS)
    for path in data_files(table) - live:
        Path(path).unlink()
    remove_orphans(table)
    written, result = go_on(catalog, "db.t", ("dt", "hh"))
    assert written
    assert result.files_continued == 0
    # The indexes that were recorded with them.
    remove_orphans(catalog.table("db.t"))
    check_done(catalog, model, ("dt", "hh"))


def test_a_table_with_a_damaged_record_is_dropped(catalog: Catalog) -> None:
    table, _ = made(catalog, KIND)
    die_after(catalog, "db.t", (), DAYS)
    damage(table, "change-", lambda _: b"")
    catalog.drop_table("db.t")
    assert not catalog.table_exists("db.t")


def test_a_forward_beside_a_damaged_change_is_refused_until_it_is_given_up(
    catalog: Catalog,
) -> None:
    table, _ = made(catalog, KIND)
    table.history.create_branch("side")
    table.history.at_branch("side").write(rows(table, [row(99, 1, 1, 7)]))
    die_after(catalog, "db.t", ("dt", "hh"), DAYS)
    damage(table, "change-", lambda _: b"")
    with pytest.raises(UnsupportedError, match=r"end it with its present keys \(lakewright respec"):
        table.history.fast_forward("side", grace_ms=0)
    table.upkeep.respec(("dt",))
    now = catalog.table("db.t")
    now.history.fast_forward("side", grace_ms=0)
    forwarded = catalog.table("db.t")
    assert content(forwarded) == ['{"dt": 99, "hh": 1, "id": 1, "v": 7, "w": 1}']
    remove_orphans(forwarded)


def test_a_process_whose_record_is_damaged_publishes_nothing_and_loses_nothing(
    catalog: Catalog,
) -> None:
    table, model = made(catalog, KIND)
    done: list[str] = []

    def damages_own(call: Call) -> None:
        if "/.lakewright/respec/staged-" in call.path and call.name == "put_if_absent" and not done:
            done.append(damage(table, "change-", lambda _: b""))

    watched = replace(catalog, fs=WatchedFiles(catalog.fs, before=damages_own))
    with pytest.raises(CorruptionError, match="change-1 is no record"):
        watched.table("db.t").upkeep.respec(("dt", "hh"))
    assert done
    now = catalog.table("db.t")
    assert now.schema.partition_keys == ("dt",)
    assert content(now) == model.texts
    assert_nothing_missing(now)
    go_on(catalog, "db.t", ("dt", "hh"))
    remove_orphans(catalog.table("db.t"))
    check_done(catalog, model, ("dt", "hh"))


@pytest.mark.parametrize("kind", ["change-", "staged-"])
def test_any_damage_of_a_record_leaves_all_rows_and_a_table_that_can_be_kept(
    catalog: Catalog, kind: str
) -> None:
    """Sampled from each truncation and random changes; all of them are decoded elsewhere."""
    table, model = made(catalog, KIND)
    die_after(catalog, "db.t", ("dt", "hh"), DAYS)
    first = next(each for each in records(table) if Path(each).name.startswith(kind))
    every = list(damages(Path(first).read_bytes()))
    for keys, changed in zip(
        [("dt", "hh"), (), ("dt",)] * 2, random.Random(75).sample(every, 6), strict=True
    ):
        damage(table, kind, lambda _, changed=changed: changed)  # type: ignore[misc]
        with suppress(StorageError):
            remove_orphans(table)
        table.upkeep.respec(keys)
        now = catalog.table("db.t")
        assert now.schema.partition_keys == keys
        assert content(now) == model.texts, changed
        assert not records(now)
        remove_orphans(now)
        assert_only_reachable_files(now)
        now.upkeep.respec(("dt",))
        table = catalog.table("db.t")
        assert content(table) == model.texts, changed
        die_after(catalog, "db.t", ("dt", "hh"), DAYS)
