"""`evolve: additive`: columns that a source has and the table lacks are added, in the run.

1. A run that meets unknown columns has staged nothing that stays. Their types are those of its
   rows, or proposed by the first of its files that has them, as by `lakewright declare`.
2. The schema gate judges the addition, by the rules of the declaration, and the ledger records it.
3. The run reads its source again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from lakewright.platform.ingest.declare import columns_of_file, columns_of_rows
from lakewright.platform.ingest.source_files import source_files
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.storage import AddColumn, Catalog, Table
from lakewright.storage.errors import InvalidRows
from lakewright.storage.file_reader.file_columns import near_misses
from lakewright.storage.file_reader.reader import Partitions
from lakewright.storage.spec.data_types import DataType, parse_data_type
from lakewright.storage.spec.schema_change import path_text


def grown(
    catalog: Catalog,
    table: Table,
    declaration: TableDeclaration,
    error: InvalidRows,
    *,
    partitions: Partitions | None,
    add: Callable[[Table, Sequence[AddColumn], str], object],
) -> Table:
    """The table with the new columns of a source, which an error names.

    `declaration` has the values of the variables of its source. `add` adds columns by the gate, and
    records why.

    Raises:
        InvalidRows: the error, if no column is to be added.
        SchemaDenied: the gate refuses the addition.
    """
    named = error.details.get("new")
    if not declaration.grows or not isinstance(named, tuple) or not named:
        raise error
    found = _new_columns(declaration, error, partitions, named)
    latest = catalog.table(table.name)
    # Another run may have added some meanwhile.
    missing = {n: kind for n, kind in found.items() if n not in latest.schema.field_names}
    if missing:
        changes = [AddColumn(path_text([name]), str(kind)) for name, kind in missing.items()]
        why = f"the source has new columns: {', '.join(missing)} (evolve: additive)"
        add(latest, changes, why)
        latest = catalog.table(table.name)
    if not set(found) - set(table.schema.field_names):
        raise error
    return latest


def _new_columns(
    declaration: TableDeclaration,
    error: InvalidRows,
    partitions: Partitions | None,
    named: tuple[str, ...],
) -> Mapping[str, DataType]:
    """The new columns with their types; of files, those of the other files of the run too."""
    source = declaration.source
    assert source is not None
    found: dict[str, DataType] = {}
    if "rows" in error.details:
        for row in columns_of_rows(error.details["rows"]):
            if row.name in named:
                found[row.name] = _nullable(row.type)
        return found
    for file in source_files(declaration, partitions):
        # Members of JSON may turn up far behind the beginning of a file.
        unknown = {*file.unknown_columns(), *(named if source.json_files else ())} - set(found)
        if near_misses([each.name for each in file.fields], [*unknown]):
            # A column in another spelling is none to add: the next read refuses the file by name.
            continue
        if unknown - {column.name for column in declaration.columns}:
            for each in columns_of_file(file.file, source):
                if each.name in unknown:
                    found[each.name] = _nullable(each.type)
    if not set(named) <= set(found):
        raise error
    return found


def _nullable(text: str) -> DataType:
    # Rows that are there have no value of a new column.
    return replace(parse_data_type(text), nullable=True)
