"""What a compaction of level 0 looks up in deeper levels. Source: Paimon `LookupStrategy`."""

from __future__ import annotations

from dataclasses import dataclass

from lakewright.storage.spec.merge_spec import MergeEngine, MergeSpec
from lakewright.storage.spec.options import ChangelogProducer, TableOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupStrategy:
    """Reasons to look up the older row of each key that leaves level 0.

    `first_row` leaves out keys that are there already, `changelog` tells old and new,
    `deletion_vectors` marks the older row as gone. `whole_rows` says whether the merge
    needs more of the older row than its place.
    """

    first_row: bool
    changelog: bool
    deletion_vectors: bool
    forced: bool
    whole_rows: bool

    @property
    def needed(self) -> bool:
        """Whether rows below level 0 are merged with everything older already."""
        return self.first_row or self.changelog or self.deletion_vectors or self.forced


def lookup_strategy(options: TableOptions, merging: MergeSpec) -> LookupStrategy:
    """What a table's options ask for."""
    changelog = options.changelog_producer is ChangelogProducer.LOOKUP
    return LookupStrategy(
        first_row=merging.engine is MergeEngine.FIRST_ROW,
        changelog=changelog,
        deletion_vectors=options.deletion_vectors_enabled,
        forced=options.force_lookup,
        # The last row is the newest one, unless something else than its age decides.
        whole_rows=(
            changelog
            or merging.engine is not MergeEngine.DEDUPLICATE
            or bool(merging.sequence_fields)
            or merging.ignore_delete
        ),
    )
