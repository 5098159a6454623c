"""The verbs of the job `upkeep`: what the policy gives each, and what its runs may change."""

from __future__ import annotations

from lakewright.jobs.respec import RESPEC_OF_TABLES
from lakewright.jobs.upkeep import UpkeepVerb
from lakewright.platform.decide.keepers import KEPT_VERBS, in_turn, options_by
from lakewright.platform.ledger.kept_verbs import (
    EXPIRE_CHANGELOGS,
    EXPIRE_PARTITIONS,
    EXPIRE_SNAPSHOTS,
    EXPIRE_TAGS,
)
from lakewright.platform.upkeep.alter import ALTER
from lakewright.platform.upkeep.postpone_compact import POSTPONE_COMPACT
from lakewright.platform.upkeep.procedure import AnyProcedure
from lakewright.platform.upkeep.procedures import PROCEDURES

_MAY_COME_EARLY = (EXPIRE_SNAPSHOTS, EXPIRE_TAGS, EXPIRE_CHANGELOGS, EXPIRE_PARTITIONS)
# A compaction does the one first, and evolve_schema the other.
_OF_OTHER_JOBS = (POSTPONE_COMPACT, ALTER)


def _kept(verb: AnyProcedure) -> UpkeepVerb:
    """Work that the upkeep sensor asks for."""
    return UpkeepVerb(
        name=verb.name,
        description=_sentence(verb),
        verbs=lambda table, *_: in_turn(verb.name, table),
        declared=lambda kept: options_by(kept.policy, verb.name),
        options=verb.options,
        is_asked_for=True,
        may_come_early=verb.name in _MAY_COME_EARLY,
    )


def _requested(verb: AnyProcedure) -> UpkeepVerb:
    """A verb that nothing asks for but a person, who says what it is to do."""
    return UpkeepVerb(
        name=verb.name,
        description=_sentence(verb),
        verbs=lambda *_: (verb,),
        declared=lambda _: verb.options(),
        options=verb.options,
    )


def _sentence(verb: AnyProcedure) -> str:
    return f"{verb.summary[0].upper()}{verb.summary[1:]}."


# A person may ask for other keys, and the partitions of an asset follow those of its table.
_OWN_JOBS = {RESPEC_OF_TABLES.name: RESPEC_OF_TABLES}
KEEPING_VERBS = tuple(_OWN_JOBS.get(each.name) or _kept(each) for each in KEPT_VERBS.values())
REQUESTED_VERBS = tuple(
    _requested(each)
    for each in PROCEDURES.values()
    if each.keeping is None and each not in _OF_OTHER_JOBS
)
