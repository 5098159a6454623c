"""Random histories of primary-key tables: sequences of steps on a table.

The seed alone determines a history, so its number reproduces it. A history is a value: it can be
applied to two tables, and shortened (`shrink`).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

Row = dict[str, Any]
Kinds = tuple[str, ...]
PARTITION = "p"
LONG_BYTES = 3000
# The producers whose compactions write changelogs.
COMPACTING_PRODUCERS = frozenset({"full-compaction", "lookup"})
# Canonical values of each column type; nullable columns get null too.
VALUES: dict[str, tuple[Any, ...]] = {
    "BOOLEAN": (True, False),
    "TINYINT": (-7, 0, 100),
    "SMALLINT": (-300, 0, 300),
    "INT": (-5, 0, 7, 40),
    "BIGINT": (-1, 0, 3, 2**40),
    "DOUBLE": (-1.25, 0.0, 0.5, 1024.0),
    "STRING": ("", "a", "b,c", "ä中\U0001f600", "longer than seven"),
    "BYTES": ("", "00ff", "6162636465666768"),
    "DECIMAL(10, 2)": ("-3.25", "0.00", "12345678.90"),
    "DECIMAL(20, 5)": ("-0.00001", "1.50000", "123456789012345.00000"),
    "DATE": ("1969-12-31", "2024-01-02", "2024-02-29"),
    "TIMESTAMP(3)": ("2024-01-02T03:04:05.678000", "2001-01-01T00:00:00.000000"),
    "TIMESTAMP(6)": ("2024-01-02T03:04:05.678901", "2001-01-01T00:00:00.000001"),
    "ARRAY<INT>": ([], [1, None, 3]),
    "ARRAY<STRING>": ([], ["a", "b"], ["a", None], ["c"]),
    "MAP<INT, STRING>": ([], [[1, "a"]], [[1, "b"], [2, None]], [[3, "c"]]),
    "ARRAY<ROW<x INT, y STRING>>": (
        [{"x": 1, "y": "a"}],
        [{"x": 1, "y": "b"}, {"x": 2, "y": None}],
        [{"x": 3, "y": "c"}],
    ),
}
# A few values each, so that keys repeat.
KEYS: tuple[dict[str, tuple[Any, ...]], ...] = (
    {"BIGINT": (-(2**40), 0, 1, 2, 3, 2**40)},
    {"STRING": ("", "a", "b", "ä中\U0001f600", "eight888", "longer than seven")},
    {"INT": (-1, 1, 2), "STRING": ("a", "longer than seven")},
    {"DATE": ("1969-12-31", "1970-01-01", "2024-01-02", "2024-02-29")},
    {"DECIMAL(10, 2)": ("-3.25", "0.00", "1.10", "12345678.90")},
    {"DECIMAL(20, 5)": ("-1.00000", "0.00000", "123456789012345.00000"), "SMALLINT": (-1, 2)},
    {"TIMESTAMP(6)": ("1969-12-31T23:59:59.000000", "2024-01-02T03:04:05.678901")},
    {"TINYINT": (-1, 0, 1, 2), "BOOLEAN": (True, False)},
    {"BYTES": ("", "00", "00ff", "6162636465666768")},
    {"DOUBLE": (-1.5, 0.0, 0.5, 1e300)},
)
OPERATORS = ("=", "<>", "<", ">=", "IS NULL")
# Types whose values are compared by filters.
FILTERED = frozenset({"INT", "BIGINT", "SMALLINT", "TINYINT", "STRING", "DATE", "DOUBLE"})
PARTITIONS: dict[str, tuple[Any, ...]] = {"STRING": ("x", "y=z"), "INT": (1, -2)}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One kind of table, and which histories make sense for it.

    `columns` are the value columns with their types. `kinds` are the written row kinds, `retracts`
    those that are only written for existing keys. `sequence` names INT columns that order rows.
    With `lags`, reads skip level 0, so rows appear after the next compaction. `ordered`: the rows
    depend only on the order of writes; if not, only full compactions keep two tables equal. Without
    `merges_retractions`, no two retractions are merged before the row that they retract: Java 0.9
    would write files that it cannot read. Arrays in `bags` have no order. `pools` replaces the
    values of a type for a column. `others` are the clients besides Java that read such tables
    correctly.
    """

    name: str
    columns: Mapping[str, str]
    options: Mapping[str, str] = field(default_factory=dict)
    kinds: Kinds = ("+I",)
    sequence: tuple[str, ...] = ()
    lags: bool = False
    ordered: bool = True
    merges_retractions: bool = True
    bags: frozenset[str] = frozenset()
    formats: tuple[str, ...] = ("parquet",)
    # "fixed", "dynamic" or "postpone".
    buckets: str = "fixed"
    deletion_vectors: bool = False
    pools: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    others: tuple[str, ...] = ("pypaimon", "rust")


