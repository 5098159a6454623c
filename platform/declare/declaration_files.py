"""Declaration files: reads YAML files as checked declarations, or lists every problem.

A file holds one table (`table: …`), several tables under `tables:`, or several documents. Every
problem names the file, the line, the place and the correction.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from lakewright.platform.declare.declaration_checks import check_declaration, check_together
from lakewright.platform.declare.declarations import TableDeclaration
from lakewright.platform.declare.marked_yaml import (
    MalformedYamlError,
    MarkedDocument,
    Place,
    read_marked,
)
from lakewright.platform.declare.wrong_places import Finding, did_you_mean

_SUFFIXES = {".yaml", ".yml"}


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One problem, and its place; line 0 is the file itself."""

    file: str
    line: int
    place: str
    message: str

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        line = f":{self.line}" if self.line else ""
        return f"{self.file}{line}: {where}{self.message}"


class DeclarationError(Exception):
    """Invalid declarations; the message lists every problem on its own line."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(str(problem) for problem in self.problems))


@dataclass(frozen=True, slots=True)
class _Found:
    """A declaration and its place."""

    file: str
    document: MarkedDocument
    place: Place
    declaration: TableDeclaration

    def problem(self, place: Place, message: str) -> Problem:
        line = self.document.line_of((*self.place, *place))
        return Problem(self.file, line, _dotted(place), message)


def load_declarations(
    paths: Sequence[str | Path], *, check: Callable[[TableDeclaration], Iterable[Finding]]
) -> tuple[TableDeclaration, ...]:
    """The declarations in files, and in all YAML files of folders, by table name.

    `check` finds problems that the orchestrator would refuse; the error lists them too.

    Raises:
        DeclarationError: something is wrong; all of it is listed.
    """
    found: list[_Found] = []
    problems: list[Problem] = []
    for path in paths:
        for file in _files(Path(path), problems):
            _read_file(file, found, problems)
    for each in found:
        findings = (*check_declaration(each.declaration), *check(each.declaration))
        problems += [each.problem(*finding) for finding in findings]
    problems += _repeated(found)
    if not problems:
        declarations = [each.declaration for each in found]
        problems += [
            found[position].problem(*finding) for position, finding in check_together(declarations)
        ]
    if problems:
        raise DeclarationError(problems)
    return tuple(sorted((each.declaration for each in found), key=lambda each: each.table))


def _files(path: Path, problems: list[Problem]) -> list[Path]:
    if path.is_dir():
        files = sorted(each for each in path.rglob("*") if each.suffix in _SUFFIXES)
        if not files:
            problems.append(Problem(_shown(path), 0, "", "the folder holds no YAML file"))
        return files
    if path.is_file():
        return [path]
    problems.append(Problem(_shown(path), 0, "", "no such file or folder; name one that exists"))
    return []


def _shown(path: Path) -> str:
    """The path, relative to the working directory if it is below that."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _read_file(file: Path, found: list[_Found], problems: list[Problem]) -> None:
    shown = _shown(file)
    try:
        documents = list(read_marked(file.read_text(encoding="utf-8")))
    except MalformedYamlError as err:
        problems.append(Problem(shown, err.line, "", err.message))
        return
    except UnicodeDecodeError as err:
        problems.append(Problem(shown, 1, "", f"the file is not UTF-8 text: {err.reason}"))
        return
    for document in documents:
        for place, value in _tables(document, shown, problems):
            _read_table(value, _Where(shown, document, place), found, problems)


@dataclass(frozen=True, slots=True)
class _Where:
    file: str
    document: MarkedDocument
    place: Place


def _tables(
    document: MarkedDocument, file: str, problems: list[Problem]
) -> Iterator[tuple[Place, object]]:
    value = document.value
    if not isinstance(value, dict):
        message = "a declaration is a mapping that begins with `table: database.name`"
        problems.append(Problem(file, document.line_of(()), "", message))
        return
    if "tables" not in value:
        yield (), value
        return
    others = [key for key in value if key != "tables"]
    if others:
        message = "only `tables` may stand at the top of the file; move the key into the tables"
        problems.append(Problem(file, document.line_of((others[0],)), others[0], message))
    tables = value["tables"]
    if not isinstance(tables, list):
        message = "`tables` is a list of declarations"
        problems.append(Problem(file, document.line_of(("tables",)), "tables", message))
        return
    for at, table in enumerate(tables):
        yield ("tables", at), table


