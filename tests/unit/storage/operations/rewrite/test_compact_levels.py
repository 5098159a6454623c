"""Compacting primary-key buckets: moved files, deletions, changelogs, deletion vectors."""

from __future__ import annotations

import random
from typing import Any

import pyarrow.parquet as pq
import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import StalePlan, UnavailableError
from lakewright.storage.lsm.universal_compaction import OffPeakHours, UniversalPolicy
from lakewright.storage.operations.rewrite.pick_units import universal_policy
from lakewright.storage.operations.state.live_files import index_entries
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.manifest import DataFileMeta, FileKind
from lakewright.storage.spec.snapshot import Snapshot
from tests.support.stores.watched_files import Fault, watched
from tests.support.tables.builders import compact, events, expire, new_table, rows, with_options
from tests.support.tables.environment import FixedEnv
from tests.support.tables.invariants import assert_only_reachable_files
from tests.support.tables.meddling import Meddling

COLUMNS = {"id": "INT", "v": "STRING"}
Content = dict[int, str | None]


def keyed(catalog: Catalog, name: str = "db.t", **options: str) -> Table:
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return new_table(catalog, COLUMNS, keys=["id"], name=name, options={"bucket": "1", **named})


def put(table: Table, *ids: int, v: str = "v") -> None:
    table.write(rows(table, [{"id": each, "v": f"{v}{each}"} for each in ids]))


def remove(table: Table, *ids: int) -> None:
    table.write(rows(table, [{"id": each} for each in ids], ["-D"] * len(ids)))


def content(table: Table) -> Content:
    read = table.read()
    found = dict(zip(read.column("id").to_pylist(), read.column("v").to_pylist(), strict=True))
    assert len(found) == read.num_rows, "a key is read twice"
    return found


def files_of(table: Table) -> list[DataFileMeta]:
    return sorted((each.file for each in table.at().files()), key=lambda file: file.file_name)


def levels_of(table: Table) -> list[int]:
    return sorted(file.level for file in files_of(table))


def changes(table: Table, snapshot: Snapshot) -> list[tuple[str, int, str | None]]:
    """What the changelog of a snapshot says, in its order."""
    if snapshot.changelog_manifest_list is None:
        return []
    metas = table.table_files.manifests.read_list(snapshot.changelog_manifest_list)
    found = []
    for entry in table.table_files.manifests.entries(metas):
        assert entry.kind is FileKind.ADD
        path = table.table_files.data_file_path(entry.place, entry.file)
        assert path.rsplit("/", 1)[-1].startswith("changelog-")
        with table.table_files.fs.open_input(path) as source:
            read = pq.read_table(source)
        for row in read.to_pylist():
            kind = ("+I", "-U", "+U", "-D")[row["_VALUE_KIND"]]
            found.append((kind, row["id"], row["v"]))
    return found


def last_changes(table: Table) -> list[tuple[str, int, str | None]]:
    snapshot = table.history.latest_snapshot()
    assert snapshot is not None
    return changes(table, snapshot)


def replay(state: Content, told: list[tuple[str, int, str | None]]) -> None:
    """Apply changes, each of which must say what was there before."""
    for kind, key, value in told:
        if kind == "+I":
            assert key not in state
        else:
            assert key in state
        if kind in ("-U", "-D"):
            assert state[key] == value
        if kind == "-D":
            del state[key]
        else:
            state[key] = value


def deleted_rows(table: Table) -> dict[str, int]:
    """Rows that deletion vectors take out, by data file."""
    return {
        vector.data_file: vector.cardinality or 0
        for entry in index_entries(table.table_files, table.history.latest_snapshot())
        for vector in entry.file.deletion_vectors or ()
    }


# --- files that only change their level ---------------------------------------------------------


