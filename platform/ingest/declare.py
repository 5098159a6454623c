"""Proposes a declaration: the columns of a file, a query or rows, as YAML.

What files and frames say of their types is taken over. Texts of CSV and JSON are read as the types
that the platform would read them as, and the narrowest one that takes all of them is proposed, with
a comment that says from how many values.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from lakewright.platform.ingest.given_file import files_at, first_file
from lakewright.platform.ingest.source_files import file_form
from lakewright.platform.tables.source_declarations import OnBadRow, SourceDeclaration
from lakewright.platform.upkeep.words import counted
from lakewright.storage import Catalog
from lakewright.storage.codec.arrow_types import from_arrow_field
from lakewright.storage.codec.json_atoms import plain_numbers
from lakewright.storage.codec.text_values import TextLayout, from_text
from lakewright.storage.errors import InvalidRequestError, InvalidRows, NotFoundError
from lakewright.storage.file_reader.location import FoundFile, is_of_format
from lakewright.storage.file_reader.path_pattern import PathPattern
from lakewright.storage.file_reader.pieces import opened
from lakewright.storage.file_reader.reader import FileReader
from lakewright.storage.rows import arrow_tables, is_dataframe
from lakewright.storage.spec.data_types import STRING, DataField, parse_data_type

_MOST_ROWS = 10_000
_DELIMITERS = ",;\t|"
_QUERY = re.compile(r"\s*(SELECT|WITH)\b", re.IGNORECASE)
# Zeros and ones are numbers before they are truth values.
_OTHER_TYPES = ("BOOLEAN", "DATE", "TIMESTAMP(6)", "TIMESTAMP_LTZ(6)")
_TEXT_TYPES = ("BIGINT", "DOUBLE", *_OTHER_TYPES)
# Numbers that are names: leading zeros, or more digits than a number keeps.
_IS_NAME = re.compile(r"[+-]?(0\d.*|\d{19,})")
_SAMPLE_BYTES = 1 << 16
# Files of a folder are read whole up to this size in all; of larger ones, some files in part.
_MOST_BYTES = 1 << 24
_MOST_FILES = 8


@dataclass(frozen=True, slots=True)
class Proposed:
    """A column, and what its type was taken from."""

    name: str
    type: str
    note: str = ""


def declare(rows: Any, *, table: str = "", catalog: Catalog | None = None) -> str:
    """A declaration with the columns of rows, as YAML to be edited.

    `rows` are the path of a file, a folder or a pattern (CSV, JSON, Parquet, ORC, Avro), a query
    over the tables of the catalog, a DataFrame, an Arrow table, or dicts. `table` is the name to
    propose.

    Raises:
        NotFoundError: no file is there.
        InvalidRows: a file cannot be read.
        InvalidSchema: a type has no counterpart.
    """
    if isinstance(rows, str) and is_query(rows):
        if catalog is None:
            raise InvalidRequestError("a query needs the catalog whose tables it reads")
        return _of_query(rows, table, catalog)
    if isinstance(rows, str | Path):
        return _of_file(str(rows), table)
    columns = columns_of_rows(rows)
    return _yaml(table or "database.table", columns, source=None, told="the types of the rows")


def is_query(text: str) -> bool:
    """Whether a text is a query, and no path."""
    return _QUERY.match(text) is not None


def columns_of_rows(rows: Any) -> list[Proposed]:
    """The columns of a DataFrame, an Arrow table, or dicts."""
    return _of_schema(_schema_of(rows))


def columns_of_file(file: FoundFile, source: SourceDeclaration) -> list[Proposed]:
    """The columns of one file of a source."""
    return _columns_of([file], source)[0]


def _schema_of(rows: Any) -> pa.Schema:
    if is_dataframe(rows):
        return rows.limit(1).toArrow().schema
    if isinstance(rows, Sequence) and all(isinstance(row, Mapping) for row in rows):
        return pa.Table.from_pylist([*rows]).schema
    first = next(arrow_tables(rows, ()), None)
    if first is None:
        raise InvalidRequestError("there are no rows to infer types from")
    return first.schema


def _of_query(query: str, table: str, catalog: Catalog) -> str:
    # The parser is large, and the other proposals do without it.
    from lakewright.session import Session  # noqa: PLC0415

    result = Session(catalog).sql(query)
    columns = [Proposed(field.name, str(field.type)) for field in result.fields]
    source = {"sql": query.strip().rstrip(";")}
    return _yaml(table or "database.table", columns, source=source, told="the types of the query")


def _of_schema(schema: pa.Schema) -> list[Proposed]:
    found = []
    for each in schema:
        note = "only nulls were seen" if pa.types.is_null(each.type) else ""
        found.append(Proposed(each.name, str(from_arrow_field(_without_nulls(each))), note))
    return found


def _without_nulls(field: pa.Field) -> pa.Field:
    """The field with text where only nulls were seen, at every depth."""
    kind = field.type
    if pa.types.is_null(kind):
        kind = pa.string()
    elif pa.types.is_list(kind):
        kind = pa.list_(_without_nulls(kind.value_field))
    elif pa.types.is_struct(kind):
        kind = pa.struct([_without_nulls(each) for each in kind])
    return field.with_type(kind)


# --- files ----------------------------------------------------------------------------------------


def columns_of_files(source: SourceDeclaration) -> list[Proposed]:
    """The columns of the first file of a source, and of its path."""
    assert source.file_format is not None
    path = PathPattern.parse(source.given[source.file_format])
    file = next(files_at(path, source.file_format), None)
    if file is None:
        raise NotFoundError(f"no file is at {path.text} to infer columns from")
    return _with_keys(columns_of_file(file, source), path)


def _with_keys(columns: list[Proposed], path: PathPattern) -> list[Proposed]:
    held = {column.name for column in columns}
    return columns + [
        Proposed(name, "STRING NOT NULL", "from the path")
        for name in path.column_names
        if name not in held
    ]


def _of_file(path: str, table: str) -> str:
    parsed = PathPattern.parse(path)
    file_format, file = first_file(parsed)
    # The declaration may lie in another folder, to which its paths are relative.
    source: dict[str, Any] = {file_format: path if "://" in path else str(Path(path).absolute())}
    if file_format == "csv":
        source |= _form_of_csv(file)
    form = SourceDeclaration.model_validate(source)
    files = [each for each in files_at(parsed, file_format) if is_of_format(each.path, file_format)]
    columns, told = _columns_of(_sampled(files), form, more=len(files))
    columns = _with_keys(columns, parsed)
    name = table or f"database.{_name_of(file.path)}"
    return _yaml(name, columns, source=source, told=told, keys=parsed.column_names)


def _name_of(path: str) -> str:
    stem = path.rstrip("/").rpartition("/")[2].partition(".")[0]
    return re.sub(r"[^A-Za-z0-9]+", "_", stem).strip("_").lower() or "table"


def _sampled(files: Sequence[FoundFile]) -> list[FoundFile]:
    """All files, or some from the first to the last where they are too large to be read."""
    if sum(file.size_bytes for file in files) <= _MOST_BYTES or len(files) <= _MOST_FILES:
        return [*files]
    last = len(files) - 1
    return [files[at * last // (_MOST_FILES - 1)] for at in range(_MOST_FILES)]


def _columns_of(
    files: Sequence[FoundFile], form: SourceDeclaration, *, more: int = 1
) -> tuple[list[Proposed], str]:
    """The columns of files, and what they were taken from; there are `more` files in all."""
    if form.file_format in ("parquet", "orc"):
        schemas = [_schema_of_file(file, form) for file in files]
        try:
            of_all = pa.unify_schemas(schemas, promote_options="permissive")
        except pa.ArrowException as error:
            told = f"the files at {files[0].shown} and others differ in types: {error}"
            raise InvalidRows(f"{told}; name one file") from error
        return _of_schema(of_all), f"the types of {_named(files, more)}"
    most_rows = sys.maxsize if sum(e.size_bytes for e in files) <= _MOST_BYTES else _MOST_ROWS
    found: dict[str, list[Any]] = {}
    count, is_texts = 0, form.file_format == "csv"
    for file in files:
        columns, rows = _values_of(file, form, most_rows)
        for name in columns:
            found.setdefault(name, [None] * count)
        for name, values in found.items():
            values.extend(columns.get(name) or [None] * rows)
        count += rows
    layout = file_form(form).texts
    proposed = [
        (_of_texts if is_texts else _of_values)(name, values, layout)
        for name, values in found.items()
    ]
    whole = "" if most_rows == sys.maxsize else "the first "
    return proposed, f"{whole}{counted(count, 'row')} of {_named(files, more)}"


def _named(files: Sequence[FoundFile], more: int) -> str:
    if more == 1:
        return files[0].shown
    of_all = f"{len(files):,} of {more:,}" if len(files) < more else f"{more:,}"
    return f"{of_all} files, the first {files[0].shown}"


def _schema_of_file(file: FoundFile, form: SourceDeclaration) -> pa.Schema:
    first = next(FileReader(file=file, form=file_form(form), fields=()).pieces())
    return first.read(0, 0, ()).schema


def _values_of(
    file: FoundFile, form: SourceDeclaration, most_rows: int
) -> tuple[dict[str, list[Any]], int]:
    """The values of a file's first rows by column, and the number of these rows."""
    names = () if form.csv is None or form.header else _numbered(file, form)
    fields = tuple(DataField(0, name, STRING) for name in names)
    given = FileReader(file=file, form=file_form(form), fields=fields)
    # What a run leaves out tells no types.
    passes = form.on_bad_row is not OnBadRow.FAIL
    found = given.pieces(passes_bad=passes)
    if form.file_format == "csv":
        rows = pa.concat_tables(
            _first((piece.read(0, piece.row_count, ()) for piece in found), most_rows)
        )
        twice = [name for name, times in Counter(rows.column_names).items() if times > 1]
        if twice:
            raise InvalidRows(f"{file.shown} has column {twice[0]} twice; rename one")
        return {name: rows.column(name).to_pylist() for name in rows.column_names}, rows.num_rows
    records: list[Mapping[str, object]] = []
    for piece in found:
        records += piece.rows_of_records()
        if len(records) >= most_rows:
            break
    of_all = dict.fromkeys(name for record in records for name in record)
    columns = {name: [plain_numbers(record.get(name)) for record in records] for name in of_all}
    return columns, len(records)


