"""Which tags are older than their policy lets them be."""

from __future__ import annotations

from collections.abc import Mapping

from lakewright.platform.tables.upkeep_policies import TagPolicy
from lakewright.storage.operations.retention.expire_tags import is_spared


def tags_past(made_ms: Mapping[str, int], policy: TagPolicy, now_ms: int) -> tuple[str, ...]:
    """The names of the tags that their age lets go; none where it names no age."""
    if policy.older_than is None:
        return ()
    since_ms = now_ms - policy.older_than
    return tuple(
        name
        for name, at_ms in made_ms.items()
        if at_ms < since_ms and not is_spared(name, policy.spare)
    )