@dataclass(frozen=True)
class Write:
    """One commit of rows with their kinds."""

    rows: tuple[Row, ...]
    kinds: Kinds


@dataclass(frozen=True)
class Overwrite:
    """Rows in place of the whole table, of the partitions they touch, or of one partition."""

    rows: tuple[Row, ...]
    # None: the whole table. "dynamic": the partitions of the rows. Else the partition's value.
    target: Any = None


@dataclass(frozen=True)
class Compact:
    """A compaction of every bucket, full or as the policy picks."""

    full: bool


@dataclass(frozen=True)
class Rescale:
    """A rescale: the option changes and every row is rewritten.

    If only compactions make rows or changes visible, one runs before and one after it.
    """

    buckets: int


@dataclass(frozen=True)
class Expire:
    """Only the last snapshots stay."""

    keep: int


@dataclass(frozen=True)
class Respec:
    """Other partition keys; the rows stay."""

    keys: tuple[str, ...]


Step = Write | Overwrite | Compact | Rescale | Expire | Respec


@dataclass(frozen=True)
class Condition:
    """A column compared with a canonical value."""

    column: str
    operator: str
    value: Any = None

    def holds(self, row: Row) -> bool:
        """Whether a row meets the condition; null never does."""
        found = row[self.column]
        if self.operator == "IS NULL" or found is None:
            return self.operator == "IS NULL" and found is None
        left, right = _in_order(found), _in_order(self.value)
        match self.operator:
            case "=":
                return bool(left == right)
            case "<>":
                return bool(left != right)
            case "<":
                return bool(left < right)
            case _:
                return bool(left >= right)


def _in_order(value: Any) -> Any:
    """Texts are compared by their bytes."""
    return value.encode() if isinstance(value, str) else value


@dataclass(frozen=True)
class History:
    """A table and its steps; `hands` picks the actor of each step in a mixed run."""

    setting: Setting
    seed: int
    keys: Mapping[str, str]
    partition_type: str | None
    options: Mapping[str, str]
    steps: tuple[Step, ...]
    hands: tuple[int, ...]
    # Conditions of filtered reads.
    conditions: tuple[Condition, ...] = ()

    @property
    def columns(self) -> dict[str, str]:
        """Every column with its type."""
        partition = {PARTITION: self.partition_type} if self.partition_type else {}
        return {**partition, **self.keys, **self.setting.columns}

    @property
    def partition_keys(self) -> tuple[str, ...]:
        return (PARTITION,) if self.partition_type else ()

    @property
    def primary_keys(self) -> tuple[str, ...]:
        return (*self.partition_keys, *self.keys)

    @property
    def written_keys(self) -> tuple[Row, ...]:
        """Every primary key that a step names."""
        written = [step.rows for step in self.steps if isinstance(step, Write | Overwrite)]
        keys = [{name: row[name] for name in self.primary_keys} for rows in written for row in rows]
        return tuple({json.dumps(key): key for key in keys}.values())

    @property
    def compacts_by_policy(self) -> bool:
        """Whether compactions depend on the sizes of files."""
        picks = any(isinstance(step, Compact) and not step.full for step in self.steps)
        return picks or self.options["write-only"] != "true"

    @property
    def is_foreseeable(self) -> bool:
        """Whether the steps alone determine the rows of a read."""
        shows_at_once = self.setting.lags and self.options["write-only"] != "true"
        return self.setting.ordered and not shows_at_once

    @property
    def compacts_around_rescales(self) -> bool:
        """Whether a rescale needs compactions around it to lose no rows or changes."""
        producer = self.options.get("changelog-producer")
        return self.setting.lags or producer in COMPACTING_PRODUCERS

    def __str__(self) -> str:
        about = f"key {dict(self.keys)}, partition {self.partition_type}"
        lines = [f"{self.setting.name}, seed {self.seed}: {about}, options {dict(self.options)}"]
        lines += [f"     filtered by {condition}" for condition in self.conditions]
        for number, (step, hand) in enumerate(zip(self.steps, self.hands, strict=True), 1):
            lines.append(f"{number:3}. (hand {hand}) {described(step)}")
        return "\n".join(lines)


def described(step: Step) -> str:
    """A step as a line or more of text."""
    match step:
        case Write(rows, kinds):
            listed = zip(kinds, rows, strict=True)
            return "write" + "".join(f"\n       {kind} {_shown(row)}" for kind, row in listed)
        case Overwrite(rows, target):
            shown = "".join(f"\n       {_shown(row)}" for row in rows)
            return f"overwrite {target or 'table'}{shown}"
        case _:
            return str(step)


