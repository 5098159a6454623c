"""Declaration files: reads YAML files as checked declarations, or lists every problem.

A file holds one table (`table: …`), several tables under `tables:`, or several documents. Every
problem names the file, the line, the place and the correction.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lakewright.platform.documents.document_kinds import DocumentKind, kind_of
from lakewright.platform.documents.marked_yaml import Place
from lakewright.platform.documents.model_errors import findings_of
from lakewright.platform.documents.variables import POLICY_VARIABLE
from lakewright.platform.documents.wrong_places import Finding
from lakewright.platform.documents.yaml_files import (
    DeclarationError,
    Problem,
    WrittenText,
    documents_in,
    place_from,
    yaml_files,
)
from lakewright.platform.tables.declaration_checks import (
    check_declaration,
    check_together,
    is_table_name,
    misspelt_tables,
)
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.query_declarations import with_query_told
from lakewright.storage.errors import InvalidRequestError, StorageError
from lakewright.storage.spec.data_types import parse_data_type

_SQL = ".sql"
# Without these keys, the checks of others would find what is not wrong.
_NEEDED_BY_OTHERS = frozenset(
    {"table", "columns", "partition_keys", "primary_key", "partitions", "source", "depends_on"}
)
Check = Callable[[TableDeclaration], Iterable[Finding]]
Infer = Callable[[TableDeclaration], TableDeclaration]


def no_files(declaration: TableDeclaration) -> TableDeclaration:
    """Refuse to infer columns: the reader of these declarations reads no source.

    Raises:
        InvalidRequestError: always.
    """
    raise InvalidRequestError(
        f"the columns of {declaration.table} are not inferred here; declare them"
    )


@dataclass(frozen=True, slots=True)
class DeclaredTable:
    """A declaration, and where it is written."""

    declaration: TableDeclaration
    written: WrittenText

    def problem(self, place: Place, message: str) -> Problem:
        return self.written.problem(place, message)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongDeclaration:
    """A declaration that cannot be used, and all that is wrong with it.

    `table` is None if it is not known which table, or how many, the text would declare.
    """

    table: str | None = None
    written: WrittenText | None = None
    problems: tuple[Problem, ...]

    @property
    def is_stream(self) -> bool:
        """Whether the source that is written is a stream."""
        value = None if self.written is None else self.written.value
        source = value.get("source") if isinstance(value, dict) else None
        return isinstance(source, dict) and "stream" in source

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


@dataclass(frozen=True, slots=True)
class ReadDeclarations:
    """The declarations that are right, by table name, and those that are not.

    No table is in both: a name that several texts declare is right in none of them.
    """

    right: tuple[DeclaredTable, ...] = ()
    wrong: tuple[WrongDeclaration, ...] = ()

    @property
    def named(self) -> frozenset[str]:
        """The tables of all declarations, as far as it is known which those are."""
        right = {each.declaration.table for each in self.right}
        return frozenset(right | {each.table for each in self.wrong if each.table is not None})

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All that is wrong, each once."""
        return tuple(sorted({problem for one in self.wrong for problem in one.problems}))


def load_declarations(
    paths: Sequence[str | Path],
    *,
    check: Check,
    others: Sequence[WrittenText] = (),
    infer: Infer = no_files,
) -> tuple[DeclaredTable, ...]:
    """The declarations in files, in all YAML files of folders, and others, by table name.

    `check` finds problems that the orchestrator would refuse; the error lists them too. `infer`
    adds the columns of the source.

    Raises:
        DeclarationError: something is wrong; all of it is listed.
    """
    found = read_files(paths, check=check, others=others, infer=infer)
    if found.problems:
        raise DeclarationError(found.problems)
    return found.right


