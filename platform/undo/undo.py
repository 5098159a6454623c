"""Undoes a run: takes back the snapshots that it made, and puts back what it condemned.

1. Find what the run did. The users of its commits, and the runs in records of what was condemned,
   begin with its name. Actions of a ledger name the tables to look at, and the verbs that left
   neither.
2. Plan each part. A part that cannot be undone says why, and hinders no other part.
   Where rewrites of upkeep stand on snapshots of the run, they are taken back in the same commit:
   rows that others wrote since stay, as the files that the rewrite replaced return.
3. Run the parts, newest first. All snapshots of a run in one table are taken back in one commit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from lakewright.platform.ledger.action import Action, Verdict
from lakewright.platform.ledger.kept_verbs import COMPACT, RESCALE, SORT_COMPACT
from lakewright.platform.ledger.ledger import Ledger
from lakewright.platform.ledger.recording import Recorder, is_recording
from lakewright.platform.ledger.taken_back import reason_of_undo, what_became
from lakewright.platform.tables.partition_keys import first_few
from lakewright.platform.undo.parts import LeftAlone, Undo, Undone
from lakewright.platform.undo.run_names import (
    LEAST_DIGITS,
    TOO_SHORT,
    is_of,
    is_of_lakewright,
    of_this_run,
    run_of,
    short_name,
)
from lakewright.platform.undo.undoable import all_tables
from lakewright.platform.upkeep.alter import ALTER
from lakewright.platform.upkeep.clean import PUT_BACK
from lakewright.platform.upkeep.procedure import AnyProcedure, Outcome, Work
from lakewright.platform.upkeep.procedures import PROCEDURES
from lakewright.platform.upkeep.respec import RESPEC
from lakewright.platform.upkeep.revert import REVERT
from lakewright.platform.upkeep.words import counted, snapshots_text
from lakewright.storage import Catalog, StorageError, Table, TableSchema
from lakewright.storage.errors import InvalidRequestError, NotFoundError, NotRevertible
from lakewright.storage.operations.references.drop_table import RecoverableTable
from lakewright.storage.operations.references.put_back import PutBackOptions
from lakewright.storage.operations.respec.keyed_checks import respec_command
from lakewright.storage.operations.revert.revert import RevertOptions
from lakewright.storage.spec.condemned import DROP_TABLE
from lakewright.storage.spec.snapshot import CommitKind, Snapshot

_log = logging.getLogger(__name__)

# Verbs that leave neither snapshots nor records of what they condemned, or more than these.
WHY_NOT = {each.name: each.verb.not_undone for each in PROCEDURES.values() if each.verb.not_undone}
WHY_NOT["evolve_schema"] = WHY_NOT[ALTER.name]
# How actions ended that left nothing to undo.
_ENDED = {
    Verdict.DONE: "left nothing to undo",
    Verdict.NOTHING_TO_DO: "found nothing to do",
    Verdict.BEATEN: "gave way to other work",
    Verdict.FAILED: "failed",
    Verdict.SHADOW: "was decided in shadow, and not carried out",
}
# Verbs after which a table has the same rows in other files.
_REWRITES = (COMPACT, SORT_COMPACT, RESCALE)
_DROPPED_FIRST = "for what else the run did there, undo it once more"
_CHANGED_NOTHING = (Verdict.NOTHING_TO_DO, Verdict.SHADOW)


def plan_undo(
    catalog: Catalog,
    run: str,
    *,
    tables: Sequence[str] | None = None,
    actions: Iterable[Action] | None = None,
) -> Undo:
    """Plan to undo a run, in these tables or in all of the warehouse; writes nothing.

    A run is the id of a Dagster run, or its first 8 digits or more; the name of a command's run,
    or the 8 digits at its end; the user of commits; or the id of one deletion. Without `actions`,
    the ledger tells what the run did, if the warehouse has one.

    Raises:
        NotFoundError: no snapshot that still exists, and nothing condemned, is of the run; or it
            did nothing, such as a run in shadow.
        InvalidRequestError: the digits are those of several runs.
    """
    recorded = _recorded(catalog) if actions is None else tuple(actions)
    own = [each for each in recorded if is_of(run, each.run)]
    names = tables
    if names is None and actions is not None:
        names = sorted({each.table for each in own})
    runs = {run if of_this_run(run, each.run) else run_of(each.run) for each in own}
    dropped = [
        each
        for each in catalog.dropped_tables()
        if (run == each.record or is_of(run, each.run)) and each.table in (tables or [each.table])
    ]
    runs.update(run_of(each.run) or run for each in dropped)
    taken = {each.table for each in dropped if each.done and catalog.table_exists(each.table)}
    parts = [_brought_back(each) for each in dropped if each.table not in taken]
    gone = {part.table for part in parts}
    looked_at = [each for each in names or all_tables(catalog) if each not in gone]
    opened, closed = _open(catalog, looked_at)
    left = [
        LeftAlone(table=each, what="drop table", why=f"{each} exists; rename it first")
        for each in sorted(taken)
    ]
    for table in opened:
        here = [each for each in own if each.table == table.name]
        try:
            found = _found(table, run, runs, here, recorded)
        except StorageError as error:
            closed.append(_unreadable(table.name, error))
            continue
        parts += [each for each in found if isinstance(each, Undone)]
        left += [each for each in found if isinstance(each, LeftAlone)]
    # The name may be that of one commit of the run. Without actions, any table may be its own.
    of_run = [each for each in recorded if is_of(run_of(run), each.run)]
    worked_on = {each for action in of_run for each in _tables_of(action)}
    unread = [each for each in closed if of_run and each.table not in worked_on]
    left += [each for each in closed if each not in unread]
    if len(runs) > 1:
        raise InvalidRequestError(
            f"{run!r} names {len(runs)} runs: {', '.join(sorted(runs))}; name one of them"
        )
    if not runs:
        raise NotFoundError(_unknown(catalog, run, names, left))
    if not parts and not left:
        raise NotFoundError(f"run {next(iter(runs))} {_did_nothing(own, names, unread)}")
    parts.sort(key=lambda part: -part.at_ms)
    return Undo(
        run=next(iter(runs), run),
        parts=tuple(parts),
        left_alone=tuple(left),
        unread=tuple(unread),
    )


def run_undo(
    catalog: Catalog,
    undo: Undo,
    work: Work,
    *,
    recorder: Recorder | None = None,
    told: Callable[[Undone], object] = id,
) -> Undo:
    """Undo the planned parts; a part that fails is skipped with the reason.

    `told` is called with each part before it is undone. The recorder keeps each part as an action
    of upkeep, so that what the run saved is not counted twice; without one, the ledger keeps it.
    """
    if recorder is None:
        recorder = Recorder.of(catalog, warn=_log.warning)
    recorder = replace(recorder, reason=reason_of_undo(undo.run))
    verbs: dict[str, AnyProcedure] = {each.name: each for each in (REVERT, PUT_BACK)}
    done: list[Undone] = []
    left = list(undo.left_alone)
    for part in undo.parts:
        told(part)
        try:
            if part.verb == DROP_TABLE and isinstance(part.options, PutBackOptions):
                catalog.undrop_table(part.table, record=part.options.record)
                done.append(replace(part, summary=f"{part.table} is back; {_DROPPED_FIRST}"))
                continue
            verb, table = verbs[part.verb], catalog.table(part.table)
            outcome = recorder.carry_out(verb, table, part.options, work, plan=part.plan)
        except StorageError as error:
            left.append(LeftAlone(table=part.table, what=part.what, why=str(error)))
            continue
        summary = verb.report(table, outcome).summary + part.also
        done.append(replace(part, summary=summary))
    return replace(undo, parts=tuple(done), left_alone=tuple(left))


def _brought_back(dropped: RecoverableTable) -> Undone:
    what = f"{dropped.table} comes back, with {counted(dropped.files, 'file')}"
    return Undone(
        table=dropped.table,
        what="drop table",
        verb=DROP_TABLE,
        plan=None,
        at_ms=dropped.dropped_ms,
        summary=f"{what}; {_DROPPED_FIRST}",
        options=PutBackOptions(record=dropped.record),
    )


# --- what a run did ------------------------------------------------------------------------------


def _recorded(catalog: Catalog) -> Sequence[Action]:
    """The actions of the ledger; a ledger that cannot be read hinders no undo."""
    if not is_recording():
        return ()
    try:
        return Ledger(catalog).actions()
    except StorageError as error:
        _log.warning("the ledger is not read: %s", error)
        return ()


def _tables_of(action: Action) -> set[str]:
    """The tables that an action may have changed; an exchange changes its source too."""
    if action.verdict in _CHANGED_NOTHING:
        return set()
    return {
        action.table,
        *(option for option in action.options.values() if isinstance(option, str)),
    }


def _rewrites(table: Table, recorded: Sequence[Action]) -> frozenset[int]:
    """The snapshots that the ledger knows as rewrites of the table's files by upkeep."""
    return frozenset(
        snapshot
        for each in recorded
        if each.verb in _REWRITES and (each.table, each.table_uuid) == (table.name, table.uuid)
        for snapshot in each.snapshots
    )