@pytest.mark.mission("FS12")
def test_a_file_that_meets_no_other_is_moved_and_not_written_anew(any_catalog: Catalog) -> None:
    table = keyed(any_catalog, target_file_size="1 kb")
    put(table, 1, 2)
    put(table, 8, 9)
    put(table, 4, 5)
    put(table, 5, 6, v="new")
    before = {file.file_name: file for file in files_of(table)}
    plan = table.upkeep.plan_compact(full=True)
    (task,) = plan.tasks
    assert len(task.upgrades) == 2
    assert len(task.upgrades) < len(task.files)
    result = table.upkeep.run(plan)
    assert result.files_upgraded == 2
    after = {file.file_name: file for file in files_of(table)}
    kept = before.keys() & after.keys()
    assert kept == set(task.upgrades)
    assert levels_of(table) == [5] * len(after)
    for name in kept:
        assert after[name].row_count == before[name].row_count
    assert content(table) == {1: "v1", 2: "v2", 4: "v4", 5: "new5", 6: "new6", 8: "v8", 9: "v9"}
    # The snapshots that named them at their old level go; the files stay.
    expire(table)
    assert len(content(table)) == 7


@pytest.mark.mission("FS12")
def test_a_compaction_that_lost_deletes_no_file_it_only_moved(catalog: Catalog) -> None:
    table = keyed(catalog, target_file_size="1 kb")
    put(table, 1, 2)
    put(table, 8, 9)
    plan = table.upkeep.plan_compact(full=True)
    moved = set(plan.tasks[0].upgrades)
    assert len(moved) == 2
    failing, _ = watched(
        table,
        fail_at=1,
        fault=Fault.FAILS_BEFORE,
        counts=lambda call: call.name == "write_bytes" and "manifest-" in call.path,
    )
    with pytest.raises(UnavailableError, match="as a test wants it"):
        failing.upkeep.run(plan)
    assert {file.file_name for file in files_of(table)} == moved
    assert content(table) == {1: "v1", 2: "v2", 8: "v8", 9: "v9"}
    assert_only_reachable_files(table)
    # Somebody else moves them first.
    compact(table, full=True)
    remove(table, 8)
    compact(table, full=True)
    with pytest.raises(StalePlan, match="plan again"):
        table.upkeep.run(plan)
    assert content(table) == {1: "v1", 2: "v2", 9: "v9"}


def test_moved_files_are_not_counted_as_written() -> None:
    file = DataFileMeta(
        file_name="a",
        file_size=1,
        row_count=1,
        min_sequence_number=0,
        max_sequence_number=0,
        schema_id=0,
    )
    message = CommitMessage(
        partition=b"", bucket=0, total_buckets=1, compact_before=(file,), compact_after=(file,)
    )
    assert message.written_files == ()


# --- minor compactions --------------------------------------------------------------------------


@pytest.mark.mission("FS12")
def test_deletions_stay_until_nothing_older_is_left(catalog: Catalog) -> None:
    table = keyed(catalog, num_sorted_run__compaction_trigger="3", num_levels="6")
    put(table, *range(2000))
    compact(table, full=True)
    remove(table, 5)
    put(table, 6, v="new")
    # Three runs: two small ones on top of a large one.
    (task,) = table.upkeep.plan_compact().tasks
    assert task.output_level == 4
    compact(table)
    assert levels_of(table) == [4, 5]
    (minor,) = [file for file in files_of(table) if file.level == 4]
    assert (minor.row_count, minor.delete_row_count) == (2, 1)
    assert 5 not in content(table)
    compact(table, full=True)
    assert levels_of(table) == [5]
    assert [file.delete_row_count for file in files_of(table)] == [0]
    assert 5 not in content(table)