def _numbered(file: FoundFile, form: SourceDeclaration) -> list[str]:
    """Names for the columns of a file without a header."""
    with opened(file) as stream:
        lines = io.TextIOWrapper(stream, form.encoding, newline="")
        first = next(csv.reader(lines, delimiter=form.delimiter), [])
    return [f"column{at}" for at in range(1, len(first) + 1)]


def _first(tables: Iterator[pa.Table], most_rows: int) -> Iterator[pa.Table]:
    left = most_rows
    for table in tables:
        yield table.slice(0, left)
        left -= table.num_rows
        if left <= 0:
            return


def _form_of_csv(file: FoundFile) -> dict[str, Any]:
    """What differs from the defaults: the delimiter, the encoding, and a header that is missing."""
    with opened(file) as stream:
        data = bytes(stream.read(_SAMPLE_BYTES))
    form: dict[str, Any] = {}
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The sample may end in the middle of a character.
        text = data[: error.start].decode("utf-8-sig")
        if error.start < len(data) - 4:
            form["encoding"] = "latin-1"
            text = data.decode("latin-1")
    lines = [splitline for splitline in text.splitlines() if splitline][:100]
    whole = lines[:-1] if len(data) == _SAMPLE_BYTES and len(lines) > 1 else lines
    widths = {}
    for delimiter in _DELIMITERS:
        counts = {len(row) for row in csv.reader(whole, delimiter=delimiter)}
        widths[delimiter] = counts.pop() if len(counts) == 1 else 0
    best = max(_DELIMITERS, key=lambda each: widths[each])
    delimiter = best if widths[best] > 1 else ","
    if delimiter != ",":
        form["delimiter"] = delimiter
    first = next(csv.reader(whole[:1], delimiter=delimiter), [])
    if any(re.fullmatch(r"[+-]?[\d.]+", each.strip()) for each in first):
        form["header"] = False
    return form


