"""The tables of these tests, and what a reader must find in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakewright.storage import Table
from tests.support.racing import rows_of

COLUMNS = {"writer": "INT", "number": "BIGINT", "times": "BIGINT"}
KINDS: dict[str, dict[str, Any]] = {
    "append": {},
    "partitioned": {"partitions": ("writer",)},
    # Rows that all writers share count how often they were written: a commit that is made twice
    # shows, and so does a row that a compaction merges twice.
    "keyed": {
        "keys": ("writer", "number"),
        "options": {
            "bucket": "2",
            "bucket-key": "number",
            "merge-engine": "aggregation",
            "fields.times.aggregate-function": "sum",
        },
    },
}

Counts = dict[tuple[int, int], int]


def counted(table: Table) -> Counts:
    """How often each row was written, as a reader sees it."""
    found: Counts = {}
    for row in table.read().to_pylist():
        place = (row["writer"], row["number"])
        found[place] = found.get(place, 0) + row["times"]
    return found


def expected_of(table: Table, made: Mapping[int, int]) -> Counts:
    """The same, by how many commits each writer made."""
    found: Counts = {}
    for writer, commits in made.items():
        for number in range(commits):
            for row in rows_of(table, writer, number):
                place = (row["writer"], row["number"])
                found[place] = found.get(place, 0) + row["times"]
    return found
