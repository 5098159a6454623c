"""What the soak's writers write, and what the tables must hold after each number of commits.

A writer commits batches with consecutive numbers. Each batch holds a row with its own number, so a
reader finds in the rows which batches it sees, and the model says what all rows must be then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
Key = tuple[str, int]
# Of one writer: `(n, a, b)` by `(day, id)`.
State = dict[Key, tuple[int, int | None, int | None]]

COLUMNS = {
    "day": "STRING NOT NULL",
    "w": "INT NOT NULL",
    "id": "BIGINT NOT NULL",
    "n": "BIGINT",
    "a": "BIGINT",
    "b": "BIGINT",
}
DAYS, KEYS, ROWS, DELETED_AFTER = 3, 2_000, 50, 5


@dataclass(frozen=True)
class Kind:
    """A table of the soak, and its writers by the client of each.

    `streamed` are tables that follow a source: what a reader sees may end within a batch. A table
    of `folders` has no snapshots, so a batch is one file of it. Of `published` ones DuckDB reads
    Iceberg metadata. `unread_by` names clients that cannot read the table.
    """

    name: str
    writers: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    keyed: bool = False
    merge: str = ""
    deletes: bool = False
    made_by: str = "python"
    keys: int = KEYS
    streamed: bool = False
    folders: bool = False
    published: bool = False
    unread_by: tuple[str, ...] = ()

    @property
    def table(self) -> str:
        return f"soak.{self.name}"

    def batch(self, number: int) -> list[Row]:
        """The rows of a writer's batch, without the writer."""
        # A partial update fills one column of a key first, and the other one batch later.
        first = number // 2 * ROWS if self.merge == "partial" else number * ROWS
        rows = []
        for at in range(ROWS):
            each = (first + at) % self.keys if self.keyed else first + at
            a, b = number, number * at
            day = number if self.folders else each
            rows.append({"day": f"2026-01-0{1 + day % DAYS}", "id": each, "n": number})
            match self.merge:
                case "partial":
                    rows[-1] |= {"a": a if number % 2 else None, "b": None if number % 2 else b}
                case _:
                    rows[-1] |= {"a": a, "b": b}
        return rows

    def fold(self, state: State, number: int) -> None:
        """What a batch does to the rows of its writer."""
        for row in self.batch(number):
            key = row["day"], row["id"]
            _, a, b = state.get(key, (0, None, None))
            match self.merge:
                case "partial":
                    state[key] = (
                        number,
                        a if row["a"] is None else row["a"],
                        b if row["b"] is None else row["b"],
                    )
                case "sum":
                    state[key] = number, (a or 0) + row["a"], max(b or 0, row["b"])
                case _:
                    state[key] = number, row["a"], row["b"]

    def deleted_with(self, number: int) -> int | None:
        """The batch whose rows the writer deletes before this batch."""
        return number - DELETED_AFTER if self.deletes and number >= DELETED_AFTER else None

    def drop(self, state: State, number: int | None) -> None:
        """What the deletion of a batch does."""
        for row in () if number is None else self.batch(number):
            state.pop((row["day"], row["id"]), None)


