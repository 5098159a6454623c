"""Merge engines over Arrow columns and numpy: from the rows of one key to one row."""

from lakewright.storage.lsm.merge_engines.contract import (
    CombiningMerge,
    MergeFunction,
    SelectingMerge,
)
from lakewright.storage.lsm.merge_engines.factory import merge_function

__all__ = ["CombiningMerge", "MergeFunction", "SelectingMerge", "merge_function"]
