"""The rows of a primary-key table after a history, by the rules of its merge engine only.

The model keeps all rows of a key in the order of writing and merges them on reads: no files, no
levels, no compaction. Rows are canonical JSON values.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from tests.support.histories.drawing import (
    PARTITION,
    Compact,
    History,
    Overwrite,
    Rescale,
    Row,
    Setting,
    Step,
    Write,
)

Entry = tuple[str, Row]
Merge = Callable[["MergeModel", list[Entry]], Row | None]


@dataclass
class MergeModel:
    """A table as the rows written to each key."""

    history: History
    entries: dict[str, list[Entry]] = field(default_factory=dict)
    _shown: list[Row] = field(default_factory=list)

    def do(self, step: Step) -> None:
        """Apply one step."""
        match step:
            case Write(rows, kinds):
                for row, kind in zip(rows, kinds, strict=True):
                    self._add(row, kind)
            case Overwrite(rows, target):
                self._remove(rows, target)
                for row in rows:
                    self._add(row, "+I")
            case Rescale():
                # The rescale reads the rows and writes them again.
                kept = self._merged()
                self.entries.clear()
                for row in kept:
                    self._add(row, "+I")
        if isinstance(step, Compact | Rescale):
            self._shown = self._merged()

    def rows(self) -> list[Row]:
        """The rows of a read."""
        return self._shown if self.history.setting.lags else self._merged()

    def _merged(self) -> list[Row]:
        merged = (self._merge(entries) for entries in self.entries.values())
        return [row for row in merged if row is not None]

    def _merge(self, entries: list[Entry]) -> Row | None:
        options = self.history.options
        if options.get("ignore-delete") == "true":
            entries = [each for each in entries if each[0] in ("+I", "+U")]
        sequence = self.history.setting.sequence
        descending = options.get("sequence.field.sort-order") == "descending"
        entries = sorted(entries, key=lambda each: sequence_key(each[1], sequence, descending))
        if not entries:
            return None
        if len(entries) == 1:
            # No engine merges a single row.
            kind, row = entries[0]
            return row if kind in ("+I", "+U") else None
        return ENGINES[options.get("merge-engine", "deduplicate")](self, entries)

    def _add(self, row: Row, kind: str) -> None:
        full = {name: row.get(name) for name in self.history.columns}
        self.entries.setdefault(self._key(row), []).append((kind, full))

    def _remove(self, rows: Iterable[Row], target: Any) -> None:
        touched = {row.get(PARTITION) for row in rows} if target == "dynamic" else {target}

        def goes(row: Row) -> bool:
            return target is None or row.get(PARTITION) in touched

        self._shown = [row for row in self._shown if not goes(row)]
        for key, entries in list(self.entries.items()):
            if goes(entries[0][1]):
                del self.entries[key]

    def _key(self, row: Row) -> str:
        return json.dumps([row[name] for name in self.history.primary_keys])


def sequence_key(row: Row, columns: Sequence[str], descending: bool) -> tuple[Any, ...]:
    """A sort key with nulls first in both directions."""
    sign = -1 if descending else 1
    return tuple((row[name] is not None, sign * (row[name] or 0)) for name in columns)


def deduplicate(model: MergeModel, entries: list[Entry]) -> Row | None:
    kind, row = entries[-1]
    return row if kind in ("+I", "+U") else None


def first_row(model: MergeModel, entries: list[Entry]) -> Row | None:
    return entries[0][1]


def partial_update(model: MergeModel, entries: list[Entry]) -> Row | None:
    options, keys = model.history.options, model.history.primary_keys
    groups = sequence_groups(options)
    grouped = {name for sequence, members in groups.items() for name in (*sequence, *members)}
    removes = options.get("partial-update.remove-record-on-delete") == "true"
    result: Row | None = None
    for kind, row in entries:
        if kind in ("-U", "-D") and not groups:
            assert removes, "rows of this table cannot be deleted"
            if kind == "-D":
                result = None
            continue
        if result is None:
            result = {**dict.fromkeys(row), **{name: row[name] for name in keys}}
        for name, value in row.items():
            if name not in grouped and value is not None and kind in ("+I", "+U"):
                result[name] = value
        for sequence, members in groups.items():
            update_group(options, result, kind, row, sequence, members)
    return result


def update_group(
    options: Mapping[str, str],
    result: Row,
    kind: str,
    row: Row,
    sequence: tuple[str, ...],
    members: tuple[str, ...],
) -> None:
    """One row's part in one sequence group."""
    if all(row[name] is None for name in sequence):
        return
    newer = sequence_key(row, sequence, False) >= sequence_key(result, sequence, False)
    for name in members:
        function = options.get(f"fields.{name}.aggregate-function")
        if function is not None:
            apply = RETRACTIONS if kind in ("-U", "-D") else FUNCTIONS
            # A late row is aggregated as if it had come first.
            pair = (result[name], row[name]) if newer else (row[name], result[name])
            if kind in ("-U", "-D"):
                pair = (result[name], row[name])
            result[name] = apply[function](*pair)
        elif newer:
            result[name] = None if kind in ("-U", "-D") else row[name]
    if newer:
        result.update({name: row[name] for name in sequence})


