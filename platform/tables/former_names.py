"""Former names of columns, which say what to rename in a table that still has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lakewright.platform.tables.declarations import ColumnDeclaration


def renames(columns: Iterable[ColumnDeclaration], present: Iterable[str]) -> dict[str, str]:
    """New names by old names, of columns of a table that are still called by the old one.

    A rename waits until its new name is free. So renames of a chain come in an order in which they
    apply, and none is left of a rename that was made long ago.
    """
    taken = set(present)
    waiting = {column.name: column.was for column in columns if column.was in taken}
    found: dict[str, str] = {}
    while ready := [new for new, old in waiting.items() if old in taken and new not in taken]:
        old = waiting.pop(ready[0])
        assert old is not None
        taken = (taken - {old}) | {ready[0]}
        found[old] = ready[0]
    return found


def wrong_former_names(columns: Sequence[ColumnDeclaration]) -> Iterator[tuple[int, str]]:
    """Former names that two columns share, or that go in a circle, by the index of the column."""
    names: dict[str, str] = {}
    for at, column in enumerate(columns):
        if column.was is None:
            continue
        if column.was in names:
            told = f"{column.was!r} is the former name of {names[column.was]!r} too"
            yield at, f"{told}; only one of the two can be that column: leave out the other was"
            continue
        names[column.was] = column.name
        circle = [column.was]
        while (name := names.get(circle[-1])) is not None and name not in circle:
            circle.append(name)
        if name is not None:
            told = " → ".join([*circle, name])
            told = f"columns are renamed in a circle, {told}"
            yield at, f"{told}; leave was out, and rename them through another name"
