"""Universal compaction: choose the sorted runs to merge, and the level of the result.

Runs are ordered from the newest to the oldest, and a merge always takes a prefix of them, so merged
runs are newer than the runs that stay. Every level but 0 is one run. A file that overlaps no other
keeps its bytes: only its level changes. Source: Paimon
`UniversalCompaction`, `EarlyFullCompaction`, `ForceUpLevel0Compaction`, `MergeTreeCompactTask`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lakewright.storage.lsm.levels import LevelRun, Levels
from lakewright.storage.lsm.sections import Section
from lakewright.storage.spec.manifest import DataFileMeta


@dataclass(frozen=True, slots=True)
class OffPeakHours:
    """Hours from `start` to before `end`, possibly past midnight, with a larger size ratio."""

    start: int
    end: int
    ratio_percent: int

    def ratio_at(self, hour: int) -> int:
        """The percent points added to the size ratio at an hour."""
        if self.start <= self.end:
            within = self.start <= hour < self.end
        else:
            within = hour < self.end or self.start <= hour
        return self.ratio_percent if within else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UniversalPolicy:
    """When runs are merged; the defaults are the format's.

    `run_trigger` is the least number of runs for a merge. The three limits may be None, which turns
    them off: the time after which the next full compaction is due, the size of a bucket below which
    a full compaction is cheap, and the bytes above the max level beyond which a full compaction
    pays off. `force_up_level0` compacts level 0 if nothing else is due. With `merges_at_trigger`,
    exactly that many runs are merged, of any sizes; by the format, one more is needed.
    """

    max_size_amplification_percent: int = 200
    size_ratio_percent: int = 1
    run_trigger: int = 5
    optimization_interval_ms: int | None = None
    total_size_threshold: int | None = None
    incremental_size_threshold: int | None = None
    force_up_level0: bool = False
    off_peak: OffPeakHours | None = None
    merges_at_trigger: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionUnit:
    """Files of one bucket to merge, and the level of the result.

    With `file_by_file`, the files are one run, and each file is rewritten by itself.
    """

    files: tuple[DataFileMeta, ...]
    output_level: int
    reason: str
    file_by_file: bool = False


def pick_unit(
    levels: Levels, policy: UniversalPolicy, *, now_ms: int = 0, hour: int = 0
) -> CompactionUnit | None:
    """The unit that the policy finds due, or None.

    `hour` is the local hour of the maintaining process.
    """
    picker = _Picker(levels, policy, hour)
    unit = (
        picker.for_early_full(now_ms)
        or picker.for_size_amplification()
        or picker.for_size_ratio()
        or picker.for_run_count()
        or (picker.for_level0() if policy.force_up_level0 else None)
    )
    if unit is None or (len(unit.files) == 1 and unit.files[0].level == unit.output_level):
        return None
    return unit


def pick_full(
    levels: Levels, rewritten: Callable[[DataFileMeta], bool] = lambda file: False
) -> CompactionUnit | None:
    """All files of a bucket, to the max level; None if all are there.

    `rewritten` decides which files of the max level are rewritten nevertheless, since they hold
    rows to drop.
    """
    if not levels.runs:
        return None
    if len(levels.runs) > 1 or levels.runs[0].level != levels.max_level:
        reason = f"{_runs(levels.runs)}, to level {levels.max_level} as asked"
        return CompactionUnit(files=levels.files, output_level=levels.max_level, reason=reason)
    stale = tuple(file for file in levels.files if rewritten(file))
    if not stale:
        return None
    return CompactionUnit(
        files=stale,
        output_level=levels.max_level,
        reason=f"files of the top level that hold rows to drop: {len(stale)}",
        file_by_file=True,
    )


def may_merge(unit: CompactionUnit, rest: Iterable[DataFileMeta]) -> bool:
    """Whether every file that stays is newer than the unit's files, or below its output level.

    Otherwise a merge hides the newer row of a key, or drops a deletion that an older row needs.
    """
    levels = {file.level for file in unit.files}
    if unit.file_by_file:
        return levels == {unit.output_level}
    if max(levels) > unit.output_level:
        return False
    newest = max((f.max_sequence_number for f in unit.files if f.level == 0), default=-1)
    return all(
        file.max_sequence_number >= newest if file.level == 0 else file.level > unit.output_level
        for file in rest
    )


def may_drop_deletes(levels: Levels, output_level: int, *, deletion_vectors: bool = False) -> bool:
    """Whether no older row is left for a deletion to delete after the merge of its unit.

    With deletion vectors, the merge itself marks older rows as deleted.
    """
    return output_level != 0 and (output_level >= levels.deepest or deletion_vectors)


class _Picker:
    """The rules; each returns a unit or None for the runs."""

    def __init__(self, levels: Levels, policy: UniversalPolicy, hour: int) -> None:
        self.levels = levels
        self.runs = levels.runs
        self.policy = policy
        off_peak = policy.off_peak.ratio_at(hour) if policy.off_peak else 0
        self.size_ratio = policy.size_ratio_percent + off_peak

    def for_early_full(self, now_ms: int) -> CompactionUnit | None:
        """All runs, if the last full compaction is long ago, or if the next one is cheap."""
        policy, top = self.policy, self.levels.max_level
        if len(self.runs) <= 1:
            return None
        interval = policy.optimization_interval_ms
        if interval is not None:
            merged_at = [f.creation_time or 0 for f in self.levels.files if f.level == top]
            if not merged_at or now_ms - max(merged_at) > interval:
                return self._everything(f"no full compaction for {interval} ms")
        total = sum(run.size_bytes for run in self.runs)
        if policy.total_size_threshold is not None and total < policy.total_size_threshold:
            told = f"{total:,} bytes, below {policy.total_size_threshold:,} bytes"
            return self._everything(told)
        above = sum(run.size_bytes for run in self.runs if run.level != top)
        limit = policy.incremental_size_threshold
        if limit is not None and above > limit:
            told = f"{above:,} bytes above level {top}, over {limit:,} bytes"
            return self._everything(told)
        return None

    def for_size_amplification(self) -> CompactionUnit | None:
        """All runs, if the runs above the oldest one outweigh it."""
        if len(self.runs) < self.policy.run_trigger:
            return None
        oldest = self.runs[-1].size_bytes
        above = sum(run.size_bytes for run in self.runs[:-1])
        limit = self.policy.max_size_amplification_percent
        if above * 100 <= limit * oldest:
            return None
        return self._everything(
            f"{above:,} bytes above an oldest run of {oldest:,} bytes, over {limit}% of it"
        )

    def for_size_ratio(self) -> CompactionUnit | None:
        """The newest runs that are of about one size."""
        if len(self.runs) < self.policy.run_trigger:
            return None
        return self._extended(1, "of about one size")

    def for_run_count(self) -> CompactionUnit | None:
        """The newest runs, as many as exceed the limit."""
        excess = len(self.runs) - self.policy.run_trigger
        if excess == 0 and self.policy.merges_at_trigger:
            return self._extended(2, f"as many as {self.policy.run_trigger}")
        if excess <= 0:
            return None
        return self._extended(excess + 1, f"more than {self.policy.run_trigger}")

    def for_level0(self) -> CompactionUnit | None:
        """All of level 0, whatever its size."""
        count = sum(run.level == 0 for run in self.runs)
        return self._extended(count, "level 0 is emptied", force=True) if count else None

    def _extended(self, count: int, why: str, *, force: bool = False) -> CompactionUnit | None:
        """The first `count` runs and the following runs that are not much larger."""
        size = sum(run.size_bytes for run in self.runs[:count])
        due = force or count > 1
        for run in self.runs[count:]:
            much_larger = size * (100 + self.size_ratio) < 100 * run.size_bytes
            # Levels 0 and 1 are small enough to join any merge.
            if much_larger and (not due or run.level > 1):
                break
            size += run.size_bytes
            count += 1
            due = True
        return self._unit(count, why) if due else None

    def _unit(self, count: int, why: str) -> CompactionUnit:
        output = self.runs[count].level - 1 if count < len(self.runs) else self.levels.max_level
        if output <= 0:
            # A merge cannot write to level 0, so it takes further runs up to a deeper level.
            output = 0
            while count < len(self.runs) and output == 0:
                output = self.runs[count].level
                count += 1
        if count == len(self.runs):
            output = self.levels.max_level
        chosen = self.runs[:count]
        return CompactionUnit(
            files=tuple(file for run in chosen for file in run.files),
            output_level=output,
            reason=f"{_runs(chosen)} of {len(self.runs)} into level {output}, {why}",
        )

    def _everything(self, why: str) -> CompactionUnit:
        top = self.levels.max_level
        return CompactionUnit(
            files=self.levels.files,
            output_level=top,
            reason=f"{_runs(self.runs)} into level {top}, {why}",
        )


def _runs(runs: Sequence[LevelRun]) -> str:
    return f"{len(runs)} sorted run{'' if len(runs) == 1 else 's'}"


# --- what is done with the files of a unit ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Upgrade:
    """A file that keeps its bytes and changes its level."""

    file: DataFileMeta


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Sections, neighbours in key order, whose rows are merged into new files."""

    sections: tuple[Section, ...]

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        return tuple(file for section in self.sections for file in section.files)