# --- values ---------------------------------------------------------------------------------------


def _of_texts(name: str, values: Sequence[str | None], layout: TextLayout) -> Proposed:
    """The column of texts, by the narrowest type that reads them all."""
    texts = [each for each in values if each is not None and each.strip()]
    if not texts:
        return Proposed(name, "STRING", f"no value in {counted(len(values), 'row')}")
    empty = len(values) - len(texts)
    note = f"guessed from {counted(len(texts), 'value')}"
    note += f"; {empty:,} empty" if empty else ""
    # Of millions of values most are equal, and one of each says as much.
    texts = [*dict.fromkeys(texts)]
    has_names = any(_IS_NAME.fullmatch(text.strip()) for text in texts)
    array = pa.array(texts, pa.string())
    for kind in _OTHER_TYPES if has_names else _TEXT_TYPES:
        field = DataField(0, name, parse_data_type(kind))
        try:
            from_text(array, field, layout, first_row=0)
        except InvalidRows:
            continue
        if kind == "DOUBLE":
            plain = [text.strip().replace(layout.decimal, ".") for text in texts]
            return Proposed(name, _amount(plain) or kind, note)
        return Proposed(name, kind, note)
    return Proposed(name, "STRING", note)


def _amount(texts: Sequence[str]) -> str | None:
    """A decimal, if all numbers with a point have as many digits after it, as amounts of money."""
    if not all(re.fullmatch(r"[+-]?\d{1,14}(\.\d{2,4})?", text) for text in texts):
        return None
    scales = {len(text.partition(".")[2]) for text in texts} - {0}
    return f"DECIMAL(18, {scales.pop()})" if len(scales) == 1 else None


