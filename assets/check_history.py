"""Earlier check results of partitions that this run did not check.

A check has one status, that of its latest evaluation, but each run checks only a few partitions. So
an evaluation carries the failures of other partitions: it names a failing partition until a run
publishes passing rows for it, or the partition no longer exists. The metadata of the latest
evaluation holds all of them.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Self

import dagster as dg

from lakewright.platform.orchestration.check_events import last_evaluation
from lakewright.platform.tables.partition_keys import first_few

# The metadata entry with the failing partitions and their messages.
NOT_MET = "lakewright/partitions_not_met"


@dataclass(frozen=True)
class CheckHistory:
    """Partitions that failed a check when last evaluated, with their messages."""

    not_met: Mapping[str, str]

    @classmethod
    def read(
        cls, instance: dg.DagsterInstance, key: dg.AssetCheckKey, exists: Callable[[str], bool]
    ) -> Self:
        """The failures in the latest evaluation of a check, for existing partitions."""
        evaluation = last_evaluation(instance, key)
        told = evaluation.metadata.get(NOT_MET) if evaluation is not None else None
        known = told.value if isinstance(told, dg.JsonMetadataValue) else {}
        assert isinstance(known, Mapping)
        return cls({name: said for name, said in known.items() if exists(name)})

    def judged(self, partitions: Collection[str], not_met: Mapping[str, str]) -> Self:
        """The history after some partitions were evaluated, with the messages of failures."""
        others = {name: said for name, said in self.not_met.items() if name not in partitions}
        return type(self)({**others, **not_met})

    def beside(self, partitions: Collection[str]) -> str:
        """The failures of other partitions in one line; empty if there are none."""
        others = [name for name in sorted(self.not_met) if name not in partitions]
        return first_few([f"{name}: {self.not_met[name]}" for name in others])

    @property
    def metadata(self) -> Mapping[str, dg.MetadataValue]:
        """The metadata for the next evaluation; without failures there is none."""
        if not self.not_met:
            return {}
        return {NOT_MET: dg.MetadataValue.json(dict(sorted(self.not_met.items())))}
