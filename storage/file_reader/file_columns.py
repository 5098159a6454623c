"""The columns of a file compared with the declared ones, and hints for what differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakewright.storage.errors import InvalidRows
from lakewright.storage.file_reader.file_form import CSV, FileForm
from lakewright.storage.spec.arguments import repeated
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.extra_columns import ExtraColumns
from lakewright.storage.spec.missing_columns import wrongly_missing
from lakewright.storage.spec.rows import ROW_KIND_COLUMN

# Delimiters that a hint may name, the most frequent first.
_DELIMITERS = (";", "\t", "|", ",")
# How much of a row is shown.
_MOST_SHOWN = 80
_STRICT = ", and `missing_columns: refuse` is declared"
# What to do about a column that a source has and the table lacks.
DECLARE_IT = (
    "declare it in `columns` and run `lakewright evolve-schema`, let runs add such columns by "
    "`schema: {evolve: additive}`"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileColumns:
    """The columns that a file must have: the declared ones without those that its path tells.

    With `has_kinds`, a file may also say in `_rowkind` what each row does to its key. No file may
    lack a column of `needed`.
    """

    path: str
    form: FileForm
    fields: tuple[DataField, ...]
    told: tuple[str, ...]
    has_kinds: bool = False
    needed: tuple[str, ...] = ()

    @property
    def declared(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    @property
    def may_lack(self) -> bool:
        """Whether a row without a column has null there: JSON leaves out members."""
        return self.form.lacks_members

    def missing(self, given: Sequence[str]) -> list[str]:
        """The declared columns that neither a file nor its path has."""
        return [name for name in self.declared if name not in given and name not in self.told]

    def wrongly_missing(self, given: Sequence[str]) -> list[str]:
        """Those of them that may not be missing in a file."""
        missing = self.missing(given)
        if self.may_lack:
            return []
        if not self.form.fills_missing or near_misses(missing, given):
            return missing
        return wrongly_missing(self.fields, (*given, *self.told), self.needed)

    def check_seen(self, given: Sequence[str]) -> None:
        """Refuse a file of rows that leave out members, if no row has a column that it must have.

        Raises:
            InvalidRows: no row has a declared column, and one is named almost like it, or the
                declaration refuses missing columns.
        """
        missing = self.missing(given)
        hint = near_misses(missing, given)
        is_strict = not (self.form.may_lack or self.form.fills_missing) and bool(given)
        if self.may_lack and missing and (hint or is_strict):
            raise InvalidRows(
                f"{self.path}: no row has column {', '.join(missing)}{hint or _STRICT}; the rows "
                f"have {', '.join(given)}; nothing was written"
            )


def check_file_columns(given: Sequence[str], columns: FileColumns) -> None:
    """Refuse a file whose columns are not the declared ones, in any order.

    Raises:
        InvalidRows: a column is missing, unknown or there twice.
    """
    form, declared = columns.form, columns.declared
    missing = columns.wrongly_missing(given)
    known_kinds = (ROW_KIND_COLUMN,) if columns.has_kinds else ()
    unknown = [name for name in given if name not in (*declared, *known_kinds)]
    # A deletion that is read without its kind would be a row of nulls.
    refused = form.extra_columns is ExtraColumns.REFUSE
    extra = unknown if refused else [name for name in unknown if name == ROW_KIND_COLUMN]
    known = [name for name in given if name in declared] if not extra else given
    if not missing and not extra and len(set(known)) == len(known):
        return
    # A column that is unknown may be one of those that are null without it.
    lacking = missing or ([] if columns.may_lack or not extra else columns.missing(given))
    parts = [f"lacks column {', '.join(lacking)}"] if lacking else []
    parts += [f"has unknown column {', '.join(extra)}"] if extra else []
    parts = parts or [f"has column {repeated(known)} more than once"]
    hint = misspelt = near_misses(columns.missing(given) or declared, unknown)
    if form.format == CSV and len(given) == 1 and len(declared) > 1:
        hint = _delimiter_hint(given[0], form.csv.delimiter, len(declared))
    elif ROW_KIND_COLUMN in extra:
        hint = "; only a table with a primary_key, and no option rowkind.field, takes kinds of rows"
    elif extra and not missing and not hint:
        hint = f"; {DECLARE_IT}, or leave it out by `extra_columns: ignore` in the source"
    if missing and not extra and not hint and not (form.fills_missing or form.may_lack):
        hint = _STRICT
    raise InvalidRows(
        f"{columns.path}: the file {' and '.join(parts)}{hint}; the file has {', '.join(given)}; "
        f"the table declares {', '.join(declared)}",
        unknown=tuple(extra),
        # Those that the table may get.
        new=() if missing or misspelt or ROW_KIND_COLUMN in extra else tuple(extra),
    )


def ragged_row(
    text: str,
    counts: tuple[int, int],
    number: int | None,
    *,
    path: str,
    form: FileForm,
    declared: int,
) -> InvalidRows:
    """The error for a row of a CSV with more or fewer values than columns.

    `counts` are the columns of the file and the values of the row, `number` the row's number.
    """
    expected, actual = counts
    shown = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
    where = "a row" if number is None else f"row {number}"
    columns = "the header has" if form.csv.header else "the table declares"
    return InvalidRows(
        f"{path}: {where} has {actual} values, and {columns} {expected} columns: {shown!r}"
        f"{_delimiter_hint(text, form.csv.delimiter, declared)}"
    )


def near_misses(missing: Sequence[str], given: Sequence[str]) -> str:
    """A hint, if a missing column is there in other letters."""
    pairs = [
        f"; did you mean {name!r} by {each!r}? Case and blanks count"
        for name in missing
        for each in given
        if each.strip().casefold() == name.strip().casefold()
    ]
    return "".join(pairs[:1])


def _delimiter_hint(line: str, delimiter: str, columns: int) -> str:
    """The other delimiter that would divide a line into so many columns, as a hint."""
    for other in _DELIMITERS:
        if other != delimiter and columns > 1 and line.count(other) + 1 == columns:
            return f"; its delimiter may be {other!r}: declare `delimiter: {_in_yaml(other)}`"
    return ""


def _in_yaml(delimiter: str) -> str:
    return '"\\t"' if delimiter == "\t" else f'"{delimiter}"'
