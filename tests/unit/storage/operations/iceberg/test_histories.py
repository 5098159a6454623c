"""Random histories of every verb: after each step pyiceberg reads what the table reads."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from lakewright.storage import (
    AddColumn,
    Catalog,
    DropColumn,
    RenameColumn,
    Table,
)
from lakewright.storage.errors import (
    StorageError,
)
from tests.support.tables.builders import ANY_LOSS, events, new_table, rows
from tests.support.tables.iceberg import assert_seen_alike
from tests.support.tables.invariants import assert_only_reachable_files

PUBLISHED = {"metadata.iceberg.storage": "table-location"}
KINDS = {
    "append": {"partitions": ["day"], "options": {}},
    "append with vectors": {
        "partitions": ["day"],
        "options": {"deletion-vectors.enabled": "true"},
    },
    "append in one folder": {"options": {"deletion-vectors.enabled": "true"}},
    "append with row ids": {"options": {"row-tracking.enabled": "true"}},
    "buckets": {"options": {"bucket": "2", "bucket-key": "id"}},
    "keyed with vectors": {
        "keys": ["id", "day"],
        "partitions": ["day"],
        "options": {"bucket": "2", "deletion-vectors.enabled": "true"},
    },
    "keyed": {"keys": ["id"], "options": {"bucket": "1"}},
}


class History:
    """One history: each step is a method; what a table refuses is left out."""

    def __init__(self, catalog: Catalog, kind: str, seed: int) -> None:
        self.random = random.Random(seed)
        given = KINDS[kind]
        options = {**PUBLISHED, **given["options"]}
        self.table: Table = new_table(
            catalog,
            keys=given.get("keys", ()),
            partitions=given.get("partitions", ()),
            options=options,
        )
        self.catalog = catalog
        self.kind = kind
        self.told: list[str] = []

    @property
    def steps(self) -> list[Callable[[], object]]:
        return [getattr(self, name) for name in dir(self) if name.startswith("do_")]

    def step(self) -> None:
        todo = self.random.choices(
            self.steps, [3 if "write" in s.__name__ else 1 for s in self.steps]
        )[0]
        self.told.append(todo.__name__)
        try:
            todo()
        except (StorageError, IndexError) as error:
            self.told[-1] += f" refused: {type(error).__name__} {error}"[:160]
        self.table = self.catalog.table("db.t")

    def some_rows(self) -> list[dict[str, object]]:
        first = self.random.randrange(30)
        day = self.random.choice(["a", "b", "c"])
        found = events(
            first, first + self.random.randrange(1, 8), day=day, v=f"{self.random.random()}"
        )
        names = set(self.table.schema.field_names)
        return [{k: v for k, v in row.items() if k in names} for row in found]

    # --- rows

    def do_write(self) -> None:
        self.table.write(rows(self.table, self.some_rows()))

    def do_write_and_compact(self) -> None:
        self.table.write(rows(self.table, self.some_rows()), compact=True)

    def do_write_over(self) -> None:
        self.table.write(rows(self.table, self.some_rows()), mode="overwrite")

    def do_delete(self) -> None:
        first = self.random.randrange(30)
        self.table.delete(f"id >= {first} and id < {first + self.random.randrange(1, 9)}")

    def do_update(self) -> None:
        self.table.update({"v": "'changed'"}, f"id = {self.random.randrange(30)}")

    def do_drop_partitions(self) -> None:
        self.table.upkeep.drop_partitions("day = 'a'", if_exists=True)

    # --- files

    def do_compact(self) -> None:
        self.table.upkeep.compact(min_files=2)

    def do_compact_fully(self) -> None:
        self.table.upkeep.compact(full=True)

    def do_sort(self) -> None:
        self.table.upkeep.sort_compact(by=["id"])

    def do_rewrite_manifests(self) -> None:
        self.table.upkeep.rewrite_manifests()

    def do_analyze(self) -> None:
        self.table.upkeep.analyze()

    def do_rescale(self) -> None:
        self.table.upkeep.rescale(buckets=self.random.choice([1, 2, 3]))

    # --- history

    def do_tag(self) -> None:
        ids = [each.id for each in self.table.history.snapshots()]
        self.table.history.create_tag(
            f"t{self.random.randrange(4)}", snapshot=self.random.choice(ids)
        )

    def do_move_tag(self) -> None:
        ids = [each.id for each in self.table.history.snapshots()]
        name = self.random.choice(self.table.history.tags()).name
        self.table.history.replace_tag(name, snapshot=self.random.choice(ids))

    def do_delete_tag(self) -> None:
        name = self.random.choice(self.table.history.tags()).name
        self.table.history.delete_tags(name, grace_ms=0)

    def do_expire(self) -> None:
        keep = self.random.randrange(1, 4)
        grace = self.random.choice([0, 3_600_000])
        self.table.upkeep.expire_snapshots(
            retain_min=1, retain_max=keep, time_retained_ms=0, grace_ms=grace
        )

    def do_roll_back(self) -> None:
        ids = [each.id for each in self.table.history.snapshots()]
        self.table.history.rollback(snapshot=self.random.choice(ids[-4:]), grace_ms=0)

    def do_put_back(self) -> None:
        record = self.random.choice(self.table.upkeep.condemned()).id
        self.table.upkeep.put_back(record)

    def do_collect(self) -> None:
        self.table.upkeep.collect(early=True)

    def do_remove_orphans(self) -> None:
        self.table.upkeep.remove_orphans(older_than_ms=0, even_recent=True, grace_ms=0)

    def do_revert(self) -> None:
        snapshot = self.random.choice(self.table.history.snapshots())
        self.table.history.revert(snapshot.id)

    def do_fast_forward(self) -> None:
        snapshot = self.random.choice(self.table.history.snapshots())
        branch = self.table.history.create_branch("b", snapshot=snapshot.id)
        branch.write(rows(branch, self.some_rows()))
        self.table.history.fast_forward("b", grace_ms=0)

    def do_delete_branch(self) -> None:
        self.table.history.delete_branch("b", grace_ms=0)

    # --- columns

    def do_add_column(self) -> None:
        name = f"c{self.random.randrange(3)}"
        self.table.alter(AddColumn(name, "INT"), rules=ANY_LOSS)

    def do_rename_column(self) -> None:
        names = [n for n in self.table.schema.field_names if n.startswith("c")]
        self.table.alter(
            RenameColumn(self.random.choice(names), f"c{self.random.randrange(9)}"),
            rules=ANY_LOSS,
        )

    def do_drop_column(self) -> None:
        names = [n for n in self.table.schema.field_names if n.startswith("c")]
        self.table.alter(DropColumn(self.random.choice(names)), rules=ANY_LOSS)

    def do_respec(self) -> None:
        keys = self.random.choice([[], ["day"]])
        self.table.upkeep.respec(keys=keys)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("seed", "count"),
    [(1, 14), *(pytest.param(n, 120, marks=pytest.mark.deep) for n in range(2, 12))],
)
def test_iceberg_readers_see_each_state_of_a_history(
    catalog: Catalog, kind: str, seed: int, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    history = History(catalog, kind, seed)
    history.do_write()
    for at in range(count):
        history.step()
        table = history.table
        if any(word in history.told[-1] for word in ("column", "respec")):
            # A change of columns is no commit.
            table.upkeep.publish_iceberg()
        try:
            assert not caplog.records, caplog.text
            assert_seen_alike(table, history=at % 7 == 6)
            assert_only_reachable_files(table)
        except BaseException as error:
            error.add_note("\n".join(history.told))
            raise