def _found(
    table: Table, run: str, runs: set[str], known: Sequence[Action], recorded: Sequence[Action]
) -> list[Undone | LeftAlone]:
    """What a run did in a table; `known` are its actions there, among all that are `recorded`."""
    uuid = table.uuid
    here = [each for each in known if each.table_uuid in (uuid, "")]
    # What a change of keys left is told once, with the way back.
    changed = {at for each in here if each.verb == RESPEC.name for at in each.snapshots}
    snapshots = _snapshots(table, run, runs, changed, _rewrites(table, recorded))
    snapshot_lists = [] if snapshots is None else [snapshots]
    condemned, verbs = _condemned(table, run, runs)
    snapshot_lists += condemned
    snapshot_lists += _expired(table, run, runs)
    snapshot_lists += _without_traces(table, here, verbs, recorded)
    gone = [each for each in known if each not in here and each.verdict not in _CHANGED_NOTHING]
    if former := {each.verb for each in gone}:
        why = "the table was dropped and created again since, and what the run did went with it"
        snapshot_lists.append(
            LeftAlone(table=table.name, what=", ".join(sorted(former)), why=why, is_final=True)
        )
    return snapshot_lists


def _unknown(
    catalog: Catalog, run: str, names: Sequence[str] | None, unread: Sequence[LeftAlone]
) -> str:
    """Why no run of this name is found, and what may help."""
    where = f"of {', '.join(names)}" if names else f"in {catalog.uri}"
    told = f"no snapshot, and nothing marked for deletion, {where} is of run {run!r}; "
    if TOO_SHORT.fullmatch(run):
        return f"{told}give the first {LEAST_DIGITS} digits of a run's id or more"
    told += "it did nothing that can be undone, or its snapshots expired"
    return f"{told}{_also_unread(unread)}"