def sequence_groups(options: Mapping[str, str]) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Columns of a group by the columns of its sequence."""
    prefix, suffix = "fields.", ".sequence-group"
    return {
        tuple(name[len(prefix) : -len(suffix)].split(",")): tuple(value.split(","))
        for name, value in options.items()
        if name.startswith(prefix) and name.endswith(suffix)
    }


def aggregation(model: MergeModel, entries: list[Entry]) -> Row | None:
    options, keys = model.history.options, model.history.primary_keys
    result: Row = dict(entries[0][1])
    for name in result.keys() - set(keys):
        result[name] = None
    for number, (kind, row) in enumerate(entries):
        retracts, fresh = kind in ("-U", "-D"), number == 0
        for name, value in row.items():
            if name in keys:
                continue
            function = function_of(model.history.setting, options, name)
            if retracts:
                if options.get(f"fields.{name}.ignore-retract") != "true":
                    result[name] = RETRACTIONS[function](result[name], value)
            elif function == "first_value":
                result[name] = value if fresh else result[name]
            elif options.get(f"fields.{name}.distinct") == "true":
                result[name] = distinct(result[name], value)
            elif nested_key := options.get(f"fields.{name}.nested-key"):
                result[name] = keyed(result[name], value, nested_key)
            else:
                result[name] = FUNCTIONS[function](result[name], value)
    return result


def function_of(setting: Setting, options: Mapping[str, str], name: str) -> str:
    if name in setting.sequence:
        return "last_value"
    default = options.get("fields.default-aggregate-function", "last_non_null_value")
    return options.get(f"fields.{name}.aggregate-function", default)


def _number(value: Any) -> Any:
    return Decimal(value) if isinstance(value, str) else value


def _plain(value: Any, like: Any) -> Any:
    return format(value, "f") if isinstance(like, str) else value


def _both(combine: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A function of two values that ignores nulls."""

    def apply(old: Any, new: Any) -> Any:
        if old is None or new is None:
            return new if old is None else old
        return combine(old, new)

    return apply


def _numeric(combine: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return _both(lambda old, new: _plain(combine(_number(old), _number(new)), new))


def _least(old: Any, new: Any) -> Any:
    return old if _order(old) <= _order(new) else new


def _most(old: Any, new: Any) -> Any:
    return old if _order(old) >= _order(new) else new


def _order(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def _subtract(old: Any, new: Any) -> Any:
    if new is None:
        return old
    return _plain(-_number(new) if old is None else _number(old) - _number(new), new)


def _merged_maps(old: Any, new: Any) -> Any:
    return [list(pair) for pair in sorted({**dict(old), **dict(new)}.items())]


def distinct(old: Any, new: Any) -> Any:
    if old is None and new is None:
        return None
    each = {json.dumps(value): value for value in (*(old or ()), *(new or ()))}
    return list(each.values())


def keyed(old: Any, new: Any, key: str) -> Any:
    """The last row of each nested key."""
    if old is None or new is None:
        return new if old is None else old
    return list({row[key]: row for row in (*old, *new)}.values())


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": _numeric(operator.add),
    "product": _numeric(operator.mul),
    "min": _both(_least),
    "max": _both(_most),
    "last_value": lambda old, new: new,
    "last_non_null_value": lambda old, new: old if new is None else new,
    "first_non_null_value": lambda old, new: new if old is None else old,
    "bool_and": _both(lambda old, new: old and new),
    "bool_or": _both(lambda old, new: old or new),
    "listagg": _both(lambda old, new: f"{old},{new}"),
    "collect": _both(operator.add),
    "nested_update": _both(operator.add),
    "merge_map": _both(_merged_maps),
}
RETRACTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": _subtract,
    "last_value": lambda old, new: None,
    "last_non_null_value": lambda old, new: old if new is None else None,
}
ENGINES: dict[str, Merge] = {
    "deduplicate": deduplicate,
    "first-row": first_row,
    "partial-update": partial_update,
    "aggregation": aggregation,
}
