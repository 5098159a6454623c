"""Policies of upkeep with inheritance: what holds for a table, and which line decided it.

Every key is inherited by itself. From weakest to strongest: the defaults, the warehouse, the
table's database, the patterns that match its name (a later one wins), the table, and `maintenance:`
of its declaration.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import TypeVar

from lakewright.platform.documents.declared_values import Declared
from lakewright.platform.documents.marked_yaml import Place
from lakewright.platform.documents.yaml_files import Problem, WrittenText, dotted
from lakewright.platform.tables.maintenance_checks import check_upkeep
from lakewright.platform.tables.upkeep_policies import UpkeepPolicy, WarehousePolicy
from lakewright.platform.tables.workspace import Workspace

# A key and the keys below it, such as ("compaction", "small_files").
Key = tuple[str, ...]
Policy = TypeVar("Policy", bound=UpkeepPolicy)


class Level(IntEnum):
    """What a part of a policy holds for; a higher level wins."""

    WAREHOUSE = 1
    DATABASE = 2
    PATTERN = 3
    TABLE = 4
    DECLARATION = 5


@dataclass(frozen=True, slots=True)
class Given:
    """The value of a key at one level; line 0 means that no file has it."""

    value: object
    level: Level
    name: str
    file: str
    line: int

    @property
    def place(self) -> str:
        """`policies/sales.yaml:12`."""
        return f"{self.file}:{self.line}" if self.line else self.file

    @property
    def level_text(self) -> str:
        """`pattern sales.tmp_*`."""
        return " ".join(filter(None, (self.level.name.lower(), self.name)))


@dataclass(frozen=True, slots=True)
class Layer:
    """What is written for one warehouse, database, pattern or table in one place."""

    level: Level
    name: str
    file: str
    line: int
    given: Mapping[Key, Given]

    @property
    def text(self) -> str:
        """`pattern sales.tmp_*`."""
        return " ".join(filter(None, (self.level.name.lower(), self.name)))

    def problem(self, message: str) -> Problem:
        return Problem(self.file, self.line, "", message)


# The keys of the limits of a budget.
LIMITS: tuple[Key, ...] = (("budget", "bytes"), ("budget", "time"))


@dataclass(frozen=True, slots=True, kw_only=True)
class DayBudget:
    """The budget of one section of the policies, with the lines that its limits stand in.

    `section` is the warehouse, or such as `database sales`.
    """

    section: str
    bytes: int | None = None
    time: int | None = None
    bytes_place: str = ""
    time_place: str = ""

    @classmethod
    def of(cls, section: str, given: Mapping[Key, Given]) -> DayBudget:
        """The budget that the lines of a section make."""
        size, time = (given.get(each) for each in LIMITS)
        found = cls(section="the warehouse" if section == "warehouse" else section)
        if size is not None and isinstance(size.value, int):
            found = replace(found, bytes=size.value, bytes_place=size.place)
        if time is not None and isinstance(time.value, int):
            found = replace(found, time=time.value, time_place=time.place)
        return found


@dataclass(frozen=True, slots=True)
class Setting:
    """The value of a key, the line that decided it, and those that lost, the strongest first.

    Without `decided` the value is the default.
    """

    key: Key
    value: object
    decided: Given | None
    lost: tuple[Given, ...] = ()

    @property
    def name(self) -> str:
        """`compaction.small_files`."""
        return ".".join(self.key)


@dataclass(frozen=True)
class ResolvedPolicy:
    """The policy that holds for a table; `layers` are those that say something, weakest first."""

    table: str
    policy: UpkeepPolicy
    layers: tuple[Layer, ...]

    @cached_property
    def settings(self) -> tuple[Setting, ...]:
        """Every key with its value and the lines that decided, in the order of the sections."""
        return _settings(self.policy, self.layers)

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """What contradicts each other, such as a minimum above a maximum, of whichever levels."""
        return tuple(_contradictions(self.policy, self.layers))


@dataclass(frozen=True)
class PolicySet:
    """The policies of files, the later ones stronger within a level, and those of declarations.

    `declared_keys` are the partition keys of the declarations that say them, by table. `texts` are
    the files as they were read.
    """

    layers: tuple[Layer, ...] = ()
    declared: Mapping[str, Layer] = field(default_factory=dict)
    declared_keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    texts: tuple[tuple[str, str], ...] = ()

    def of(self, table: str) -> ResolvedPolicy:
        """The policy of a table, by its name `database.table`, whether or not it exists."""
        layers = tuple(self._layers_of(table))
        # Most tables of a warehouse have the same few layers, and then share their policy.
        key = tuple(map(id, layers))
        if key not in self._policies:
            self._policies[key] = _overlaid(UpkeepPolicy(), layers)
        return ResolvedPolicy(table, self._policies[key], layers)

    @cached_property
    def warehouse(self) -> WarehousePolicy:
        """The policy of the warehouse, with what only a warehouse has."""
        return _overlaid(WarehousePolicy(), self._of_warehouse)

    @cached_property
    def warehouse_settings(self) -> tuple[Setting, ...]:
        """What only a warehouse has, with the lines that decided."""
        own = WarehousePolicy.model_fields.keys() - UpkeepPolicy.model_fields.keys()
        every = _settings(self.warehouse, self._of_warehouse)
        return tuple(each for each in every if each.key[0] in own)

    def budgets_of(self, table: str) -> tuple[DayBudget, ...]:
        """The budgets that cover a table, the widest first; what it has no limit of is left out.

        What files and a declaration say of one table makes one budget, key by key.
        """
        sections: dict[tuple[Level, str], dict[Key, Given]] = {}
        for layer in self._layers_of(table):
            if given := {key: layer.given[key] for key in LIMITS if key in layer.given}:
                key = (min(layer.level, Level.TABLE), layer.name)
                sections.setdefault(key, {}).update(given)
        found = (
            DayBudget.of(" ".join(filter(None, (level.name.lower(), name))), given)
            for (level, name), given in sections.items()
        )
        return tuple(each for each in found if each.bytes is not None or each.time is not None)

    def unmatched(self, tables: Iterable[str]) -> tuple[Layer, ...]:
        """The databases, patterns and tables of the policies that none of some tables matches."""
        used = {id(layer) for table in tables for layer in self._layers_of(table)}
        everywhere = {id(layer) for layer in self._of_warehouse}
        return tuple(each for each in self.layers if id(each) not in used | everywhere)

    def _layers_of(self, table: str) -> Iterator[Layer]:
        yield from self._of_warehouse
        yield from self._databases.get(table.split(".", maxsplit=1)[0], ())
        yield from (layer for matches, layer in self._patterns if matches(table))
        yield from self._tables.get(table, ())
        if table in self.declared:
            yield self.declared[table]

    @cached_property
    def _policies(self) -> dict[tuple[int, ...], UpkeepPolicy]:
        """Policies by the identities of their layers, which live as long as this value."""
        return {}

    @cached_property
    def _of_warehouse(self) -> tuple[Layer, ...]:
        return tuple(layer for layer in self.layers if layer.level is Level.WAREHOUSE)

    @cached_property
    def _databases(self) -> Mapping[str, tuple[Layer, ...]]:
        return self._by_name(Level.DATABASE)

    @cached_property
    def _tables(self) -> Mapping[str, tuple[Layer, ...]]:
        return self._by_name(Level.TABLE)

    @cached_property
    def _patterns(self) -> tuple[tuple[Callable[[str], object], Layer], ...]:
        return tuple(
            (re.compile(fnmatch.translate(layer.name)).match, layer)
            for layer in self.layers
            if layer.level is Level.PATTERN
        )

    def _by_name(self, level: Level) -> Mapping[str, tuple[Layer, ...]]:
        found: dict[str, tuple[Layer, ...]] = {}
        for layer in self.layers:
            if layer.level is level:
                found[layer.name] = (*found.get(layer.name, ()), layer)
        return found


def leaves(policy: Declared, above: Key = ()) -> Iterator[tuple[Key, object]]:
    """The keys that are given in a policy, with their values; defaults are left out."""
    for name in type(policy).model_fields:
        if name not in policy.model_fields_set:
            continue
        value = getattr(policy, name)
        if isinstance(value, Declared):
            yield from leaves(value, (*above, name))
        else:
            yield (*above, name), value


def resolved(table: str, layers: tuple[Layer, ...]) -> ResolvedPolicy:
    """The policy that layers make, the weakest first."""
    return ResolvedPolicy(table, _overlaid(UpkeepPolicy(), layers), layers)


def declared_layers(workspace: Workspace) -> dict[str, Layer]:
    """What the declarations of a workspace say under `maintenance:`, by table."""
    found: dict[str, Layer] = {}
    for declaration in workspace.declarations:
        written = workspace.written.get(declaration.table)
        file = f"the declaration of {declaration.table}" if written is None else written.file

        def line_of(place: Place, written: WrittenText | None = written) -> int:
            return 0 if written is None else written.line_of(place)

        given = {
            key: Given(
                value, Level.DECLARATION, declaration.table, file, line_of(("maintenance", *key))
            )
            for key, value in leaves(declaration.maintenance)
        }
        if given:
            line = line_of(("maintenance",))
            found[declaration.table] = Layer(
                Level.DECLARATION, declaration.table, file, line, given
            )
    return found


def _overlaid(policy: Policy, layers: Sequence[Layer]) -> Policy:
    """The policy with what the layers say; of a key that several have, the last one counts."""
    decided: dict[Key, object] = {}
    for layer in layers:
        decided.update((key, given.value) for key, given in layer.given.items())
    sections: dict[str, dict[str, object]] = {}
    update: dict[str, object] = {}
    for (first, *below), value in decided.items():
        if first not in type(policy).model_fields:
            # A table has nothing of what only a warehouse has.
            continue
        if below:
            sections.setdefault(first, {})[below[0]] = value
        else:
            update[first] = value
    for name, values in sections.items():
        update[name] = getattr(policy, name).model_copy(update=values)
    return policy.model_copy(update=update)


def _settings(policy: UpkeepPolicy, layers: Sequence[Layer]) -> tuple[Setting, ...]:
    found = []
    for key, value in _every_key(policy):
        given = tuple(layer.given[key] for layer in reversed(layers) if key in layer.given)
        found.append(Setting(key, value, given[0] if given else None, given[1:]))
    return tuple(found)


def _every_key(policy: Declared, above: Key = ()) -> Iterator[tuple[Key, object]]:
    for name, value in policy:
        if isinstance(value, Declared):
            yield from _every_key(value, (*above, name))
        else:
            yield (*above, name), value


def _contradictions(policy: UpkeepPolicy, layers: Sequence[Layer]) -> Iterator[Problem]:
    decided = {
        setting.key: setting.decided for setting in _settings(policy, layers) if setting.decided
    }
    for place, message in check_upkeep(policy):
        # A default may contradict what is given in its section.
        near = [given for key, given in decided.items() if key[0] == place[0]]
        given = decided.get(tuple(map(str, place))) or near[0]
        yield Problem(given.file, given.line, dotted(place), message)