def _shown(row: Row) -> str:
    """A row with its long texts cut."""
    return json.dumps(
        {
            name: f"{value[:20]}…" if isinstance(value, str) and len(value) > LONG_BYTES else value
            for name, value in row.items()
        }
    )


def draw(
    setting: Setting,
    seed: int,
    *,
    length: int = 9,
    write_only: bool | None = None,
    minor: bool = True,
) -> History:
    """The history of that number.

    With `write_only` None, the seed decides whether Java's writers compact.
    """
    return _Author(setting, seed, minor=minor).history(length, write_only)


class _Author:
    """Draws steps, and tracks the existing keys."""

    def __init__(self, setting: Setting, seed: int, *, minor: bool) -> None:
        self._random = Random(f"{setting.name} {seed}")
        self._setting = setting
        self._seed = seed
        self._minor = minor
        chosen = self._random.choice(KEYS)
        self._keys = {f"k{number}": each for number, each in enumerate(chosen)}
        self._key_values = list(itertools.product(*chosen.values()))
        self._partition_type = self._random.choice((None, None, *PARTITIONS))
        self._there: set[tuple[Any, ...]] = set()
        # A row of a key that was deleted at a sequence must be newer than that: otherwise it
        # depends on when the deletion was dropped.
        self._floors: dict[tuple[Any, ...], int] = {}
        self._descends = setting.options.get("sequence.field.sort-order") == "descending"

    def history(self, length: int, write_only: bool | None) -> History:
        random, setting = self._random, self._setting
        if write_only is None:
            write_only = random.random() < 0.5
        options = {"file.format": random.choice(setting.formats), **self._buckets()}
        if setting.deletion_vectors:
            options["deletion-vectors.enabled"] = "true"
        layered = self._minor and random.random() < 0.5
        trigger = 2 if layered else random.choice((2, 3, 5))
        options["num-sorted-run.compaction-trigger"] = str(trigger)
        options["write-only"] = str(write_only).lower()
        if random.random() < 0.4:
            # So small that our writers start a file with every row, and every commit merges
            # manifests.
            options |= {"target-file-size": "1 b", "manifest.merge-min-count": "2"}
        options |= setting.options
        steps = self._layers(length) if layered else self._anything(length)
        if not isinstance(steps[-1], Compact):
            steps.append(Compact(full=True))
        return History(
            setting=setting,
            seed=self._seed,
            keys=self._keys,
            partition_type=self._partition_type,
            options=options,
            steps=tuple(steps),
            hands=tuple(random.randrange(2) for _ in steps),
            conditions=tuple(self._conditions()),
        )

    def _anything(self, length: int) -> list[Step]:
        steps: list[Step] = [self._write(self._random.randint(3, 7))]
        while len(steps) < length:
            steps.append(self._step())
        return steps

    def _layers(self, length: int) -> list[Step]:
        """Small files over one with every key, so that compactions stop at a middle level."""
        base = self._write(2 * len(self._key_values))
        # Texts that do not compress: runs of equal size would all be merged.
        names = [name for name, text in self._setting.columns.items() if text == "STRING"]
        rows = tuple(
            {**row, **{name: self._random.randbytes(LONG_BYTES).hex() for name in names}}
            for row in base.rows
        )
        steps: list[Step] = [Write(rows, base.kinds), Compact(full=True)]
        while len(steps) < length:
            steps += [self._write(self._random.randint(1, 3)) for _ in range(2)]
            steps.append(Compact(full=False))
        return steps

    def _conditions(self) -> Iterator[Condition]:
        """One condition on a key and one on a value, if their types allow it."""
        key_pools = {name: self._column_pool(name) for name in self._keys}
        for types, pools in ((self._keys, key_pools), (self._setting.columns, self._setting.pools)):
            names = [name for name, text in types.items() if text in FILTERED]
            if names:
                name = self._random.choice(names)
                pool = pools.get(name, VALUES[types[name]])
                operator = self._random.choice(OPERATORS)
                yield Condition(name, operator, self._random.choice(pool))

    def _column_pool(self, name: str) -> tuple[Any, ...]:
        position = list(self._keys).index(name)
        return tuple({key[position]: None for key in self._key_values})

    def _buckets(self) -> dict[str, str]:
        self._rescales = self._setting.buckets == "fixed"
        if self._setting.buckets == "dynamic":
            return {"bucket": "-1", "dynamic-bucket.target-row-num": "3"}
        if self._setting.buckets == "postpone":
            return {"bucket": "-2", "postpone.default-bucket-num": "2"}
        self._bucket_count = self._random.choice((1, 1, 2, 3))
        return {"bucket": str(self._bucket_count)}

    def _step(self) -> Step:
        weights: dict[Callable[[], Step], int] = {
            lambda: self._write(self._random.randint(1, 7)): 60,
            lambda: Compact(full=True): 8 if self._minor else 20,
            lambda: Compact(full=False): 12 if self._minor else 0,
            self._overwrite: 8,
            lambda: Expire(self._random.randint(1, 3)): 6,
            self._rescale: 6 if self._rescales else 0,
        }
        chosen = self._random.choices(list(weights), list(weights.values()))[0]
        return chosen()

    def _write(self, count: int) -> Write:
        rows, kinds = [], []
        retracted: set[tuple[Any, ...]] = set()
        written: set[tuple[Any, ...]] = set()
        for _ in range(count):
            key = self._key()
            kind = self._random.choice(self._setting.kinds)
            if kind in ("-U", "-D") and key not in self._there:
                kind = "+I"
            if not self._setting.merges_retractions:
                if key in retracted:
                    continue
                if kind in ("-U", "-D") and key not in written:
                    retracted.add(key)
            written.add(key)
            rows.append(self._row(key, kind))
            kinds.append(kind)
            self._there.add(key)
        return Write(tuple(rows), tuple(kinds))

    def _overwrite(self) -> Overwrite:
        target: Any = None
        if self._partition_type:
            pool = PARTITIONS[self._partition_type]
            target = self._random.choice((None, "dynamic", *pool))
        keys = [self._key() for _ in range(self._random.randint(1, 4))]
        if target not in (None, "dynamic"):
            keys = [(target, *key[1:]) for key in keys]
        # One row a key: writes test which of two rows wins.
        keys = list(dict.fromkeys(keys))
        gone = {key[0] for key in keys} if target == "dynamic" else {target}
        replaced = {key for key in self._there if target is None or key[0] in gone}
        self._there -= replaced
        for key in replaced:
            self._floors.pop(key, None)
        self._there.update(keys)
        return Overwrite(tuple(self._row(key, "+I") for key in keys), target)

    def _rescale(self) -> Rescale:
        others = [count for count in (1, 2, 3, 4) if count != self._bucket_count]
        self._bucket_count = self._random.choice(others)
        return Rescale(self._bucket_count)

    def _key(self) -> tuple[Any, ...]:
        key = self._random.choice(self._key_values)
        if self._partition_type:
            return (self._random.choice(PARTITIONS[self._partition_type]), *key)
        return key

    def _row(self, key: tuple[Any, ...], kind: str) -> Row:
        names = ([PARTITION] if self._partition_type else []) + list(self._keys)
        row = dict(zip(names, key, strict=True))
        for name, column_type in self._setting.columns.items():
            if name in self._setting.sequence:
                row[name] = self._sequence(key, kind, first=name == self._setting.sequence[0])
            elif self._random.random() < 0.25:
                row[name] = None
            else:
                pool = self._setting.pools.get(name, VALUES[column_type])
                row[name] = self._random.choice(pool)
        return row

    def _sequence(self, key: tuple[Any, ...], kind: str, *, first: bool) -> int | None:
        floor = self._floors.get(key, 0) if first else 0
        number = floor + self._random.randint(0, 5)
        if first and kind in ("-U", "-D"):
            self._floors[key] = number + 1
        elif floor == 0 and self._random.random() < 0.2:
            return None
        return -number if self._descends else number


