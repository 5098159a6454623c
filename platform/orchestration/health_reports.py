"""The health of a table, as an asset check shows it: its state, and the upkeep of it.

The state is what readers pay, whatever the policy asks for. The upkeep is what is due, what waits
for what, and what is declined, and why.

The check's own step and the upkeep sensor make the same evaluation here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import dagster as dg

from lakewright.platform.decide.debt import debt_of, poor_state
from lakewright.platform.decide.kept_tables import IN_FORCE, KeptTable
from lakewright.platform.decide.upkeep_state import UpkeepState
from lakewright.platform.ledger.action import Action, Verdict
from lakewright.platform.ledger.intents import Decision, Declined, Intent, WhyNot
from lakewright.platform.ledger.kept_verbs import (
    COMPACT,
    EVERY_VERB,
    RESCALE,
    SORT_COMPACT,
)
from lakewright.platform.ledger.savings import total
from lakewright.platform.orchestration.check_events import HEALTHY, check_event
from lakewright.platform.orchestration.file_bars import small_files_bars
from lakewright.platform.orchestration.names import TableNames, UpkeepNames
from lakewright.platform.orchestration.reports import (
    first_records,
    markdown_table,
    row_counts,
    size_figures,
)
from lakewright.platform.orchestration.run_identity import origin_of
from lakewright.platform.orchestration.upkeep_links import upkeep_links
from lakewright.platform.tables.partition_keys import first_few
from lakewright.platform.tables.upkeep_policies import UpkeepMode
from lakewright.platform.upkeep.measures import Benefit
from lakewright.platform.upkeep.refused import refused_text
from lakewright.platform.upkeep.retention import age_text, holder_text
from lakewright.platform.upkeep.words import (
    counted,
    duration_text,
    signed_size,
    size_text,
    time_text,
)
from lakewright.storage.operations.retention.retention_outlook import RetentionOutlook

# A decision in the report: its verb, and why it is declined; None if the verb is due.
Said: TypeAlias = tuple[str, WhyNot | None]
# A verb with these is as good as due: they come and go with each run.
_AS_DUE = frozenset({WhyNot.IN_FLIGHT, WhyNot.CAPPED})
# A table in order moves between these by its schedules alone.
_IN_ORDER = frozenset({WhyNot.HEALTHY, WhyNot.NOT_YET})
# Reasons of the policy itself to wait: the table is as its policy wants it.
_ALLOWED = frozenset({WhyNot.OUT_OF_HOURS, WhyNot.STILL_WRITTEN, WhyNot.TOO_LITTLE})
_REWRITES = frozenset({COMPACT, SORT_COMPACT, RESCALE})
_MOST_NAMED = 5
_MOST_RUNS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthEvaluation:
    """Whether the state of a table is good, and nothing is due, nor held up too long.

    Its policy allows some work to wait. What a schedule asks for counts once it is late, or a run
    of it failed.
    """

    passed: bool
    description: str
    metadata: Mapping[str, Any]

    def event(self, names: TableNames) -> dg.AssetCheckEvaluation:
        """The evaluation as an event that needs no run."""
        return check_event(dg.AssetCheckKey(names.asset_key, HEALTHY), self.result(names))

    def result(self, names: TableNames) -> dg.AssetCheckResult:
        """The evaluation as the result of the check's step."""
        return dg.AssetCheckResult(
            asset_key=names.asset_key,
            check_name=HEALTHY,
            passed=self.passed,
            severity=dg.AssetCheckSeverity.WARN,
            description=self.description,
            metadata=self.metadata,
        )


# What other retention times would free is not read of a longer history.
MOST_SNAPSHOTS_READ = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """What an evaluation shows beside the decisions, as far as it was read.

    `outlook` is what other retention times would free, and `actions` are those of the ledger on the
    table.
    """

    outlook: Sequence[RetentionOutlook] = ()
    actions: Sequence[Action] = ()


