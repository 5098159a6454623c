"""The rewrite of manifests as a verb: a plan of a read opens fewer and smaller manifests."""

from __future__ import annotations

from lakewright.platform.upkeep.measures import Benefit, Cost, Measures
from lakewright.platform.upkeep.procedure import Command, Keeping, Outcome, Procedure, Report
from lakewright.platform.upkeep.words import counted, duration_text, size_text
from lakewright.storage.operations.rewrite.rewrite_manifests import (
    RewriteManifestsOptions,
    RewriteManifestsPlan,
    RewriteManifestsResult,
)
from lakewright.storage.upkeep import Upkeep


def _report(
    _: object, done: Outcome[RewriteManifestsOptions, RewriteManifestsPlan, RewriteManifestsResult]
) -> Report:
    plan, result = done.plan, done.result
    rows = [
        {
            "manifest": manifest.name,
            "size_bytes": manifest.bytes,
            "entries": manifest.entries,
            "why": manifest.fault.value,
        }
        for manifest in plan.manifests
    ]
    facts: dict[str, object] = {
        "manifests_before": len(plan.manifests),
        "manifests_after": plan.manifests_after if result is None else result.manifests_after,
        "manifests_kept": plan.kept,
        "bytes_before": plan.bytes,
        "bytes_after": plan.bytes_after if result is None else result.bytes_after,
        "entries_dropped": plan.entries_dropped if result is None else result.entries_dropped,
    }
    if not plan.manifests:
        return Report(
            summary=f"{plan.table}: no manifests to rewrite: {plan.reason}",
            facts=facts,
            is_empty=True,
        )
    before = f"{counted(len(plan.manifests), 'manifest')}, {size_text(plan.bytes)}"
    if result is None:
        after = counted(plan.manifests_after, "manifest")
        return Report(
            summary=f"{plan.table}, snapshot {plan.snapshot_id}: {before} to rewrite as about "
            f"{after}, {size_text(plan.bytes_after)}; entries of deleted files to drop: "
            f"{plan.entries_dropped:,}; {plan.kept} stay",
            facts=facts,
            tables={"manifests": rows},
            notes=(plan.reason,),
        )
    snapshot = result.snapshot
    return Report(
        summary=f"{plan.table}: {before} rewritten as {counted(result.manifests_after, 'manifest')}"
        f", {size_text(result.bytes_after)}; entries of deleted files dropped: "
        f"{result.entries_dropped:,}; {plan.kept} stay; snapshot "
        f"{snapshot.id if snapshot else 'none'} in {duration_text(result.duration_ms)}",
        facts={
            **facts,
            "snapshot_id": None if snapshot is None else snapshot.id,
            "attempts": result.attempts,
            "duration_ms": result.duration_ms,
        },
        snapshot=snapshot,
    )


def _measures(
    _: object, done: Outcome[RewriteManifestsOptions, RewriteManifestsPlan, RewriteManifestsResult]
) -> Measures:
    plan, result = done.plan, done.result
    after = plan.manifests_after if result is None else result.manifests_after
    written = plan.bytes_after if result is None else result.bytes_after
    snapshot = None if result is None else result.snapshot
    return Measures(
        cost=Cost(bytes=plan.bytes, files=len(plan.manifests), bytes_written=written),
        benefit=Benefit(
            metadata_bytes_fewer=plan.bytes - written, manifests_fewer=len(plan.manifests) - after
        ),
        snapshots=() if snapshot is None else (snapshot.id,),
    )


REWRITE_MANIFESTS = Procedure(
    verb=Upkeep.rewrite_manifests,
    options=RewriteManifestsOptions,
    report=_report,
    command=Command(
        purpose="Upkeep",
        examples="""
lakewright rewrite-manifests nyc.flights --dry-run
lakewright rewrite-manifests nyc.flights --min-count 100
""",
    ),
    keeping=Keeping(
        section=lambda policy: policy.manifests,
        options=lambda policy: RewriteManifestsOptions(policy.manifests.min_count),
    ),
    measures=_measures,
)