def shrink(history: History, fails: Callable[[History], bool], budget: int = 60) -> History:
    """Shorten a failing history by leaving out steps and rows one by one."""
    tries = itertools.count()
    smaller = True
    while smaller:
        smaller = False
        for candidate in _smaller(history):
            if next(tries) >= budget:
                return history
            if fails(candidate):
                history, smaller = candidate, True
                break
    return history


def _smaller(history: History) -> Iterator[History]:
    for index in reversed(range(len(history.steps) if len(history.steps) > 1 else 0)):
        yield replace(
            history,
            steps=history.steps[:index] + history.steps[index + 1 :],
            hands=history.hands[:index] + history.hands[index + 1 :],
        )
    for index, step in enumerate(history.steps):
        if isinstance(step, Write | Overwrite):
            for fewer in _fewer_rows(step):
                steps = (*history.steps[:index], fewer, *history.steps[index + 1 :])
                yield replace(history, steps=steps)


def _fewer_rows(step: Write | Overwrite) -> Iterator[Step]:
    for index in range(len(step.rows) if len(step.rows) > 1 else 0):
        rows = step.rows[:index] + step.rows[index + 1 :]
        if isinstance(step, Write):
            yield Write(rows, step.kinds[:index] + step.kinds[index + 1 :])
        else:
            yield Overwrite(rows, step.target)
