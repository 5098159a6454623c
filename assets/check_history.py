"""What checks said of partitions that this run did not judge.

A check of a table has one status, that of its latest evaluation, while runs judge a few partitions
each. So an evaluation carries on what is known of the others: a partition that did not meet an
expectation is named until rows that meet it are published for it, or it is no partition any more.
What is carried lies in the metadata of evaluations, and the latest one has all of it.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Self

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

# The entry of an evaluation's metadata with the partitions that do not meet it, and what is said.
NOT_MET = "lakewright/partitions_not_met"
_MOST_NAMED = 5
_EVALUATED = {AssetCheckExecutionRecordStatus.SUCCEEDED, AssetCheckExecutionRecordStatus.FAILED}


@dataclass(frozen=True)
class CheckHistory:
    """Partitions that did not meet a check when they were last judged, and what was said then."""

    not_met: Mapping[str, str]

    @classmethod
    def read(
        cls, instance: dg.DagsterInstance, key: dg.AssetCheckKey, exists: Callable[[str], bool]
    ) -> Self:
        """What the latest evaluation of a check says, of the partitions that still exist."""
        # Runs that wait or are under way, this one too, have records without an evaluation.
        records = instance.event_log_storage.get_asset_check_execution_history(
            key, limit=1, status=_EVALUATED
        )
        evaluation = records[0].evaluation if records else None
        told = evaluation.metadata.get(NOT_MET) if evaluation is not None else None
        known = told.value if isinstance(told, dg.JsonMetadataValue) else {}
        assert isinstance(known, Mapping)
        return cls({name: said for name, said in known.items() if exists(name)})

    def judged(self, partitions: Collection[str], not_met: Mapping[str, str]) -> Self:
        """The same after some partitions were judged, with what is said of those that failed."""
        others = {name: said for name, said in self.not_met.items() if name not in partitions}
        return type(self)({**others, **not_met})

    def beside(self, partitions: Collection[str]) -> str:
        """What is said of other partitions than these, in one line; empty if it is nothing."""
        others = [name for name in sorted(self.not_met) if name not in partitions]
        named = "; ".join(f"{name}: {self.not_met[name]}" for name in others[:_MOST_NAMED])
        more = len(others) - _MOST_NAMED
        return f"{named}; and {more} partitions more" if more > 0 else named

    @property
    def metadata(self) -> Mapping[str, dg.MetadataValue]:
        """What the next evaluation is told."""
        return {NOT_MET: dg.MetadataValue.json(dict(sorted(self.not_met.items())))}
