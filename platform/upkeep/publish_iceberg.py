"""The publication of Iceberg metadata as a verb: readers of Iceberg see what the table holds."""

from __future__ import annotations

from lakewright.platform.upkeep.procedure import Command, Keeping, Outcome, Procedure, Report
from lakewright.platform.upkeep.words import counted, duration_text
from lakewright.storage.operations.iceberg.publish_iceberg import (
    PublishIcebergOptions,
    PublishIcebergPlan,
    PublishIcebergResult,
)
from lakewright.storage.upkeep import Upkeep

_MERGED = (
    "readers see the rows of the last full compaction: the table has a primary key, and no "
    "deletion vectors"
)


def _report(
    _: object, done: Outcome[PublishIcebergOptions, PublishIcebergPlan, PublishIcebergResult]
) -> Report:
    plan, result = done.plan, done.result
    facts: dict[str, object] = {
        "location": plan.location,
        "seen_snapshot": plan.seen_id,
        "latest_snapshot": plan.latest_id,
        "waiting": plan.waiting,
    }
    notes = (_MERGED,) if plan.shows_merged else ()
    seen = "nothing" if plan.seen_id is None else f"snapshot {plan.seen_id}"
    if plan.latest_id is None:
        told = f"{plan.table}: nothing was ever committed, so there is nothing to publish"
        return Report(summary=told, facts=facts, is_empty=True)
    if result is None:
        told = (
            f"{plan.table}: Iceberg readers see {seen}; {counted(plan.waiting, 'snapshot')} to "
            f"publish, up to {plan.latest_id}"
        )
        if not plan.waiting:
            told = f"{plan.table}: Iceberg readers see {seen}, which is the latest"
        return Report(summary=told, facts=facts, notes=notes, is_empty=not plan.waiting)
    facts |= {
        "snapshot_id": result.snapshot_id,
        "snapshots_published": result.snapshots_published,
        "files_added": result.files_added,
        "files_removed": result.files_removed,
        "metadata_files_written": result.metadata_files_written,
        "metadata_files_deleted": result.metadata_files_deleted,
        "duration_ms": result.duration_ms,
    }
    if result.snapshot_id is None:
        told = f"{plan.table}: Iceberg readers see {seen}, which is the latest"
        return Report(summary=told, facts=facts, notes=notes, is_empty=True)
    return Report(
        summary=f"{plan.table}: Iceberg readers see snapshot {result.snapshot_id}; "
        f"{counted(result.snapshots_published, 'snapshot')} published, with "
        f"{counted(result.files_added, 'file')} that they did not know, in "
        f"{duration_text(result.duration_ms)}",
        facts=facts,
        notes=notes,
    )


PUBLISH_ICEBERG = Procedure(
    verb=Upkeep.publish_iceberg,
    options=PublishIcebergOptions,
    report=_report,
    command=Command(
        purpose="Upkeep",
        examples="""
lakewright publish-iceberg nyc.flights --dry-run
lakewright publish-iceberg nyc.flights
""",
    ),
    keeping=Keeping(
        section=lambda policy: policy.iceberg,
        options=lambda _: PublishIcebergOptions(),
    ),
)
