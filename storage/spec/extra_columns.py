"""What a reader of files, or a run, does with columns of its source that are not declared."""

from __future__ import annotations

from enum import Enum


class ExtraColumns(Enum):
    """What a reader does with columns of its source that the table lacks."""

    REFUSE = "refuse"
    IGNORE = "ignore"
