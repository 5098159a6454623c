"""Changing partition keys of primary-key tables beside writers that commit all the time."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidRequestError, StorageError, VerificationFailed
from lakewright.storage.operations.respec.cut_over import keys_stand
from lakewright.storage.operations.respec.respec_plan import Rewritten
from lakewright.storage.operations.respec.staged_table import StagedTable
from lakewright.storage.operations.respec.staging import Staging
from lakewright.storage.operations.running.engine import LocalEngine
from lakewright.storage.operations.write.verify import VerifyLevel
from lakewright.storage.spec.bridge_record import BridgeRecord
from lakewright.storage.spec.snapshot import KEYS_CHANGE_PROPERTY
from tests.support.stores.watched_files import Call, Crashed, Fault, WatchedFiles, puts_snapshot
from tests.support.tables.builders import compact, content, expire, new_table, remove_orphans, rows
from tests.support.tables.invariants import (
    assert_nothing_missing,
    assert_only_reachable_files,
    assert_readable_history,
)

pytestmark = pytest.mark.mission("PT1")

KEY = ["dt", "hh", "id"]
# A manifest of so many bytes has six entries.
MANIFESTS = {
    "manifest.target-file-size": "1 kb",
    "manifest.merge-min-count": "1000",
    "manifest.full-compaction-threshold-size": "1 gb",
}
KEYS = [("dt", "hh"), ()]


def many_partitions(catalog: Catalog, days: int = 12, **options: str) -> Table:
    """Days of two hours; each row is written twice."""
    columns = {"dt": "INT NOT NULL", "hh": "INT NOT NULL", "id": "INT NOT NULL"}
    table = new_table(
        catalog,
        {**columns, "v": "INT", "w": "INT"},
        partitions=["dt"],
        keys=KEY,
        options={"bucket": "1", **MANIFESTS, **options},
    )
    for version in range(2):
        given = [row(day, hour, 0, version) for day in range(days) for hour in range(2)]
        table.write(rows(table, given))
    return table


def row(day: int, hour: int, number: int, v: int, w: int = 1) -> dict[str, Any]:
    return {"dt": day, "hh": hour, "id": number, "v": v, "w": w}


def waits(table: Table) -> bool:
    """Whether a writer of Lakewright would wait."""
    latest = table.table_files.snapshots.latest()
    assert latest is not None
    return not keys_stand(table.table_files) or KEYS_CHANGE_PROPERTY in (latest.properties or {})


@dataclass
class Others:
    """Another process that commits right before a snapshot of the change, if it need not wait.

    It does so if the change made at least `every` calls since the last snapshot. `attempts` are the
    calls of the change, by the snapshot that they lead to.
    """

    catalog: Catalog
    name: str
    acts: Sequence[Callable[[Table], object]]
    every: int = 0
    done: int = 0
    attempts: list[list[Call]] = field(default_factory=lambda: [[]])

    def look(self, call: Call) -> None:
        self.attempts[-1].append(call)
        if puts_snapshot(call):
            is_due = self.done < len(self.acts) and len(self.attempts[-1]) >= self.every
            self.attempts.append([])
            table = self.catalog.table(self.name)
            if is_due and not waits(table):
                self.done += 1
                self.acts[self.done - 1](table)

    def change(self, *keys: str, **how: Any) -> Table:
        """Change the keys beside them; returns the table of afterwards."""
        watched = replace(self.catalog, fs=WatchedFiles(self.catalog.fs, before=self.look))
        watched.table(self.name).upkeep.respec(keys, **how)
        return self.catalog.table(self.name)


@dataclass
class Model:
    """What the rows of the table are, and writers that change both."""

    engine: str = ""
    rows: dict[tuple[int, int, int], dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Table, engine: str = "") -> Model:
        found = {(each["dt"], each["hh"], each["id"]): each for each in table.read().to_pylist()}
        return cls(engine, found)

    def upsert(self, *given: dict[str, Any]) -> Callable[[Table], object]:
        def act(table: Table) -> None:
            for each in given:
                key = each["dt"], each["hh"], each["id"]
                old = self.rows.get(key, {"w": 0})
                if self.engine == "first" and key in self.rows:
                    continue
                if self.engine == "sum":
                    self.rows[key] = {**each, "w": old["w"] + each["w"]}
                elif self.engine != "greatest" or each["w"] >= old["w"]:
                    self.rows[key] = each
            table.write(rows(table, given))

        return act

    def delete(self, gone: dict[str, Any]) -> Callable[[Table], object]:
        def act(table: Table) -> None:
            self.rows.pop((gone["dt"], gone["hh"], gone["id"]), None)
            table.write(rows(table, [gone], ["-D"]))

        return act

    def overwrite(self, given: dict[str, Any]) -> Callable[[Table], object]:
        def act(table: Table) -> None:
            self.rows = {key: each for key, each in self.rows.items() if key[0] != given["dt"]}
            self.rows[given["dt"], given["hh"], given["id"]] = given
            table.write(rows(table, [given]), mode="overwrite")

        return act

    @property
    def texts(self) -> list[str]:
        """The rows in the form of `content`."""
        return sorted(json.dumps(each, sort_keys=True) for each in self.rows.values())


KINDS: dict[str, dict[str, str]] = {
    "last": {},
    "greatest": {"sequence.field": "w"},
    "sum": {"merge-engine": "aggregation", "fields.w.aggregate-function": "sum"},
    "told": {"changelog-producer": "input"},
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "2"},
    "buckets": {"bucket": "3"},
    "vectors": {"deletion-vectors.enabled": "true"},
    "first": {"merge-engine": "first-row"},
    "looked up": {"changelog-producer": "lookup"},
    "compacted": {"changelog-producer": "full-compaction"},
}
# Of these a commit waits for a compaction, which its writer makes.
WAIT = ("vectors", "first", "looked up", "compacted")


def turns(model: Model) -> list[Callable[[Table], object]]:
    """Commits to partitions that are staged, new ones, and the same one again and again."""
    upsert = model.upsert
    many = upsert(*(row(day, 1, 5 + day % 2, 50, 5) for day in range(0, 12, 3)), row(99, 1, 1, 7))
    last = model.delete if model.engine not in ("sum", "first") else upsert
    acts = [
        upsert(row(1, 0, 0, 10, 3), row(1, 1, 7, 11, 2)),
        many,
        last(row(1, 1, 7, 11, 9)),
        upsert(row(1, 0, 0, 12, 2), row(98, 0, 1, 8)),
        last(row(2, 0, 0, 1, 9)),
    ]
    return [compacting(act, model.engine) for act in acts] if model.engine in WAIT else acts


def compacting(act: Callable[[Table], object], engine: str) -> Callable[[Table], object]:
    """A commit, and a compaction that takes it up; of deletion vectors not of older files."""

    def both(table: Table) -> None:
        act(table)
        compact(table, full=engine != "vectors")

    return both


@pytest.mark.sampled(3)
@pytest.mark.mission("PT3", "PT4")
@pytest.mark.parametrize("keys", KEYS, ids=["finer", "coarser"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_row_is_lost_or_doubled_beside_a_writer_that_wins_every_race(
    catalog: Catalog, kind: str, keys: tuple[str, ...]
) -> None:
    table = many_partitions(catalog, **KINDS[kind])
    if kind in WAIT:
        compact(table, full=True)
    model = Model.of(table, kind)
    others = Others(catalog, table.name, turns(model))
    now = others.change(*keys)
    assert now.schema.partition_keys == keys
    assert others.done == len(others.acts)
    assert content(now) == model.texts
    assert now.upkeep.plan_respec(keys).changes_nothing
    assert_readable_history(now)
    assert_only_reachable_files(now)
    for act in turns(model)[:4]:
        act(now)
    assert content(now) == model.texts
    compact(now, full=True)
    expire(now)
    assert content(now) == model.texts
    assert_only_reachable_files(now)


def test_a_writer_that_commits_faster_than_a_partition_is_written_waits_in_the_end(
    catalog: Catalog,
) -> None:
    table = many_partitions(catalog)
    model = Model.of(table)
    # To write a partition anew takes more calls than to let writers wait.
    acts = [model.upsert(row(1, 0, 0, number)) for number in range(100)]
    others = Others(catalog, table.name, acts, every=30)
    now = others.change("dt", "hh")
    assert 3 <= others.done <= 4
    assert content(now) == model.texts
    assert_only_reachable_files(now)


@pytest.mark.parametrize("keys", KEYS, ids=["finer", "coarser"])
def test_a_lost_race_writes_the_partitions_anew_that_the_winner_changed_and_no_others(
    catalog: Catalog, keys: tuple[str, ...]
) -> None:
    table = many_partitions(catalog, days=60)
    model = Model.of(table)
    others = Others(catalog, table.name, [model.upsert(row(7, 0, n, n)) for n in range(3)])
    assert content(others.change(*keys)) == model.texts
    first, *later = [[each for each in own if each.changes] for own in others.attempts[:4]]
    # A manifest of six entries, for removals, bridged entries and those of the new keys.
    assert sum("/manifest/" in each.path for each in first) > 3 * 60 // 6
    for own in later[:2]:
        data = [each for each in own if "/bucket-" in each.path and each.name != "delete"]
        # Of two hours.
        assert len(data) <= 6
        assert all("dt=7/" in each.path for each in data) or not keys
        written = [each for each in own if "/manifest/" in each.path and each.name != "delete"]
        assert len(written) <= 12


@pytest.mark.parametrize("keys", KEYS, ids=["finer", "coarser"])
def test_the_calls_for_which_writers_wait_do_not_depend_on_the_number_of_files(
    catalog: Catalog, keys: tuple[str, ...]
) -> None:
    counts = []
    for days in (6, 60):
        place = replace(catalog, root=f"{catalog.root}/{days}")
        table = many_partitions(place, days=days)
        others = Others(place, table.name, [])
        others.change(*keys)
        # From the first bridged snapshot to the last of the change.
        counts.append(list(map(len, others.attempts[1:3])))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("keys", KEYS, ids=["finer", "coarser"])
def test_files_that_others_replace_meanwhile_are_removed_once(
    catalog: Catalog, keys: tuple[str, ...]
) -> None:
    table = many_partitions(catalog)
    model = Model.of(table)
    others = Others(
        catalog,
        table.name,
        [
            lambda beside: compact(beside, [{"dt": 1}], full=True),
            model.overwrite(row(2, 1, 3, 4)),
            # Its files only rise to another level.
            lambda beside: compact(beside, full=True),
            model.upsert(row(1, 1, 0, 5)),
        ],
    )
    now = others.change(*keys)
    assert others.done == 4
    assert content(now) == model.texts
    snapshots = now.table_files.snapshots
    ids = [each.id for each in now.history.snapshots()]
    bridged = [each for each in ids if BridgeRecord.of(snapshots.read(each))]
    assert len(bridged) == 2
    for each in bridged:
        assert content(now.at(snapshot=each)) == model.texts
    assert_readable_history(now)
    expire(now)
    assert content(now) == model.texts
    assert_only_reachable_files(now)


@pytest.mark.parametrize("keys", KEYS, ids=["finer", "coarser"])
def test_a_rollback_meanwhile_lets_what_it_changed_be_written_anew(
    catalog: Catalog, keys: tuple[str, ...]
) -> None:
    table = many_partitions(catalog)
    model = Model.of(table)
    others = Others(
        catalog,
        table.name,
        [
            lambda beside: compact(beside, full=True),
            # Files that the compaction had removed are there again.
            lambda beside: beside.history.rollback(snapshot=2, grace_ms=0),
            model.upsert(row(3, 1, 4, 4)),
        ],
    )
    now = others.change(*keys)
    assert others.done == 3
    assert content(now) == model.texts
    assert_readable_history(now)
    expire(now)
    remove_orphans(now)
    assert content(now) == model.texts
    assert_only_reachable_files(now)


def test_rows_without_a_value_that_come_meanwhile_keep_a_column_out_of_the_primary_key(
    catalog: Catalog,
) -> None:
    columns = {"dt": "INT NOT NULL", "id": "INT NOT NULL", "origin": "STRING"}
    table = new_table(
        catalog, columns, partitions=["dt"], keys=["dt", "id"], options={"bucket": "1"}
    )
    table.write(rows(table, [{"dt": day, "id": 1, "origin": "a"} for day in range(5)]))
    late = rows(table, [{"dt": 3, "id": 2}])
    others = Others(catalog, table.name, [lambda beside: beside.write(late)])
    with pytest.raises(InvalidRequestError, match=r"1 rows of .* have null in origin"):
        others.change("dt", "origin", primary_key=["id", "dt", "origin"])
    assert others.done == 1
    now = catalog.table(table.name)
    assert now.schema.partition_keys == ("dt",)
    assert len(content(now)) == 6
    assert_only_reachable_files(now)


def test_a_snapshot_that_holds_other_files_than_were_staged_is_told(catalog: Catalog) -> None:
    files = many_partitions(catalog, days=3).table_files
    schema = replace(files.schema, id=files.schema.id + 1, partition_keys=("dt", "hh"))
    now = replace(files, schema=schema)
    staged = StagedTable(
        files,
        now,
        files.schema.id,
        LocalEngine(env=files.env),
        VerifyLevel.CHECKSUMS,
        [],
        Rewritten(),
        Staging.begun(files, now),
    )
    staged.catch_up()
    latest = files.snapshots.latest()
    assert latest is not None
    with pytest.raises(VerificationFailed, match=r"6 were written .* rollback db.t --snapshot 2"):
        staged.check_swapped(files, latest)
    staged.discard()
    staged.staging.give_up()
    assert_only_reachable_files(catalog.table(files.name))


@pytest.mark.parametrize(
    "step", [pytest.param(61, id="some"), pytest.param(1, id="all", marks=pytest.mark.deep)]
)
@pytest.mark.parametrize("keys", KEYS, ids=["finer", "coarser"])
@pytest.mark.mission("PT50", "FS9")
def test_a_change_that_stops_at_any_call_beside_a_writer_loses_and_doubles_no_row(
    catalog: Catalog, keys: tuple[str, ...], step: int
) -> None:
    """The writer wins a race with rows in two partitions, and a second one with a compaction."""
    calls = stopped(catalog, keys, 0, Fault.FAILS_BEFORE)
    for fail_at in range(1, calls + 1, step):
        stopped(catalog, keys, fail_at, FAULTS[fail_at % len(FAULTS)])
    assert calls > 100


FAULTS = (Fault.DIES_BEFORE, Fault.DIES_AFTER, Fault.FAILS_BEFORE, Fault.FAILS_AFTER)


def stopped(catalog: Catalog, keys: tuple[str, ...], fail_at: int, fault: Fault) -> int:
    """Stop a change at one of its calls, and try again; how many calls it made."""
    place = replace(catalog, root=f"{catalog.root}/{fail_at}")
    table = many_partitions(place, days=3)
    model = Model.of(table)
    acts = [
        model.upsert(row(1, 0, 0, 9), row(8, 1, 1, 9)),
        lambda beside: compact(beside, [{"dt": 1}], full=True),
    ]
    others = Others(place, table.name, acts)
    # A dead process leaves data files open, which tests/faults tries on another file system.
    fs = WatchedFiles(
        place.fs,
        before=others.look,
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
    expire(now)
    remove_orphans(now)
    assert content(now) == model.texts, told
    assert_only_reachable_files(now)
    return fs.counted