def _of_values(name: str, values: Sequence[object], layout: TextLayout) -> Proposed:
    """The column of values of JSON or Avro."""
    held = [each for each in values if each is not None]
    if held and all(isinstance(each, str) for each in held):
        texts = [each if isinstance(each, str) else None for each in values]
        return _of_texts(name, texts, layout)
    note = f"guessed from {counted(len(held), 'value')}"
    try:
        field = pa.field(name, pa.array(held).type)
    except (pa.ArrowException, OverflowError):
        return Proposed(name, "STRING", f"{note} of several kinds; choose a type")
    if pa.types.is_null(field.type):
        return Proposed(name, "STRING", f"no value in {counted(len(values), 'row')}")
    empty = len(values) - len(held)
    note += f"; {empty:,} without it" if empty else ""
    return Proposed(name, str(from_arrow_field(_without_nulls(field))), note)


# --- text -----------------------------------------------------------------------------------------


def _yaml(
    table: str,
    columns: Sequence[Proposed],
    *,
    source: Mapping[str, Any] | None,
    told: str,
    keys: Sequence[str] = (),
) -> str:
    if not columns:
        raise InvalidRequestError(f"no column was found in {told}")
    lines = [
        f"# Proposed from {told}: check the types, and add keys and partitions.",
        f"table: {_inline(table)}",
        "columns:",
    ]
    for column in columns:
        note = f"  # {' '.join(column.note.split())}" if column.note else ""
        lines.append(f"  - {_inline({'name': column.name, 'type': column.type})}{note}")
    if keys:
        lines.append(f"partition_keys: {_inline([*keys])}")
    if source is not None:
        lines.append(f"source: {_inline(dict(source))}")
    return "\n".join([*lines, ""])


def _inline(value: object) -> str:
    text = yaml.safe_dump(
        value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10**9
    )
    return text.removesuffix("\n").removesuffix("\n...")
