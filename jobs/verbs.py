"""Every verb as a job: what its policy gives, and what its runs may change."""

from __future__ import annotations

from lakewright.jobs.respec import RESPEC_OF_TABLES
from lakewright.jobs.upkeep import UpkeepJob
from lakewright.platform.upkeep.clean import RESTORE
from lakewright.platform.upkeep.drop_partitions import DROP_PARTITIONS
from lakewright.platform.upkeep.exchange_partition import EXCHANGE_PARTITION
from lakewright.platform.upkeep.external_partitions import ADD_PARTITIONS, REPAIR_PARTITIONS
from lakewright.platform.upkeep.history import ROLLBACK
from lakewright.platform.upkeep.mark_done import MARK_DONE
from lakewright.platform.upkeep.rename_partition import RENAME_PARTITION
from lakewright.platform.upkeep.rescale import RESCALE
from lakewright.platform.upkeep.revert import REVERT
from lakewright.platform.upkeep.verb import AnyVerb
from lakewright.platform.warehouse.keepers import KEEPERS, Keeper
from lakewright.platform.warehouse.kept_verbs import (
    EXPIRE_CHANGELOGS,
    EXPIRE_PARTITIONS,
    EXPIRE_SNAPSHOTS,
    EXPIRE_TAGS,
)

_MAY_COME_EARLY = (EXPIRE_SNAPSHOTS, EXPIRE_TAGS, EXPIRE_CHANGELOGS, EXPIRE_PARTITIONS)


def _kept(keeper: Keeper) -> UpkeepJob:
    """The job of work that the upkeep sensor asks for."""
    return UpkeepJob(
        name=keeper.name,
        description=keeper.description,
        verbs=lambda table, *_: keeper.verbs(table),
        declared=lambda kept: keeper.options(kept.policy),
        options=keeper.options_type,
        needs_spark=keeper.needs_spark,
        may_come_early=keeper.name in _MAY_COME_EARLY,
    )


def _requested(verb: AnyVerb, description: str, *, needs_spark: bool = False) -> UpkeepJob:
    """The job of a verb that nothing asks for but a person, who says what it is to do."""
    return UpkeepJob(
        name=verb.name,
        description=description,
        verbs=lambda *_: (verb,),
        declared=lambda _: verb.options(),
        options=verb.options,
        needs_spark=needs_spark,
    )


# A person may ask for other keys, and the partitions of an asset follow those of its table.
_OWN_JOBS = {RESPEC_OF_TABLES.name: RESPEC_OF_TABLES}
KEEPING_JOBS = tuple(_OWN_JOBS.get(each.name) or _kept(each) for each in KEEPERS.values())
REQUESTED_JOBS = (
    _requested(RESCALE, "Give tables another number of buckets.", needs_spark=True),
    _requested(RESTORE, "Bring files back from a quarantine."),
    _requested(REVERT, "Take back what snapshots did, and keep later commits."),
    _requested(ROLLBACK, "Go back to an earlier snapshot or tag."),
    _requested(ADD_PARTITIONS, "Take over files of others as partitions, without a rewrite."),
    _requested(REPAIR_PARTITIONS, "Take over folders that turned up, and drop those that went."),
    _requested(DROP_PARTITIONS, "Drop partitions."),
    _requested(RENAME_PARTITION, "Give the rows of a partition other values.", needs_spark=True),
    _requested(EXCHANGE_PARTITION, "Move partitions here from another table."),
    _requested(MARK_DONE, "Mark partitions as done; each gets an observation."),
)