@dataclass
class Model:
    """The rows of each table as far as a reader has seen them, to which later batches are added."""

    _seen: dict[tuple[str, int], tuple[int, State]] = field(default_factory=dict)

    def faults(
        self,
        kind: Kind,
        rows: Sequence[Mapping[str, Any]],
        least: Sequence[int],
        most: Sequence[int],
        since: int = 0,
    ) -> Iterator[str]:
        """What is wrong with the rows that a reader got.

        `least` are the commits that each writer had made before the read, `most` those that it
        may have made after it. Batches before `since` were not read.
        """
        of_writer: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
        for row in rows:
            of_writer[row["w"]].append(row)
        for writer in range(len(kind.writers)):
            own = of_writer.pop(writer, [])
            batches = 1 + max((row["n"] for row in own), default=-1)
            if not least[writer] <= batches <= most[writer]:
                yield (
                    f"{kind.table}: writer {writer} has committed {least[writer]} to "
                    f"{most[writer]} batches, and a reader sees {batches}"
                )
                continue
            found = {(row["day"], row["id"]): (row["n"], row["a"], row["b"]) for row in own}
            if len(found) < len(own):
                yield f"{kind.table}: {len(own) - len(found)} rows of writer {writer} are doubled"
            before = dict(self.state(kind, writer, batches - 1)) if kind.streamed else {}
            expected = {
                key: row
                for key, row in self.state(kind, writer, batches).items()
                if row[0] >= since
            }
            if found == expected:
                continue
            if kind.streamed and is_between(found, before, expected, since):
                continue
            after = dict(expected)
            kind.drop(after, kind.deleted_with(batches))
            if found != after:
                told = difference(found, expected)
                yield f"{kind.table}: {told}: writer {writer}, {batches} batches"
        if of_writer:
            yield f"{kind.table}: rows of writers {sorted(of_writer)}, which do not exist"

    def state(self, kind: Kind, writer: int, batches: int) -> State:
        """The rows of a writer after a number of batches."""
        number, state = self._seen.get((kind.name, writer), (0, {}))
        batches = max(batches, 0)
        if number > batches:
            number, state = 0, {}
        while number < batches:
            kind.drop(state, kind.deleted_with(number))
            kind.fold(state, number)
            number += 1
        self._seen[kind.name, writer] = number, state
        return state


def is_between(found: State, before: State, after: State, since: int) -> bool:
    """Whether rows are those of a state, some of which the next batch has changed already."""
    before = {key: row for key, row in before.items() if row[0] >= since}
    return found.keys() <= after.keys() and all(
        found.get(key) in (before.get(key), row) for key, row in after.items()
    )


def difference(found: State, expected: State) -> str:
    """How many rows are missing, unexpected and wrong, with one of each."""
    missing, extra = expected.keys() - found.keys(), found.keys() - expected.keys()
    wrong = [key for key in expected.keys() & found.keys() if expected[key] != found[key]]
    told = [
        f"{len(keys)} rows {what}, such as {min(keys)}"
        for what, keys in (("missing", missing), ("unexpected", extra), ("wrong", wrong))
        if keys
    ]
    if wrong:
        told.append(f"{found[min(wrong)]} for {expected[min(wrong)]}")
    return ", ".join(told)


_KEYED = {"bucket": "2", "write-only": "true"}
_PUBLISHED = {"metadata.iceberg.storage": "table-location"}
KINDS = (
    Kind("append", ("python", "sql", "python"), _PUBLISHED, published=True),
    Kind("fixed", ("python", "sql"), _KEYED, keyed=True),
    Kind(
        "dynamic",
        ("python",),
        {"bucket": "-1", "dynamic-bucket.target-row-num": "1500"},
        keyed=True,
    ),
    Kind("vectors", ("python",), {"deletion-vectors.enabled": "true"}, deletes=True),
    Kind(
        "partial",
        ("python",),
        {**_KEYED, "merge-engine": "partial-update"},
        keyed=True,
        merge="partial",
    ),
    Kind(
        "total",
        ("python", "python"),
        {
            **_KEYED,
            "merge-engine": "aggregation",
            "fields.n.aggregate-function": "max",
            "fields.a.aggregate-function": "sum",
            "fields.b.aggregate-function": "max",
        },
        keyed=True,
        merge="sum",
    ),
    Kind("changes", ("python",), {**_KEYED, "changelog-producer": "input"}, keyed=True),
    Kind("java", ("java",), _KEYED, keyed=True, made_by="java"),
    Kind("pypaimon", ("pypaimon",), {}, made_by="pypaimon", published=True),
    # pypaimon takes a format table for an empty one.
    Kind("folder", ("python",), folders=True, unread_by=("pypaimon",)),
    Kind("captured", ("postgres",), keyed=True, made_by="dagster", streamed=True),
    Kind("topic", ("kafka",), made_by="dagster", streamed=True),
    # More keys than it writes between two reads, so no row that is lost is replaced unseen.
    Kind("flink", ("flink",), _KEYED, keyed=True, keys=20_000, streamed=True),
    Kind("spark", ("spark",), {}, streamed=True),
)
BY_NAME = {kind.name: kind for kind in KINDS}