def evaluate_health(
    state: UpkeepState,
    decisions: Sequence[Decision],
    kept: KeptTable,
    names: UpkeepNames,
    *,
    location: str | None = None,
    beside: Background | None = None,
) -> HealthEvaluation:
    """The evaluation of a table at one look; with the code location's name, jobs are links."""
    beside = beside or Background()
    due = [decision for decision in decisions if isinstance(decision, Intent)]
    others = [decision for decision in decisions if isinstance(decision, Declined)]
    waiting = [each for each in others if each.why_not.waits]
    concerned: list[Decision] = [*due, *waiting]
    told = [*dict.fromkeys(each.verb for each in concerned)]
    figures = overview_figures(state, decisions, beside.actions)
    metadata: dict[str, Any] = {}
    if due:
        metadata["due"] = _table_of_due(due)
    if waiting:
        metadata["deferred"] = _table_of(waiting)
    metadata |= upkeep_links(names, location, told)
    metadata["not due"] = _table_of([each for each in others if each not in waiting])
    if state.survey.problem is None:
        snapshots = state.survey.history.snapshots
        metadata["other retention times"] = _outlook_table(beside.outlook) or (
            f"`lakewright retention {state.survey.table}` shows what they would free"
            + (", and so does this check when it is executed" * (snapshots <= MOST_SNAPSHOTS_READ))
        )
        metadata["last runs"] = _actions_table(beside.actions)
        metadata |= _numbers(state)
    metadata["lakewright/mode"] = kept.policy.mode.value
    passed, _ = health_told(state, decisions)
    return HealthEvaluation(
        passed=passed,
        description=_description(state, decisions, kept, figures),
        metadata={name: value for name, value in metadata.items() if value is not None},
    )


def health_told(state: UpkeepState, decisions: Sequence[Decision]) -> tuple[bool, frozenset[Said]]:
    """Whether an evaluation passes, and what it tells beside figures, moments and what is in order.

    As long as this stays, and no run of upkeep ends, the sensor reports no further evaluation. It
    costs little, as the sensor asks for it at each look.
    """
    told: set[Said] = set()
    for decision in decisions:
        if isinstance(decision, Intent):
            told.add((decision.verb, None))
        elif decision.why_not not in _IN_ORDER:
            told.add((decision.verb, None if decision.why_not in _AS_DUE else decision.why_not))
    passed = state.survey.problem is None and poor_state(state.survey) is None
    return passed and all(map(_is_in_order, decisions)), frozenset(told)


def _is_in_order(decision: Decision) -> bool:
    """Whether the work is not due, or may wait."""
    if isinstance(decision, Intent):
        return decision.in_time
    may_wait = decision.in_time and decision.why_not is not WhyNot.ASKED_BEFORE
    return not decision.why_not.waits or may_wait or decision.why_not in _ALLOWED


def absent(table: str) -> HealthEvaluation:
    """The evaluation of a table that does not exist yet."""
    return HealthEvaluation(
        passed=True,
        description=f"table {table} does not exist yet",
        metadata={},
    )


def _description(
    state: UpkeepState,
    decisions: Sequence[Decision],
    kept: KeptTable,
    figures: Mapping[str, str],
) -> str:
    """In which state a table is, and what becomes of it; Markdown.

    Dagster shows the description of a check as it is, and Markdown among its metadata only behind a
    link. So what a person must read is here, and the bars are characters, which any theme, any
    message and any log can show.
    """
    poor = poor_state(state.survey)
    lines = [markdown_table([*figures], [[*figures.values()]]), ""] if figures else []
    if state.survey.problem is not None:
        lines.append("**State: not known**")
    else:
        lines.append(f"**State: poor**: {poor}" if poor else "**State: good**")
        if not poor and not all(map(_is_in_order, decisions)):
            lines[-1] += "; the check warns, because upkeep is late"
    if kept.problems:
        lines += ["", f"**Policy**: {kept.problems[0]}; {IN_FORCE}"]
    if (refused := refused_text(state.survey.refused)) is not None:
        lines += ["", f"**Refused**: {refused}"]
    lines += ["", f"**Upkeep**: {_headline(decisions)}"]
    concerned = [
        decision for decision in decisions if isinstance(decision, Intent) or decision.why_not.waits
    ]
    told = [*concerned, *(_declined_rewrites(decisions) if poor else ())]
    if told:
        lines += ["", *_listed(told)]
    if concerned and kept.policy.mode is UpkeepMode.SHADOW:
        lines += ["", "Nothing of this is done: `mode: shadow` of its policy only records it."]
    if state.survey.problem is None and state.survey.files.files:
        bars = small_files_bars(
            state.survey.files, state.health.partitions, keyed=state.survey.keyed
        )
        lines += ["", "```", *bars, "```"]
    return "\n".join(lines)


def _declined_rewrites(decisions: Iterable[Decision]) -> Iterator[Declined]:
    """The rewrites that a table in a poor state does not get."""
    for decision in decisions:
        if (
            isinstance(decision, Declined)
            and not decision.why_not.waits
            and decision.verb in _REWRITES
        ):
            yield decision


