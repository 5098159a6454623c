"""Whether a table has the partition keys of its policy, and what a change to them may take."""

from __future__ import annotations

from collections.abc import Sequence

from lakewright.platform.declare.upkeep_policies import RespecPolicy
from lakewright.platform.upkeep.measures import Cost
from lakewright.platform.warehouse.survey import TableSurvey
from lakewright.storage.operations.respec.respec import steps_between


def has_keys(survey: TableSurvey, policy: RespecPolicy) -> bool:
    """Whether nothing is to be changed."""
    wanted = policy.primary_key
    return survey.partition_keys == policy.keys and (
        wanted is None or set(wanted) == set(survey.primary_keys)
    )


def keys_told(survey: TableSurvey, policy: RespecPolicy) -> str:
    """What is to change, in words, and what readers have of it."""
    keys = policy.keys or ()
    told = f"partition keys {_listed(survey.partition_keys)}, by its policy {_listed(keys)}"
    wanted = policy.primary_key
    if wanted is not None and set(wanted) != set(survey.primary_keys):
        told += f", with the primary key {_listed(wanted)}"
    came = [each for each in keys if each not in survey.partition_keys]
    if came:
        told += f"; then a filter on {' or '.join(came)} opens the files of its values alone"
    return told


def cost_of_change(survey: TableSurvey, keys: tuple[str, ...]) -> Cost:
    """The most that a change may read and write: which files need no split, only a plan finds out.

    A primary-key table is written anew in each step. Of an append table files are split where keys
    come, and stay as they are where keys only go.
    """
    files, present = survey.files, survey.partition_keys
    times = 0 if present[: len(keys)] == keys else 1
    if survey.keyed:
        times = len(steps_between(present, keys))
    size = files.bytes * times
    return Cost(
        bytes=size,
        files=files.files if times else 0,
        bytes_written=size,
        files_named=0 if survey.keyed else files.files,
    )


def _listed(keys: Sequence[str]) -> str:
    return f"({', '.join(keys)})"
