"""Tables that are made by a query: what they depend on, and what their columns are from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.upkeep_policies import EngineChoice
from lakewright.storage.errors import StorageError


def with_query_told(
    declaration: TableDeclaration, columns: Mapping[str, Sequence[str]]
) -> TableDeclaration:
    """A declaration with the tables of its query in `depends_on`, and the origins of its columns.

    What is declared stays. `columns` are those of the declared tables.

    Raises:
        InvalidStatement: the query cannot be parsed here, and no `depends_on` is declared.
    """
    source = declaration.source
    if source is None or source.sql is None:
        return declaration
    # Few declarations have queries, and the others do without the parser.
    from lakewright.storage.sql.query_columns import query_columns  # noqa: PLC0415

    dialect = "spark" if declaration.write.engine is EngineChoice.SPARK else "duckdb"
    try:
        found = query_columns(source.sql, dialect=dialect, columns=columns)
    except StorageError:
        # The engine may know what the parser does not.
        if declaration.depends_on:
            return declaration
        raise
    origins = {name.casefold(): each for name, each in found.origins.items()}
    made = tuple(
        each
        if each.origin
        else each.model_copy(
            update={
                "origin": tuple(
                    f"{table}.{column}" for table, column in origins.get(each.name.casefold(), ())
                )
            }
        )
        for each in declaration.columns
    )
    tables = tuple(dict.fromkeys([*declaration.depends_on, *found.tables]))
    return declaration.model_copy(update={"depends_on": tables, "columns": made})


def follows_partitions(declaration: TableDeclaration, upstream: TableDeclaration) -> bool:
    """Whether the partitions of a table are those of an upstream, as far as its source says.

    A function may read whatever it likes; of a query, each partition column is made of one of the
    upstream's.
    """
    if declaration.source is None or declaration.source.sql is None:
        return True
    keys = {f"{upstream.table}.{name}" for name in upstream.partition_keys}
    made = {column.name: column.made_of for column in declaration.columns}
    return all(keys & set(made.get(name, ())) for name in declaration.partition_keys)
