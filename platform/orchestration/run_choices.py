"""Choices of run config; Dagster shows them, and refuses other words at launch.

Dagster shows the names of an enum, not its values, so the names are the words that people write.
"""

from __future__ import annotations

from enum import Enum

from lakewright.platform.tables.declarations import WriteKind


class WriteMode(Enum):
    """What a run does with the existing rows of the table."""

    append = WriteKind.APPEND
    overwrite = WriteKind.OVERWRITE
    upsert = WriteKind.UPSERT
