"""A table as other decisions would have left it, carried from one recorded state to the next.

What came between two recorded states is their difference, without what upkeep really did there.
This is added to the simulated table, and what the other decisions do is taken away from it:

* A compaction leaves one small file in each bucket, or one sorted run, and the rest in large files.
* An expiry removes the snapshots that its policy lets go, and frees the files that simulated
  compactions replaced before the first one that stays. What tags and consumers keep is not counted.
* An expiry of tags takes those that are older than its policy says, and an expiry of changelogs
  those beyond the number; which end by a time of their own is not known here.
* A rewrite of manifests leaves one small manifest.
* A change of partition keys leaves these keys, until they really change; files stay as they are.
* Other verbs change nothing here: no survey says which partitions are past their time, and which
  files are orphans.

Decisions that undercut what others wrote (a drop, a compaction of a writer) take away no more than
there is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lakewright.platform.decide.judge_partition import weight
from lakewright.platform.decide.judge_tags import tags_past
from lakewright.platform.decide.table_state import UpkeepState
from lakewright.platform.ledger import kept_verbs
from lakewright.platform.ledger.action import Action
from lakewright.platform.ledger.calibrate import Calibration, modelled_ms
from lakewright.platform.ledger.intents import Intent, Why
from lakewright.platform.ledger.past import decided_verb
from lakewright.platform.tables.upkeep_policies import RespecPolicy, UpkeepPolicy
from lakewright.platform.upkeep.health import PartitionHealth
from lakewright.platform.upkeep.measures import Benefit, Cost, Measures

# Commits between two recorded states are spread over the time between in so many steps at most.
_MOST_STEPS = 64
_COUNTED = (
    "row_count",
    "file_count",
    "size_bytes",
    "small_files",
    "sorted_runs",
    "waiting_files",
    "waiting_rows",
    "small_bytes",
    "joined_files",
    "joined_bytes",
    "left_files",
    "left_runs",
)
_REWRITES = (kept_verbs.COMPACT, kept_verbs.SORT_COMPACT)


@dataclass(slots=True)
class SimulatedTable:
    """One table in the course of a replay.

    `observed` are its recorded states, and `acted` the actions of upkeep that were really carried
    out on it, both in the order of time.
    """

    observed: Sequence[UpkeepState]
    acted: Sequence[Action]
    calibration: Calibration
    file_ms: int = 0
    observed_file_ms: int = 0
    _at: int = 0
    _files: int = 0
    _bytes: int = 0
    _manifests: int = 0
    _small_manifests: int = 0
    _manifest_bytes: int = 0
    _snapshots: deque[tuple[int, int]] = field(default_factory=deque)
    _replaced: deque[tuple[int, int]] = field(default_factory=deque)
    _partitions: dict[str, PartitionHealth] = field(default_factory=dict)
    _real: dict[str, PartitionHealth] = field(default_factory=dict)
    summed_ms: int = 0
    _collected_ms: int = -1
    # Files that came home, and their bytes.
    _home: tuple[int, int] = (0, 0)
    _tags: dict[str, int] = field(default_factory=dict)
    _changelogs: int = 0
    # The partition keys and the primary key after a simulated change.
    _keys: tuple[tuple[str, ...], tuple[str, ...]] | None = None

    def __post_init__(self) -> None:
        first = self.observed[0]
        files, manifests = first.survey.files, first.survey.manifests
        self._files, self._bytes = files.files, files.bytes
        self._manifests, self._small_manifests = manifests.manifests, manifests.small
        self._manifest_bytes = manifests.bytes
        history = first.survey.history
        latest_ms = history.latest_ms or first.survey.taken_ms
        self._spread(history.snapshots, history.earliest_ms or latest_ms, latest_ms)
        self._partitions = {each.key: each for each in first.health.partitions}
        self._tags, self._changelogs = dict(first.tags_made_ms), history.changelogs
        self.summed_ms = first.survey.taken_ms

    @property
    def name(self) -> str:
        return self.observed[0].survey.table

    @property
    def begins_ms(self) -> int:
        return self.observed[0].survey.taken_ms

    def advance(self, now_ms: int) -> None:
        """Let happen what was recorded until a moment."""
        while (
            self._at + 1 < len(self.observed)
            and self.observed[self._at + 1].survey.taken_ms <= now_ms
        ):
            before, after = self.observed[self._at], self.observed[self._at + 1]
            self._sum_up(after.survey.taken_ms)
            self._at += 1
            if before.survey.problem is None and after.survey.problem is None:
                self._arrive(before, after)
        self._sum_up(now_ms)

    def state(self) -> UpkeepState:
        """The state that decisions are made from."""
        seen = self.observed[self._at]
        survey = seen.survey
        if self._keys is not None:
            survey = replace(survey, partition_keys=self._keys[0], primary_keys=self._keys[1])
        snapshots = sum(count for _, count in self._snapshots)
        due_ms = seen.collect_due_ms
        if due_ms is not None and due_ms <= self._collected_ms:
            due_ms = None
        return replace(
            seen,
            survey=replace(
                survey,
                files=replace(
                    survey.files,
                    files=self._files,
                    bytes=self._bytes,
                    away_files=max(survey.files.away_files - self._home[0], 0),
                    away_bytes=max(survey.files.away_bytes - self._home[1], 0),
                ),
                history=replace(
                    survey.history,
                    snapshots=snapshots,
                    earliest_ms=self._snapshots[0][0] if self._snapshots else None,
                    tags=survey.history.tags - len(seen.tags_made_ms) + len(self._tags),
                    changelogs=self._changelogs,
                ),
                manifests=replace(
                    survey.manifests,
                    manifests=self._manifests,
                    small=self._small_manifests,
                    bytes=self._manifest_bytes,
                ),
            ),
            health=replace(
                seen.health,
                partitions=tuple(sorted(self._partitions.values(), key=lambda each: -weight(each))),
            ),
            collect_due_ms=due_ms,
            tags_made_ms=dict(self._tags),
        )

    def carry_out(self, intent: Intent, policy: UpkeepPolicy, now_ms: int) -> Measures:
        """Let an intent take its effect, and return what it takes and gains."""
        cost, benefit = intent.cost, intent.benefit
        known = self.calibration.ratios_of(intent.verb, self.name)
        cost = replace(
            cost, files=round(cost.files * known.share), bytes=round(cost.bytes * known.read)
        )
        writes = (*_REWRITES, kept_verbs.RESPEC, kept_verbs.SETTLE)
        written = round(cost.bytes * known.compression) if intent.verb in writes else 0
        if cost.files or cost.bytes:
            cost = replace(cost, milliseconds=round(modelled_ms(cost) * known.time))
        cost = replace(cost, bytes_written=written)
        foreseen = Measures(cost=cost, benefit=benefit)
        self._sum_up(now_ms)
        match intent.verb:
            case kept_verbs.COMPACT | kept_verbs.SORT_COMPACT:
                foreseen = replace(foreseen, benefit=self._rewrite(intent, cost, now_ms))
            case kept_verbs.EXPIRE_SNAPSHOTS:
                foreseen = replace(foreseen, benefit=self._expire(policy, now_ms))
            case kept_verbs.EXPIRE_TAGS:
                foreseen = replace(foreseen, benefit=self._expire_tags(policy, now_ms))
            case kept_verbs.EXPIRE_CHANGELOGS:
                self._changelogs = max(self._changelogs - benefit.changelogs_fewer, 0)
            case kept_verbs.REWRITE_MANIFESTS:
                fewer = max(self._small_manifests - 1, 0)
                self._manifests -= fewer
                self._small_manifests -= fewer
                self._snapshots.append((now_ms, 1))
            case kept_verbs.RESPEC if intent.why is Why.STOPPED_CHANGE:
                # What was stopped, or came late, is no part of what is simulated.
                self._snapshots.append((now_ms, 1))
            case kept_verbs.RESPEC:
                self._change_keys(policy.respec, cost, now_ms)
            case kept_verbs.SETTLE:
                self._home = (self._home[0] + intent.cost.files, self._home[1] + intent.cost.bytes)
                self._snapshots.append((now_ms, 1))
            case kept_verbs.COLLECT:
                self._collected_ms = now_ms
            case kept_verbs.REMOVE_ORPHANS:
                # An upper bound, which is freed when it is collected, if at all.
                foreseen = replace(foreseen, benefit=Benefit())
            case _:
                pass
        return foreseen

    # --- what upkeep does -------------------------------------------------------------------------

    def _rewrite(self, intent: Intent, cost: Cost, now_ms: int) -> Benefit:
        keys = self._partitions if intent.partitions is None else intent.partitions
        most = intent.options.get("max_bytes")
        left = most if isinstance(most, int) else None
        shrinks, fewer = _shrinks([cost]), 0
        share = self.calibration.ratios_of(kept_verbs.COMPACT, self.name).share
        for key in [each for each in keys if each in self._partitions]:
            size = self._partitions[key].joined_bytes or self._partitions[key].small_bytes
            if left is not None and size > left:
                continue
            left = None if left is None else left - size
            before = self._partitions[key]
            self._partitions[key] = self._compacted(before, shrinks, now_ms, share)
            fewer += before.file_count - self._partitions[key].file_count
        less = cost.bytes - cost.bytes_written
        self._files = max(self._files - fewer, 0)
        self._bytes = max(self._bytes - less, 0)
        self._replaced.append((now_ms, cost.bytes))
        self._snapshots.append((now_ms, 1))
        return replace(intent.benefit, files_fewer=fewer, bytes_fewer=less)

    def _expire(self, policy: UpkeepPolicy, now_ms: int) -> Benefit:
        kept = self.observed[self._at].retention.under(policy.snapshots)
        since_ms = now_ms - kept.time_retained_ms
        count = sum(each for _, each in self._snapshots)
        gone = 0
        while self._snapshots:
            at_ms, these = self._snapshots[0]
            following_ms = self._snapshots[1][0] if len(self._snapshots) > 1 else now_ms
            may = count - kept.retain_min
            if following_ms >= since_ms:
                may = min(may, count - kept.retain_max)
            going = min(these, max(may, 0))
            gone, count = gone + going, count - going
            if going < these:
                self._snapshots[0] = (at_ms, these - going)
                break
            self._snapshots.popleft()
        first_ms = self._snapshots[0][0] if self._snapshots else now_ms
        freed = 0
        while self._replaced and self._replaced[0][0] <= first_ms:
            freed += self._replaced.popleft()[1]
        return Benefit(snapshots_fewer=gone, bytes_freed=freed)

    def _expire_tags(self, policy: UpkeepPolicy, now_ms: int) -> Benefit:
        going = tags_past(self._tags, policy.tags, now_ms)
        for each in going:
            del self._tags[each]
        return Benefit(tags_fewer=len(going))

    def _change_keys(self, policy: RespecPolicy, cost: Cost, now_ms: int) -> None:
        survey = self.state().survey
        self._keys = (policy.keys or (), policy.primary_key or survey.primary_keys)
        self._replaced.append((now_ms, cost.bytes))
        self._snapshots.append((now_ms, 1))

    # --- what others do ---------------------------------------------------------------------------

    def _arrive(self, before: UpkeepState, after: UpkeepState) -> None:
        begin_ms, end_ms = before.survey.taken_ms, after.survey.taken_ms
        acts = [each for each in self.acted if begin_ms < each.ended_ms <= end_ms]
        own = sum(len(each.snapshots) for each in acts)
        was, came = (each.survey.history.latest_snapshot or 0 for each in (before, after))
        commits = max(came - was - own, 0)
        if before.survey.partition_keys != after.survey.partition_keys:
            self._keys = None
        self._arrive_files(before, after, acts)
        self._arrive_references(before, after, acts)
        self._arrive_partitions(before, after, acts, commits=commits)
        kept = after.survey.history
        end_ms = min(end_ms, kept.latest_ms or end_ms)
        if kept.earliest_snapshot is not None and kept.earliest_snapshot > was:
            first_ms = kept.earliest_ms or begin_ms
        else:
            first_ms = begin_ms + (end_ms - begin_ms) // max(commits, 1)
        self._spread(commits, min(first_ms, end_ms), end_ms)

    def _arrive_files(
        self, before: UpkeepState, after: UpkeepState, acts: Sequence[Action]
    ) -> None:
        was, came = before.survey.files, after.survey.files
        fewer = sum(each.benefit.files_fewer for each in acts)
        less = sum(each.benefit.bytes_fewer for each in acts)
        grown = came.bytes - (was.bytes - less)
        if grown < 0 and not acts:
            # Others dropped or rewrote it; their snapshots keep it for a while.
            self._replaced.append((after.survey.taken_ms, min(-grown, self._bytes)))
        self._files = max(self._files + came.files - (was.files - fewer), 0)
        self._bytes = max(self._bytes + grown, 0)
        told, tells = before.survey.manifests, after.survey.manifests
        small, every = told.small, told.manifests
        if any(each.verb == kept_verbs.REWRITE_MANIFESTS for each in acts):
            small, every = min(small, 1), every - max(small - 1, 0)
        self._small_manifests = max(self._small_manifests + tells.small - small, 0)
        self._manifests = max(self._manifests + tells.manifests - every, self._small_manifests)
        self._manifest_bytes = max(self._manifest_bytes + tells.bytes - told.bytes, 0)

    def _arrive_references(
        self, before: UpkeepState, after: UpkeepState, acts: Sequence[Action]
    ) -> None:
        was, came = before.tags_made_ms, after.tags_made_ms
        self._tags |= {name: at_ms for name, at_ms in came.items() if was.get(name) != at_ms}
        if not any(each.verb == kept_verbs.EXPIRE_TAGS for each in acts):
            self._tags = {name: at_ms for name, at_ms in self._tags.items() if name in came}
        more = after.survey.history.changelogs - before.survey.history.changelogs
        gone = sum(each.benefit.changelogs_fewer for each in acts)
        self._changelogs = max(self._changelogs + more + gone, 0)

    def _arrive_partitions(
        self, before: UpkeepState, after: UpkeepState, acts: Sequence[Action], *, commits: int
    ) -> None:
        # Some found nothing to do.
        rewrites = [
            each for each in acts if decided_verb(each.verb) in _REWRITES and each.cost.files
        ]
        was = {**self._real, **{each.key: each for each in before.health.partitions}}
        came = {each.key: each for each in after.health.partitions}
        done = _concerned(rewrites, was)
        if rewrites:
            shrinks = _shrinks([each.cost for each in rewrites])
            end_ms = max(each.ended_ms for each in rewrites)
            joined = sum(was[key].joined_files for key in done)
            share = sum(each.cost.files for each in rewrites) / max(joined, 1)
            was |= {key: self._compacted(was[key], shrinks, end_ms, share) for key in done}
        for key, now in came.items():
            then = was.get(key) or _empty(now)
            change = {name: getattr(now, name) - getattr(then, name) for name in _COUNTED}
            if key in done:
                # What others did not write is what the compaction left, and no model foresaw.
                change = {name: max(value, 0) if commits else 0 for name, value in change.items()}
            mine = self._partitions.get(key) or _empty(now)
            grows = change["file_count"] > 0 or change["row_count"] > 0
            written_ms = now.last_file_creation_ms if grows else mine.last_file_creation_ms
            self._partitions[key] = replace(
                mine,
                **{name: max(getattr(mine, name) + value, 0) for name, value in change.items()},
                spec=now.spec,
                worst_bucket=now.worst_bucket,
                buckets=now.buckets,
                last_file_creation_ms=written_ms,
            )
        for each in before.health.partitions:
            if each.key not in came and each.key not in done:
                # Others dropped or compacted it.
                self._partitions.pop(each.key, None)
                was.pop(each.key, None)
        self._real = was | came

    def _compacted(
        self, partition: PartitionHealth, shrinks: float, at_ms: int, share: float
    ) -> PartitionHealth:
        survey = self.observed[0].survey
        return compacted(
            partition,
            keyed=survey.keyed,
            target_bytes=survey.target_bytes,
            shrinks=shrinks,
            share=min(share, 1.0),
            at_ms=at_ms,
        )

    def _spread(self, count: int, first_ms: int, last_ms: int) -> None:
        """Add snapshots at even distances, from the first to the last."""
        steps = min(count, _MOST_STEPS)
        for at in range(steps):
            share = count * (at + 1) // steps - count * at // steps
            at_ms = last_ms - (last_ms - first_ms) * (steps - 1 - at) // max(steps - 1, 1)
            self._snapshots.append((at_ms, share))

    def _sum_up(self, now_ms: int) -> None:
        """Add up files over time, as they were and as they are here."""
        passed = max(now_ms - self.summed_ms, 0)
        self.file_ms += self._files * passed
        self.observed_file_ms += self.observed[self._at].survey.files.files * passed
        self.summed_ms += passed


def compacted(
    partition: PartitionHealth,
    *,
    keyed: bool,
    target_bytes: int,
    shrinks: float,
    at_ms: int,
    share: float = 1.0,
) -> PartitionHealth:
    """A partition after its compaction, by the figures that decisions go by.

    `shrinks` is the share of the bytes read that was written. Of a keyed partition, the compaction
    takes only the buckets that are due: `share` of its files.
    """
    buckets = max(partition.buckets, 1)
    if keyed:
        joined = partition.joined_files
        left = min(partition.left_files or buckets, joined)
        files = partition.file_count - round(max(joined - left, 0) * share)
        read = round((partition.joined_bytes or partition.small_bytes) * share)
        size_bytes = max(partition.size_bytes - read + round(read * shrinks), 0)
        # The worst bucket is one of them: else the same compaction would be due again at once.
        runs = partition.sorted_runs
        fewer = max(round((runs - (partition.left_runs or 1)) * share), 1)
        runs = max(runs - fewer, min(runs, 1))
        counts = replace(
            partition,
            joined_files=round(joined * (1 - share)),
            joined_bytes=round(partition.joined_bytes * (1 - share)),
            left_files=round(left * (1 - share)),
            small_bytes=size_bytes,
            sorted_runs=runs,
        )
    else:
        written = round(partition.small_bytes * shrinks)
        # Of each bucket, what does not fill a file of the target size.
        large, rest = divmod(written // buckets, target_bytes or written + 1)
        left = min(buckets, partition.joined_files) if rest else 0
        files = max(partition.file_count - partition.joined_files, 0) + large * buckets + left
        size_bytes = max(partition.size_bytes - partition.small_bytes + written, 0)
        small = min(partition.small_files, 1) if rest else 0
        counts = replace(
            partition,
            joined_files=left,
            joined_bytes=rest * buckets,
            left_files=left,
            small_bytes=rest * buckets,
            small_files=small,
        )
    return replace(
        counts,
        file_count=files,
        size_bytes=size_bytes,
        waiting_files=0,
        waiting_rows=0,
        last_file_creation_ms=at_ms,
    )


def _shrinks(costs: Sequence[Cost]) -> float:
    """Bytes written for each byte read; 1 if nothing was read."""
    read = sum(each.bytes for each in costs)
    return sum(each.bytes_written for each in costs) / read if read else 1.0


def _empty(partition: PartitionHealth) -> PartitionHealth:
    """A partition before anything was written to it."""
    nothing: dict[str, Any] = dict.fromkeys(_COUNTED, 0)
    return replace(partition, **nothing, last_file_creation_ms=None)


def _concerned(
    rewrites: Sequence[Action], partitions: Mapping[str, PartitionHealth]
) -> frozenset[str]:
    """The keys of the partitions that actions rewrote: those that they name, else all."""
    texts: set[str] = set()
    for each in rewrites:
        named = each.options.get("partitions")
        if not isinstance(named, (list, tuple)):
            return frozenset(partitions)
        texts |= {_text_of(spec) for spec in named if isinstance(spec, Mapping)}
    return frozenset(key for key, each in partitions.items() if _text_of(each.spec) in texts)


def _text_of(spec: Mapping[str, object]) -> str:
    return repr(
        sorted((name, None if value is None else str(value)) for name, value in spec.items())
    )
