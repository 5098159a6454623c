"""Random histories of a table whose schema changes between writes.

The seed alone determines a history. A history is a value: a failing one is printed, and shortened.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from lakewright.storage import (
    AddColumn,
    ChangeType,
    DropColumn,
    MoveColumn,
    Position,
    RenameColumn,
    SetOption,
    Side,
)
from lakewright.storage.spec.schema_change import SchemaChange, path_of, path_text
from tests.support.models.evolved_table import (
    KEY,
    WIDER,
    EvolvedTable,
    Invalid,
    ListOf,
    MapOf,
    Row,
    RowOf,
    Type,
    paths,
)

OURS, JAVA, JAVA_LATEST, PYPAIMON = "ours", "java", "java_latest", "pypaimon"
NAMES = ("a", "b", "c", "d", "e")
MEMBERS = ("x", "y", "z")
# A member that stays: a row without any value is null to Java.
STAYS = "stays"
# Canonical values; those of a narrower type are in the sets of its wider ones.
VALUES: dict[str, tuple[Any, ...]] = {
    "SMALLINT": (0, -1, 7, 32767),
    "INT": (0, -1, 7, 2**31 - 1, -(2**31)),
    "BIGINT": (0, -1, 7, 2**40, -(2**52)),
    "DECIMAL(6, 2)": ("0.00", "7.00", "-0.05"),
    "DECIMAL(10, 2)": ("0.00", "7.00", "12345678.90"),
    "DECIMAL(22, 2)": ("0.00", "7.00", "-1099511627776.50"),
    "FLOAT": (0.0, -1.5, 7.0),
    "DOUBLE": (0.0, -1.5, 7.0, 1e300),
    "VARCHAR(3)": ("a", "ab", "zzz"),
    "VARCHAR(8)": ("a", "zzz", "zzzzzzzz"),
    "STRING": ("a", "zzz", "zzzzzzzzzzzzzzzzzzzz"),
    "DATE": ("2024-01-02", "1999-12-31"),
    "TIMESTAMP(3)": ("2024-01-02T03:04:05.678000", "1999-12-31T00:00:00.000000"),
    "TIMESTAMP(6)": ("2024-01-02T03:04:05.678901", "1999-12-31T00:00:00.000000"),
}
HELD_ROW = f"ROW<{STAYS} INT, x INT, y STRING>"
COMPOSITES = (f"ARRAY<{HELD_ROW}>", f"MAP<INT, {HELD_ROW}>", HELD_ROW, "ARRAY<INT>")
FORMATS = ("parquet", "orc", "avro")


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of table, who changes it, and which steps its histories have.

    `hands` change the table by turns, and all of them read it after every step. `is_nested`:
    members of rows, elements and values change too. Columns become only what is in `types`.
    """

    name: str
    columns: tuple[tuple[str, str], ...]
    keyed: bool
    hands: tuple[str, ...]
    options: tuple[tuple[str, str], ...] = ()
    types: tuple[str, ...] = tuple(VALUES)
    is_nested: bool = False
    deletes: bool = True
    keeps_older: bool = False
    formats: tuple[str, ...] = FORMATS


@dataclass(frozen=True)
class Write:
    """One commit of rows, in place of all rows if it overwrites."""

    hand: str
    rows: tuple[Row, ...]
    kinds: tuple[str, ...]
    overwrites: bool = False


@dataclass(frozen=True)
class Alter:
    """Changes of the schema in one version."""

    hand: str
    changes: tuple[SchemaChange, ...]


@dataclass(frozen=True)
class Compact:
    """A full compaction."""

    hand: str


@dataclass(frozen=True)
class Tag:
    """A tag of the latest snapshot."""

    hand: str


@dataclass(frozen=True)
class Expire:
    """Only the last snapshots stay, and those of tags."""

    hand: str
    keep: int


Step = Write | Alter | Compact | Tag | Expire


@dataclass(frozen=True)
class SchemaHistory:
    """The steps of one table; `creator` makes it, and each step names its hand."""

    kind: Kind
    seed: int
    file_format: str
    creator: str
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        steps = "\n".join(f"  {number}. {step}" for number, step in enumerate(self.steps, 1))
        return (
            f"{self.kind.name}-{self.seed}, {self.file_format} created by {self.creator}:\n{steps}"
        )

    @property
    def options(self) -> dict[str, str]:
        return {"file.format": self.file_format, **dict(self.kind.options)}

    def model(self) -> EvolvedTable:
        return EvolvedTable(
            dict(self.kind.columns), keyed=self.kind.keyed, keeps_older=self.kind.keeps_older
        )


