"""Row tracking: ids and versions of rows are those that Java and pypaimon see, after every verb."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidOption, UnsupportedError
from lakewright.storage.spec.schema_change import AddColumn
from tests.oracles.client import LatestJavaOracle
from tests.support.tables.builders import compact, expire, remove_orphans, rows
from tests.support.tables.invariants import assert_only_reachable_files, assert_sound

pytestmark = pytest.mark.interop

COLUMNS = {"id": "BIGINT NOT NULL", "day": "STRING", "v": "STRING"}
TRACKED = {"bucket": "-1", "row-tracking.enabled": "true"}
Model = dict[int, dict[str, Any]]


def create(java: LatestJavaOracle, catalog: Catalog, **options: str) -> Table:
    java.create(
        catalog.root, "db.t", COLUMNS, partition_keys=["day"], options={**TRACKED, **options}
    )
    return catalog.table("db.t")


def values(ids: range, *, day: str = "a", v: str = "x") -> list[dict[str, Any]]:
    return [{"id": each, "day": day, "v": v} for each in ids]


def tracked(table: Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.inspect.table("row_tracking").to_pylist()
    return sorted(found, key=lambda row: row["id"])


def by_java(java: LatestJavaOracle, catalog: Catalog) -> list[dict[str, Any]]:
    found = java.read(catalog.root, "db.t$row_tracking")
    return sorted(found, key=lambda row: row["id"])


class Tracked:
    """A table under two writers, and what each of its rows must be."""

    def __init__(self, table: Table, java: LatestJavaOracle, catalog: Catalog) -> None:
        self.table, self.java, self.catalog = table, java, catalog
        self.model: Model = {}
        self.fresh = self.next_id = 0

    @property
    def next_snapshot(self) -> int:
        latest = self.table.table_files.snapshots.latest()
        return 1 if latest is None else latest.id + 1

    def insert(self, chosen: random.Random) -> None:
        given = values(range(self.fresh, self.fresh + chosen.randint(1, 5)))
        given = [{**row, "day": chosen.choice("ab")} for row in given]
        write: list[Callable[[list[dict[str, Any]]], object]] = [
            lambda given: self.java.write(self.catalog.root, "db.t", given),
            lambda given: self.table.write(rows(self.table, given)),
        ]
        self.new_rows(given, chosen.choice(write))

    def new_rows(
        self, given: list[dict[str, Any]], write: Callable[[list[dict[str, Any]]], object]
    ) -> None:
        """Write rows; which gets which of the new ids follows from the files of the writer."""
        self.fresh += len(given)
        version = self.next_snapshot
        write(given)
        ids = {row["id"]: row["_ROW_ID"] for row in tracked(self.table)}
        new = sorted(ids[row["id"]] for row in given)
        assert new == list(range(self.next_id, self.next_id + len(new)))
        self.next_id += len(new)
        empty = dict.fromkeys(self.table.schema.field_names)
        for row in given:
            numbers = {"_ROW_ID": ids[row["id"]], "_SEQUENCE_NUMBER": version}
            self.model[row["id"]] = {**empty, **row, **numbers}

    def update(self, chosen: random.Random) -> None:
        low, value = chosen.randint(0, self.fresh), f"u{chosen.randint(0, 9)}"
        version = self.next_snapshot
        self.table.update({"v": f"'{value}'"}, f"id BETWEEN {low} AND {low + 4}")
        for number, row in self.model.items():
            if low <= number <= low + 4:
                row |= {"v": value, "_SEQUENCE_NUMBER": version}

    def delete(self, chosen: random.Random) -> None:
        gone = chosen.randint(0, max(0, self.fresh - 1))
        self.table.delete(f"id = {gone}")
        self.model.pop(gone, None)

    def merge(self, chosen: random.Random) -> None:
        version = self.next_snapshot
        old = chosen.sample(sorted(self.model), min(2, len(self.model)))
        source = [{**self.model[each], "v": "m"} for each in old]
        for number in old:
            self.model[number] |= {"v": "m", "_SEQUENCE_NUMBER": version}
        names = ("id", "day", "v")
        self.new_rows(
            values(range(self.fresh, self.fresh + 2), day="c", v="m"),
            lambda new: self.table.merge(
                pa.Table.from_pylist(
                    [{name: row[name] for name in names} for row in (*source, *new)]
                ),
                on="id",
                when_matched={"v": "s.v"},
                when_not_matched="insert",
            ),
        )

    def revert(self, chosen: random.Random) -> None:
        """Change rows, and take that back: the rows of before have their ids and versions again."""
        before = copy.deepcopy(self.model)
        chosen.choice([self.update, self.delete, self.merge])(chosen)
        taken = {snapshot.id for snapshot in self.table.history.snapshots()}
        if self.model != before:
            self.table.history.revert(max(taken))
            self.model = before

    def move(self, chosen: random.Random) -> None:
        """Rename a partition, or replace its rows."""
        days = sorted({row["day"] for row in self.model.values()})
        if not days:
            return
        day = chosen.choice(days)
        held = [row for row in self.model.values() if row["day"] == day]
        if chosen.random() < 0.5:
            self.table.upkeep.rename_partition({"day": day}, {"day": f"{day}{day}"})
            for row in held:
                row["day"] = f"{day}{day}"
            return
        for row in held:
            del self.model[row["id"]]
        self.new_rows(
            values(range(self.fresh, self.fresh + 2), day=day),
            lambda given: self.table.write(
                rows(self.table, given), mode="overwrite", partition={"day": day}
            ),
        )

    def alter(self, chosen: random.Random) -> None:
        name = f"n{self.next_snapshot}"
        if name not in self.table.schema.field_names:
            self.table = self.table.alter(AddColumn(name, "INT"))
            for row in self.model.values():
                row[name] = None

    def keep_rows(self, chosen: random.Random) -> None:
        verbs: list[Callable[[], object]] = [
            lambda: compact(self.table, full=True),
            lambda: self.table.upkeep.run(self.table.upkeep.plan_sort_compact(by=["v"])),
            lambda: self.java.compact(self.catalog.root, "db.t"),
            lambda: self.table.upkeep.run(self.table.upkeep.plan_rewrite_manifests()),
        ]
        chosen.choice(verbs)()

    def check(self) -> None:
        self.table.refresh()
        want = [self.model[number] for number in sorted(self.model)]
        assert tracked(self.table) == want
        assert by_java(self.java, self.catalog) == want
        ids = [row["_ROW_ID"] for row in want]
        assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(2, 40))]
)
@pytest.mark.parametrize("vectors", ["false", "true"])
def test_rows_keep_their_ids_through_every_verb(
    unchecked_catalog: Catalog, java_latest: LatestJavaOracle, vectors: str, seed: int
) -> None:
    table = create(java_latest, unchecked_catalog, **{"deletion-vectors.enabled": vectors})
    both, chosen = Tracked(table, java_latest, unchecked_catalog), random.Random(seed)
    both.insert(chosen)
    both.insert(chosen)
    steps = [
        *(both.insert, both.update, both.delete, both.merge, both.revert, both.move, both.alter),
        *(both.keep_rows, both.keep_rows),
    ]
    for _ in range(10):
        chosen.choice(steps)(chosen)
        both.check()
    expire(both.table)
    remove_orphans(both.table)
    both.check()
    assert_sound(both.table)


def test_what_gives_rows_new_ids_is_refused(
    unchecked_catalog: Catalog, java_latest: LatestJavaOracle
) -> None:
    table = create(java_latest, unchecked_catalog)
    table.write(rows(table, values(range(3))))
    other = unchecked_catalog.create_table(
        "db.other",
        COLUMNS,
        partition_keys=["day"],
        options={"bucket": "-1", "row-tracking.enabled": "true"},
    )
    before = tracked(table)
    for change in (
        lambda: table.upkeep.plan_respec(keys=[]),
        lambda: table.upkeep.plan_add_primary_key(keys=["id", "day"]),
        lambda: table.upkeep.plan_exchange_partition("db.other", [{"day": "a"}]),
    ):
        with pytest.raises(UnsupportedError, match=r"row-tracking\.enabled=true, and .* new ids"):
            change()
    assert tracked(table) == before
    assert_only_reachable_files(table)
    assert_only_reachable_files(other)


@pytest.mark.parametrize(
    ("keys", "options", "problem"),
    [
        (["id"], {"bucket": "1"}, "does not go with a primary key"),
        ([], {"bucket": "2", "bucket-key": "id"}, "needs bucket=-1"),
    ],
)
def test_tables_that_java_would_not_open_are_not_made(
    unchecked_catalog: Catalog, keys: list[str], options: dict[str, str], problem: str
) -> None:
    with pytest.raises(InvalidOption, match=problem):
        unchecked_catalog.create_table(
            "db.t",
            COLUMNS,
            primary_keys=keys,
            options={**options, "row-tracking.enabled": "true"},
        )
