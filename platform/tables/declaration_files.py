"""Declaration files: reads YAML files as checked declarations, or lists every problem.

A file holds one table (`table: …`), several tables under `tables:`, or several documents. Every
problem names the file, the line, the place and the correction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

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
from lakewright.platform.tables.declaration_checks import check_declaration, check_together
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.query_declarations import with_query_told
from lakewright.storage.errors import InvalidRequestError, StorageError

_SQL = ".sql"
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
    problems: list[Problem] = []
    documents = [*others]
    for file in yaml_files(map(Path, paths), problems):
        documents += documents_in(file, problems)
    for each in documents:
        if kind_of(each.value) is DocumentKind.POLICY:
            message = f"these are policies of upkeep; name the file in ${POLICY_VARIABLE}"
            problems.append(each.problem((), message))
    declarations = [each for each in documents if kind_of(each.value) is not DocumentKind.POLICY]
    found = read_declarations(declarations, problems, check=check, infer=infer)
    if problems:
        raise DeclarationError(problems)
    return found


def read_declarations(
    documents: Iterable[WrittenText],
    problems: list[Problem],
    *,
    check: Check,
    infer: Infer = no_files,
) -> tuple[DeclaredTable, ...]:
    """The declarations in documents, by table name; adds to `problems` what is wrong."""
    found: list[DeclaredTable] = []

    def whole(declaration: TableDeclaration) -> Iterator[Finding]:
        yield from check_declaration(declaration)
        yield from check(declaration)

    for document in documents:
        for table in _tables(document, problems):
            _read_table(table, found, problems, infer)
    found = list(_told_by_queries(found, problems))
    for each in found:
        problems += [each.problem(*finding) for finding in whole(each.declaration)]
    problems += _repeated(found)
    if not problems:
        together = check_together([each.declaration for each in found])
        problems += [found[position].problem(*finding) for position, finding in together]
    return tuple(sorted(found, key=lambda each: each.declaration.table))


def _tables(document: WrittenText, problems: list[Problem]) -> Iterator[WrittenText]:
    value = document.value
    if not isinstance(value, dict):
        message = "a declaration is a mapping that begins with `table: database.name`"
        problems.append(document.problem((), message))
        return
    if "tables" not in value:
        yield document
        return
    others = [key for key in value if key != "tables"]
    if others:
        message = "only `tables` may stand at the top of the file; move the key into the tables"
        problems.append(document.problem((others[0],), message))
    tables = value["tables"]
    if not isinstance(tables, list):
        problems.append(document.problem(("tables",), "`tables` is a list of declarations"))
        return
    for at, table in enumerate(tables):
        yield replace(document, value=table, place=("tables", at))


def _read_table(
    written: WrittenText, found: list[DeclaredTable], problems: list[Problem], infer: Infer
) -> None:
    try:
        declaration = TableDeclaration.model_validate(written.value)
    except ValidationError as error:
        problems += [written.problem(*each) for each in findings_of(error, TableDeclaration)]
        return
    try:
        declaration = _from_its_file(declaration, written.folder)
        if declaration.schema_policy.infer:
            declaration = infer(declaration)
        found.append(DeclaredTable(declaration, written))
    except StorageError as error:
        problems.append(written.problem(("schema",), error.message))
    except (OSError, UnicodeError) as error:
        problems.append(written.problem(("source", "sql"), f"the file cannot be read: {error}"))


def _told_by_queries(
    found: Sequence[DeclaredTable], problems: list[Problem]
) -> Iterator[DeclaredTable]:
    """The tables with what their queries say of them."""
    columns = {
        each.declaration.table: [column.name for column in each.declaration.columns]
        for each in found
    }
    for each in found:
        try:
            yield replace(each, declaration=with_query_told(each.declaration, columns))
        except StorageError as error:
            problems.append(each.problem(("source", "sql"), error.message))
            yield each


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


def _repeated(found: Sequence[DeclaredTable]) -> Iterator[Problem]:
    first: dict[str, DeclaredTable] = {}
    for each in found:
        # Names in Dagster do not distinguish the two characters.
        name = each.declaration.table.replace("-", "_").replace(".", "__")
        if name not in first:
            first[name] = each
            continue
        other = first[name]
        there = f"{other.written.file}:{other.written.line_of(('table',))}"
        if each.declaration.table == other.declaration.table:
            message = f"table {each.declaration.table} is declared in {there} too; keep one"
        else:
            message = (
                f"{each.declaration.table} and {other.declaration.table} ({there}) would share the "
                f"name {name} in Dagster; rename one"
            )
        yield each.problem(("table",), message)
