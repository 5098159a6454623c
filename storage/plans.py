"""What verbs plan, and what they did: the types of `plan_*` and of the calls themselves."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakewright.storage.operations.changes.change_plan import ChangePlan
    from lakewright.storage.operations.inspection.analyze import AnalyzePlan, AnalyzeResult
    from lakewright.storage.operations.partitions.add_partitions import (
        AddPartitionsPlan,
        AddPartitionsResult,
    )
    from lakewright.storage.operations.partitions.drop_partitions import (
        DropPartitionsPlan,
        DropPartitionsResult,
    )
    from lakewright.storage.operations.partitions.exchange_partition import (
        ExchangePartitionPlan,
        ExchangePartitionResult,
    )
    from lakewright.storage.operations.partitions.expire_partitions import (
        DuePartition,
        ExpirePartitionsPlan,
        ExpirePartitionsResult,
    )
    from lakewright.storage.operations.partitions.mark_done import MarkDonePlan, MarkDoneResult
    from lakewright.storage.operations.partitions.rename_partition import (
        RenamePartitionPlan,
        RenamePartitionResult,
    )
    from lakewright.storage.operations.partitions.repair_partitions import RepairPlan, RepairResult
    from lakewright.storage.operations.references.branches import DeleteBranchPlan
    from lakewright.storage.operations.references.collect import CollectPlan
    from lakewright.storage.operations.references.fast_forward import FastForwardPlan
    from lakewright.storage.operations.references.put_back import PutBackPlan
    from lakewright.storage.operations.references.rollback import RollbackPlan
    from lakewright.storage.operations.references.tags import DeleteTagsPlan
    from lakewright.storage.operations.respec.add_primary_key import (
        AddPrimaryKeyPlan,
        AddPrimaryKeyResult,
    )
    from lakewright.storage.operations.respec.respec_plan import RespecPlan, RespecResult
    from lakewright.storage.operations.retention.expire_backlog import ExpireStep
    from lakewright.storage.operations.retention.expire_changelogs import ExpireChangelogsPlan
    from lakewright.storage.operations.retention.expire_snapshots import ExpirePlan, ExpireResult
    from lakewright.storage.operations.retention.remove_orphans import OrphansPlan
    from lakewright.storage.operations.revert.revert import RevertPlan, RevertResult
    from lakewright.storage.operations.rewrite.compact_written import WriteResult
    from lakewright.storage.operations.rewrite.compaction_plan import (
        CompactionPlan,
        CompactionResult,
    )
    from lakewright.storage.operations.rewrite.postpone import PostponePlan, PostponeResult
    from lakewright.storage.operations.rewrite.rescale import RescalePlan, RescaleResult
    from lakewright.storage.operations.rewrite.rewrite_manifests import (
        RewriteManifestsPlan,
        RewriteManifestsResult,
    )
    from lakewright.storage.operations.rewrite.settle import SettlePlan, SettleResult
    from lakewright.storage.operations.rewrite.sort_compact import SortCompactionPlan
    from lakewright.storage.operations.row_changes.delete_rows import DeleteRowsPlan
    from lakewright.storage.operations.row_changes.merge_rows import MergeRowsPlan
    from lakewright.storage.operations.row_changes.statement import RowChangeResult
    from lakewright.storage.operations.row_changes.update_rows import UpdateRowsPlan
    from lakewright.storage.operations.schema.alter import AlterPlan, AlterResult
    from lakewright.storage.operations.schema.validate_rows import (
        FileProfile,
        PartProfile,
        ValidateRowsPlan,
        ValidateRowsResult,
    )
    from lakewright.storage.spec.commit import CommitResult

# The module of each name: it is imported when the name is first used, so that a program pays for
# the verbs that it calls.
_NAMES = {
    "operations.changes.change_plan": "ChangePlan",
    "operations.inspection.analyze": "AnalyzePlan AnalyzeResult",
    "operations.partitions.add_partitions": "AddPartitionsPlan AddPartitionsResult",
    "operations.partitions.drop_partitions": "DropPartitionsPlan DropPartitionsResult",
    "operations.partitions.exchange_partition": "ExchangePartitionPlan ExchangePartitionResult",
    "operations.partitions.expire_partitions": (
        "DuePartition ExpirePartitionsPlan ExpirePartitionsResult"
    ),
    "operations.partitions.mark_done": "MarkDonePlan MarkDoneResult",
    "operations.partitions.rename_partition": "RenamePartitionPlan RenamePartitionResult",
    "operations.partitions.repair_partitions": "RepairPlan RepairResult",
    "operations.row_changes.delete_rows": "DeleteRowsPlan",
    "operations.row_changes.merge_rows": "MergeRowsPlan",
    "operations.row_changes.statement": "RowChangeResult",
    "operations.row_changes.update_rows": "UpdateRowsPlan",
    "operations.references.branches": "DeleteBranchPlan",
    "operations.references.collect": "CollectPlan",
    "operations.references.fast_forward": "FastForwardPlan",
    "operations.references.put_back": "PutBackPlan",
    "operations.references.rollback": "RollbackPlan",
    "operations.references.tags": "DeleteTagsPlan",
    "operations.respec.add_primary_key": "AddPrimaryKeyPlan AddPrimaryKeyResult",
    "operations.respec.respec_plan": "RespecPlan RespecResult",
    "operations.retention.expire_backlog": "ExpireStep",
    "operations.retention.expire_changelogs": "ExpireChangelogsPlan",
    "operations.retention.expire_snapshots": "ExpirePlan ExpireResult",
    "operations.retention.remove_orphans": "OrphansPlan",
    "operations.revert.revert": "RevertPlan RevertResult",
    "operations.rewrite.compact_written": "WriteResult",
    "operations.rewrite.compaction_plan": "CompactionPlan CompactionResult",
    "operations.rewrite.postpone": "PostponePlan PostponeResult",
    "operations.rewrite.rescale": "RescalePlan RescaleResult",
    "operations.rewrite.rewrite_manifests": "RewriteManifestsPlan RewriteManifestsResult",
    "operations.rewrite.settle": "SettlePlan SettleResult",
    "operations.rewrite.sort_compact": "SortCompactionPlan",
    "operations.schema.alter": "AlterPlan AlterResult",
    "operations.schema.validate_rows": (
        "FileProfile PartProfile ValidateRowsPlan ValidateRowsResult"
    ),
    "spec.commit": "CommitResult",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "AddPartitionsPlan",
    "AddPartitionsResult",
    "AddPrimaryKeyPlan",
    "AddPrimaryKeyResult",
    "AlterPlan",
    "AlterResult",
    "AnalyzePlan",
    "AnalyzeResult",
    "ChangePlan",
    "CollectPlan",
    "CommitResult",
    "CompactionPlan",
    "CompactionResult",
    "DeleteBranchPlan",
    "DeleteRowsPlan",
    "DeleteTagsPlan",
    "DropPartitionsPlan",
    "DropPartitionsResult",
    "DuePartition",
    "ExchangePartitionPlan",
    "ExchangePartitionResult",
    "ExpireChangelogsPlan",
    "ExpirePartitionsPlan",
    "ExpirePartitionsResult",
    "ExpirePlan",
    "ExpireResult",
    "ExpireStep",
    "FastForwardPlan",
    "FileProfile",
    "MarkDonePlan",
    "MarkDoneResult",
    "MergeRowsPlan",
    "OrphansPlan",
    "PartProfile",
    "PostponePlan",
    "PostponeResult",
    "PutBackPlan",
    "RenamePartitionPlan",
    "RenamePartitionResult",
    "RepairPlan",
    "RepairResult",
    "RescalePlan",
    "RescaleResult",
    "RespecPlan",
    "RespecResult",
    "RevertPlan",
    "RevertResult",
    "RewriteManifestsPlan",
    "RewriteManifestsResult",
    "RollbackPlan",
    "RowChangeResult",
    "SettlePlan",
    "SettleResult",
    "SortCompactionPlan",
    "UpdateRowsPlan",
    "ValidateRowsPlan",
    "ValidateRowsResult",
    "WriteResult",
]


if not TYPE_CHECKING:
    # Type checkers know the names from above, and tell of those that there are not.
    def __getattr__(name: str) -> object:
        module = _MODULES.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(f"lakewright.storage.{module}"), name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
