"""Makes the neglected warehouse with the clients themselves.

1. One table of each kind: small commits by its writer, with tags, branches and consumers.
2. Writers that are killed between their files and their commit leave orphans.
3. The past is moved back: times in schemas, snapshots and tags, and the age of the orphans, so that
   the commits of some seconds are those of six weeks.
4. Copies of the folders are the other tables. To every client a copied folder is a table.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from benchmarks.neglected.kinds import JAVA, KINDS, PYPAIMON, Kind
from tests.oracles.client import WritingOracle, start_java_latest, start_pypaimon

AGE_MS = 42 * 86_400_000
ORPHAN_AGE_S = 5 * 86_400
OLD_DAYS = (200, 150, 100)
LATE_DAYS = (4, 3, 2, 1)
FIELDS = {"id": "BIGINT NOT NULL", "day": "STRING NOT NULL", "v": "STRING", "amount": "BIGINT"}
ROWS, IDS = 4, 60
_MOST_LONG = 2


@dataclass(frozen=True, slots=True)
class Made:
    """One table of a kind, and the rows that a compaction shows, for tables that lag."""

    kind: Kind
    table: str
    commits: int
    expected: tuple[Mapping[str, Any], ...] | None


def table_name(kind: Kind, number: int) -> str:
    return f"{kind.database}.{kind.name}_{number:02}"


def folder_of(warehouse: Path, table: str) -> Path:
    database, name = table.split(".")
    return warehouse / f"{database}.db" / name


def build(warehouse: Path, oracles: Path, *, tables: int, commits: int, long: int) -> list[Made]:
    """Make the warehouse; what is in it, copies included."""
    warehouse.mkdir(parents=True, exist_ok=True)
    kinds = KINDS[: min(tables, len(KINDS))]
    with writers(oracles) as clients:
        made = [
            _make(
                warehouse, clients[kind.writer], clients[JAVA], kind, _commits(kind, commits, long)
            )
            for kind in kinds
        ]
    _leave_orphans(warehouse, oracles, made)
    for each in made:
        _move_back(folder_of(warehouse, each.table))
    return [*made, *_copy(warehouse, made, tables - len(made))]


class Clients(dict[str, WritingOracle]):
    """Both clients, each a process that lives as long as the context."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.values():
            each.close()


def writers(oracles: Path) -> Clients:
    return Clients(
        {
            JAVA: start_java_latest(oracles / "java_latest"),
            PYPAIMON: start_pypaimon(oracles / "pypaimon"),
        }
    )


def _commits(kind: Kind, commits: int, long: int) -> int:
    return long if kind.is_long else commits * kind.share // 100


# --- one table --------------------------------------------------------------------------------


