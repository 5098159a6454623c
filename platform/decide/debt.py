"""The debt of a table: the files that upkeep could take away, and what is wrong in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lakewright.platform.decide.survey import TableSurvey
from lakewright.platform.upkeep.refused import refused_text
from lakewright.platform.upkeep.respec import other_keys_text
from lakewright.platform.upkeep.settle import away_text
from lakewright.platform.upkeep.words import counted, size_text

# History of this length is no debt; Paimon's own default keeps ten snapshots at least.
USUAL_SNAPSHOTS = 100
_USUAL_MANIFESTS = 30
_DAY_MS = 86_400_000
# A bucket that is so many times larger than the mean one is worth a look, from this size on.
_SKEWED = 4.0
_SKEWED_BYTES = 1 << 30
_MANY_SCHEMAS = 20
# From so many sorted runs, or small files, of one bucket on, the state of a table is poor. A
# compaction by the defaults of Paimon leaves fewer than 5 of each.
POOR_RUNS, POOR_FILES = 10, 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Debt:
    """What upkeep could take away.

    `files` sums up files to join, snapshots above a hundred, small manifests above thirty, and
    files that no snapshot may name. `bytes` are those that a compaction would read.
    """

    files: int = 0
    bytes: int = 0


def debt_of(survey: TableSurvey) -> Debt:
    """The debt of one table; one that cannot be read has none that is known."""
    files = survey.files
    joined = max(files.mergeable_files, files.waiting_files)
    snapshots = max(survey.history.snapshots - USUAL_SNAPSHOTS, 0)
    manifests = max(survey.manifests.small - _USUAL_MANIFESTS, 0)
    return Debt(
        files=joined + snapshots + manifests + survey.orphans.estimated_files,
        bytes=files.mergeable_bytes,
    )


def total_debt(surveys: Iterable[TableSurvey]) -> Debt:
    """The sum over tables."""
    every = [debt_of(survey) for survey in surveys]
    return Debt(files=sum(each.files for each in every), bytes=sum(each.bytes for each in every))


def worst_first(surveys: Iterable[TableSurvey]) -> list[TableSurvey]:
    """Tables that cannot be read, then those of the most debt."""

    def order(survey: TableSurvey) -> tuple[bool, int, int, str]:
        debt = debt_of(survey)
        return survey.problem is None, -debt.files, -debt.bytes, survey.table

    return sorted(surveys, key=order)


def poor_state(survey: TableSurvey) -> str | None:
    """What readers pay for the state of a table, if it is poor."""
    files = survey.files
    if survey.keyed and files.sorted_runs >= POOR_RUNS:
        return f"a reader merges up to {files.sorted_runs:,} sorted runs of one bucket"
    if not survey.keyed and files.most_in_bucket >= POOR_FILES:
        return f"a reader opens up to {files.most_in_bucket:,} small files of one bucket"
    return None


def findings(survey: TableSurvey) -> tuple[str, ...]:
    """What is wrong with a table, in words with their numbers, what matters most first."""
    if survey.problem is not None:
        return (f"cannot be read: {survey.problem}",)
    return tuple(_findings(survey))


def _findings(survey: TableSurvey) -> Iterator[str]:
    files, history = survey.files, survey.history
    if survey.read_only is not None:
        yield f"can only be read: {survey.read_only}"
    elif (told := refused_text(survey.refused)) is not None:
        yield told
    if survey.has_other_keys:
        yield other_keys_text(survey.table, survey.partition_keys, survey.late_writers)
    if files.away_files:
        yield away_text(survey.table, files.away_files, files.away_bytes)
    if files.waiting_rows:
        yield f"{counted(files.waiting_rows, 'row')} wait for a compaction, unseen by readers"
    if files.mergeable_files:
        joined = f"{counted(files.mergeable_files, 'small file')} to join"
        if survey.keyed:
            joined = f"{counted(files.sorted_runs, 'sorted run')} to merge in the worst bucket"
        yield f"{joined} ({size_text(files.mergeable_bytes)})"
    if history.snapshots > USUAL_SNAPSHOTS:
        yield f"{counted(history.snapshots, 'snapshot')}, the first {age_text(survey)} old"
    if survey.manifests.small > _USUAL_MANIFESTS:
        yield f"{counted(survey.manifests.small, 'small manifest')}"
    if survey.orphans.estimated_files:
        size = size_text(survey.orphans.estimated_bytes)
        most = counted(survey.orphans.estimated_files, "file")
        yield f"up to {most} ({size}) that the latest snapshot does not name"
    if survey.layout.skew >= _SKEWED and survey.layout.largest_bucket_bytes >= _SKEWED_BYTES:
        yield f"the largest bucket has {survey.layout.skew:g} times the mean"
    if behind := snapshots_behind(survey):
        yield f"a consumer keeps {counted(behind, 'snapshot')} from expiring"
    if history.schemas_in_use > _MANY_SCHEMAS:
        yield f"live files of {counted(history.schemas_in_use, 'schema')}"


def snapshots_behind(survey: TableSurvey) -> int:
    """How many snapshots the slowest consumer has not read, where these are more than usual."""
    history = survey.history
    if history.oldest_consumer_snapshot is None or history.latest_snapshot is None:
        return 0
    behind = history.latest_snapshot + 1 - history.oldest_consumer_snapshot
    return behind if behind > USUAL_SNAPSHOTS else 0


def age_text(survey: TableSurvey) -> str:
    """The age of the first snapshot: `12 days`, `5 hours`."""
    if survey.history.earliest_ms is None:
        return "an unknown time"
    age_ms = max(survey.taken_ms - survey.history.earliest_ms, 0)
    if age_ms >= 2 * _DAY_MS:
        return counted(age_ms // _DAY_MS, "day")
    return counted(age_ms // 3_600_000, "hour")
