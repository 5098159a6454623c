"""Which lookups in deeper levels a compaction of level 0 needs. Source: Paimon `LookupStrategy`."""

from __future__ import annotations

from dataclasses import dataclass

from lakewright.storage.spec.merge_spec import MergeEngine, MergeSpec
from lakewright.storage.spec.options import ChangelogProducer, TableOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupStrategy:
    """Reasons to look up the older row of each key that leaves level 0.

    `first_row` drops keys that exist already, `changelog` needs old and new rows,
    `deletion_vectors` marks the older row as deleted. `whole_rows`: the merge needs the older row's
    values, not only its position.
    """

    first_row: bool
    changelog: bool
    deletion_vectors: bool
    forced: bool
    whole_rows: bool

    @property
    def needed(self) -> bool:
        """Whether every row below level 0 is merged with all older rows of its key."""
        return self.first_row or self.changelog or self.deletion_vectors or self.forced


def lookup_strategy(options: TableOptions, merging: MergeSpec) -> LookupStrategy:
    """The strategy that a table's options request."""
    changelog = options.changelog_producer is ChangelogProducer.LOOKUP
    return LookupStrategy(
        first_row=merging.engine is MergeEngine.FIRST_ROW,
        changelog=changelog,
        deletion_vectors=options.deletion_vectors_enabled,
        forced=options.force_lookup,
        # The newest row wins by its age alone, unless one of these options decides.
        whole_rows=(
            changelog
            or merging.engine is not MergeEngine.DEDUPLICATE
            or bool(merging.sequence_fields)
            or merging.ignore_delete
        ),
    )
