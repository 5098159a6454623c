"""The clauses of a merge, from what a caller says in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa

from lakewright.storage.codec.conform import with_plain_types
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.row_changes.expressions import (
    Assignments,
    check_names,
    quoted,
)
from lakewright.storage.operations.row_changes.merge_rows import Clause, Merge, MergeStatement
from lakewright.storage.rows import LocalRows, arrow_tables
from lakewright.storage.spec.arguments import (
    list_argument,
    listed_names,
    mapping_argument,
    repeated,
    text_argument,
)
from lakewright.storage.spec.schema import TableSchema

# "update", "insert", "delete", or expressions by column.
SimpleAction: TypeAlias = "str | Mapping[str, object]"
# One, or several with the conditions under which they are taken.
Action: TypeAlias = "SimpleAction | Sequence[tuple[str | None, SimpleAction]]"
# A column of both sides, several, or columns of the table by those of the source.
On: TypeAlias = "str | Sequence[str] | Mapping[str, str]"


def source_table(rows: LocalRows, schema: TableSchema) -> pa.Table:
    """The rows of a source, in memory.

    Raises:
        InvalidRequestError: there are none to tell the columns by, or two have one name.
    """
    pieces = list(arrow_tables(rows, schema.fields))
    for piece in pieces:
        check_names(piece.column_names, "the source")
    if not pieces:
        raise InvalidRequestError("the source of the merge has no rows, and so no columns")
    # Pieces may have their own order of columns.
    return with_plain_types(pa.concat_tables(pieces, promote_options="permissive"))


def merge_statement(
    files: TableFiles,
    rows: LocalRows,
    *,
    on: On,
    when_matched: Action | None = None,
    when_not_matched: Action | None = None,
    when_not_matched_by_source: Action | None = None,
) -> MergeStatement:
    """The merge that a caller asks for.

    Raises:
        InvalidRequestError: nothing is asked for, or an action is none of its clause.
    """
    source = source_table(rows, files.schema)
    pairs = _pairs(on, files)
    if when_matched is None and when_not_matched is None and when_not_matched_by_source is None:
        raise InvalidRequestError(
            'say what happens to rows: when_matched="update", when_not_matched="insert" or '
            'when_not_matched_by_source="delete"'
        )
    of_key = {left for left, _ in pairs}
    every = {
        name: f"s.{quoted(given)}"
        for name, given in shared_columns(
            files.schema.field_names, source.column_names, "the source"
        ).items()
    }
    known_columns = {"update": {n: e for n, e in every.items() if n not in of_key}, "insert": every}
    merge = Merge(
        on=pairs,
        matched=_clauses(files, when_matched, "when_matched", ("update", "delete"), known_columns),
        not_matched=_clauses(
            files, when_not_matched, "when_not_matched", ("insert",), known_columns
        ),
        not_matched_by_source=_clauses(
            files, when_not_matched_by_source, "when_not_matched_by_source", ("delete",), {}
        ),
    )
    return MergeStatement(merge, source)


def shared_columns(names: Sequence[str], given: Sequence[str], source: str) -> dict[str, str]:
    """Columns of a table that a source gives, with their names there; SQL ignores their case.

    Raises:
        InvalidRequestError: the source has one of them twice.
        UnsupportedError: it has two that differ by case alone.
    """
    lower = {name.lower() for name in names}
    taken = [name for name in given if name.lower() in lower]
    check_names(taken, source)
    by_lower = {name.lower(): name for name in taken}
    return {name: by_lower[name.lower()] for name in names if name.lower() in by_lower}


def _pairs(on: On, files: TableFiles) -> tuple[tuple[str, str], ...]:
    if isinstance(on, Mapping):
        asked = mapping_argument(on, "on").items()
        pairs = tuple((name, text_argument(given, f"on[{name!r}]")) for name, given in asked)
    else:
        names = (on,) if isinstance(on, str) else listed_names(on, "on")
        pairs = tuple((name, name) for name in names)
    if not pairs:
        raise InvalidRequestError("name the columns that rows match on")
    if twice := repeated([name for name, _ in pairs]):
        raise InvalidRequestError(f"on names {twice} more than once; name it once")
    for name, _ in pairs:
        if name not in files.schema.field_names:
            raise InvalidRequestError(
                f"{files.name} has no column {name} to match on; it has "
                f"{', '.join(files.schema.field_names)}"
            )
    return pairs


def _conditioned(pair: object, name: str) -> tuple[str | None, object]:
    """A condition and an action."""
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise InvalidRequestError(
            f"{name} is {pair!r:.60}; give a condition or None, and an action: (None, 'delete')"
        )
    condition, action = pair
    if condition is not None:
        text_argument(condition, f"the condition of {name}")
    return condition, action


def _clauses(
    files: TableFiles,
    action: Action | None,
    name: str,
    words: tuple[str, ...],
    known: Mapping[str, Mapping[str, object]],
) -> tuple[Clause, ...]:
    if action is None:
        return ()
    if isinstance(action, (str, Mapping)):
        action = [(None, action)]
    pairs = list_argument(action, name, _conditioned)
    if not pairs:
        raise InvalidRequestError(f"{name} is an empty list; leave it out")
    clauses = []
    for condition, each in pairs:
        if isinstance(each, Mapping):
            clauses.append(Clause(Assignments.of(each, files), condition))
        elif each not in words:
            raise InvalidRequestError(
                f"{name} is {each!r:.60}; give {' or '.join(map(repr, words))}, or expressions "
                "by column"
            )
        elif each == "delete":
            clauses.append(Clause(None, condition))
        else:
            clauses.append(Clause(Assignments.of(known[each], files), condition))
    return tuple(clauses)