def apply(model: EvolvedTable, step: Step) -> None:
    """What a step makes of the rows.

    Raises:
        Invalid: the step makes no sense here.
    """
    match step:
        case Write(_, rows, kinds, overwrites):
            _check_values(model, rows)
            if overwrites:
                model.overwrite(rows)
            else:
                model.write(rows, kinds)
        case Alter(_, changes):
            for change in changes:
                model.alter(change)
        case Compact() | Tag() | Expire():
            pass


def draw(kind: Kind, seed: int, length: int) -> SchemaHistory:
    """The history of a seed."""
    return _Drawing(kind, seed).history(length)


def shrink(
    history: SchemaHistory, fails: Callable[[SchemaHistory], bool], budget: int = 60
) -> SchemaHistory:
    """Leave out steps, rows and changes one by one, as long as the rest still fails."""
    tries = itertools.count()
    smaller = True
    while smaller:
        smaller = False
        for candidate in filter(_makes_sense, _smaller(history)):
            if next(tries) >= budget:
                return history
            if fails(candidate):
                history, smaller = candidate, True
                break
    return history


class _Drawing:
    def __init__(self, kind: Kind, seed: int) -> None:
        self.kind = kind
        self.seed = seed
        self.random = Random(f"{kind.name}-{seed}")
        self.model = EvolvedTable(
            dict(kind.columns), keyed=kind.keyed, keeps_older=kind.keeps_older
        )

    def history(self, length: int) -> SchemaHistory:
        random, kind = self.random, self.kind
        file_format, creator = random.choice(kind.formats), random.choice(kind.hands)
        makers = [
            *[self._write] * 8,
            *[self._alter] * 8,
            *[self._compact] * 2,
            self._tag,
            self._expire,
        ]
        steps: list[Step] = []
        while len(steps) < length:
            step = self._write() if not steps else random.choice(makers)()
            if step is not None:
                apply(self.model, step)
                steps.append(step)
        return SchemaHistory(kind, self.seed, file_format, creator, tuple(steps))

    def _hand(self, *but: str) -> str:
        return self.random.choice([each for each in self.kind.hands if each not in but])

    def _write(self) -> Step:
        random = self.random
        overwrites = random.random() < 0.08
        rows = []
        kinds = []
        for key in random.sample(range(6), random.randint(1, 3)):
            values = {
                each.name: self._value(each.type)
                for each in self.model.top.fields
                if each.name != KEY
            }
            rows.append({KEY: key, **values})
            is_deletion = self.kind.keyed and self.kind.deletes and random.random() < 0.2
            kinds.append("-D" if is_deletion and not overwrites else "+I")
        # pypaimon writes no deletions.
        hand = self._hand(*([PYPAIMON] if "-D" in kinds else []))
        return Write(hand, tuple(rows), tuple(kinds), overwrites)

    def _value(self, data_type: Type) -> Any:
        random = self.random
        if random.random() < 0.2:
            return None
        match data_type:
            case RowOf(fields):
                return {
                    each.name: 1 if each.name == STAYS else self._value(each.type)
                    for each in fields
                }
            case ListOf(element):
                return [self._value(element) for _ in range(random.randint(0, 2))]
            case MapOf(value):
                keys = sorted(random.sample(range(4), random.randint(0, 2)))
                return [[key, self._value(value)] for key in keys]
            case str():
                return random.choice(VALUES[data_type])

    def _alter(self) -> Step | None:
        ways = [self._add, self._drop, self._rename, self._swap, self._move, self._format]
        ways += [self._widen] * 2
        changes: list[SchemaChange] = []
        tried = self.model.copy()
        hand = self._hand()
        for _ in range(self.random.choice((1, 1, 2, 3))):
            for change in self.random.choice(ways)(tried):
                tried.alter(change)
                changes.append(change)
        inside = any("." in getattr(each, "column", "") for each in changes)
        renamed = [path_of(each.column)[0] for each in changes if isinstance(each, RenameColumn)]
        if inside and len(renamed) != len(set(renamed)):
            # Java takes one new name inside of a column at a time.
            hand = OURS
        return Alter(hand, tuple(changes)) if changes else None

    def _row(self, model: EvolvedTable) -> tuple[tuple[str, ...], RowOf]:
        held = [
            (path, each)
            for path, each in paths(model.top)
            if isinstance(each, RowOf) and (self.kind.is_nested or not path)
        ]
        return self.random.choice([held[0], *held])

    def _add(self, model: EvolvedTable) -> list[SchemaChange]:
        path, row = self._row(model)
        free = _free(path, row)
        if not free:
            return []
        text = self.random.choice(self.kind.types)
        if self.kind.is_nested and self.random.random() < 0.3:
            text = self.random.choice(COMPOSITES)
        return [AddColumn(path_text((*path, self.random.choice(free))), text)]

    def _drop(self, model: EvolvedTable) -> list[SchemaChange]:
        path, row = self._row(model)
        names = _changeable(row)
        if len(row.fields) < 3 or not names:
            return []
        return [DropColumn(path_text((*path, self.random.choice(names))))]

    def _rename(self, model: EvolvedTable) -> list[SchemaChange]:
        path, row = self._row(model)
        free, names = _free(path, row), _changeable(row)
        if not free or not names:
            return []
        old = path_text((*path, self.random.choice(names)))
        return [RenameColumn(old, self.random.choice(free))]

    def _swap(self, model: EvolvedTable) -> list[SchemaChange]:
        path, row = self._row(model)
        names = _changeable(row)
        if len(names) < 2:
            return []
        one, other = self.random.sample(names, 2)
        return [
            RenameColumn(path_text((*path, one)), "swapped"),
            RenameColumn(path_text((*path, other)), one),
            RenameColumn(path_text((*path, "swapped")), other),
        ]

    def _move(self, model: EvolvedTable) -> list[SchemaChange]:
        path, row = self._row(model)
        names = [name for name in _changeable(row) if name != row.fields[0].name]
        # Java moves columns of the table only.
        if path or not names:
            return []
        return [MoveColumn(self.random.choice(names), Position(Side.FIRST))]

    def _format(self, model: EvolvedTable) -> list[SchemaChange]:
        if len(self.kind.formats) < 2 or self.random.random() < 0.5:
            return []
        return [SetOption("file.format", self.random.choice(self.kind.formats))]

    def _widen(self, model: EvolvedTable) -> list[SchemaChange]:
        found = [
            ChangeType(path_text(path), wider)
            for path, each in paths(model.top)
            if isinstance(each, str)
            and path != (KEY,)
            and path[-1] != STAYS
            and (self.kind.is_nested or len(path) == 1)
            for wider in WIDER.get(each, ())
            if wider in self.kind.types
        ]
        return [self.random.choice(found)] if found else []

    def _compact(self) -> Step:
        # pypaimon does not compact.
        return Compact(self._hand(PYPAIMON))

    def _tag(self) -> Step:
        return Tag(self._hand())

    def _expire(self) -> Step:
        # pypaimon does not expire.
        return Expire(self._hand(PYPAIMON), self.random.randint(1, 3))