def _headline(decisions: Sequence[Decision]) -> str:
    for decision in decisions:
        if decision.verb == EVERY_VERB:
            return decision.told
    left, in_order = _left_alone(decisions), all(map(_is_in_order, decisions))
    if any(isinstance(decision, Intent) for decision in decisions):
        return f"work is due, and not late{left}." if in_order else f"work is due{left}."
    if any(isinstance(decision, Declined) and decision.why_not.waits for decision in decisions):
        told = "work waits, as its policy says" if in_order else "work is due and held up"
        return f"{told}{left}."
    return f"nothing is due{left}."


def _left_alone(decisions: Iterable[Decision]) -> str:
    """What would be due, had a person not taken it back."""
    verbs = dict.fromkeys(
        _words(decision.verb)
        for decision in decisions
        if isinstance(decision, Declined) and decision.why_not is WhyNot.UNDONE
    )
    if not verbs:
        return ""
    told = "was taken back and is" if len(verbs) == 1 else "were taken back and are"
    return f"; {' and '.join(verbs)} {told} skipped"


def _listed(decisions: Sequence[Decision]) -> Iterable[str]:
    """A line for each reason, with its verb."""
    lines = [
        (decision.verb, decision.told) for decision in decisions if isinstance(decision, Intent)
    ]
    for one, where in _alike(decision for decision in decisions if isinstance(decision, Declined)):
        told = one.reason if one.partition is not None else one.told
        lines.append((one.verb, f"{where}: {told}" if where and one.partition is None else told))
    for verb, told in lines[:_MOST_NAMED]:
        yield f"- **{_words(verb)}**: {told}"
    if len(lines) > _MOST_NAMED:
        yield f"- and {len(lines) - _MOST_NAMED:,} more"


def _table_of_due(due: Sequence[Intent]) -> dg.TableMetadataValue:
    return dg.MetadataValue.table(
        records=first_records(
            [
                {
                    "verb": _words(each.verb),
                    "reason": each.told,
                    "reads": size_text(each.cost.bytes) if each.cost.bytes else "no rows",
                    "takes": duration_text(ms) if (ms := each.cost.milliseconds) else "not known",
                    "gains": _gains(each.benefit),
                    "frees": size_text(freed)
                    if (freed := each.benefit.bytes_freed)
                    else "not known",
                }
                for each in due
            ]
        )
    )


def _gains(benefit: Benefit) -> str:
    """What a verb is expected to bring, without the bytes that it frees."""
    fewer = (
        (benefit.files_fewer, "file"),
        (benefit.runs_fewer, "sorted run"),
        (benefit.snapshots_fewer, "snapshot"),
        (benefit.manifests_fewer, "manifest"),
        (benefit.tags_fewer, "tag"),
        (benefit.changelogs_fewer, "changelog"),
    )
    told = [f"{counted(count, noun)} removed" for count, noun in fewer if count]
    if benefit.rows_shown:
        told.append(f"{counted(benefit.rows_shown, 'row')} readable")
    return ", ".join(told)


def _table_of(declined: Sequence[Declined]) -> dg.TableMetadataValue | None:
    if not declined:
        return None
    # Verbs before single partitions, so that many partitions hide no verb.
    ordered = sorted(declined, key=lambda each: each.partition is not None)
    return dg.MetadataValue.table(
        records=first_records(
            [
                {
                    "verb": _words(each.verb),
                    "why not": _words(each.why_not.value),
                    "reason": each.told,
                    "partition": where,
                    "again": "" if each.again_ms is None else time_text(each.again_ms),
                }
                for each, where in _alike(ordered)
            ]
        )
    )


def _alike(declined: Iterable[Declined]) -> Iterable[tuple[Declined, str]]:
    """The decisions with their partitions; partitions with one reason are one decision."""
    found: dict[tuple[str, tuple[object, ...]], list[Declined]] = {}
    for each in declined:
        same = (each.verb, each.why_not, each.again_ms, each.partition is None)
        found.setdefault((each.told, same), []).append(each)
    for these in found.values():
        keys = [each.partition for each in these if each.partition is not None]
        if len(keys) <= 1:
            yield from ((each, each.partition or "") for each in these)
        else:
            where = f"{counted(len(keys), 'partition')}: {first_few(keys, between=', ')}"
            yield replace(these[0], partition=None), where