def read_files(
    paths: Sequence[str | Path],
    *,
    check: Check,
    others: Sequence[WrittenText] = (),
    infer: Infer = no_files,
) -> ReadDeclarations:
    """The same, with what is wrong beside what is right."""
    problems: list[Problem] = []
    documents = [*others]
    for file in yaml_files(map(Path, paths), problems):
        documents += documents_in(file, problems)
    for document in documents:
        if kind_of(document.value) is DocumentKind.POLICY:
            message = f"these are policies of upkeep; name the file in ${POLICY_VARIABLE}"
            problems.append(document.problem((), message))
    declarations = [
        document for document in documents if kind_of(document.value) is not DocumentKind.POLICY
    ]
    found = read_declarations(declarations, check=check, infer=infer)
    unread = (WrongDeclaration(problems=(problem,)) for problem in problems)
    return replace(found, wrong=(*unread, *found.wrong))


@dataclass(slots=True)
class _Read:
    """A text that declares a table, what was read of it, and what is wrong with it."""

    written: WrittenText
    problems: list[Problem] = field(default_factory=list)
    declaration: TableDeclaration | None = None

    @property
    def table(self) -> str | None:
        value = self.written.value
        name = value.get("table") if isinstance(value, dict) else None
        return name if isinstance(name, str) and is_table_name(name) else None

    @property
    def declared(self) -> DeclaredTable | None:
        """The declaration, if nothing is known to be wrong with it."""
        if self.declaration is None or self.problems:
            return None
        return DeclaredTable(self.declaration, self.written)

    def add(self, place: Place, message: str) -> None:
        self.problems.append(self.written.problem(place, message))


def read_declarations(
    documents: Iterable[WrittenText], *, check: Check, infer: Infer = no_files
) -> ReadDeclarations:
    """The declarations in documents, by table name, and what is wrong with the others."""
    every = [table for document in documents for table in _tables(document)]
    for each in every:
        _read_table(each, infer)
    _ask_queries(every)
    for each in every:
        if each.declaration is not None:
            for finding in (*check_declaration(each.declaration), *check(each.declaration)):
                each.add(*finding)
    _check_repeated(every)
    _check_together(every)
    wrong = tuple(
        WrongDeclaration(table=each.table, written=each.written, problems=tuple(each.problems))
        for each in every
        if each.problems
    )
    right = (each.declared for each in every)
    found = [each for each in right if each is not None]
    return ReadDeclarations(tuple(sorted(found, key=lambda each: each.declaration.table)), wrong)


def _tables(document: WrittenText) -> Iterator[_Read]:
    """The texts of tables in a document; what is wrong with it is wrong with each of them."""
    value = document.value
    if not isinstance(value, dict):
        message = "a declaration is a mapping that begins with `table: database.name`"
        yield _Read(document, [document.problem((), message)])
        return
    if "tables" not in value:
        yield _Read(document)
        return
    problems: list[Problem] = []
    others = [key for key in value if key != "tables"]
    if others:
        message = "only `tables` may stand at the top of the file; move the key into the tables"
        problems.append(document.problem((others[0],), message))
    tables = value["tables"]
    if not isinstance(tables, list):
        problems.append(document.problem(("tables",), "`tables` is a list of declarations"))
        tables = []
    if problems and not tables:
        yield _Read(document, problems)
    for at, table in enumerate(tables):
        yield _Read(replace(document, value=table, place=("tables", at)), [*problems])


def _read_table(read: _Read, infer: Infer) -> None:
    written = read.written
    if read.problems and not written.place:
        # The document itself is none of a table.
        return
    try:
        declaration = TableDeclaration.model_validate(written.value)
    except ValidationError as error:
        for finding in findings_of(error, TableDeclaration):
            read.add(*finding)
        partial = _without_wrong_keys(written.value, error)
        if partial is None:
            _check_types(read)
            return
        # The other checks look at what is left, so that one reading finds all errors.
        declaration = partial
    try:
        declaration = _from_its_file(declaration, written.folder)
        if declaration.schema_policy.infer:
            declaration = infer(declaration)
        read.declaration = declaration
    except StorageError as error:
        read.add(("schema",), error.message)
    except (OSError, UnicodeError) as error:
        read.add(("source", "sql"), f"the file cannot be read: {error}")


