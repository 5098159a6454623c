"""The product's source files, and the names they refer to, read without importing them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("src/lakewright", "storage", "connectors", "session", "platform", "assets", "jobs")


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    """A dotted name that a file uses, import aliases resolved, and where."""

    file: str
    line: int
    name: str

    @property
    def last(self) -> str:
        return self.name.rsplit(".", 1)[-1]

    def is_within(self, *names: str) -> bool:
        """Whether this is one of `names` or something inside it."""
        return self.name in names or self.name.startswith(tuple(f"{name}." for name in names))


def room_files(*rooms: str) -> list[str]:
    """Python files of these rooms, relative to the root; links between rooms are not followed."""
    found = (
        path
        for room in rooms or ROOMS
        for path in (ROOT / room).rglob("*.py")
        if not any(folder.is_symlink() for folder in path.parents if folder != ROOT)
    )
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


@cache
def parse(file: str) -> ast.Module:
    """The syntax tree of one file."""
    return ast.parse((ROOT / file).read_text(encoding="utf-8"), filename=file)


@cache
def references(*rooms: str) -> tuple[Reference, ...]:
    """Every name these rooms refer to."""
    files = room_files(*rooms)
    return tuple(reference for file in files for reference in names_in(parse(file), file))


def names_in(tree: ast.Module, file: str) -> Iterator[Reference]:
    """Names imported, read or called in one file.

    What is not imported starts with `<here>`: `self.fs.delete` is `<here>.self.fs.delete`.
    """
    aliases: dict[str, str] = {}
    nodes = list(ast.walk(tree))
    for node in nodes:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    aliases[alias.asname or alias.name.split(".")[0]] = (
                        alias.name if alias.asname else alias.name.split(".")[0]
                    )
                    yield Reference(file, node.lineno, alias.name)
            case ast.ImportFrom(module=module, names=names):
                for alias in names:
                    aliases[alias.asname or alias.name] = f"{module}.{alias.name}"
                    yield Reference(file, node.lineno, f"{module}.{alias.name}")
    for node in nodes:
        if isinstance(node, ast.Attribute | ast.Name):
            name = _dotted(node)
            head, dot, rest = name.partition(".")
            yield Reference(file, node.lineno, aliases.get(head, f"<here>.{head}") + dot + rest)


def _dotted(node: ast.expr) -> str:
    """A name with its attributes; what no name begins, a call or an item, is `()`."""
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "()"