def _did_nothing(
    own: Sequence[Action], names: Sequence[str] | None, unread: Sequence[LeftAlone]
) -> str:
    """What a run did that leaves nothing to undo, by its actions."""
    where = f" in {', '.join(names)}" if names else ""
    here = [each for each in own if not names or each.table in names]
    if not here:
        elsewhere = first_few(sorted({each.table for each in own}), between=", ")
        return (
            f"did nothing{where} that can be undone; it worked on {elsewhere}{_also_unread(unread)}"
        )
    endings = sorted({(each.table, each.verb, _ENDED[each.verdict]) for each in here})
    told = first_few([f"{verb} of {table} {ended}" for table, verb, ended in endings])
    idle = {*_CHANGED_NOTHING, Verdict.BEATEN} >= {each.verdict for each in here}
    what = "did nothing" if idle else "did nothing that can be undone"
    return f"{what}{where}: {told}{_also_unread(unread)}"


def _also_unread(unread: Sequence[LeftAlone]) -> str:
    if not unread:
        return ""
    names = first_few([each.table for each in unread], between=", ")
    return f"; {counted(len(unread), 'table')} cannot be read: {names}"


def _snapshots(
    table: Table, run: str, runs: set[str], told: Collection[int], rewrites: Collection[int]
) -> Undone | LeftAlone | None:
    there = table.history.snapshots()
    found = [each for each in there if is_of(run, each.commit_user)]
    runs.update(
        run if of_this_run(run, each.commit_user) else run_of(each.commit_user) for each in found
    )
    ids = tuple(each.id for each in found if each.id not in told)
    if not ids:
        return None
    what = snapshots_text(ids)
    before, after = _schema_at(table, ids[0] - 1), _schema_at(table, ids[-1])
    if before and after and before.partition_keys != after.partition_keys:
        # The ledger does not tell of the change; its snapshots do.
        return LeftAlone(table=table.name, what=what, why=_keys_back(table, before), is_final=True)
    own = {each.id: each for each in there if _is_rewrite(each, rewrites)}
    also: list[Snapshot] = []
    plan, options = None, RevertOptions(snapshots=ids)
    while plan is None:
        options = RevertOptions(snapshots=tuple(sorted({*ids, *(each.id for each in also)})))
        try:
            plan = table.history.plan_revert(*options.snapshots)
        except NotRevertible as error:
            # It names the commit in the way, or the one of these that cannot be taken back.
            by = own.get(error.details.get("snapshot"))  # type: ignore[call-overload]  # an id or None
            if by is None or by.id in options.snapshots:
                return LeftAlone(table=table.name, what=what, why=str(error))
            also.append(by)
        except StorageError as error:
            return LeftAlone(table=table.name, what=what, why=str(error))
    report = REVERT.report(table, Outcome(options=options, plan=plan))
    if plan.is_empty:
        return LeftAlone(table=table.name, what=what, why=report.summary, is_final=True)
    return Undone(
        table=table.name,
        what=what,
        verb=REVERT.name,
        plan=plan,
        at_ms=found[-1].time_millis,
        summary=report.summary + _with(also),
        options=options,
        also=_with(also),
    )


