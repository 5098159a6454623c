"""How values show in a REPL and a notebook: short, however many files they name.

A plan may name a million files; its own text would fill the terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from html import escape
from typing import Any, Self

_WIDTH = 100
_ROWS = 10


class Shown:
    """A dataclass whose `repr` shortens long values, and which a notebook shows as a table."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        # A dataclass keeps a `__repr__` that stands in the class itself, and no inherited one.
        if "__repr__" not in vars(cls):
            cls.__repr__ = Shown.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={_short(value)}" for name, value in _values(self))
        return f"{type(self).__name__}({values})"

    def _repr_html_(self) -> str:
        values = _values(self)
        shown = html_table(
            (type(self).__name__, ""), [(name, _short(value)) for name, value in values]
        )
        for name, value in values:
            if isinstance(value, Sequence) and value and is_dataclass(value[0]):
                head = [field.name for field in fields(value[0])]
                rows = [[_short(getattr(each, key)) for key in head] for each in value[:_ROWS]]
                shown += html_table(head, rows, caption=_counted(name, len(value)))
        return shown


class Summed(Shown):
    """A result whose fields are all numbers and tuples, so that two make one."""

    __slots__ = ()

    def and_then(self, later: Self) -> Self:
        """The result of both, one after the other."""
        own: Any = self
        names = [field.name for field in fields(own)]
        summed: Self = replace(
            own, **{name: getattr(own, name) + getattr(later, name) for name in names}
        )
        return summed


def html_table(
    head: Iterable[str], rows: Iterable[Iterable[object]], *, caption: str | None = None
) -> str:
    """A table for a notebook; all text is escaped."""

    def row(tag: str, cells: Iterable[object]) -> str:
        return f"<tr>{''.join(f'<{tag}>{escape(str(cell))}</{tag}>' for cell in cells)}</tr>"

    above = "" if caption is None else f"<caption>{escape(caption)}</caption>"
    body = "".join(row("td", cells) for cells in rows)
    return f"<table>{above}<thead>{row('th', head)}</thead><tbody>{body}</tbody></table>"


def _values(value: Shown) -> list[tuple[str, object]]:
    return [(field.name, getattr(value, field.name)) for field in fields(value)]  # type: ignore[arg-type]


def _counted(name: str, count: int) -> str:
    return f"{name}: the first {_ROWS} of {count}" if count > _ROWS else f"{name}: {count}"


def _short(value: object) -> str:
    if isinstance(value, (Mapping, Sequence)) and not isinstance(value, (str, bytes)):
        # Of many only a few are made text at all.
        if len(value) > _ROWS:
            return f"<{len(value)} {_kind(value)}>"
        text = repr(value)
        return text if len(text) <= _WIDTH else f"<{len(value)} {_kind(value)}>"
    text = repr(value)
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"


def _kind(values: Mapping[object, object] | Sequence[object]) -> str:
    return "entries" if isinstance(values, Mapping) else type(values[0]).__name__