OPTIONS: dict[str, dict[str, str]] = {
    "plain": {},
    "many levels": {"num-levels": "9", "num-sorted-run.compaction-trigger": "2"},
    "level 0 up": {"compaction.force-up-level-0": "true"},
    "told in full": {"changelog-producer": "full-compaction"},
    "told by lookup": {"changelog-producer": "lookup"},
    "told once": {"changelog-producer": "lookup", "changelog-producer.row-deduplicate": "true"},
    "vectors": {"deletion-vectors.enabled": "true"},
    "vectors, told": {"deletion-vectors.enabled": "true", "changelog-producer": "lookup"},
    "forced": {"force-lookup": "true"},
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
@pytest.mark.mission("FS7", "FS12")
@pytest.mark.sampled(3)
def test_any_history_of_compactions_leaves_the_rows_and_tells_the_truth(
    catalog: Catalog, options: dict[str, str], seed: int
) -> None:
    rng = random.Random(seed)
    settings = {
        "num-sorted-run.compaction-trigger": "3",
        # Files of a few rows, so that some are moved.
        "target-file-size": rng.choice(["1 b", "4 kb", "1 mb"]),
        **options,
    }
    table = new_table(catalog, COLUMNS, keys=["id"], options={"bucket": "1", **settings})
    waits = "deletion-vectors.enabled" in options
    told: Content = {}
    expected: Content = {}
    shown: Content = {}
    for step in range(10):
        action = rng.choice(["write"] * 5 + ["minor"] * 3 + ["full"])
        if action == "write" or step == 0:
            first = rng.randrange(40)
            ids = rng.sample(range(first, first + 12), rng.randint(1, 10))
            if rng.random() < 0.3:
                remove(table, *ids)
                for each in ids:
                    expected.pop(each, None)
            else:
                put(table, *ids, v=f"s{step}-")
                expected |= {each: f"s{step}-{each}" for each in ids}
            shown = shown if waits else dict(expected)
        else:
            before = table.history.latest_snapshot()
            result = compact(table, full=action == "full")
            up_to_date = not any(file.level == 0 for file in files_of(table))
            if waits:
                assert up_to_date
                shown = dict(expected)
            if result.snapshot is not None:
                assert before is not None
                replay(told, changes(table, result.snapshot))
            if "lookup" in options.values():
                assert up_to_date
                assert told == expected
        assert content(table) == shown
        for level in {file.level for file in files_of(table)} - {0}:
            assert level <= 8
    compact(table, full=True)
    assert content(table) == expected
    assert {file.level for file in files_of(table)} <= {table.options.max_level}
    assert deleted_rows(table) == {}


# --- changelogs ---------------------------------------------------------------------------------


@pytest.mark.mission("FS7")
def test_a_full_compaction_tells_how_the_top_level_changes(any_catalog: Catalog) -> None:
    table = keyed(any_catalog, changelog_producer="full-compaction")
    put(table, 1, 2, 3)
    put(table, 3, 4, v="w")
    compact(table, full=True)
    assert last_changes(table) == [
        ("+I", 1, "v1"),
        ("+I", 2, "v2"),
        ("+I", 3, "w3"),
        ("+I", 4, "w4"),
    ]
    remove(table, 1, 9)
    put(table, 2, v="x")
    put(table, 4, v="w")
    compact(table, full=True)
    assert last_changes(table) == [
        ("-D", 1, "v1"),
        ("-U", 2, "v2"),
        ("+U", 2, "x2"),
        ("-U", 4, "w4"),
        ("+U", 4, "w4"),
    ]
    snapshot = table.history.latest_snapshot()
    assert snapshot is not None
    assert snapshot.changelog_record_count == 5
    expire(table)


@pytest.mark.mission("FS7")
def test_a_row_that_is_what_it_was_is_not_told_on_request(catalog: Catalog) -> None:
    columns = {"id": "INT", "v": "STRING", "at": "INT", "tags": "ARRAY<INT>", "d": "DOUBLE"}
    for producer in ("lookup", "full-compaction"):
        table = new_table(
            catalog,
            columns,
            name=f"db.{producer.replace('-', '_')}",
            keys=["id"],
            options={
                "bucket": "1",
                "changelog-producer": producer,
                "changelog-producer.row-deduplicate": "true",
                "changelog-producer.row-deduplicate-ignore-fields": "at",
            },
        )
        same = {"v": None, "tags": [1, None], "d": float("nan")}
        first = [{"id": 1, "at": 1, **same}, {"id": 2, "v": "a", "d": 1.0}, {"id": 3, "tags": []}]
        then = [{"id": 1, "at": 2, **same}, {"id": 2, "v": "a", "d": 2.0}, {"id": 3, "tags": None}]
        table.write(rows(table, first))
        compact(table, full=True)
        table.write(rows(table, then))
        compact(table, full=True)
        assert [change[:2] for change in last_changes(table)] == [
            ("-U", 2),
            ("+U", 2),
            ("-U", 3),
            ("+U", 3),
        ]


@pytest.mark.mission("FS7")
def test_a_lookup_finds_the_old_row_in_files_that_stay(catalog: Catalog) -> None:
    table = keyed(catalog, changelog_producer="lookup")
    put(table, *range(2000))
    compact(table, full=True)
    remove(table, 5)
    put(table, 6, 9000, v="new")
    result = compact(table)
    assert levels_of(table) == [4, 5]
    assert last_changes(table) == [
        ("-D", 5, "v5"),
        ("-U", 6, "v6"),
        ("+U", 6, "new6"),
        ("+I", 9000, "new9000"),
    ]
    assert result.rows_after == 3
    # The deletion at level 4 is older than what comes next, and nothing to take away.
    put(table, 5, v="again")
    compact(table)
    assert last_changes(table) == [("+I", 5, "again5")]


@pytest.mark.mission("FS7")
def test_a_moved_file_is_told_too(catalog: Catalog) -> None:
    for producer in ("lookup", "full-compaction"):
        table = keyed(
            catalog,
            name=f"db.{producer.replace('-', '_')}",
            changelog_producer=producer,
            target_file_size="1 kb",
        )
        put(table, 1)
        put(table, 2)
        assert compact(table, full=True).files_upgraded == 2
        assert last_changes(table) == [("+I", 1, "v1"), ("+I", 2, "v2")]


def test_a_compaction_that_fails_leaves_no_changelog_behind(catalog: Catalog) -> None:
    table = keyed(catalog, changelog_producer="lookup", deletion_vectors__enabled="true")
    put(table, *range(500))
    compact(table)
    put(table, 2, 600)
    remove(table, 3)
    plan = table.upkeep.plan_compact()
    calls = 0
    for fail_at in range(1, 40):
        # Once the snapshot is being created no process may delete the files that it names.
        failing, watching = watched(
            table,
            fail_at=fail_at,
            counts=lambda call: call.changes and "/snapshot/" not in call.path,
        )
        try:
            failing.upkeep.run(plan)
        except UnavailableError:
            assert_only_reachable_files(table)
            continue
        calls = watching.counted
        break
    # Data and changelog are opened and closed; index file, index manifest, two manifests and
    # their lists, and the base list are written.
    assert calls == 11
    assert len(content(table)) == 500
    assert sum(deleted_rows(table).values()) == 2


# --- deletion vectors ---------------------------------------------------------------------------


@pytest.mark.mission("FS7")
def test_an_older_row_in_a_file_that_stays_is_marked_as_gone(any_catalog: Catalog) -> None:
    table = keyed(any_catalog, deletion_vectors__enabled="true")
    put(table, *range(2000))
    assert content(table) == {}
    compact(table, full=True)
    (old,) = files_of(table)
    put(table, 7, 8, v="new")
    remove(table, 9, 10)
    assert len(content(table)) == 2000
    compact(table)
    assert levels_of(table) == [4, 5]
    # A deletion has done its work once the older row is marked.
    (new,) = [file for file in files_of(table) if file.level == 4]
    assert (new.row_count, new.delete_row_count) == (2, 0)
    assert deleted_rows(table) == {old.file_name: 4}
    assert content(table) == {
        each: f"{'new' if each in (7, 8) else 'v'}{each}"
        for each in range(2000)
        if each not in (9, 10)
    }
    # A second change of a key marks it where it is by now.
    remove(table, 8, 11)
    compact(table)
    assert deleted_rows(table)[old.file_name] == 5
    assert len(content(table)) == 1996
    expire(table)
    assert len(content(table)) == 1996
    compact(table, full=True)
    assert (deleted_rows(table), len(content(table))) == ({}, 1996)


@pytest.mark.mission("FS7")
def test_a_file_of_the_top_level_is_written_anew_without_its_deleted_rows(catalog: Catalog) -> None:
    table = keyed(catalog, deletion_vectors__enabled="true")
    put(table, *range(2000))
    compact(table, full=True)
    remove(table, 1)
    compact(table)
    # Level 4 would hold nothing, so there is one run at the top with a deletion vector.
    assert levels_of(table) == [5]
    assert sum(deleted_rows(table).values()) == 1
    assert table.upkeep.plan_compact().tasks == ()
    (task,) = table.upkeep.plan_compact(full=True).tasks
    assert task.file_by_file
    result = compact(table, full=True)
    assert (result.rows_before, result.rows_after) == (2000, 1999)
    assert deleted_rows(table) == {}


@pytest.mark.mission("FS7")
def test_a_moved_file_keeps_its_deleted_rows(catalog: Catalog) -> None:
    table = keyed(catalog, deletion_vectors__enabled="true", target_file_size="1 kb")
    put(table, *range(10))
    put(table, *range(50, 60))
    compact(table)
    remove(table, 3)
    compact(table)
    assert sum(deleted_rows(table).values()) == 1
    put(table, 55, v="new")
    compact(table)
    assert sum(deleted_rows(table).values()) in (1, 2)
    assert sorted(content(table)) == [0, 1, 2, *range(4, 10), *range(50, 60)]
    assert content(table)[55] == "new55"


def test_events_are_compacted_bucket_by_bucket_with_vectors(catalog: Catalog) -> None:
    table = new_table(
        catalog,
        keys=["day", "id"],
        partitions=["day"],
        options={"bucket": "2", "deletion-vectors.enabled": "true"},
    )
    for day in ("a", "b"):
        table.write(rows(table, events(0, 50, day=day)))
    compact(table)
    table.write(rows(table, events(10, 20, day="a", v="new")))
    compact(table)
    read = table.read()
    assert read.num_rows == 100
    assert sum(str(v).startswith("new") for v in read.column("v").to_pylist()) == 10


# --- other merge engines ------------------------------------------------------------------------

ENGINES: dict[str, dict[str, str]] = {
    "sum": {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"},
    "partial": {"merge-engine": "partial-update"},
    "latest": {"sequence.field": "n"},
    "first": {"merge-engine": "first-row", "ignore-delete": "true"},
}
PRODUCERS: dict[str, dict[str, str]] = {
    "silent": {},
    "told in full": {"changelog-producer": "full-compaction"},
    "told by lookup": {"changelog-producer": "lookup"},
    "vectors": {"deletion-vectors.enabled": "true"},
    "vectors, told": {"deletion-vectors.enabled": "true", "changelog-producer": "lookup"},
}


def merged(engine: str, old: tuple[Any, Any] | None, n: Any, s: Any) -> tuple[Any, Any]:
    if old is None:
        return n, s
    if engine == "sum":
        return (old[0] if n is None else n + (old[0] or 0)), (old[1] if s is None else s)
    if engine == "partial":
        return (old[0] if n is None else n), (old[1] if s is None else s)
    if engine == "latest":
        return old if (old[0] or -1) > (-1 if n is None else n) else (n, s)
    return old


# First-row tables take neither deletion vectors nor changelogs of full compactions.
COMBINED = [
    (engine, producer)
    for engine in ENGINES
    for producer in PRODUCERS
    if engine != "first" or producer in ("silent", "told by lookup")
]


@pytest.mark.parametrize(("engine", "producer"), COMBINED)
@pytest.mark.mission("FS2", "FS7", "FS12")
@pytest.mark.sampled(1)
def test_any_engine_is_merged_once_at_whatever_level_its_rows_lie(
    catalog: Catalog, engine: str, producer: str
) -> None:
    rng = random.Random(f"{engine} {producer}")
    table = new_table(
        catalog,
        {"id": "INT", "n": "INT", "s": "STRING"},
        keys=["id"],
        options={
            "bucket": "1",
            "num-sorted-run.compaction-trigger": "3",
            "target-file-size": rng.choice(["1 kb", "1 mb"]),
            **ENGINES[engine],
            **PRODUCERS[producer],
        },
    )
    expected: dict[int, tuple[Any, Any]] = {}
    told: dict[int, tuple[Any, Any]] = {}

    def check() -> None:
        found = {row["id"]: (row["n"], row["s"]) for row in table.read().to_pylist()}
        assert found == expected

    def write(ids: list[int]) -> None:
        values = []
        for each in ids:
            n = rng.choice([None, *range(9)]) if engine != "latest" else rng.randrange(9)
            s = rng.choice([None, "a", "b", "c"])
            values.append({"id": each, "n": n, "s": s})
            expected[each] = merged(engine, expected.get(each), n, s)
        table.write(rows(table, values))

    def run(full: bool) -> None:
        result = compact(table, full=full)
        if result.snapshot is not None:
            tell(table, result.snapshot, told)
        if producer.endswith("lookup") or producer == "vectors, told":
            assert told == expected

    write(list(range(500)))
    run(full=True)
    for _ in range(5):
        write(rng.sample(range(40), rng.randint(1, 12)) + rng.sample(range(900, 910), 3))
        if rng.random() < 0.3:
            write(rng.sample(range(40), 5))
        lags = engine == "first" or "vectors" in producer
        if not lags:
            check()
        run(full=rng.random() < 0.2)
        # Those that lag have caught up, the others are what they were.
        check()
    levels = {file.level for file in files_of(table)}
    run(full=True)
    check()
    assert {file.level for file in files_of(table)} == {table.options.max_level}
    assert levels - {0}
    if producer == "told in full":
        assert told == expected


def tell(table: Table, snapshot: Snapshot, state: dict[int, tuple[Any, Any]]) -> None:
    """Apply a snapshot's changelog, each of whose rows must say what was there before."""
    if snapshot.changelog_manifest_list is None:
        return
    metas = table.table_files.manifests.read_list(snapshot.changelog_manifest_list)
    for entry in table.table_files.manifests.entries(metas):
        path = table.table_files.data_file_path(entry.place, entry.file)
        with table.table_files.fs.open_input(path) as source:
            read = pq.read_table(source).to_pylist()
        for row in read:
            kind, key, value = row["_VALUE_KIND"], row["id"], (row["n"], row["s"])
            if kind == 0:
                assert key not in state
            elif kind != 2:
                assert state[key] == value
            if kind in (0, 2):
                state[key] = value
            elif kind == 3:
                del state[key]


# --- others at the same time --------------------------------------------------------------------


@pytest.mark.mission("FS12")
def test_a_lost_race_deletes_what_was_written_and_not_what_was_moved(catalog: Catalog) -> None:
    table = keyed(
        catalog,
        target_file_size="1 kb",
        deletion_vectors__enabled="true",
        changelog_producer="lookup",
    )
    put(table, 1, 2)
    put(table, 10, 11)
    put(table, 11, 12, v="new")
    plan = table.upkeep.plan_compact(full=True)
    assert len(plan.tasks[0].upgrades) == 1
    result = table.upkeep.run(plan, Meddling(lambda: compact(table, full=True)))
    assert (result.snapshot, result.dropped_tasks) == (None, 1)
    assert content(table) == {1: "v1", 2: "v2", 10: "v10", 11: "new11", 12: "new12"}
    assert set(plan.tasks[0].upgrades) < {file.file_name for file in files_of(table)}
    assert_only_reachable_files(table)


@pytest.mark.mission("FS12")
def test_rows_written_meanwhile_are_newer_than_what_is_compacted(catalog: Catalog) -> None:
    table = keyed(catalog, deletion_vectors__enabled="true")
    put(table, *range(1000))
    compact(table, full=True)
    put(table, 1, 2, v="b")
    result = table.upkeep.run(
        table.upkeep.plan_compact(), Meddling(lambda: put(table, 2, 3, v="c"))
    )
    assert result.dropped_tasks == 0
    assert [content(table)[each] for each in (1, 2, 3)] == ["b1", "b2", "v3"]
    compact(table)
    assert [content(table)[each] for each in (1, 2, 3)] == ["b1", "c2", "c3"]
    assert sum(deleted_rows(table).values()) >= 3


@pytest.mark.mission("FS12")
def test_rows_marked_meanwhile_in_a_file_written_anew_do_not_come_back(catalog: Catalog) -> None:
    options = {"deletion_vectors__enabled": "true", "compaction__force_rewrite_all_files": "true"}
    table = keyed(catalog, **options)
    put(table, *range(5), v="old")
    compact(table, full=True)

    def meanwhile_another() -> None:
        put(table, 1, v="new")
        compact(table)

    result = table.upkeep.run(table.upkeep.plan_compact(full=True), Meddling(meanwhile_another))
    assert (result.snapshot, result.dropped_tasks) == (None, 1)
    assert content(table) == {0: "old0", 1: "new1", 2: "old2", 3: "old3", 4: "old4"}
    assert_only_reachable_files(table)


@pytest.mark.mission("FS12")
def test_rows_are_not_marked_in_a_file_that_was_written_anew_meanwhile(catalog: Catalog) -> None:
    options = {"deletion_vectors__enabled": "true", "compaction__force_rewrite_all_files": "true"}
    table = keyed(catalog, **options)
    put(table, *range(5), v="old")
    compact(table, full=True)
    whole = table.upkeep.plan_compact(full=True)
    put(table, 1, v="new")
    result = table.upkeep.run(
        table.upkeep.plan_compact(), Meddling(lambda: table.upkeep.run(whole))
    )
    assert (result.snapshot, result.dropped_tasks) == (None, 1)
    compact(table)
    assert content(table) == {0: "old0", 1: "new1", 2: "old2", 3: "old3", 4: "old4"}
    assert_only_reachable_files(table)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.mission("FS12")
@pytest.mark.sampled(2)
def test_of_rows_numbered_alike_the_same_one_is_read_before_and_after_a_compaction(
    catalog: Catalog, seed: int
) -> None:
    """Writers that did not know of each other number their rows alike."""
    table, drawn = keyed(catalog), random.Random(seed)
    for _ in range(3):
        staged = []
        for writer in "abcd":
            low = drawn.randrange(6)
            ids = range(low, low + drawn.randrange(1, 4))
            staged.append(table.stage(rows(table, [{"id": n, "v": writer} for n in ids])))
        drawn.shuffle(staged)
        for each in staged:
            table.commit(each)
        before = content(table)
        compact(table, full=drawn.random() < 0.5, min_files=2)
        assert content(table) == before


# --- options ------------------------------------------------------------------------------------


@pytest.mark.mission("FS12")
def test_options_say_when_runs_are_merged(catalog: Catalog) -> None:
    assert universal_policy(keyed(catalog, "db.defaults").table_files) == UniversalPolicy()
    table = keyed(
        catalog,
        **{
            "compaction.max-size-amplification-percent": "50",
            "compaction.size-ratio": "7",
            "num-sorted-run.compaction-trigger": "4",
            "compaction.optimization-interval": "1 h",
            "compaction.total-size-threshold": "1 mb",
            "compaction.incremental-size-threshold": "2 mb",
            "compaction.force-up-level-0": "true",
            "compaction.offpeak.start.hour": "22",
            "compaction.offpeak.end.hour": "6",
            "compaction.offpeak-ratio": "30",
        },
    )
    assert universal_policy(table.table_files) == UniversalPolicy(
        max_size_amplification_percent=50,
        size_ratio_percent=7,
        run_trigger=4,
        optimization_interval_ms=3_600_000,
        total_size_threshold=1 << 20,
        incremental_size_threshold=2 << 20,
        force_up_level0=True,
        off_peak=OffPeakHours(22, 6, 30),
    )
    assert universal_policy(table.table_files, 9).run_trigger == 9
    assert table.options.num_sorted_run_stop_trigger == 7
    for lookups in ({"changelog_producer": "lookup"}, {"deletion_vectors__enabled": "true"}):
        looking = keyed(catalog, f"db.{next(iter(lookups))}", **lookups)
        assert universal_policy(looking.table_files).force_up_level0


def test_a_full_compaction_comes_again_after_its_interval(catalog: Catalog, env: FixedEnv) -> None:
    table = keyed(catalog, compaction__optimization_interval="1 h")
    put(table, 1, 2)
    put(table, 2, 3)
    assert "no full compaction for 3600000 ms" in table.upkeep.plan_compact().tasks[0].reason
    compact(table)
    put(table, 3, 4)
    assert table.upkeep.plan_compact().tasks == ()
    env.clock.advance(3_600_001)
    compact(table)
    assert levels_of(table) == [5]


def test_every_file_is_written_anew_on_request(catalog: Catalog) -> None:
    table = keyed(catalog, target_file_size="1 kb")
    put(table, 1, 2)
    put(table, 8, 9)
    compact(table, full=True)
    before = {file.file_name for file in files_of(table)}
    assert table.upkeep.plan_compact(full=True).tasks == ()
    forced = with_options(table, compaction__force_rewrite_all_files="true")
    assert compact(forced, full=True).files_upgraded == 0
    assert before.isdisjoint(file.file_name for file in files_of(table))
    assert levels_of(table) == [5, 5]
