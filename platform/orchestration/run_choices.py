"""What a run's config may choose from; Dagster shows the choices and refuses others at launch.

Dagster takes the names of an enum and not its values, so the names are what people write.
"""

from __future__ import annotations

from enum import Enum

from lakewright.platform.declare.declarations import WriteKind


class WriteMode(Enum):
    """What a run does with the rows that are there already."""

    append = WriteKind.APPEND
    overwrite = WriteKind.OVERWRITE
    upsert = WriteKind.UPSERT
