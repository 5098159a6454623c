"""What a change of a primary-key table's partition keys has staged, for the run that continues it.

Other clients do not know these records.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lakewright.storage.spec.commit import CommitMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedChange:
    """A change that is under way: the keys that the table gets, and the process that stages it.

    `id` is the process. Files are staged from rows of the schema `schema_id`, whose content has the
    checksum `schema`.
    """

    id: str
    schema_id: int
    schema: str
    keys: tuple[str, ...]
    primary_key: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedPartition:
    """A present partition whose rows lie in new files, which the messages name.

    `base` is the checksum of what the rows were read from, and `verify` how they were proved.
    `bucket_counts` are the numbers of dynamic buckets that were chosen for new partitions.
    """

    partition: bytes
    base: str
    verify: str
    messages: tuple[CommitMessage, ...]
    bucket_counts: dict[bytes, int] = field(default_factory=dict)
    nulled_values: int = 0
