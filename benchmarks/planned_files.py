"""The data files that the tables of the case `planning` name, the same in every table format.

Standard library only: the environments of other table formats import it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from uuid import UUID

DATABASE, TABLE = "bench", "files"
FILES_A_PARTITION = 100
ROWS_A_FILE = 1000
# Columns, and their bounds in every file; a file has bounds of its own for the first two.
COLUMNS = ("day", "id", "quantity", "price", "status", "customer", "line", "comment")
LOWEST = (1, 0.5, "new", 7, 1, "a comment")
HIGHEST = (50, 99.5, "sent", 940, 7, "zero")


def day(partition: int) -> str:
    """The value of a partition."""
    return f"day-{partition:06d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFile:
    """A data file that a table names and that does not exist."""

    day: str
    unique: UUID
    size: int
    first_id: int
    last_id: int
    created_ms: int


def planned_files(begin: int, end: int, files_a_partition: int) -> Iterator[PlannedFile]:
    """The files of these numbers; a file has the same name in each call that begins alike."""
    random = Random(begin)
    for number in range(begin, end):
        yield PlannedFile(
            day=day(number // files_a_partition),
            unique=UUID(int=random.getrandbits(128)),
            size=10_000_000 + number,
            first_id=number * ROWS_A_FILE,
            last_id=(number + 1) * ROWS_A_FILE - 1,
            created_ms=1_700_000_000_000 + number,
        )
