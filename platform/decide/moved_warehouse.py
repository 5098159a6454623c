"""Names the files of a warehouse's tables where they lie after it was moved or copied.

Manifests name the whole places of files that a change of partition keys left where they lay, so
in another place no client finds them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakewright.platform.decide.take_survey import tables_that_fit
from lakewright.storage import Catalog
from lakewright.storage.errors import StorageError, TableNotFound
from lakewright.storage.operations.respec.moved_table import (
    name_all_places,
    tags_in_former_place,
)


@dataclass(frozen=True, slots=True)
class MovedTable:
    """A table with files that were named in the former place, how many, or why they still are.

    `tags` are those that name files there still: no snapshot of the past is written again.
    """

    table: str
    files: int
    tags: tuple[str, ...] = ()
    problem: str | None = None


def name_moved_tables(
    catalog: Catalog, moved_from: str, *, pattern: str = "*"
) -> Iterator[MovedTable]:
    """Name the files of all tables that were below a former place of the warehouse.

    Each file must lie at the same place below its table. A table gets one snapshot, and so does
    each of its branches; tables without such files are passed over.
    """
    for name in tables_that_fit(catalog, pattern):
        try:
            table = catalog.table(name).table_files
            files, tags = (
                name_all_places(table, moved_from),
                tags_in_former_place(table, moved_from),
            )
        except TableNotFound:
            continue
        except StorageError as error:
            yield MovedTable(name, 0, problem=error.message)
            continue
        if files or tags:
            yield MovedTable(name, files, tags)
