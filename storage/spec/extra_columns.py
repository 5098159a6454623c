"""What a reader of files, or a run, does with columns of its source that are not declared."""

from __future__ import annotations

from enum import Enum


class ExtraColumns(Enum):
    """Whether they are an error, or left out."""

    REFUSE = "refuse"
    IGNORE = "ignore"
