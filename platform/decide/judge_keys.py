"""Whether a table has the partition keys of its policy, and what a change to them may take."""

from __future__ import annotations

from collections.abc import Sequence

from lakewright.platform.decide.survey import TableSurvey
from lakewright.platform.tables.upkeep_policies import RespecPolicy
from lakewright.platform.upkeep.measures import Cost
from lakewright.storage.operations.respec.keyed_checks import steps_between


def has_keys(survey: TableSurvey, policy: RespecPolicy) -> bool:
    """Whether nothing is to be changed; an append table has no primary key, and gets none."""
    wanted = policy.primary_key
    return survey.partition_keys == policy.keys and (
        wanted is None or not survey.primary_keys or set(wanted) == set(survey.primary_keys)
    )


def keys_told(survey: TableSurvey, policy: RespecPolicy) -> str:
    """The keys that a table has, and those of its policy, in words."""
    present, keys = survey.partition_keys, policy.keys or ()
    told = f"partition keys {listed_keys(present)}, by its policy {listed_keys(keys)}"
    wanted = policy.primary_key
    if wanted is not None and set(wanted) != set(survey.primary_keys):
        told += f", with the primary key {listed_keys(wanted)}"
    return told


def gain_told(survey: TableSurvey, keys: Sequence[str]) -> str:
    """What readers have of a change, in words; a survey knows no number for it."""
    came = [key for key in keys if key not in survey.partition_keys]
    if not came:
        return ""
    return f", and a filter on {' or '.join(came)} opens the files of its values alone"


def cost_of_change(survey: TableSurvey, keys: tuple[str, ...]) -> Cost:
    """The most that a change may read and write: which files need no split, only a plan finds out.

    A primary-key table is rewritten in each step. Of an append table files are split where keys
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


def listed_keys(keys: Sequence[str]) -> str:
    """Keys as messages list them."""
    return f"({', '.join(keys)})"
