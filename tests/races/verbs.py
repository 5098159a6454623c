"""The verbs that race, and the small tables that they race on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lakewright.storage import AddColumn, Catalog, RenameColumn, Table
from lakewright.storage.operations.running.engine import LocalEngine
from tests.support.processes.interleaving import Actor
from tests.support.stores.stepped_files import Content, DictFiles, SteppedFiles, Stored
from tests.support.tables.builders import Values, comparable, expire, new_table, rows
from tests.support.tables.environment import START_MS, FixedClock, FixedEnv, SeededIds

_HOUR_MS = 3_600_000
# When the race is run: what lies there by then is old.
NOW_MS = START_MS + 48 * _HOUR_MS
_OLD_MS = START_MS + 24 * _HOUR_MS


@dataclass(frozen=True)
class Arena:
    """A table that lies in memory, to be copied for every race."""

    table: Table
    content: Content

    def table_on(self, files: SteppedFiles, seed: int = 0) -> Table:
        """The table on another store, with a clock and ids of its own."""
        env = FixedEnv(FixedClock(NOW_MS), SeededIds(seed))
        return Table(replace(self.table.table_files, fs=files, env=env))

    def table_in(self, content: Content) -> Table:
        """The table as a store holds it."""
        return self.table_on(DictFiles(content, NOW_MS))


def keyed_arena() -> Arena:
    """Two partitions, of one bucket each; four snapshots, of which the third is a compaction."""
    table = _empty_table(["day", "id"])
    table.write(rows(table, [*_day("a", [1, 2], "w"), *_day("b", [1, 2], "w")]))
    table.write(rows(table, _day("a", [2, 3], "x")))
    table.upkeep.run(table.upkeep.plan_compact(full=True))
    table.write(rows(table, [*_day("a", [3, 4], "y"), *_day("b", [2], "y")]))
    return _with_litter(table)


def append_arena() -> Arena:
    """The same without keys."""
    return _with_litter(_appended(_empty_table([])))


def away_arena() -> Arena:
    """Without keys, and partitioned since a moment: manifests name its files by their places."""
    table = _appended(_empty_table([], partitions=[]))
    schema = table.upkeep.respec(["day"]).schema
    return _with_litter(Table(replace(table.table_files, schema=schema)))


def _appended(table: Table) -> Table:
    table.write(rows(table, [*_day("a", [1, 2], "w"), *_day("b", [1, 2], "w")]))
    table.write(rows(table, _day("a", [2, 3], "x")))
    table.upkeep.run(table.upkeep.plan_compact(full=True))
    table.write(rows(table, [*_day("a", [3, 4], "y"), *_day("b", [2], "y")]))
    return table


def _empty_table(keys: list[str], partitions: Sequence[str] = ("day",)) -> Table:
    catalog = Catalog(DictFiles(), "/w", FixedEnv(ids=SeededIds(0)))
    options = {"bucket": "1"} if keys else {"bucket": "1", "bucket-key": "id"}
    return new_table(catalog, partitions=partitions, keys=keys, options=options)


def _day(day: str, ids: list[int], v: str) -> list[Values]:
    return [{"id": each, "day": day, "v": f"{v}{each}"} for each in ids]


def litter(table: Table) -> set[str]:
    """Paths of what processes that died have left behind."""
    root = table.table_files.paths.root
    return {f"{root}/day=a/bucket-0/data-dead-0.parquet", f"{root}/manifest/manifest-dead-0"}


def _with_litter(table: Table) -> Arena:
    fs = table.table_files.fs
    assert isinstance(fs, DictFiles)
    for path in litter(table):
        fs.make_dirs(path.rpartition("/")[0])
    found = fs.content | {path: Stored(b"left behind", START_MS) for path in litter(table)}
    return Arena(table, found)


# --- verbs ------------------------------------------------------------------------------------

# Does a verb, the first or second of its kind; says what a user is told besides that it went well.
Verb = Callable[[Table, int], str]


def _append(table: Table, number: int) -> str:
    table.write(rows(table, _day("b", [6, 6 + number], f"append{number}-")))
    return ""


def _upsert(table: Table, number: int) -> str:
    table.write(rows(table, _day("a", [1, 3, 6 + number], f"upsert{number}-")))
    return ""


def _overwrite(table: Table, number: int) -> str:
    new = rows(table, _day("a", [4, 8 + number], f"overwrite{number}-"))
    table.write(new, mode="overwrite", partition={"day": "a"})
    return ""


def _compact(table: Table, number: int) -> str:
    result = table.upkeep.run(table.upkeep.plan_compact(full=True))
    return f"{result.dropped_tasks} left out" if result.dropped_tasks else ""


def _rewrite_manifests(table: Table, number: int) -> str:
    result = table.upkeep.rewrite_manifests()
    return "" if result.snapshot else "nothing to do"


def _expire(table: Table, number: int) -> str:
    return "" if expire(table, keep=number).expired else "nothing to do"


def _remove_orphans(table: Table, number: int) -> str:
    table.upkeep.run(table.upkeep.plan_remove_orphans(before_ms=_OLD_MS, even_recent=True))
    return ""


def _rescale(table: Table, number: int) -> str:
    engine = LocalEngine(env=table.table_files.env)
    result = table.upkeep.run(table.upkeep.plan_rescale(1 + number), engine)
    return f"{len(result.dropped)} left out" if result.dropped else ""


def _rollback(table: Table, number: int) -> str:
    table.history.run(table.history.plan_rollback(snapshot=1 + number, grace_ms=0))
    return ""


def _drop(table: Table, number: int) -> str:
    table.upkeep.drop_partitions("day = 'a'")
    return ""


def _rename(table: Table, number: int) -> str:
    engine = LocalEngine(env=table.table_files.env)
    table.upkeep.rename_partition({"day": "a"}, {"day": "c"}, engine=engine)
    return ""


def _tag(table: Table, number: int) -> str:
    table.history.create_tag(f"t{number}", snapshot=1 + number)
    return ""


def _branch(table: Table, number: int) -> str:
    table.history.create_branch(f"b{number}", snapshot=1 + number)
    return ""


def _alter(table: Table, number: int) -> str:
    table.alter(RenameColumn("v", f"v{number}"), AddColumn(f"w{number}", "INT"))
    return ""


def _read(table: Table, number: int) -> str:
    return "\n".join(comparable(table.read()))


def respec(table: Table, number: int) -> str:
    """Keys go, or come; see `test_respecs.py`."""
    table.upkeep.respec([] if number == 1 else ["day", "v"])
    return ""


def respec_keyed(table: Table, number: int) -> str:
    """The same where keys must be of the primary key."""
    table.upkeep.respec([] if number == 1 else ["id"])
    return ""


def settle(table: Table, number: int) -> str:
    """Files come home; see `test_settles.py`."""
    left = table.upkeep.settle().files_left
    return f"{left} left" if left else ""


def add_key(table: Table, number: int) -> str:
    """A primary key for a table without one; see `test_added_primary_keys.py`."""
    table.upkeep.add_primary_key(["day", "id", "v"], buckets=number)
    return ""


def _delete(table: Table, number: int) -> str:
    return f"{table.delete(f'id = {1 + number}').deleted} deleted"


def _update(table: Table, number: int) -> str:
    done = table.update({"v": f"v || 'u{number}'"}, "id <> 2")
    return f"{done.updated} updated"


VERBS: dict[str, Verb] = {
    "append": _append,
    "upsert": _upsert,
    "overwrite": _overwrite,
    "compact": _compact,
    "manifests": _rewrite_manifests,
    "expire": _expire,
    "orphans": _remove_orphans,
    "rescale": _rescale,
    "rollback": _rollback,
    "drop": _drop,
    "rename": _rename,
    "delete": _delete,
    "update": _update,
    "tag": _tag,
    "branch": _branch,
    "alter": _alter,
    "read": _read,
}
WRITERS = ("append", "upsert", "overwrite")


def actors_of(arena: Arena) -> dict[tuple[str, int], Actor]:
    """Every verb twice, as actors; each has ids of its own."""
    keys = [(name, number) for name in VERBS for number in (1, 2)]
    return {
        (name, number): actor_of(arena, name, number, seed=seed, verb=VERBS[name])
        for seed, (name, number) in enumerate(keys, 1)
    }


def actor_of(arena: Arena, name: str, number: int, *, seed: int, verb: Verb) -> Actor:
    """One verb as an actor on the table."""
    return Actor(f"{name} {number}", lambda files: verb(arena.table_on(files, seed=seed), number))