def _without_wrong_keys(value: Any, error: ValidationError) -> TableDeclaration | None:
    """The declaration without the keys that are wrong; None if checks of others would need them."""
    left = copy.deepcopy(value)
    for detail in error.errors():
        place = tuple(detail["loc"])
        if not place or place[0] in _NEEDED_BY_OTHERS:
            # A key of a source that is misspelt is one that is missing, too.
            return None
        if detail["type"] != "extra_forbidden":
            place = place[:1]
        holder = left
        for step in place[:-1]:
            try:
                holder = holder[step]
            except (KeyError, IndexError, TypeError):
                return None
        if isinstance(holder, dict):
            holder.pop(place[-1], None)
    try:
        return TableDeclaration.model_validate(left)
    except ValidationError:
        return None


def _check_types(read: _Read) -> None:
    """The types of the columns of a text that is no declaration."""
    value = read.written.value
    columns = value.get("columns") if isinstance(value, dict) else None
    for at, each in enumerate(columns if isinstance(columns, list) else ()):
        kind = each.get("type") if isinstance(each, dict) else None
        if isinstance(kind, str):
            try:
                parse_data_type(kind, lengths_required=True)
            except StorageError as error:
                read.add(("columns", at, "type"), str(error))


def _ask_queries(every: Sequence[_Read]) -> None:
    """Add to the declarations what their queries say of them."""
    columns = {
        each.declaration.table: [column.name for column in each.declaration.columns]
        for each in every
        if each.declaration is not None
    }
    for each in every:
        if each.declaration is None:
            continue
        try:
            each.declaration = with_query_told(each.declaration, columns)
        except StorageError as error:
            each.add(("source", "sql"), error.message)


def _from_its_file(declaration: TableDeclaration, folder: str) -> TableDeclaration:
    """The declaration with paths that lead to the same places from every working directory."""
    source = declaration.source
    if source is not None and source.sql is not None and source.sql.strip().endswith(_SQL):
        text = Path(place_from(folder, source.sql.strip())).read_text("utf-8")
        source = source.model_copy(update={"sql": text})
        return declaration.model_copy(update={"source": source})
    if source is None or not source.paths:
        return declaration
    paths = {kind: place_from(folder, path) for kind, path in source.paths.items()}
    return declaration.model_copy(update={"source": source.with_paths(paths)})


def _check_repeated(every: Sequence[_Read]) -> None:
    """Names that several texts declare: it is not known which of them is meant."""
    first: dict[str, _Read] = {}
    for each in every:
        if each.table is None:
            continue
        # Names in Dagster do not distinguish the two characters.
        name = each.table.replace("-", "_").replace(".", "__")
        if name not in first:
            first[name] = each
            continue
        other = first[name]
        there = f"{other.written.file}:{other.written.line_of(('table',))}"
        if each.table == other.table:
            message = f"table {each.table} is declared in {there} too; keep one"
        else:
            message = (
                f"{each.table} and {other.table} ({there}) would share the "
                f"name {name} in Dagster; rename one"
            )
        each.add(("table",), message)
        other.problems.append(each.problems[-1])


def _check_together(every: Sequence[_Read]) -> None:
    """Problems between declarations, until those that are left are right together."""
    named = {each.table for each in every if each.table is not None}
    for each in every:
        if each.declaration is not None and each.declared is None:
            for finding in misspelt_tables(each.declaration, named):
                each.add(*finding)
    while True:
        right = [(each, each.declaration) for each in every if each.declared is not None]
        declarations = [declared for _, declared in right if declared is not None]
        findings = list(check_together(declarations, named=named))
        for at, finding in findings:
            right[at][0].add(*finding)
        if not findings:
            return