def _make(
    warehouse: Path, writer: WritingOracle, java: WritingOracle, kind: Kind, commits: int
) -> Made:
    root, table = str(warehouse), table_name(kind, 0)
    fields, chance = dict(FIELDS), random.Random(kind.name)
    writer.create(
        root,
        table,
        fields,
        partition_keys=["day"] if kind.by_day else [],
        primary_keys=[*(["day"] if kind.by_day else []), "id"] if kind.keyed else [],
        options=dict(kind.options) or None,
    )
    expected: dict[tuple[object, ...], dict[str, Any]] = {}
    for number in range(commits):
        if kind.adds_column and number == commits // 2:
            writer.alter(root, table, {"add_column": "note", "type": "STRING"})
            fields["note"] = "STRING"
        rows, kinds = _rows(kind, number, commits, fields, chance)
        writer.write(root, table, rows, kinds=kinds if kind.deletes else None)
        _merge(expected, kind, rows, kinds)
        if kind.compacts_every and number % kind.compacts_every == kind.compacts_every - 1:
            java.compact(root, table, full=number % 2 == 0)  # type: ignore[attr-defined]
        if number and number % max(commits // (kind.tags + 1), 1) == 0 and kind.tags:
            writer.create_tag(root, table, f"tag-{number}")
        if kind.has_branch and number == commits // 2:
            writer.create_tag(root, table, "branched")
            writer.create_branch(root, table, "trial", tag="branched")
    if kind.has_consumer:
        # A reader that stopped two thirds of the way.
        folder = folder_of(warehouse, table) / "consumer"
        folder.mkdir()
        (folder / "consumer-reports").write_text(json.dumps({"nextSnapshot": commits * 2 // 3}))
    return Made(kind, table, commits, tuple(expected.values()) if kind.lags else None)


def _rows(
    kind: Kind, number: int, commits: int, fields: Mapping[str, str], chance: random.Random
) -> tuple[list[dict[str, Any]], list[Any]]:
    """The rows of a commit: the first fifth of the commits is about days that are old now."""
    today = dt.datetime.now(dt.UTC).date()
    late = LATE_DAYS if kind.keyed else LATE_DAYS[-2:]
    ages = OLD_DAYS if number < commits // 5 and not kind.keyed else late
    day = (today - dt.timedelta(days=ages[number % len(ages)])).isoformat()
    # A key once in a commit, so that the order within a commit does not matter.
    ids = (
        chance.sample(range(IDS), ROWS) if kind.keyed else range(number * ROWS, (number + 1) * ROWS)
    )
    rows = [
        {
            "id": each,
            "day": day,
            "v": f"{kind.name} {number} {chance.random()}",
            "amount": chance.randrange(1000),
            **({"note": f"note {number}"} if "note" in fields else {}),
        }
        for each in ids
    ]
    gone = kind.deletes and number % 5 == 4
    return rows, ["-D" if gone and at == 0 else "+I" for at in range(len(rows))]


def _merge(
    expected: dict[tuple[object, ...], dict[str, Any]],
    kind: Kind,
    rows: Sequence[dict[str, Any]],
    kinds: Sequence[str],
) -> None:
    """What a table that lags holds once its rows are compacted."""
    for row, what in zip(rows, kinds, strict=True):
        key = (row["day"] if kind.by_day else "", row["id"])
        if what == "-D":
            expected.pop(key, None)
        elif kind.options.get("merge-engine") == "first-row":
            expected.setdefault(key, row)
        else:
            expected[key] = row


# --- neglect ----------------------------------------------------------------------------------


def _leave_orphans(warehouse: Path, oracles: Path, made: Sequence[Made]) -> None:
    """Files that no snapshot names, of writers that are killed before their commit."""
    before = set(_files(warehouse))
    for tried in range(2):
        with writers(oracles) as clients:
            for each in made:
                rows, _ = _rows(
                    each.kind, each.commits - 1, each.commits, FIELDS, random.Random(tried)
                )
                clients[each.kind.writer].begin_write(
                    str(warehouse), each.table, rows, prepare=tried > 0
                )
            for client in clients.values():
                client.kill()
    time.sleep(1)
    for path in set(_files(warehouse)) - before:
        old = path.stat().st_mtime - ORPHAN_AGE_S
        os.utime(path, (old, old))


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def _move_back(table: Path) -> None:
    """Spread the times of a table's metadata over the weeks before now, in their order."""
    paths = [
        path
        for kind in ("schema/schema-*", "snapshot/snapshot-*", "tag/tag-*")
        for path in (*table.glob(kind), *table.glob(f"branch/*/{kind}"))
    ]
    told = {path: json.loads(path.read_text()) for path in paths}
    times = [each["timeMillis"] for each in told.values()]
    first, last = min(times), max(times)
    scale = AGE_MS / max(last - first, 1)
    for path, each in told.items():
        moved = last - round((last - each["timeMillis"]) * scale)
        path.write_text(json.dumps(each | {"timeMillis": moved}))


def _copy(warehouse: Path, made: Sequence[Made], count: int) -> Iterator[Made]:
    """Further tables in turn; of long ones only one more."""
    numbers = {each.table: 0 for each in made}
    while count > 0:
        for each in made:
            number = numbers[each.table] + 1
            if count == 0 or (each.kind.is_long and number >= _MOST_LONG):
                continue
            numbers[each.table] = number
            name = table_name(each.kind, number)
            shutil.copytree(folder_of(warehouse, each.table), folder_of(warehouse, name))
            count -= 1
            yield Made(each.kind, name, each.commits, each.expected)