def pick_steps(
    unit: CompactionUnit,
    sections: Iterable[Section],
    *,
    max_level: int,
    small_below_bytes: int,
    rewritten: Callable[[DataFileMeta], bool] = lambda file: False,
) -> tuple[Upgrade | Rewrite, ...]:
    """The steps for the unit's sections, in key order.

    Sections of several runs are merged. In sections of one run, large files are moved, and small
    files are written together with their neighbours. A file on the output level that would be moved
    is in no step, unless it is to be `rewritten`. New files never span a moved file, or the level
    would not be one run.
    """
    if unit.file_by_file:
        return tuple(Rewrite((Section(((file,),)),)) for file in unit.files)

    def moved(file: DataFileMeta) -> Iterable[Upgrade | Rewrite]:
        # An unknown number counts as nonzero; old writers left it out.
        deletes = unit.output_level == max_level and file.delete_row_count != 0
        if deletes or rewritten(file):
            yield Rewrite((Section(((file,),)),))
        elif file.level != unit.output_level:
            yield Upgrade(file)

    steps: list[Upgrade | Rewrite] = []
    waiting: list[Section] = []

    def finish_waiting() -> None:
        if len(waiting) == 1 and len(waiting[0].files) == 1:
            steps.extend(moved(waiting[0].files[0]))
        elif waiting:
            steps.append(Rewrite(tuple(waiting)))
        waiting.clear()

    for section in sections:
        if len(section.files) > 1 or section.files[0].file_size < small_below_bytes:
            waiting.append(section)
        else:
            finish_waiting()
            steps.extend(moved(section.files[0]))
    finish_waiting()
    return tuple(steps)
