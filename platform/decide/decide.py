"""Decides for one table which verbs are due, and why the others are not.

A pure function of the table's state, its policy, and what is known of runs and time. Equal input
gives equal decisions, so a decision that was lost is made again at the next look.

The file is long since each verb has its judge here, beside the few questions that all of them ask.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from lakewright.platform.decide.clock import Clock
from lakewright.platform.decide.judge_buckets import bucket_hint
from lakewright.platform.decide.judge_keys import (
    cost_of_change,
    gain_told,
    has_keys,
    keys_told,
    listed_keys,
)
from lakewright.platform.decide.judge_partition import (
    judge_partition,
    makes_readers_wait,
    stop_trigger,
    weight,
)
from lakewright.platform.decide.judge_tags import tags_past
from lakewright.platform.decide.surveys import LEAST_EXPIRED_OF_OWN, OWN_TABLES
from lakewright.platform.decide.upkeep_state import UpkeepState
from lakewright.platform.documents.declared_values import Declared
from lakewright.platform.ledger.calibrate import Calibration
from lakewright.platform.ledger.intents import (
    URGENT,
    Benefit,
    Cost,
    Decision,
    Declined,
    Intent,
    Why,
    WhyNot,
)
from lakewright.platform.ledger.kept_verbs import (
    ANALYZE,
    COLLECT,
    COMPACT,
    ENDS_CHANGE,
    EVERY_VERB,
    EXPIRE_CHANGELOGS,
    EXPIRE_PARTITIONS,
    EXPIRE_SNAPSHOTS,
    EXPIRE_TAGS,
    INGEST,
    PUBLISH_ICEBERG,
    REMOVE_ORPHANS,
    RESCALE,
    RESPEC,
    REWRITE_MANIFESTS,
    SETTLE,
    SORT_COMPACT,
    waits_for,
)
from lakewright.platform.ledger.known_work import LONGEST_DELAY_MS, Past, Running, Try
from lakewright.platform.ledger.taken_back import TakenBack, policy_digest
from lakewright.platform.policies.setting_text import lasting
from lakewright.platform.tables.upkeep_policies import CompactionPolicy, Scheduled, UpkeepPolicy
from lakewright.platform.upkeep.health import PartitionHealth
from lakewright.platform.upkeep.measures import Measures, bytes_after
from lakewright.platform.upkeep.words import counted, duration_text, size_text, time_text
from lakewright.storage.operations.inspection.late_writers import late_writers_text
from lakewright.storage.spec.known_options import Use
from lakewright.storage.spec.snapshot import CommitKind

# The first delay before a verb is asked for again in an unchanged state; it doubles each time, up
# to a day: its cause may be mended without a trace in the table.
_ASKED_AGAIN_AFTER_MS = 600_000
_MOST_DOUBLINGS = 8
# A table is not ill because of work that its schedule asked for so shortly ago.
_LATE_AFTER_MS = 3_600_000
_MOST_TOLD = 5
# A change of partition keys that lives ends within moments; storage ends what is older than 10 s.
_CHANGE_WITHIN_MS = 15_000
# An orchestrator may know the end of a run by the second.
_SECOND_MS = 1000
_MIB = 1 << 20
# What the options of a table say where no number bounds its history.
_ANY_NUMBER = 2**31 - 1
# Two manifest lists and a manifest, as an expiry counts what it deletes; what is beyond is learned.
_FILES_OF_A_SNAPSHOT = 3
_OFF = "is switched off by its policy"
_NO_COST, _NO_BENEFIT = Cost(), Benefit()


def decide(
    state: UpkeepState,
    policy: UpkeepPolicy,
    past: Past,
    clock: Clock,
    *,
    declared_keys: tuple[str, ...] | None = None,
    is_streamed: bool = False,
) -> tuple[Decision, ...]:
    """Decide on every verb for a table; a verb that cannot apply to it gets no decision.

    `declared_keys` are the partition keys that its declaration says, None if none does. A table
    that `is_streamed` has a stream that waits for compactions.
    """
    look = _Look(state, policy, past, clock, declared_keys, is_streamed)
    hindered = look.hindered()
    if hindered is not None:
        return (hindered,)
    ending = look.stopped_change()
    if isinstance(ending, Intent):
        # Until it has ended, verbs that rewrite or drop files are refused.
        return (_foreseen(ending, past.learned),)
    judges = (
        look.compaction,
        look.sort,
        look.snapshots,
        look.tags,
        look.changelogs,
        look.partitions,
        look.manifests,
        look.iceberg,
        look.orphans,
        look.collect,
        look.statistics,
        look.rescale,
        look.respec if ending is None else lambda: (ending,),
        look.settle,
    )
    return tuple(_foreseen(each, past.learned) for judge in judges for each in judge())


def intents(decisions: Iterable[Decision]) -> tuple[Intent, ...]:
    """What is to be carried out."""
    return tuple(decision for decision in decisions if isinstance(decision, Intent))


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at a table: a method for each verb."""

    state: UpkeepState
    policy: UpkeepPolicy
    past: Past
    clock: Clock
    declared_keys: tuple[str, ...] | None
    is_streamed: bool

    @property
    def table(self) -> str:
        return self.state.survey.table

    @property
    def _is_own(self) -> bool:
        """Whether the verbs' own rows in the ledger change the table, or may change it."""
        return self.table in OWN_TABLES

    def hindered(self) -> Declined | None:
        """Why nothing at all is done to the table, if so."""
        survey = self.state.survey
        if survey.problem is not None:
            told = f"cannot be read: {survey.problem}"
            return self._declined(EVERY_VERB, WhyNot.UNREADABLE, told)
        if survey.read_only is not None:
            told = f"is only read: {survey.read_only}"
            return self._declined(EVERY_VERB, WhyNot.READ_ONLY, told)
        if self.policy.freeze:
            return self._declined(EVERY_VERB, WhyNot.FROZEN, "is frozen by its policy")
        return None

    # --- partition keys --------------------------------------------------------------------------

    def stopped_change(self) -> Decision | None:
        """Whether `respec` with the present keys is due, since live files have other keys.

        A change of the keys was stopped, or a client wrote that opened the table before. Other
        clients may fail on such a table or miss rows, and their expiry takes what the end needs.
        """
        survey = self.state.survey
        if not survey.has_other_keys:
            return None
        barred = self._barred(RESPEC, self.policy.respec.enabled, Use.COMPACT)
        if barred is not None:
            return barred
        cause = late_writers_text(survey.late_writers) or (
            "a change of its partition keys was stopped, or a client wrote that opened the table "
            "before one"
        )
        told = f"{cause}; bring all files to the present keys {listed_keys(survey.partition_keys)}"
        latest_ms = survey.history.latest_ms or 0
        # The snapshots of a change are compactions; one by a late client is no reason to wait.
        may_live = survey.history.latest_kind == CommitKind.COMPACT.value
        if may_live and self.clock.now_ms < latest_ms + _CHANGE_WITHIN_MS:
            again_ms = latest_ms + _CHANGE_WITHIN_MS
            return self._declined(RESPEC, WhyNot.IN_FLIGHT, f"{told}, unless it ends now", again_ms)
        tried = self.past.tries.get((self.table, RESPEC))
        state = f"{ENDS_CHANGE} {survey.history.latest_snapshot}"
        if tried is not None and tried.error and tried.state.startswith(ENDS_CHANGE):
            # Other commits do not mend what it failed for.
            state = tried.state
        return self._unless_busy(
            Intent(
                table=self.table,
                verb=RESPEC,
                why=Why.STOPPED_CHANGE,
                subject=self.table,
                told=told,
                options={"keys": list(survey.partition_keys), "keep_staged": True},
                cost=Cost(files_named=0 if survey.keyed else survey.files.files),
                state=state,
                table_uuid=survey.uuid,
                score=float("inf"),
            ),
            self.policy.respec,
        )

    def settle(self) -> Iterator[Decision]:
        policy, survey = self.policy.settle, self.state.survey
        files, size = survey.files.away_files, survey.files.away_bytes
        if not files:
            return
        barred = self._barred(SETTLE, policy.enabled, Use.COMPACT)
        if barred is not None:
            yield barred
            return
        taken = min(size, policy.max_bytes)
        yield self._unless_busy(
            Intent(
                table=self.table,
                verb=SETTLE,
                why=Why.FILES_AWAY,
                subject=self.table,
                told=f"{counted(files, 'file')} ({size_text(size)}) of former partition keys are "
                "named by their places: bring home",
                cost=Cost(bytes=taken, files=files * taken // max(size, 1), bytes_written=taken),
                state=str(survey.history.latest_snapshot),
                table_uuid=survey.uuid,
                score=0.0,
            ),
            policy,
        )

    def respec(self) -> Iterator[Decision]:
        policy, survey, change = self.policy.respec, self.state.survey, self.state.keys_change
        if policy.keys is None:
            return
        barred = self._barred(RESPEC, policy.enabled, Use.COMPACT)
        if barred is not None:
            yield barred
            return
        told = keys_told(survey, policy)
        if has_keys(survey, policy):
            yield self._declined(RESPEC, WhyNot.HEALTHY, f"{told}: leave")
            return
        if self.declared_keys is not None:
            told += (
                f": its declaration says partition_keys ({', '.join(self.declared_keys)}), and "
                "decides; change them there, and run `lakewright respec` (respec in the job upkeep)"
            )
            yield self._declined(RESPEC, WhyNot.DECLARED, told)
            return
        # A state that was read for another policy does not say whether these keys are possible.
        if change is not None and change.is_of(policy) and change.why_not is not None:
            yield self._declined(RESPEC, change.why_not, f"{told}: {change.problem}")
            return
        now_ms, hours = self.clock.now_ms, policy.hours
        if hours is not None and not hours.hold(now_ms, policy.timezone):
            told += f": waits for its hours, {hours} {policy.timezone}"
            again_ms = hours.next_ms(now_ms, policy.timezone)
            yield self._declined(RESPEC, WhyNot.OUT_OF_HOURS, told, again_ms)
            return
        yield self._unless_busy(
            Intent(
                table=self.table,
                verb=RESPEC,
                why=Why.PARTITION_KEYS,
                subject=self.table,
                told=f"{told}: change{gain_told(survey, policy.keys)}",
                cost=cost_of_change(survey, policy.keys),
                # Neither rows nor files: else a change that is refused would be asked for again
                # after each commit.
                state=_digest(
                    (
                        *(repr(each) for each in (survey.partition_keys, survey.primary_keys)),
                        *(repr(each) for each in (policy.keys, policy.primary_key)),
                        f"{policy.max_partitions} {policy.max_files}",
                    )
                ),
                table_uuid=survey.uuid,
                # It does not follow from the files, so no number of them says when it is its turn.
                score=float("inf"),
            ),
            policy,
        )

    # --- files -----------------------------------------------------------------------------------

    def compaction(self) -> Iterator[Decision]:
        policy = self.policy.compaction
        barred = self._barred(COMPACT, policy.enabled, Use.COMPACT)
        if barred is not None:
            yield barred
            return
        keyed, stop_at = self.state.health.keyed, self._stop_at
        due: list[tuple[PartitionHealth, str, Why]] = []
        for partition in self._most_read_first():
            counts, why = judge_partition(partition, policy, keyed=keyed, stop_at=stop_at)
            if why is None:
                yield self._left(partition, WhyNot.HEALTHY, f"{counts}: leave")
                continue
            obstacle = self._obstacle(partition, why, policy, taken=len(due))
            if obstacle is None:
                due.append((partition, f"{partition.name}: {counts}", why))
                continue
            why_not, told, again_ms = obstacle
            yield self._left(partition, why_not, f"{counts}: {told}", again_ms)
        if due:
            yield self._unless_busy(self._to_compact(due), policy)

    @property
    def _stop_at(self) -> int | None:
        """The sorted runs of a bucket at which a stream into the table waits, if it has one."""
        waits = self.is_streamed and self.state.health.keyed
        return stop_trigger(self.state.survey.options) if waits else None

    def _most_read_first(self) -> Sequence[PartitionHealth]:
        """The partitions, the worst first; where reads are counted, what most reads open first."""
        found, reads = self.state.health.partitions, self.past.reads.get(self.table)
        if reads is None:
            return found
        return sorted(found, key=lambda each: -weight(each) * reads.of(each.key))

    def _obstacle(
        self, partition: PartitionHealth, why: Why, policy: CompactionPolicy, *, taken: int
    ) -> tuple[WhyNot, str, int | None] | None:
        now_ms, written_ms = self.clock.now_ms, partition.last_file_creation_ms
        held = self._held(COMPACT, policy)
        if held is not None and (written_ms is None or written_ms <= held.at_ms):
            return WhyNot.UNDONE, f"{held.told}, or new rows arrive", None
        age_ms = None if written_ms is None else max(now_ms - written_ms, 0)
        is_urgent = why is Why.WRITERS_WAIT
        if policy.quiet_for and not is_urgent and age_ms is not None and age_ms < policy.quiet_for:
            ago, quiet = age_ms // 1000, policy.quiet_for // 1000
            told = f"waits, written {ago} s ago, until it is quiet for {quiet} s"
            return WhyNot.STILL_WRITTEN, told, now_ms - age_ms + policy.quiet_for
        if why not in URGENT:
            if policy.hours is not None and not policy.hours.hold(now_ms, policy.timezone):
                told = f"waits for its hours, {policy.hours} {policy.timezone}"
                again_ms = policy.hours.next_ms(now_ms, policy.timezone)
                return WhyNot.OUT_OF_HOURS, told, again_ms
            keyed = self.state.health.keyed
            crowded = makes_readers_wait(partition, policy, keyed=keyed)
            little = partition.small_bytes < policy.min_bytes and not crowded
            if little and age_ms is not None and age_ms < policy.at_latest:
                told = (
                    f"waits, {size_text(partition.small_bytes)} of {size_text(policy.min_bytes)}, "
                    f"at most until {duration_text(policy.at_latest)} after the last write"
                )
                return WhyNot.TOO_LITTLE, told, now_ms - age_ms + policy.at_latest
        if taken >= policy.max_partitions:
            told = f"waits, {policy.max_partitions} partitions are compacted at once"
            return WhyNot.CAPPED, told, None
        return None

    def _to_compact(self, due: Sequence[tuple[PartitionHealth, str, Why]]) -> Intent:
        partitions = [each for each, _, _ in due]
        keyed = self.state.health.keyed
        urgent = next((why for why in URGENT if any(each[2] is why for each in due)), None)
        read = sum(partition.joined_bytes or partition.small_bytes for partition in partitions)
        files = sum(partition.joined_files for partition in partitions)
        fewer = sum(
            max(partition.joined_files - (partition.left_files or partition.buckets), 0)
            for partition in partitions
        )
        written = bytes_after(read, files, files - fewer, self.state.survey.empty_bytes)
        cost = Cost(bytes=read, files=files, bytes_written=written)
        benefit = Benefit(
            files_fewer=fewer,
            runs_fewer=sum(
                max(partition.sorted_runs - (partition.left_runs or 1), 0)
                for partition in partitions
            )
            if keyed
            else 0,
            rows_shown=sum(partition.waiting_rows for partition in partitions),
        )
        worst = sorted(due, key=lambda each: -weight(each[0]))
        told = "; ".join(reason for _, reason, _ in worst[:_MOST_TOLD])
        more = f"; and {len(due) - _MOST_TOLD} more" if len(due) > _MOST_TOLD else ""
        reads = self._reads_of(partitions)
        if reads:
            more += f"; read {reads:,.3g} times a day"
        keys = tuple(partition.key for partition in partitions)
        return Intent(
            table=self.table,
            verb=COMPACT,
            why=urgent or worst[0][2],
            told=f"{told}{more}: compact",
            partitions=keys if self.state.survey.partition_keys else None,
            # The policy asks for more files than make the stream wait.
            options={} if urgent is not Why.WRITERS_WAIT else {"min_files": self._stop_at},
            cost=cost,
            benefit=benefit,
            state=_digest(f"{partition.key}={partition.fingerprint}" for partition in partitions),
            table_uuid=self.state.survey.uuid,
            # What is not counted, is compared as if it was hardly read.
            score=_score(cost, benefit, is_urgent=urgent is not None) * (1 + reads),
        )

    def _reads_of(self, partitions: Sequence[PartitionHealth]) -> float:
        """How often files of the partitions are opened a day, on average."""
        reads = self.past.reads.get(self.table)
        files = sum(partition.joined_files for partition in partitions)
        if reads is None or not files:
            return 0.0
        return (
            sum(reads.of(partition.key) * partition.joined_files for partition in partitions)
            / files
        )

    def sort(self) -> Iterator[Decision]:
        policy, files, found = self.policy.sort, self.state.survey.files, self.state.unsorted
        if not policy.enabled:
            return
        if not policy.columns:
            told = "sort.enabled is true, and no sort.columns are named: nothing is sorted"
            yield self._declined(SORT_COMPACT, WhyNot.CONTRADICTION, told)
            return
        if self.state.survey.keyed:
            told = "sort.enabled is true, and rows of a keyed table lie in the order of its key"
            yield self._declined(SORT_COMPACT, WhyNot.CONTRADICTION, told)
            return
        told = f"sort by {', '.join(policy.columns)}"
        cost = Cost(bytes=files.bytes, files=files.files, bytes_written=files.bytes)
        if self._is_refused(Use.COMPACT) and not self.state.survey.sorts:
            yield self._refused(SORT_COMPACT, Use.COMPACT)
            return
        # A state that was read for another policy does not say what is in this order.
        if found is not None and (found.columns, found.order) == (policy.columns, policy.order):
            if found.problem is not None:
                yield self._declined(SORT_COMPACT, WhyNot.CONTRADICTION, found.problem)
                return
            if not found.files:
                told = f"{told}: all is in that order, and no file came since: leave"
                yield self._declined(SORT_COMPACT, WhyNot.HEALTHY, told)
                return
            cost = Cost(bytes=found.bytes, files=found.files, bytes_written=found.bytes)
        yield self._scheduled(SORT_COMPACT, policy, told, cost=cost)

    # --- what expires ----------------------------------------------------------------------------

    def snapshots(self) -> Iterator[Decision]:
        policy, verb = self.policy.snapshots, EXPIRE_SNAPSHOTS
        history = self.state.survey.history
        kept = self.state.retention.under(policy)
        barred = self._barred(verb, policy.enabled, Use.EXPIRE)
        if barred is not None:
            yield barred
            return
        if kept.retain_max < kept.retain_min:
            told = (
                f"retain_max ({kept.retain_max}) is below retain_min ({kept.retain_min}), which "
                "the table's options may give; set both"
            )
            yield self._declined(verb, WhyNot.CONTRADICTION, told)
            return
        since_ms = self.clock.now_ms - kept.time_retained_ms
        is_old = history.earliest_ms is not None and history.earliest_ms < since_ms
        gone = max(history.snapshots - kept.retain_max, 0)
        if is_old:
            gone = max(gone, history.snapshots - kept.retain_min)
        told = f"{counted(history.snapshots, 'snapshot')}, at least {kept.retain_min} stay"
        if gone <= 0:
            told = f"{counted(history.snapshots, 'snapshot')}, none past its time: leave"
            again_ms = None
            if history.earliest_ms is not None and history.snapshots > kept.retain_min:
                again_ms = history.earliest_ms + kept.time_retained_ms + 1
            yield self._declined(verb, WhyNot.HEALTHY, told, again_ms)
            return
        if self._is_own and gone < LEAST_EXPIRED_OF_OWN:
            told = f"{counted(gone, 'snapshot')} of {history.snapshots} may go"
            told = f"{told}, fewer than {LEAST_EXPIRED_OF_OWN}: leave"
            yield self._declined(verb, WhyNot.HEALTHY, told)
            return
        cost, benefit = Cost(files=gone * _FILES_OF_A_SNAPSHOT), Benefit(snapshots_fewer=gone)
        yield self._scheduled(verb, policy, told, cost=cost, benefit=benefit)

    def tags(self) -> Iterator[Decision]:
        """Of the bytes that it frees a decision knows none; the plan of the run foresees them.

        What only a tag keeps is known from the manifests of all that keeps files beside it: each
        tag, changelog and branch of the table, and snapshots. A look reads of a table its latest
        snapshot alone, and tables whose schedules agree are due at one look. The plan reads those
        manifests once, before anything changes. So it is with changelogs.
        """
        policy, made = self.policy.tags, self.state.tags_made_ms
        count = self.state.survey.history.tags
        if not count:
            return
        barred = self._barred(EXPIRE_TAGS, policy.enabled, Use.EXPIRE)
        if barred is not None:
            yield barred
            return
        told, gone = counted(count, "tag"), 0
        if policy.older_than is not None:
            gone = len(tags_past(made, policy, self.clock.now_ms))
            told = f"{told}, {gone:,} of them older than {lasting(policy.older_than)}"
        cost, benefit = Cost(files=gone), Benefit(tags_fewer=gone)
        yield self._scheduled(EXPIRE_TAGS, policy, told, cost=cost, benefit=benefit)

    def changelogs(self) -> Iterator[Decision]:
        policy, verb = self.policy.changelogs, EXPIRE_CHANGELOGS
        history = self.state.survey.history
        if not history.changelogs:
            return
        barred = self._barred(verb, policy.enabled, Use.EXPIRE)
        if barred is not None:
            yield barred
            return
        kept = self.state.changelog_retention.under(policy)
        if kept.retain_max < kept.retain_min:
            told = (
                f"retain_max ({kept.retain_max}) is below retain_min ({kept.retain_min}), which "
                "the table's options may give; set both"
            )
            yield self._declined(verb, WhyNot.CONTRADICTION, told)
            return
        # Changes are kept of the latest commits, whether or not these are snapshots still.
        beyond = max(history.snapshots + history.changelogs - kept.retain_max, 0)
        gone = min(beyond, history.changelogs)
        told = f"{counted(history.changelogs, 'changelog')}, at most {kept.retain_max} commits stay"
        if kept.retain_max >= _ANY_NUMBER:
            told = f"{counted(history.changelogs, 'changelog')}, by their age"
        cost = Cost(files=gone)
        benefit = Benefit(changelogs_fewer=gone)
        yield self._scheduled(verb, policy, told, cost=cost, benefit=benefit)

    def partitions(self) -> Iterator[Decision]:
        policy = self.policy.partitions
        expires = policy.older_than is not None or self.state.expires_partitions
        if not self.state.survey.partition_keys or not expires:
            return
        if not policy.enabled:
            yield self._declined(EXPIRE_PARTITIONS, WhyNot.DISABLED, _OFF)
            return
        told = counted(self.state.survey.layout.partitions, "partition")
        yield self._scheduled(EXPIRE_PARTITIONS, policy, told)

    # --- metadata and lost files -----------------------------------------------------------------

    def manifests(self) -> Iterator[Decision]:
        policy, found = self.policy.manifests, self.state.survey.manifests
        if not policy.enabled:
            yield self._declined(REWRITE_MANIFESTS, WhyNot.DISABLED, _OFF)
            return
        told = f"{counted(found.small, 'small manifest')} of {found.manifests}"
        if found.small < policy.min_count:
            told = f"{told}, fewer than {policy.min_count}: leave"
            yield self._declined(REWRITE_MANIFESTS, WhyNot.HEALTHY, told)
            return
        benefit = Benefit(manifests_fewer=found.small - 1)
        yield self._unless_busy(
            Intent(
                table=self.table,
                verb=REWRITE_MANIFESTS,
                why=Why.MANIFESTS,
                subject=self.table,
                told=f"{told}, at least {policy.min_count}: rewrite",
                cost=Cost(bytes=found.bytes, files=found.manifests),
                benefit=benefit,
                state=str(self.state.survey.history.latest_snapshot),
                table_uuid=self.state.survey.uuid,
                score=_score(_NO_COST, benefit),
            ),
            policy,
        )

    def iceberg(self) -> Iterator[Decision]:
        policy, status = self.policy.iceberg, self.state.iceberg
        if policy.lag is None:
            return
        barred = self._barred(PUBLISH_ICEBERG, is_enabled=True, use=Use.TAG)
        if barred is not None:
            yield barred
            return
        if status is not None and status.refused is not None:
            yield self._declined(PUBLISH_ICEBERG, WhyNot.READ_ONLY, status.refused)
            return
        latest = self.state.survey.history.latest_snapshot
        since_ms = None if status is None else status.unseen_since_ms
        if latest is None or status is None or since_ms is None:
            told = "Iceberg readers see its latest snapshot" if latest else "nothing was committed"
            yield self._declined(PUBLISH_ICEBERG, WhyNot.HEALTHY, f"{told}: leave")
            return
        told = f"Iceberg readers see no commit since {time_text(since_ms)}"
        due_ms = since_ms + policy.lag
        if self.clock.now_ms < due_ms:
            told = f"{told}, and may not for {lasting(policy.lag)}"
            yield self._declined(PUBLISH_ICEBERG, WhyNot.NOT_YET, told, due_ms)
            return
        yield self._unless_busy(
            Intent(
                table=self.table,
                verb=PUBLISH_ICEBERG,
                why=Why.ICEBERG_BEHIND,
                subject=self.table,
                told=f"{told}, longer than {lasting(policy.lag)}: publish",
                state=str(latest),
                table_uuid=self.state.survey.uuid,
                # It rewrites no file of the table, and readers wait for it.
                score=float("inf"),
            ),
            policy,
        )

    def orphans(self) -> Iterator[Decision]:
        policy, found = self.policy.orphans, self.state.survey.orphans
        barred = self._barred(REMOVE_ORPHANS, policy.enabled, Use.ORPHANS)
        if barred is not None:
            yield barred
            return
        count = found.estimated_files
        told = f"at most {counted(count, 'orphan')}, by a sample of its folders"
        if not count:
            told = "no orphan in a sample of its folders"
        # What is condemned is freed when it is collected, but it is why this is worth its while.
        yield self._scheduled(
            REMOVE_ORPHANS,
            policy,
            told,
            cost=Cost(files=count),
            later=Benefit(bytes_freed=found.estimated_bytes),
        )

    def collect(self) -> Iterator[Decision]:
        policy, due_ms = self.policy.collect, self.state.collect_due_ms
        if due_ms is None:
            return
        if not policy.enabled:
            yield self._declined(COLLECT, WhyNot.DISABLED, _OFF)
            return
        if self.clock.now_ms < due_ms:
            told = f"files marked for deletion can be restored until {time_text(due_ms)}"
            yield self._declined(COLLECT, WhyNot.NOT_YET, told, due_ms)
            return
        yield self._scheduled(
            COLLECT, policy, "files marked for deletion can no longer be restored"
        )

    def statistics(self) -> Iterator[Decision]:
        policy = self.policy.statistics
        if policy.enabled:
            told = "statistics of the rows"
            unread = self._is_refused(Use.READ)
            yield (
                self._refused(ANALYZE, Use.READ)
                if unread
                else self._scheduled(ANALYZE, policy, told)
            )

    def rescale(self) -> Iterator[Decision]:
        hint = bucket_hint(self.state.survey, self.policy.rescale)
        if hint is not None:
            yield self._declined(RESCALE, WhyNot.HINT, hint)

    # --- what they share -------------------------------------------------------------------------

    def _is_refused(self, use: Use) -> bool:
        return use.value in self.state.survey.refused

    def _refused(self, verb: str, use: Use) -> Declined:
        return self._declined(verb, WhyNot.READ_ONLY, self.state.survey.refused[use.value])

    def _scheduled(
        self,
        verb: str,
        policy: Scheduled,
        told: str,
        *,
        cost: Cost = _NO_COST,
        benefit: Benefit = _NO_BENEFIT,
        later: Benefit | None = None,
    ) -> Decision:
        """A verb that is due once after each tick of its schedule.

        `later` is what comes of it by another verb, and counts for its order alone.
        """
        tick_ms = self.clock.last_tick_ms(policy.schedule, policy.timezone)
        # A table is not behind with what was due before it was there, and what was done before was
        # done to another table of its name.
        known = (self.past.done_ms.get((self.table, verb)), self.state.created_ms)
        begun_ms = max((each for each in known if each is not None), default=None)
        compacted_ms = self.past.done_ms.get((self.table, COMPACT), -1)
        if self.state.survey.history.latest_snapshot is None:
            return self._declined(verb, WhyNot.HEALTHY, "nothing was ever committed")
        if begun_ms is not None and begun_ms >= tick_ms:
            told = f"{told}; next by the schedule {policy.schedule!r}"
            return self._declined(verb, WhyNot.NOT_YET, told)
        return self._unless_busy(
            Intent(
                table=self.table,
                verb=verb,
                why=Why.SCHEDULED,
                subject=self.table,
                told=f"{told}; due since {time_text(tick_ms)}",
                cost=cost,
                benefit=benefit,
                state=f"tick {tick_ms}",
                table_uuid=self.state.survey.uuid,
                # A table that is always due for a compaction would never get to another verb.
                score=float("inf") if compacted_ms >= tick_ms else _score(cost, later or benefit),
                in_time=self.clock.now_ms - tick_ms < _LATE_AFTER_MS,
            ),
            policy,
        )

    def _barred(self, verb: str, is_enabled: bool, use: Use) -> Declined | None:
        """Why a verb cannot be: its policy switches it off, or the table refuses it."""
        if not is_enabled:
            return self._declined(verb, WhyNot.DISABLED, _OFF)
        return self._refused(verb, use) if self._is_refused(use) else None

    def _held(self, verb: str, section: Declared) -> TakenBack | None:
        """What a person took back of a verb, and the same policy would do again."""
        held = self.past.taken_back.get((self.table, verb))
        uuid = self.state.survey.uuid
        return held if held is not None and held.holds(uuid, section) else None

    def _unless_busy(self, intent: Intent, section: Declared) -> Decision:
        """The intent, unless other work is in its way, or it was asked for in this state before."""
        intent = replace(intent, policy=policy_digest(section))
        held = self._held(intent.verb, section)
        may_be_held = intent.verb != COMPACT and intent.why is not Why.STOPPED_CHANGE
        if held is not None and may_be_held:
            return intent.waiting(WhyNot.UNDONE, held.told)
        running = [
            each.told
            for each in self.past.in_flight.get(self.table, ())
            if waits_for(intent.verb, each.verb) and not self._goes_beside_stream(intent, each)
        ]
        if running:
            return intent.waiting(WhyNot.IN_FLIGHT, f"waits for {', '.join(running)}")
        tried = self.past.tries.get((self.table, intent.verb))
        if tried is None or self._is_of_another(tried):
            return intent
        # The row that tells of a failure is another state of the ledger.
        if tried.state != intent.state and not (self._is_own and tried.error):
            return intent
        if not tried.times or tried.policy not in ("", intent.policy):
            return intent
        delay_ms = _ASKED_AGAIN_AFTER_MS << min(tried.times - 1, _MOST_DOUBLINGS)
        again_ms = tried.ended_ms + min(delay_ms, LONGEST_DELAY_MS)
        if self.clock.now_ms >= again_ms:
            return intent
        error = f"; it ended with {tried.error}" if tried.error else ""
        told = f"was asked for already in this state, and is again from {time_text(again_ms)} on"
        told += error
        return intent.waiting(WhyNot.ASKED_BEFORE, told, again_ms)

    def _goes_beside_stream(self, intent: Intent, running: Running) -> bool:
        """Whether this is a compaction, and the other work the run of the table's stream.

        Such runs follow each other, and would leave a compaction the moments between them.
        """
        return self.is_streamed and intent.verb == COMPACT and running.verb == INGEST

    def _is_of_another(self, tried: Try) -> bool:
        """Whether it was a table of the same name that has been dropped since."""
        created_ms = self.state.created_ms
        return created_ms is not None and tried.ended_ms + _SECOND_MS < created_ms

    def _declined(
        self, verb: str, why_not: WhyNot, told: str, again_ms: int | None = None
    ) -> Declined:
        return Declined(
            table=self.table,
            verb=verb,
            why_not=why_not,
            subject=f"{self.table}, {verb.replace('_', ' ')}",
            told=told,
            again_ms=again_ms,
        )

    def _left(
        self, partition: PartitionHealth, why_not: WhyNot, told: str, again_ms: int | None = None
    ) -> Declined:
        return Declined(
            table=self.table,
            verb=COMPACT,
            why_not=why_not,
            subject=partition.name,
            told=told,
            partition=partition.key or None,
            again_ms=again_ms,
        )


def _score(cost: Cost, benefit: Benefit, *, is_urgent: bool = False) -> float:
    """Benefit for each MiB rewritten; rows or writers that wait come before all else."""
    if is_urgent:
        return float("inf")
    gained = (
        benefit.files_fewer
        + benefit.runs_fewer
        + benefit.snapshots_fewer
        + benefit.manifests_fewer
        + benefit.tags_fewer
        + benefit.changelogs_fewer
        + (benefit.bytes_freed + benefit.metadata_bytes_fewer) / _MIB
    )
    return gained / (1 + cost.bytes / _MIB)


def _foreseen(decision: Decision, learned: Calibration) -> Decision:
    """An intent with its cost and benefit as earlier runs let expect them, and with its time."""
    if not isinstance(decision, Intent):
        return decision
    planned = Measures(cost=decision.cost, benefit=decision.benefit)
    found = learned.measures(decision.verb, decision.table, planned)
    return replace(decision, cost=found.cost, benefit=found.benefit)


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
