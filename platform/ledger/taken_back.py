"""What a person took back, and upkeep therefore leaves alone: read from the actions of the ledger.

A verb whose snapshots were reverted, or whose files were put back, is held back on its table;
not if they were reverted because they stood on the snapshots of a run that was undone.
So is a change of partition keys, if a person changed the keys again or rolled back over it.
It is free again when it was done once more by a person's request, when what took it back is itself
taken back, or when the section of the policy that asked for it has changed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakewright.platform.documents.declared_values import Declared
from lakewright.platform.ledger.action import Action, Verdict
from lakewright.platform.ledger.kept_verbs import ENDS_CHANGE, RESPEC
from lakewright.platform.tables.partition_keys import first_few
from lakewright.platform.upkeep.clean import PUT_BACK
from lakewright.platform.upkeep.history import ROLLBACK
from lakewright.platform.upkeep.revert import REVERT

UNDOING_KEYS = (RESPEC, ROLLBACK.name)
TAKING_BACK = (REVERT.name, PUT_BACK.name)
_GOOD = (Verdict.DONE, Verdict.NOTHING_TO_DO)


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenBack:
    """A verb that was taken back on a table.

    `run` did it, and `by` took it back, which ended at `at_ms`. `policy` is the digest of the
    section that asked for it; empty if a person did.
    """

    run: str
    by: str
    at_ms: int
    policy: str = ""
    table_uuid: str = ""

    @property
    def told(self) -> str:
        return (
            f"run {self.run} did it and {self.by} took it back; skipped until its policy is "
            "changed or it is run by hand"
        )

    def holds(self, table_uuid: str, section: Declared) -> bool:
        """Whether the table is the same, and the section still the one that asked for it."""
        same_table = self.table_uuid in ("", table_uuid)
        return same_table and self.policy in ("", policy_digest(section))


def policy_digest(section: Declared) -> str:
    """The same as long as all settings of a section of a policy are."""
    # Without the defaults, which a later release may have more of.
    text = section.model_dump_json(exclude_defaults=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def taken_back(actions: Iterable[Action]) -> Mapping[tuple[str, str], TakenBack]:
    """What is taken back of actions, by table and verb; the verbs are those of decisions."""
    by_action: dict[tuple[str, str], TakenBack] = {}
    done: list[Action] = []
    for action in sorted(actions, key=lambda each: (each.started_ms, each.id)):
        if action.verdict not in _GOOD:
            continue
        if action.verb not in TAKING_BACK:
            held = by_action.get((action.table, action.verb))
            # What upkeep does of it by the same policy, it does where rows came since.
            if held is not None and (not action.state or action.policy != held.policy):
                del by_action[action.table, action.verb]
            asked = _changed_by_policy(action, done)
            if asked is not None:
                by_action[action.table, asked.verb] = _held(asked, action)
        elif action.verdict is Verdict.DONE:
            for other in [one for one in done if _is_of(action, one)]:
                by_action = {key: held for key, held in by_action.items() if held.by != other.run}
                if other.verb != REVERT.name and not _is_beside(action, other):
                    by_action[other.table, other.verb] = _held(other, action)
        done.append(action)
    return by_action


def _held(action: Action, by: Action) -> TakenBack:
    return TakenBack(
        run=action.run,
        by=by.run,
        at_ms=by.ended_ms,
        policy=action.policy,
        table_uuid=action.table_uuid,
    )


def _changed_by_policy(change: Action, earlier: Sequence[Action]) -> Action | None:
    """The change of keys by a policy that a person's change of keys, or rollback, undoes."""
    if change.verb not in UNDOING_KEYS or change.state or change.verdict is not Verdict.DONE:
        return None
    table = (change.table, change.table_uuid)
    asked = (
        each
        for each in reversed(earlier)
        if each.verb == RESPEC
        and each.state
        and not each.state.startswith(ENDS_CHANGE)
        and (each.table, each.table_uuid) == table
    )
    last = next(asked, None)
    if last is None:
        return None
    if change.verb == RESPEC:
        # The same keys again, and what only splits files or names them anew, undo nothing.
        keys = change.options.get("keys")
        return last if keys is not None and keys != last.options.get("keys") else None
    # The first snapshots of a change still have the keys of before.
    back_at = change.snapshot_after or 0
    return last if last.snapshots and max(last.snapshots) > back_at else None


def what_became(action: Action, recorded: Sequence[Action]) -> str:
    """Whether what an action deleted was put back or collected, of its records that are gone."""
    back = {
        record: each.run
        for each in recorded
        if each.verb == PUT_BACK.name and each.verdict is Verdict.DONE
        if (each.table, each.table_uuid) == (action.table, action.table_uuid)
        for record in action.condemned
        if each.options.get("record") == record
    }
    if not back:
        return "what it deleted is collected: the ledger has no action that put it back"
    by = first_few(sorted(set(back.values())), between=", ")
    collected = len(action.condemned) - len(back)
    rest = f", without {collected} of {len(action.condemned)} parts, which are collected"
    return f"what it deleted was put back since, by {by}{rest if collected else ''}"


def reason_of_undo(run: str) -> str:
    """The reason with which the ledger keeps what the undo of a run takes back."""
    return f"run {run} is undone"


def _is_beside(undo: Action, action: Action) -> bool:
    """Whether an action was taken back only because it stood on the run that was to be undone."""
    is_of_run = re.fullmatch(re.escape(reason_of_undo("RUN")).replace("RUN", "(.*)"), undo.reason)
    return is_of_run is not None and is_of_run[1] not in action.run


def _is_of(undo: Action, action: Action) -> bool:
    """Whether an undo took back what an action did."""
    if (undo.table, undo.table_uuid) != (action.table, action.table_uuid):
        return False
    snapshots = undo.options.get("snapshots") or ()
    is_reverted = isinstance(snapshots, list) and not set(snapshots).isdisjoint(action.snapshots)
    return is_reverted or undo.options.get("record") in action.condemned
