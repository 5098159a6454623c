"""Whether a table has far too many or too few buckets, in words with their numbers."""

from __future__ import annotations

from math import ceil

from lakewright.platform.decide.survey import TableSurvey
from lakewright.platform.tables.upkeep_policies import RescalePolicy
from lakewright.platform.upkeep.words import counted, size_text

# Sizes within this factor are not worth a rewrite of all rows.
_FAR = 4
# Small buckets are no burden while there are few of them.
_MANY_BUCKETS = 100


def bucket_hint(survey: TableSurvey, policy: RescalePolicy) -> str | None:
    """The finding about the buckets of a table; None if they fit or are not fixed."""
    count, buckets = survey.bucket, survey.layout.buckets
    if count < 1 or not buckets or not policy.hint:
        return None
    if survey.layout.left_behind:
        behind = counted(survey.layout.left_behind, "partition")
        return (
            f"{behind} written before bucket={count} was set have another number of buckets, and "
            f"take no rows until they are rescaled: lakewright rescale {survey.table} "
            f"--buckets {count}"
        )
    mean, partition = survey.files.bytes // buckets, survey.files.bytes // survey.layout.partitions
    if mean > _FAR * policy.most_bytes:
        better, told = ceil(partition / policy.most_bytes), "far too large"
    elif mean * _FAR < policy.least_bytes and count > 1 and buckets >= _MANY_BUCKETS:
        better, told = max(1, partition // policy.least_bytes), "far too small"
    else:
        return None
    if better == count:
        return None
    each = counted(buckets, "bucket")
    return (
        f"{each} of {size_text(mean)} on average, {told}; with {counted(better, 'bucket')} instead "
        f"of {count} a bucket has {size_text(partition // better)}: "
        f"lakewright rescale {survey.table} --buckets {better}"
    )
