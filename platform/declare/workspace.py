"""A workspace: the declarations of its tables, and its SQL files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lakewright.platform.declare.declaration_checks import Finding
from lakewright.platform.declare.declaration_files import load_declarations
from lakewright.platform.declare.declarations import TableDeclaration

_SQL = ".sql"


@dataclass(frozen=True, slots=True)
class Workspace:
    """Declared tables by name, and where SQL files lie: files, and folders with all below them."""

    declarations: tuple[TableDeclaration, ...] = ()
    sql_paths: tuple[Path, ...] = ()

    def declaration(self, table: str) -> TableDeclaration | None:
        """The declaration of a table, None if it is not declared."""
        return next((each for each in self.declarations if each.table == table), None)

    def with_declaration(self, declaration: TableDeclaration) -> Workspace:
        """The workspace with one declaration in place of that of the same table."""
        others = [each for each in self.declarations if each.table != declaration.table]
        return replace(self, declarations=(*others, declaration))

    def downstream(self, table: str) -> tuple[TableDeclaration, ...]:
        """The tables whose sources read a table."""
        return tuple(each for each in self.declarations if table in each.depends_on)

    def sql_files(self) -> Mapping[Path, str]:
        """Every SQL file, with its name below the folder that is named."""
        found: dict[Path, str] = {}
        for path in self.sql_paths:
            if path.is_file():
                found[path] = path.name
            else:
                found |= {each: str(each.relative_to(path)) for each in path.rglob(f"*{_SQL}")}
        return dict(sorted(found.items()))


def read_workspace(
    paths: Sequence[str | Path],
    *,
    sql: Sequence[str | Path] = (),
    check: Callable[[TableDeclaration], Iterable[Finding]] = lambda _: (),
) -> Workspace:
    """The workspace of declarations in files and folders, with the SQL files beside them.

    Raises:
        DeclarationError: something is wrong with the declarations; all of it is listed.
    """
    declarations = load_declarations(paths, check=check) if paths else ()
    return Workspace(declarations, (*sql_beside(paths), *map(Path, sql)))


def sql_beside(paths: Sequence[str | Path]) -> tuple[Path, ...]:
    """The folders of declarations, and the SQL files in the folder of a single one."""
    found: list[Path] = []
    for path in map(Path, paths):
        found += [path] if path.is_dir() else sorted(path.parent.glob(f"*{_SQL}"))
    return tuple(found)