def _is_rewrite(snapshot: Snapshot, rewrites: Collection[int]) -> bool:
    """Whether upkeep of ours made a snapshot, which holds the rows of the one before."""
    user = snapshot.commit_user
    if not is_of_lakewright(user):
        return False
    return snapshot.commit_kind is CommitKind.COMPACT or snapshot.id in rewrites


def _with(also: Sequence[Snapshot]) -> str:
    """What a plan says of rewrites that it takes back beside the snapshots of its run."""
    if not also:
        return ""
    ids = snapshots_text(sorted(each.id for each in also))
    users = sorted({f"run {short_name(each.commit_user)}" for each in also})
    return f"; among them {ids}, in which upkeep rewrote these files ({', '.join(users)})"


def _condemned(table: Table, run: str, runs: set[str]) -> tuple[list[Undone | LeftAlone], set[str]]:
    """What the run condemned and was not collected, the latest first; and by which verbs."""
    parts: list[Undone | LeftAlone] = []
    verbs: set[str] = set()
    for each in reversed(table.upkeep.condemned()):
        if run != each.id and not is_of(run, each.run):
            continue
        runs.add(run if run == each.id or of_this_run(run, each.run) else run_of(each.run))
        verbs.add(each.verb)
        what = each.verb.replace("_", " ")
        options = PutBackOptions(record=each.id)
        try:
            plan = table.upkeep.plan_put_back(each.id)
            summary = PUT_BACK.report(table, Outcome(options=options, plan=plan)).summary
        except StorageError as error:
            # An earlier step of an expiry can come back once the later ones are back.
            if what not in {part.what for part in parts if isinstance(part, Undone)}:
                parts.append(LeftAlone(table=table.name, what=what, why=str(error)))
                continue
            summary = f"what an earlier {what} took from {table.name}, to come back after that"
        parts.append(
            Undone(
                table=table.name,
                what=what,
                verb=PUT_BACK.name,
                plan=None,
                at_ms=each.condemned_ms,
                summary=summary,
                options=options,
            )
        )
    return parts, verbs


