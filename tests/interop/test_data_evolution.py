"""Tables whose columns are updated alone: rows are those that Java and pypaimon read."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from lakewright.storage import AddColumn, Catalog, Table
from lakewright.storage.errors import NotRevertible, StalePlan, UnsupportedError
from lakewright.storage.operations.running.engine import LocalEngine, Result, Task
from tests.oracles.client import LatestJavaOracle, PypaimonOracle
from tests.support.tables.builders import compact, expire, remove_orphans, rows
from tests.support.tables.invariants import assert_sound

pytestmark = pytest.mark.interop

COLUMNS = {"id": "BIGINT", "day": "STRING", "v": "STRING", "n": "INT"}
EVOLVING = {"bucket": "-1", "row-tracking.enabled": "true", "data-evolution.enabled": "true"}


class Evolving:
    """A table under three writers, and what each of its rows must be."""

    def __init__(self, catalog: Catalog, java: LatestJavaOracle, pypaimon: PypaimonOracle) -> None:
        java.create(catalog.root, "db.t", COLUMNS, partition_keys=["day"], options=EVOLVING)
        self.catalog, self.java, self.pypaimon = catalog, java, pypaimon
        self.table: Table = catalog.table("db.t")
        # By row id.
        self.model: dict[int, dict[str, Any]] = {}
        self.fresh = 0
        self.days = "ab"

    def tracked(self) -> list[dict[str, Any]]:
        self.table.refresh()
        found: list[dict[str, Any]] = self.table.inspect.table("row_tracking").to_pylist()
        return found

    def insert(self, chosen: random.Random) -> None:
        count, first = chosen.randint(1, 6), self.fresh
        self.fresh += count
        given = [
            {"id": each, "day": chosen.choice(self.days), "v": "x", "n": each}
            for each in range(first, first + count)
        ]
        write: list[Callable[[], object]] = [
            lambda: self.java.write(self.catalog.root, "db.t", given),
            lambda: self.pypaimon.write(self.catalog.root, "db.t", given),
            lambda: self.table.write(rows(self.table, given)),
        ]
        chosen.choice(write)()
        by_number = {row["id"]: row for row in self.tracked()}
        for row in given:
            empty = dict.fromkeys(self.table.schema.field_names)
            self.model[by_number[row["id"]]["_ROW_ID"]] = {**empty, **row}

    def update(self, chosen: random.Random) -> None:
        columns = chosen.choice([["v"], ["n"], ["v", "n"], ["id"]])
        ids = chosen.sample(sorted(self.model), chosen.randint(1, len(self.model)))
        values: dict[str, Callable[[], object]] = {
            "v": lambda: chosen.choice(["u", "w", None]),
            "n": lambda: chosen.randint(0, 99),
            "id": lambda: chosen.randint(1000, 9999),
        }
        given = [
            {"_ROW_ID": each, **{name: values[name]() for name in columns}} for each in sorted(ids)
        ]
        self.pypaimon.update_columns(self.catalog.root, "db.t", columns, given)
        for row in given:
            new = {name: row[name] for name in columns}
            self.model[row["_ROW_ID"]] |= new

    def alter(self, chosen: random.Random) -> None:
        name = f"c{len(self.table.schema.fields)}"
        self.table = self.table.alter(AddColumn(name, "INT"))
        for row in self.model.values():
            row[name] = None

    def replace_partition(self, chosen: random.Random) -> None:
        day = chosen.choice("ab")
        self.model = {each: row for each, row in self.model.items() if row["day"] != day}
        given = [{"id": self.fresh, "day": day, "v": "o", "n": 0}]
        self.fresh += 1
        self.table.write(rows(self.table, given), mode="overwrite", partition={"day": day})
        (new,) = (row for row in self.tracked() if row["day"] == day)
        empty = dict.fromkeys(self.table.schema.field_names)
        self.model[new["_ROW_ID"]] = {**empty, **given[0]}

    def keep_rows(self, chosen: random.Random) -> None:
        verbs: list[Callable[[], object]] = [
            lambda: compact(self.table, full=True),
            lambda: expire(self.table),
            lambda: self.table.upkeep.run(self.table.upkeep.plan_rewrite_manifests()),
        ]
        chosen.choice(verbs)()

    def check(self, chosen: random.Random) -> None:
        tracked = {row.pop("_ROW_ID"): row for row in self.tracked()}
        for row in tracked.values():
            assert row.pop("_SEQUENCE_NUMBER") > 0
        assert tracked == self.model
        mine = sorted(map(repr, self.table.read().to_pylist()))
        assert sorted(map(repr, self.java.read(self.catalog.root, "db.t"))) == mine
        assert sorted(map(repr, self.pypaimon.read(self.catalog.root, "db.t"))) == mine
        assert self.table.count() == len(self.model)
        at = chosen.randint(0, 99)
        filtered = self.table.read(columns=["id"], where=f"n >= {at}").to_pylist()
        wanted = [{"id": row["id"]} for row in self.model.values() if (row["n"] or 0) >= at]
        assert sorted(map(repr, filtered)) == sorted(map(repr, wanted))


@pytest.mark.parametrize(
    "seed", [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(3, 40))]
)
def test_rows_whose_columns_lie_in_several_files_are_one_row(
    unchecked_catalog: Catalog,
    java_latest: LatestJavaOracle,
    released_pypaimon: PypaimonOracle,
    seed: int,
) -> None:
    chosen = random.Random(seed)
    evolving = Evolving(unchecked_catalog, java_latest, released_pypaimon)
    evolving.insert(chosen)
    steps = [
        *(evolving.insert, evolving.update, evolving.update, evolving.update),
        *(evolving.alter, evolving.replace_partition, evolving.keep_rows, evolving.keep_rows),
    ]
    for _ in range(10):
        chosen.choice(steps)(chosen)
        evolving.check(chosen)
    remove_orphans(evolving.table)
    evolving.check(chosen)
    assert_sound(evolving.table)


@dataclass(frozen=True)
class Overtaken(LocalEngine):
    """An engine whose work is done when another commit gets in before its own."""

    commit: Callable[[], None] = lambda: None

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        done = super().map(function, tasks)
        self.commit()
        return done


def test_a_column_that_is_updated_during_a_compaction_is_not_lost(
    unchecked_catalog: Catalog, java_latest: LatestJavaOracle, released_pypaimon: PypaimonOracle
) -> None:
    chosen = random.Random(0)
    evolving = Evolving(unchecked_catalog, java_latest, released_pypaimon)
    # Two ranges of rows that a compaction makes one.
    evolving.days = "a"
    evolving.insert(chosen)
    evolving.insert(chosen)
    table = evolving.table.refresh()
    plan = table.upkeep.plan_compact(full=True)
    assert len(plan.tasks) == 1
    with pytest.raises(StalePlan, match="plan again"):
        table.upkeep.run(plan, engine=Overtaken(commit=lambda: evolving.update(chosen)))
    evolving.check(chosen)
    with pytest.raises(StalePlan, match="plan again"):
        table.upkeep.run(plan)
    evolving.check(chosen)
    remove_orphans(table)
    assert_sound(table)


def test_what_would_take_a_file_for_whole_rows_is_refused(
    unchecked_catalog: Catalog, java_latest: LatestJavaOracle, released_pypaimon: PypaimonOracle
) -> None:
    chosen = random.Random(0)
    evolving = Evolving(unchecked_catalog, java_latest, released_pypaimon)
    evolving.insert(chosen)
    evolving.update(chosen)
    table = evolving.table.refresh()
    day = evolving.model[0]["day"]
    for change in (
        lambda: table.delete("id = 1"),
        lambda: table.update({"v": "'z'"}, "id = 1"),
        lambda: table.upkeep.plan_sort_compact(by=["v"]),
        lambda: table.upkeep.plan_rename_partition({"day": day}, {"day": "z"}),
        lambda: list(table.read_changes(1, 2)),
    ):
        with pytest.raises(UnsupportedError, match=r"data-evolution\.enabled=true"):
            change()
    evolving.check(chosen)


def test_what_later_columns_were_built_on_is_not_taken_back(
    unchecked_catalog: Catalog, java_latest: LatestJavaOracle, released_pypaimon: PypaimonOracle
) -> None:
    chosen = random.Random(0)
    evolving = Evolving(unchecked_catalog, java_latest, released_pypaimon)
    evolving.days = "a"

    def update(column: str, value: object) -> None:
        given = [{"_ROW_ID": 0, column: value}]
        released_pypaimon.update_columns(unchecked_catalog.root, "db.t", [column], given)
        evolving.model[0][column] = value

    evolving.insert(chosen)
    update("v", "u")
    # This file holds the values of the rows that the update left alone, too.
    evolving.pypaimon.update_columns(
        unchecked_catalog.root, "db.t", ["v"], [{"_ROW_ID": 1, "v": "w"}]
    )
    evolving.model[1]["v"] = "w"
    update("n", 7)
    table = evolving.table.refresh()
    for snapshot, by in ((1, 2), (2, 3)):
        with pytest.raises(NotRevertible, match=rf"snapshot {by} .* wrote columns of the same"):
            table.history.revert(snapshot)
    evolving.check(chosen)
    table.history.revert(3)
    evolving.model[1]["v"] = "x"
    evolving.check(chosen)
    table.history.revert(2)
    evolving.model[0]["v"] = "x"
    evolving.check(chosen)
    remove_orphans(table)
    assert_sound(table)
