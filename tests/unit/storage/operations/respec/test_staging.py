"""A change of keys of a primary-key table that was stopped goes on from what it had staged."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from lakewright.storage import Catalog, SetOption, Table
from lakewright.storage.errors import FileMissing, StalePlan, StorageError, UnavailableError
from lakewright.storage.operations.respec.respec_plan import RespecResult
from lakewright.storage.operations.respec.staging import StagingTask
from lakewright.storage.operations.running.engine import LocalEngine
from lakewright.storage.operations.state.live_files import snapshot_manifests
from lakewright.storage.spec.manifest import FileKind
from tests.support.stores.watched_files import (
    Call,
    Crashed,
    Fault,
    WatchedFiles,
    looked_at,
    puts_snapshot,
)
from tests.support.tables.builders import compact, content, expire, remove_orphans, rows
from tests.support.tables.invariants import (
    assert_nothing_missing,
    assert_only_reachable_files,
    assert_readable_history,
)
from tests.unit.storage.operations.respec.test_staged_table import (
    FAULTS,
    KEYS,
    Model,
    many_partitions,
    row,
)

pytestmark = pytest.mark.mission("PT1", "PT50")

DAYS = 6
KINDS: dict[str, dict[str, str]] = {
    "fixed": {},
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "2"},
    "vectors": {"deletion-vectors.enabled": "true"},
}


def is_record(call: Call) -> bool:
    return "/.lakewright/respec/staged-" in call.path and call.name == "put_if_absent"


def data_files(table: Table) -> set[str]:
    listed = table.table_files.fs.list_tree(table.table_files.paths.root)
    return {each.path for each in listed if re.search(r"/bucket-\d+/", each.path)}


def records(table: Table) -> list[str]:
    return [each.path for each in table.table_files.staged_changes.listed()]


def die_after(catalog: Catalog, name: str, keys: tuple[str, ...], staged: int) -> None:
    """Let a change die right after it has recorded so many partitions."""
    fs = WatchedFiles(catalog.fs, fail_at=staged, fault=Fault.DIES_AFTER, counts=is_record)
    with pytest.raises(Crashed):
        replace(catalog, fs=fs).table(name).upkeep.respec(keys)


def go_on(catalog: Catalog, name: str, keys: tuple[str, ...]) -> tuple[list[str], RespecResult]:
    """The data files that the next run writes, and its result."""
    fs = WatchedFiles(catalog.fs)
    result = replace(catalog, fs=fs).table(name).upkeep.respec(keys)
    opened = (each for each in fs.calls if each.name == "open_output")
    return [each.path for each in opened if re.search(r"/bucket-\d+/", each.path)], result


def made(catalog: Catalog, kind: str) -> tuple[Table, Model]:
    table = many_partitions(catalog, days=DAYS, **KINDS[kind])
    if kind == "vectors":
        compact(table, full=True)
    return table, Model.of(table)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("staged", range(1, DAYS + 1))
@pytest.mark.parametrize("keys", KEYS, ids=["finer", "coarser"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_writes_what_a_dead_one_had_not_staged_and_nothing_else(
    catalog: Catalog, kind: str, keys: tuple[str, ...], staged: int
) -> None:
    whole = undisturbed(catalog, kind, keys)
    table, model = made(catalog, kind)
    live = data_files(table)
    die_after(catalog, table.name, keys, staged)
    assert content(table) == model.texts
    # What is staged belongs to the change, whatever its age, and nothing else lies about.
    before = data_files(table)
    remove_orphans(table)
    assert data_files(table) == before
    assert_only_reachable_files(table)
    of_day = len(table.at().files()) // DAYS
    plan = table.upkeep.plan_respec(keys)
    assert (plan.staged.files, plan.split.files) == (staged * of_day, DAYS * of_day)
    assert plan.gives_up == 0
    written, result = go_on(catalog, table.name, keys)
    assert result.files_continued == len(before - live) > 0
    assert len(written) == result.files_written == whole - len(before - live)
    check_done(catalog, model, keys)


def undisturbed(catalog: Catalog, kind: str, keys: tuple[str, ...]) -> int:
    """How many files a change writes that nothing stops."""
    place = replace(catalog, root=f"{catalog.root}/undisturbed")
    table, _ = made(place, kind)
    return len(go_on(place, table.name, keys)[0])


def check_done(catalog: Catalog, model: Model, keys: tuple[str, ...]) -> None:
    now = catalog.table("db.t")
    assert now.schema.partition_keys == keys
    assert content(now) == model.texts
    assert not records(now)
    assert_only_reachable_files(now)
    assert_readable_history(now)
    for act in (model.upsert(row(1, 0, 0, 70, 7), row(97, 1, 1, 7)), model.delete(row(2, 1, 0, 0))):
        act(now)
        # Readers of deletion vectors see rows as they are compacted.
        compact(now)
    assert content(now) == model.texts
    expire(now)
    compact(now, full=True)
    assert content(now) == model.texts
    assert now.upkeep.plan_respec(keys).changes_nothing


@pytest.mark.sampled(4)
@pytest.mark.parametrize("keys", KEYS, ids=["finer", "coarser"])
@pytest.mark.parametrize("kind", ["fixed", "dynamic"])
@pytest.mark.parametrize("act", ["upsert", "delete", "overwrite", "compact", "roll back"])
def test_a_partition_that_changed_after_a_run_died_is_staged_again_and_no_other(
    catalog: Catalog, kind: str, keys: tuple[str, ...], act: str
) -> None:
    table, model = made(catalog, kind)
    live = data_files(table)
    die_after(catalog, table.name, keys, DAYS)
    staged = data_files(table) - live
    acts: dict[str, Callable[[Table], object]] = {
        "upsert": model.upsert(row(3, 0, 0, 60)),
        "delete": model.delete(row(3, 1, 0, 1)),
        "overwrite": model.overwrite(row(3, 0, 8, 9)),
        "compact": lambda beside: compact(beside, [{"dt": 3}], full=True),
        # Each file is that of before again.
        "roll back": lambda beside: beside.history.rollback(snapshot=2, grace_ms=0),
    }
    if act == "roll back":
        compact(table, full=True)
    acts[act](table)
    plan = catalog.table(table.name).upkeep.plan_respec(keys)
    changed = 0 if act == "roll back" else 1
    assert plan.gives_up == changed
    written, result = go_on(catalog, table.name, keys)
    assert result.files_continued == len(staged) * (DAYS - changed) // DAYS or not keys
    assert len(written) == len(set(written)) <= changed * 2
    assert result.files_continued >= len(staged) - 2 * changed
    assert all("/dt=3/" in each for each in written) or not keys
    check_done(catalog, model, keys)


@pytest.mark.parametrize("keys", KEYS, ids=["finer", "coarser"])
def test_runs_that_die_again_and_again_write_each_partition_once(
    catalog: Catalog, keys: tuple[str, ...]
) -> None:
    table, model = made(catalog, "dynamic")
    for _ in range(DAYS):
        # The second record of a run that goes on is the first partition that it writes itself.
        die_after(catalog, table.name, keys, 2 if records(table) else 1)
        assert content(table) == model.texts
        assert_only_reachable_files(table)
    written, _ = go_on(catalog, table.name, keys)
    assert not written
    check_done(catalog, model, keys)


@pytest.mark.parametrize("change", ["other keys", "the present keys", "another schema"])
def test_what_was_staged_goes_when_the_change_becomes_another_one(
    catalog: Catalog, change: str
) -> None:
    table, model = made(catalog, "fixed")
    before = data_files(table)
    die_after(catalog, table.name, ("dt", "hh"), 4)
    staged = data_files(table) - before
    assert len(staged) == 8
    keys: tuple[str, ...] = ("dt",)
    if change == "other keys":
        keys = ()
    if change == "another schema":
        table = table.alter(SetOption("snapshot.num-retained.min", "3"))
        # No run can go on from these files any more.
        remove_orphans(table)
        assert not records(table)
        assert data_files(table) == before
        assert_only_reachable_files(table)
        keys = ("dt", "hh")
    else:
        assert table.upkeep.plan_respec(keys).gives_up == 4
        assert not table.upkeep.plan_respec(keys).changes_nothing
    written, result = go_on(catalog, table.name, keys)
    assert result.files_continued == 0
    assert not staged & data_files(table)
    if change == "the present keys":
        assert not written
        assert data_files(table) == before
    check_done(catalog, model, keys)


@pytest.mark.parametrize("keys", KEYS, ids=["finer", "coarser"])
def test_a_run_that_stood_still_publishes_nothing_after_another_went_on(
    catalog: Catalog, keys: tuple[str, ...]
) -> None:
    """It stands right before its first snapshot, and the other run is done meanwhile, or dies."""
    for number, ends in enumerate((True, False)):
        place = replace(catalog, root=f"{catalog.root}/{number}")
        table, model = made(place, "fixed")
        done: list[bool] = []

        def stand_still(
            call: Call, place: Catalog = place, done: list[bool] = done, ends: bool = ends
        ) -> None:
            if puts_snapshot(call) and not done:
                done.append(True)
                if ends:
                    place.table("db.t").upkeep.respec(keys)
                else:
                    die_after(place, "db.t", keys, 1)

        fs = WatchedFiles(place.fs, before=stand_still)
        with pytest.raises(StorageError) as told:
            replace(place, fs=fs).table(table.name).upkeep.respec(keys)
        now = place.table(table.name)
        assert content(now) == model.texts
        assert_nothing_missing(now)
        if not ends:
            assert isinstance(told.value, StalePlan)
            assert now.schema.partition_keys == ("dt",)
            written, _ = go_on(place, table.name, keys)
            assert not written
        remove_orphans(now)
        check_done(place, model, keys)


@pytest.mark.parametrize(
    "step", [pytest.param(29, id="some"), pytest.param(1, id="all", marks=pytest.mark.deep)]
)
@pytest.mark.parametrize("keys", KEYS, ids=["finer", "coarser"])
@pytest.mark.mission("FS9")
def test_a_run_that_goes_on_and_stops_at_any_call_loses_no_row_and_no_file(
    catalog: Catalog, keys: tuple[str, ...], step: int
) -> None:
    calls = stopped_again(catalog, keys, 0, Fault.FAILS_BEFORE)
    for fail_at in range(1, calls + 1, step):
        stopped_again(catalog, keys, fail_at, FAULTS[fail_at % len(FAULTS)])
    assert calls > 100


def stopped_again(catalog: Catalog, keys: tuple[str, ...], fail_at: int, fault: Fault) -> int:
    """Stop a change that goes on from a dead one at a call; how many calls it made."""
    place = replace(catalog, root=f"{catalog.root}/{fail_at}")
    table = many_partitions(place, days=3, **KINDS["dynamic"])
    model = Model.of(table)
    die_after(place, table.name, keys, 2)
    model.upsert(row(1, 0, 0, 9), row(8, 1, 1, 9))(table)
    fs = WatchedFiles(
        place.fs,
        fail_at=fail_at,
        fault=fault,
        counts=lambda call: call.name not in ("open_output", "close"),
    )
    with suppress(Crashed, StorageError):
        replace(place, fs=fs).table(table.name).upkeep.respec(keys)
    now = place.table(table.name)
    told = f"call {fail_at}, {fault.value}: {fs.failed}"
    assert content(now) == model.texts, told
    assert_nothing_missing(now)
    now.upkeep.respec(keys)
    now = place.table(table.name)
    assert now.schema.partition_keys == keys, told
    assert content(now) == model.texts, told
    assert not records(now), told
    expire(now)
    remove_orphans(now)
    assert content(now) == model.texts, told
    assert_only_reachable_files(now)
    return fs.counted


def change_with_a_partition_that_comes_back(catalog: Catalog) -> tuple[Table, Model]:
    """A change beside which a day gets rows and loses them, on a store that fails deletions.

    What was staged of the day at first stays, and a failed round reads its record again.
    """
    table, model = made(catalog, "fixed")
    rounds = 0
    refuses = False

    def refuse(call: Call) -> None:
        if refuses and call.name == "delete" and "/bucket-" in call.path:
            raise UnavailableError("the store is busy")

    @dataclass(frozen=True)
    class Beside(LocalEngine):
        def map(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
            nonlocal rounds, refuses
            done = super().map(function, tasks)
            if tasks and isinstance(tasks[0], StagingTask):
                rounds += 1
                beside = catalog.table("db.t")
                if rounds < 3:
                    beside.write(rows(beside, [row(rounds, 0, 5, 1)]))
                refuses = rounds == 2
                if rounds == 3:
                    latest = beside.table_files.snapshots.latest_id()
                    assert latest is not None
                    beside.history.revert(latest, latest - 1)
                    raise FileMissing("a file of the round is gone")
            return done

    watched = replace(catalog, fs=WatchedFiles(catalog.fs, before=refuse))
    watched.table("db.t").upkeep.respec(("dt", "hh"), engine=Beside(env=table.table_files.env))
    # The last round took the day up as it was staged at first.
    assert rounds == 3
    return catalog.table("db.t"), model


def test_a_file_that_a_change_removed_again_does_not_come_back_under_its_name(
    catalog: Catalog,
) -> None:
    """Clients that join all removals of a state before they look at what it adds would miss it."""
    table, model = change_with_a_partition_that_comes_back(catalog)
    files = table.table_files
    latest = files.snapshots.latest()
    assert latest is not None
    held = list(files.manifests.entries(snapshot_manifests(files, latest)))
    removed = {each.identity for each in held if each.kind is FileKind.DELETE}
    added = Counter(each.identity for each in held if each.kind is FileKind.ADD)
    assert all(added[each] == 1 for each in removed)
    remove_orphans(table)
    check_done(catalog, model, ("dt", "hh"))


@pytest.mark.parametrize("length", [0, 0.5])
def test_a_staged_file_that_lost_bytes_is_staged_again(catalog: Catalog, length: float) -> None:
    table, model = made(catalog, "fixed")
    live = data_files(table)
    die_after(catalog, "db.t", KEYS[0], 3)
    (damaged, *_) = sorted(data_files(table) - live)
    cut = Path(catalog.root, damaged.removeprefix(catalog.root).lstrip("/"))
    cut.write_bytes(cut.read_bytes()[: int(cut.stat().st_size * length)])
    go_on(catalog, "db.t", KEYS[0])
    remove_orphans(catalog.table("db.t"))
    check_done(catalog, model, KEYS[0])


def test_orphans_that_are_removed_between_the_schemas_of_a_change_leave_what_it_takes_up(
    catalog: Catalog,
) -> None:
    table, model = made(catalog, "fixed")
    live = data_files(table)
    die_after(catalog, "db.t", (), DAYS)
    staged = data_files(table) - live
    removed = []

    def look(call: Call) -> None:
        if call.path.endswith("/schema/schema-2") and not removed:
            now = catalog.table("db.t")
            removed.append(now.upkeep.plan_remove_orphans(older_than_ms=0, even_recent=True))
            going = tuple(each.path for each in removed[0].files)
            assert staged
            assert not any(each.endswith(going) for each in staged)

    watched = replace(catalog, fs=WatchedFiles(catalog.fs, after=looked_at(look)))
    watched.table("db.t").upkeep.respec(())
    assert removed
    check_done(catalog, model, ())
