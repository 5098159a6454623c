"""A workspace: the declarations of its tables, its SQL files and its policies."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lakewright.platform.documents.wrong_places import Finding
from lakewright.platform.documents.yaml_files import DeclarationError, Problem, WrittenText
from lakewright.platform.tables.column_lineage import Lineage
from lakewright.platform.tables.declaration_files import (
    DeclaredTable,
    Infer,
    WrongDeclaration,
    no_files,
    read_files,
)
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.partition_keys import first_few
from lakewright.storage.errors import InvalidRequestError, NotFoundError

_SQL = ".sql"
# Hidden folders are skipped too, such as `.venv` and `.git`.
_TOOLS = frozenset({"node_modules", "venv", "__pycache__"})


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherAsset:
    """An asset that is no declared table, as its last materialization described it."""

    name: str
    upstream: tuple[str, ...]
    lineage: Lineage = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Workspace:
    """Declared tables by name, and where SQL files lie: files, and folders with all below them.

    `policy_paths` are files and folders of upkeep policies. `other_assets` are those that the
    orchestrator knows beside the declared tables. `written` tells by table where its declaration
    is; one that was made in Python has no entry. `wrong` are declarations that cannot be used: what
    serves the others says so, and does nothing to tables of theirs.
    """

    declarations: tuple[TableDeclaration, ...] = ()
    sql_paths: tuple[Path, ...] = ()
    other_assets: tuple[OtherAsset, ...] = ()
    written: Mapping[str, WrittenText] = field(default_factory=dict)
    policy_paths: tuple[Path, ...] = ()
    wrong: tuple[WrongDeclaration, ...] = ()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All that is wrong with declarations, each once."""
        return tuple(sorted({problem for one in self.wrong for problem in one.problems}))

    def declaration(self, table: str) -> TableDeclaration | None:
        """The declaration of a table, None if it is not declared."""
        return next((each for each in self.declarations if each.table == table), None)

    def declared(self, table: str, where: Sequence[str | Path] = ()) -> TableDeclaration:
        """The declaration of a table, also where others are wrong; `where` are the paths read.

        Raises:
            InvalidRequestError: it is wrong, or it may be one whose table is not known.
            NotFoundError: the table is not declared.
        """
        found = self.declaration(table)
        if found is not None:
            return found
        own = [each for each in self.wrong if each.table == table]
        about = own or [each for each in self.wrong if each.table is None]
        if about:
            told = "\n".join(map(str, about))
            raise InvalidRequestError(f"the declaration of {table} is wrong:\n{told}")
        have = first_few(sorted(each.table for each in self.declarations)) or "no table"
        raise NotFoundError(
            f"{table} is not declared in {', '.join(map(str, where))}; declared there: {have}"
            if where
            else f"{table} is not declared; name the file or folder of its declaration"
        )

    def file_of(self, table: str) -> str | None:
        """The file with the declaration of a table, None for one that was made in Python."""
        written = self.written.get(table)
        return None if written is None else written.file

    @property
    def declared_keys(self) -> Mapping[str, tuple[str, ...]]:
        """By table, the partition keys of the declarations that say them."""
        return {
            declaration.table: declaration.partition_keys
            for declaration in self.declarations
            if declaration.columns
        }

    def with_declaration(self, declaration: TableDeclaration) -> Workspace:
        """The workspace with one declaration in place of that of the same table."""
        others = [each for each in self.declarations if each.table != declaration.table]
        return replace(self, declarations=(*others, declaration))

    def below(self, name: str) -> tuple[TableDeclaration | OtherAsset, ...]:
        """The tables and other assets that read a table or asset."""
        every: tuple[TableDeclaration | OtherAsset, ...] = (*self.declarations, *self.other_assets)
        return tuple(each for each in every if name in each.upstream)

    def sql_files(self) -> Mapping[Path, str]:
        """Every SQL file, with its name below the folder that is named."""
        found: dict[Path, str] = {}
        for path in self.sql_paths:
            if path.is_file():
                found[path] = path.name
            else:
                found |= {each: str(each.relative_to(path)) for each in _sql_below(path)}
        return dict(sorted(found.items()))


def _sql_below(folder: Path) -> Iterator[Path]:
    """The SQL files in a folder and the folders below it, without those of tools."""
    for where, folders, names in os.walk(folder):
        folders[:] = [each for each in folders if not each.startswith(".") and each not in _TOOLS]
        for name in names:
            file = Path(where, name)
            # A link may lead nowhere.
            if file.suffix == _SQL and file.is_file():
                yield file


def read_workspace(
    paths: Sequence[str | Path],
    *,
    sql: Sequence[str | Path] = (),
    check: Callable[[TableDeclaration], Iterable[Finding]] = lambda _: (),
    others: Sequence[WrittenText] = (),
    infer: Infer = no_files,
) -> Workspace:
    """The workspace of declarations in files and folders, with the SQL files beside them.

    `others` are declarations that stand elsewhere. `infer` adds the columns of a source.

    Raises:
        DeclarationError: something is wrong with the declarations; all of it is listed.
    """
    found = read_right(paths, sql=sql, check=check, others=others, infer=infer)
    if found.problems:
        raise DeclarationError(found.problems)
    return found


def read_right(
    paths: Sequence[str | Path],
    *,
    sql: Sequence[str | Path] = (),
    check: Callable[[TableDeclaration], Iterable[Finding]] = lambda _: (),
    others: Sequence[WrittenText] = (),
    infer: Infer = no_files,
) -> Workspace:
    """The same of the declarations that are right; it knows what is wrong with the others."""
    read = read_files(paths, check=check, others=others, infer=infer)
    found = workspace_of_declared(read.right, (*sql_beside(paths), *map(Path, sql)))
    return replace(found, wrong=read.wrong)


def workspace_of_declared(
    declared: Sequence[DeclaredTable], sql_paths: tuple[Path, ...] = ()
) -> Workspace:
    """The workspace of declarations that were read."""
    return Workspace(
        tuple(each.declaration for each in declared),
        sql_paths,
        written={each.declaration.table: each.written for each in declared},
    )


def sql_beside(paths: Sequence[str | Path]) -> tuple[Path, ...]:
    """The folders of declarations, and the SQL files in the folder of a single one."""
    found: list[Path] = []
    for path in map(Path, paths):
        beside = () if path.is_dir() else sorted(path.parent.glob(f"*{_SQL}"))
        found += [path] if path.is_dir() else [each for each in beside if each.is_file()]
    return tuple(found)