def _read_table(value: object, where: _Where, found: list[_Found], problems: list[Problem]) -> None:
    try:
        declaration = TableDeclaration.model_validate(value)
    except ValidationError as err:
        for detail in err.errors():
            place, message = _explain(detail)
            line = where.document.line_of((*where.place, *place))
            problems.append(Problem(where.file, line, _dotted(place), message))
        return
    found.append(_Found(where.file, where.document, where.place, declaration))


def _repeated(found: Sequence[_Found]) -> Iterator[Problem]:
    first: dict[str, _Found] = {}
    for each in found:
        # Names in Dagster do not distinguish the two characters.
        name = each.declaration.table.replace("-", "_").replace(".", "__")
        if name not in first:
            first[name] = each
            continue
        other = first[name]
        line = other.document.line_of((*other.place, "table"))
        there = f"{other.file}:{line}"
        if each.declaration.table == other.declaration.table:
            message = f"table {each.declaration.table} is declared in {there} too; keep one"
        else:
            message = (
                f"{each.declaration.table} and {other.declaration.table} ({there}) would share the "
                f"name {name} in Dagster; rename one"
            )
        yield each.problem(("table",), message)


def _dotted(place: Place) -> str:
    """`partitions.daily.start`, `columns[2].type`."""
    text = ""
    for part in place:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def _explain(detail: ErrorDetails) -> tuple[Place, str]:
    """The place of a problem that a model found, and the correction."""
    place: Place = tuple(detail["loc"])
    given = detail.get("input")
    context = detail.get("ctx", {})
    match detail["type"]:
        case "missing":
            # A missing key has no line, so the line of its mapping is used.
            return place[:-1], f"{place[-1]} is missing; add it"
        case "extra_forbidden":
            known = _known_keys(place[:-1])
            return place, f"unknown key {place[-1]!r}; {did_you_mean(str(place[-1]), known)}"
        case "value_error":
            return place, str(context.get("error", detail["msg"]))
        case "enum":
            return place, f"{given!r} is not one of {context.get('expected', '')}".replace("'", "")
        case "string_type" if given is None:
            return place, 'null is not text; write "null" in quotes for the word, or leave it out'
        case "string_type":
            return place, f"{given!r} is not text; put it in quotes"
        case "tuple_type" | "list_type" if place == ("columns",) and isinstance(given, dict):
            shown = "; ".join(
                f'- {{name: {name}, type: "{kind}"}}' for name, kind in list(given.items())[:3]
            )
            return place, f"columns are a list; write each on a line of its own as {shown}"
        case "tuple_type" | "list_type":
            return place, f"{given!r} is not a list; write [{given}]"
        case "model_type" | "model_attributes_type" if place == ("source",):
            return place, f"{given!r} does not say what kind it is; write {_source_form(given)}"
        case "mapping_type" | "dict_type" | "model_type" | "model_attributes_type":
            return place, f"{given!r} is not a mapping of keys to values"
        case _:
            return place, f"{given!r}: {detail['msg'][:1].lower()}{detail['msg'][1:]}"


def _source_form(given: object) -> str:
    """How a source is written that was given as a word."""
    text = str(given)
    for kind in ("csv", "parquet"):
        if text.lower().endswith(f".{kind}"):
            return f"{kind}: {text}"
    if re.fullmatch(r"[\w.]+:\w+", text):
        return f"python: {text}"
    return "one of python: module:function, parquet: path, csv: path"


def _known_keys(place: Place) -> list[str]:
    """The keys that the model at a place has."""
    model: type[BaseModel] = TableDeclaration
    for part in place:
        field = _fields_by_key(model).get(part)
        if field is not None:
            model = _model_in(field.annotation) or model
    return [str(key) for key in _fields_by_key(model)]


def _fields_by_key(model: type[BaseModel]) -> dict[str | int, FieldInfo]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _model_in(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in typing.get_args(annotation):
        if isinstance(argument, type) and issubclass(argument, Enum):
            continue
        found = _model_in(argument)
        if found is not None:
            return found
    return None