def _outlook_table(outlook: Sequence[RetentionOutlook]) -> dg.TableMetadataValue | None:
    if not outlook:
        return None
    return dg.MetadataValue.table(
        records=[
            dg.TableRecord(
                {
                    "keep": age_text(each.time_retained_ms),
                    "snapshots gone": each.gone,
                    "left": each.left,
                    "readable back to": (
                        "" if each.back_to_ms is None else time_text(each.back_to_ms)
                    ),
                    "files freed": each.files,
                    "freed": size_text(each.bytes),
                    "kept by": ", ".join(map(holder_text, each.held_by)),
                }
            )
            for each in outlook
        ]
    )


def _actions_table(actions: Sequence[Action]) -> dg.TableMetadataValue | None:
    """What the last runs did and saved, newest first."""
    acted = [action for action in actions if action.verdict is not Verdict.SHADOW]
    if not acted:
        return None
    return dg.MetadataValue.table(
        records=[
            dg.TableRecord(
                {
                    "at": time_text(each.started_ms),
                    "verb": _words(each.verb),
                    "result": _words(each.verdict.value),
                    "took": duration_text(each.cost.milliseconds),
                    "files": _change_told(each.benefit.files_fewer),
                    "freed": size_text(each.benefit.bytes_freed),
                    "what": each.summary or each.error or "",
                    "run": _short(each.run),
                }
            )
            for each in reversed(acted[-_MOST_RUNS:])
        ]
    )


def _change_told(fewer: int) -> str:
    """How many files fewer there are, or more: a change of partition keys may split files."""
    if not fewer:
        return ""
    return f"{fewer:,} fewer" if fewer > 0 else f"{-fewer:,} more"


def _short(run: str) -> str:
    """The digits by which Dagster shows a run, and `undo` finds it; other names as they are."""
    origin = origin_of(run)
    return run if origin is None else origin[:8]


def _words(name: str) -> str:
    return name.replace("_", " ")


def overview_figures(
    state: UpkeepState, decisions: Iterable[Decision], actions: Sequence[Action]
) -> dict[str, str]:
    """What a person asks first of a table; nothing of one that cannot be read."""
    if state.survey.problem is not None:
        return {}
    found = size_figures(state.survey)
    done = [action for action in actions if action.verdict is Verdict.DONE]
    last = max(done, key=lambda each: each.started_ms, default=None)
    saved = total(done).benefit
    waits = dict.fromkeys(
        _words(decision.verb)
        for decision in decisions
        if isinstance(decision, Intent) or decision.why_not.waits
    )
    return found | {
        "last upkeep": f"{_words(last.verb)}, {time_text(last.started_ms)}" if last else "none",
        "saved": f"{counted(saved.files_fewer, 'file')}, {signed_size(saved.bytes_freed)}",
        "due or deferred": ", ".join(waits) or "nothing",
    }


def _numbers(state: UpkeepState) -> Mapping[str, Any]:
    """The figures that charts of the check follow over time."""
    survey = state.survey
    files, layout, history = survey.files, survey.layout, survey.history
    orphans, debt = survey.orphans, debt_of(survey)
    numbers: dict[str, Any] = {
        **row_counts(files.rows, files.merged_rows),
        "lakewright/files": files.files,
        "lakewright/bytes": files.bytes,
        "lakewright/small_files": files.small_files,
        "lakewright/small_bytes": files.small_bytes,
        "lakewright/waiting_rows": files.waiting_rows,
        "lakewright/debt_files": debt.files,
        "lakewright/debt_bytes": debt.bytes,
        "lakewright/partitions": layout.partitions,
        "lakewright/skew": layout.skew,
        "lakewright/snapshots": history.snapshots,
        "lakewright/manifests": survey.manifests.manifests,
        "lakewright/manifest_bytes": survey.manifests.bytes,
        "lakewright/orphans_at_most": orphans.estimated_files,
        "lakewright/orphan_bytes_at_most": orphans.estimated_bytes,
    }
    if survey.keyed:
        numbers["lakewright/sorted_runs"] = files.sorted_runs
        numbers["lakewright/level0_files"] = files.level0_files
    if history.latest_snapshot is not None:
        numbers["lakewright/snapshot_id"] = history.latest_snapshot
    if layout.last_write_ms is not None:
        numbers["last file written"] = dg.MetadataValue.timestamp(layout.last_write_ms / 1000)
    if orphans.estimated_files:
        numbers["orphans"] = (
            f"at most {counted(orphans.estimated_files, 'file')} "
            f"of {size_text(orphans.estimated_bytes)}, by a sample of "
            f"{counted(orphans.folders, 'folder')} of {orphans.of_folders:,}"
        )
    return numbers