def _expired(table: Table, run: str, runs: set[str]) -> list[LeftAlone]:
    """The run's snapshots that another run deleted, and that can come back first."""
    left = []
    there = {each.id for each in table.history.snapshots()}
    for each in table.upkeep.condemned():
        of_run = [
            snapshot
            for snapshot in table.upkeep.condemned_snapshots(each.id)
            if is_of(run, snapshot.commit_user) and snapshot.id not in there
        ]
        if not of_run or is_of(run, each.run):
            continue
        user = of_run[0].commit_user
        runs.add(run if of_this_run(run, user) else run_of(user))
        name = short_name(each.run)
        why = (
            f"{each.verb.replace('_', ' ')} of run {name} deleted them: take that back first "
            f"(lakewright undo {name}), until its files are collected"
        )
        what = snapshots_text([each.id for each in of_run])
        left.append(LeftAlone(table=table.name, what=what, why=why))
    return left


def _without_traces(
    table: Table, actions: Sequence[Action], found: set[str], recorded: Sequence[Action]
) -> list[LeftAlone]:
    """Actions that cannot be undone, by their verbs, without those whose records were found."""
    return [
        LeftAlone(
            table=table.name, what=action.verb, why=_why_not(table, action, recorded), is_final=True
        )
        for action in actions
        if action.verb in WHY_NOT
        and action.verdict not in _CHANGED_NOTHING
        and action.verb not in found
    ]


def _why_not(table: Table, action: Action, recorded: Sequence[Action]) -> str:
    """Why an action cannot be undone; of a change of keys, with the command that changes back."""
    told, at = WHY_NOT[action.verb], action.snapshot_before
    if action.condemned:
        told = what_became(action, recorded)
    if action.verdict in (Verdict.FAILED, Verdict.BEATEN):
        return f"it {_ENDED[action.verdict]}; of what it did before that: {told}"
    if action.verb != RESPEC.name or at is None:
        return told
    before = _schema_at(table, at)
    return told if before is None else _keys_back(table, before)


def _schema_at(table: Table, snapshot_id: int) -> TableSchema | None:
    """The schema of a snapshot; None if there is no such snapshot."""
    try:
        return table.at(snapshot=snapshot_id).schema if snapshot_id > 0 else None
    except StorageError:
        return None


def _keys_back(table: Table, before: TableSchema) -> str:
    """The way back from a change of keys, as a command."""
    if before.partition_keys == table.schema.partition_keys:
        return "the table has the partition keys of before again"
    primary = None if before.primary_keys == table.schema.primary_keys else before.primary_keys
    command = respec_command(table.name, before.partition_keys, primary)
    return f"the partition keys changed with the schema: `{command}` changes them back"


def _open(catalog: Catalog, names: Sequence[str]) -> tuple[list[Table], list[LeftAlone]]:
    """The tables; one that cannot be opened hides none of the others."""
    opened: list[Table] = []
    closed: list[LeftAlone] = []
    for name in names:
        try:
            table = catalog.table(name)
            table.history.latest_snapshot()
        except StorageError as error:
            closed.append(_unreadable(name, error))
        else:
            opened.append(table)
    return opened, closed


def _unreadable(name: str, error: StorageError) -> LeftAlone:
    return LeftAlone(table=name, what="the table", why=str(error))