def _free(path: tuple[str, ...], row: RowOf) -> list[str]:
    taken = {each.name for each in row.fields}
    return [name for name in (MEMBERS if path else NAMES) if name not in taken]


def _changeable(row: RowOf) -> list[str]:
    return [each.name for each in row.fields if each.name not in (KEY, STAYS)]


def _makes_sense(history: SchemaHistory) -> bool:
    model = history.model()
    try:
        for step in history.steps:
            apply(model, step)
    except Invalid:
        return False
    return True


def _smaller(history: SchemaHistory) -> Iterator[SchemaHistory]:
    steps = history.steps
    for index in reversed(range(len(steps) if len(steps) > 1 else 0)):
        yield replace(history, steps=steps[:index] + steps[index + 1 :])
    for index, step in enumerate(steps):
        for fewer in _fewer(step):
            yield replace(history, steps=(*steps[:index], fewer, *steps[index + 1 :]))


def _fewer(step: Step) -> Iterator[Step]:
    match step:
        case Write(_, rows, kinds):
            for index in range(len(rows) if len(rows) > 1 else 0):
                yield replace(
                    step,
                    rows=rows[:index] + rows[index + 1 :],
                    kinds=kinds[:index] + kinds[index + 1 :],
                )
        case Alter(_, changes):
            for index in range(len(changes) if len(changes) > 1 else 0):
                yield replace(step, changes=changes[:index] + changes[index + 1 :])
        case _:
            return


def _check_values(model: EvolvedTable, rows: tuple[Row, ...]) -> None:
    types = {each.name: each.type for each in model.top.fields}
    for row in rows:
        for name, value in row.items():
            if name not in types:
                raise Invalid(name)
            if name != KEY:
                _check_value(value, types[name])


def _check_value(value: Any, data_type: Type) -> None:
    if value is None:
        return
    match data_type:
        case RowOf(fields):
            types = {each.name: each.type for each in fields}
            if not isinstance(value, dict) or value.keys() - types.keys():
                raise Invalid(value)
            for name, each in value.items():
                _check_value(each, types[name])
        case ListOf(element):
            if not isinstance(value, list):
                raise Invalid(value)
            for each in value:
                _check_value(each, element)
        case MapOf(of):
            if not isinstance(value, list):
                raise Invalid(value)
            for pair in value:
                _check_value(pair[1], of)
        case str():
            if value not in (1, *VALUES[data_type]):
                raise Invalid(value)
