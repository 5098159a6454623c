"""A mutant: a module with one small fault in it, and where that lies."""

from __future__ import annotations

import ast
import difflib
import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True)
class Mutant:
    """As `mutants.py` lists it: the file, the line, the kind of fault, the source with it."""

    file: str
    line: int
    fault: str
    source: str

    @property
    def module(self) -> str:
        return "lakewright." + self.file.removesuffix(".py").replace("/", ".")

    @cached_property
    def change(self) -> tuple[str, str]:
        """The line as it is and as it becomes; of several the first that differs."""
        before = Path(self.file).read_text(encoding="utf-8").splitlines()
        changes = [
            (" ".join(before[a:b]), " ".join(self.source.splitlines()[c:d]))
            for kind, a, b, c, d in difflib.SequenceMatcher(
                None, before, self.source.splitlines(), autojunk=False
            ).get_opcodes()
            if kind != "equal"
        ]
        old, new = changes[0]
        return " ".join(old.split()), " ".join(new.split())

    @cached_property
    def lines(self) -> range:
        """The lines of the innermost statement with the fault, or of its head where it has a body.

        None for what runs when the module is loaded.
        """
        found = range(0)
        tree = ast.parse(Path(self.file).read_text(encoding="utf-8"))
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                for statement in _statements(function):
                    if self.line in statement and (not found or len(statement) <= len(found)):
                        found = statement
        return found


def _statements(function: ast.FunctionDef) -> Iterator[range]:
    for node in ast.walk(function):
        if node is function or not isinstance(node, ast.stmt):
            continue
        body = getattr(node, "body", None)
        last = body[0].lineno - 1 if body else node.end_lineno
        yield range(node.lineno, (last or node.lineno) + 1)


def read_mutants(path: Path) -> list[Mutant]:
    with path.open(encoding="utf-8") as lines:
        return [Mutant(**json.loads(line)) for line in lines]


def drawn(mutants: Iterable[Mutant], most: int, seed: int) -> list[Mutant]:
    """Of each file so many at most, the same for the same seed."""
    by_file: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        by_file.setdefault(mutant.file, []).append(mutant)
    return [
        mutant
        for file, all_of_it in by_file.items()
        for mutant in sorted(
            random.Random(f"{seed} {file}").sample(all_of_it, min(most, len(all_of_it))),
            key=lambda mutant: mutant.line,
        )
    ]
