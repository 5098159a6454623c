"""Paimon tables: write, read, compact, expire. No Dagster anywhere in it.

catalog = Catalog.open("./warehouse")
orders = catalog.create_table("db.orders", {"id": "BIGINT", "v": "INT"}, primary_keys=["id"])
orders.write(rows)
orders.read(where="v > 10", columns=["id"])
orders.upkeep.compact(full=True)
orders.at(snapshot=1).read()
orders = orders.alter(AddColumn("city", "STRING"), RenameColumn("v", "amount"))
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakewright.storage.catalog import Catalog
    from lakewright.storage.catalog_sync import CatalogDrift
    from lakewright.storage.codec.arrow_types import columns_from_arrow
    from lakewright.storage.errors import StorageError
    from lakewright.storage.format_table import FormatTable
    from lakewright.storage.operations.changes.change_plan import ChangePlan
    from lakewright.storage.operations.inspection.analyze import AnalyzePlan, AnalyzeResult
    from lakewright.storage.operations.inspection.layout import Layout, UnnamedFiles
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
    from lakewright.storage.operations.partitions.partition_properties import PartitionProperties
    from lakewright.storage.operations.partitions.rename_partition import (
        RenamePartitionPlan,
        RenamePartitionResult,
    )
    from lakewright.storage.operations.partitions.repair_partitions import (
        RepairMode,
        RepairPlan,
        RepairResult,
    )
    from lakewright.storage.operations.references.branches import Branch, DeleteBranchPlan
    from lakewright.storage.operations.references.consumers import Consumer
    from lakewright.storage.operations.references.fast_forward import FastForwardPlan
    from lakewright.storage.operations.references.history_span import HistorySpan
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
    from lakewright.storage.operations.retention.purge_quarantine import PurgePlan
    from lakewright.storage.operations.retention.quarantine import Quarantine
    from lakewright.storage.operations.retention.remove_orphans import OrphanSearch, OrphansPlan
    from lakewright.storage.operations.retention.restore_files import RestorePlan
    from lakewright.storage.operations.revert.revert import RevertPlan, RevertResult
    from lakewright.storage.operations.rewrite.compact_written import WriterCompaction, WriteResult
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
    from lakewright.storage.operations.running.engine import Engine, LocalEngine
    from lakewright.storage.operations.schema.alter import AlterPlan, AlterResult
    from lakewright.storage.operations.schema.validate_rows import (
        FileProfile,
        PartProfile,
        ValidateRowsPlan,
        ValidateRowsResult,
    )
    from lakewright.storage.operations.state.table_stats import BucketStats, PartitionStats
    from lakewright.storage.operations.write.verify import VerifyLevel
    from lakewright.storage.spec.commit import CommitResult, StagedWrite, WriterKind, WriterUse
    from lakewright.storage.spec.data_types import DataType, parse_data_type
    from lakewright.storage.spec.lease import Lease, LeaseKind
    from lakewright.storage.spec.partition_clock import EventTime, ProcessingTime
    from lakewright.storage.spec.schema import Column, SchemaSpec, TableSchema
    from lakewright.storage.spec.schema_change import (
        AddColumn,
        ChangeComment,
        ChangeDefault,
        ChangeNullability,
        ChangeTableComment,
        ChangeType,
        DropColumn,
        MoveColumn,
        Position,
        RenameColumn,
        ResetOption,
        SetOption,
        Side,
    )
    from lakewright.storage.spec.schema_gate import (
        Compatibility,
        Dependent,
        Finding,
        GateRules,
        GateVerdict,
        Rule,
        Severity,
        Waiver,
    )
    from lakewright.storage.spec.snapshot import Snapshot
    from lakewright.storage.spec.stream import StreamRecord
    from lakewright.storage.spec.table_distribution import SupportsBucketing, TableDistribution
    from lakewright.storage.spec.table_statistics import ColumnStatistics, TableStatistics
    from lakewright.storage.spec.tag import Tag
    from lakewright.storage.table import Table

# The module of each name: it is imported when the name is first used, so that a program pays for
# the verbs that it calls.
_NAMES = {
    "catalog": "Catalog",
    "catalog_sync": "CatalogDrift",
    "codec.arrow_types": "columns_from_arrow",
    "errors": "StorageError",
    "format_table": "FormatTable",
    "operations.changes.change_plan": "ChangePlan",
    "operations.inspection.analyze": "AnalyzePlan AnalyzeResult",
    "operations.inspection.layout": "Layout UnnamedFiles",
    "operations.partitions.add_partitions": "AddPartitionsPlan AddPartitionsResult",
    "operations.partitions.drop_partitions": "DropPartitionsPlan DropPartitionsResult",
    "operations.partitions.exchange_partition": "ExchangePartitionPlan ExchangePartitionResult",
    "operations.partitions.expire_partitions": (
        "DuePartition ExpirePartitionsPlan ExpirePartitionsResult "
    ),
    "operations.partitions.mark_done": "MarkDonePlan MarkDoneResult",
    "operations.partitions.partition_properties": "PartitionProperties",
    "operations.partitions.rename_partition": "RenamePartitionPlan RenamePartitionResult",
    "operations.partitions.repair_partitions": "RepairMode RepairPlan RepairResult",
    "operations.row_changes.delete_rows": "DeleteRowsPlan",
    "operations.row_changes.merge_rows": "MergeRowsPlan",
    "operations.row_changes.statement": "RowChangeResult",
    "operations.row_changes.update_rows": "UpdateRowsPlan",
    "operations.references.branches": "Branch DeleteBranchPlan",
    "operations.references.consumers": "Consumer",
    "operations.references.fast_forward": "FastForwardPlan",
    "operations.references.history_span": "HistorySpan",
    "operations.references.rollback": "RollbackPlan",
    "operations.references.tags": "DeleteTagsPlan",
    "operations.respec.add_primary_key": "AddPrimaryKeyPlan AddPrimaryKeyResult",
    "operations.respec.respec_plan": "RespecPlan RespecResult",
    "operations.retention.expire_backlog": "ExpireStep",
    "operations.retention.expire_changelogs": "ExpireChangelogsPlan",
    "operations.retention.expire_snapshots": "ExpirePlan ExpireResult",
    "operations.retention.purge_quarantine": "PurgePlan",
    "operations.retention.quarantine": "Quarantine",
    "operations.retention.remove_orphans": "OrphanSearch OrphansPlan",
    "operations.retention.restore_files": "RestorePlan",
    "operations.revert.revert": "RevertPlan RevertResult",
    "operations.rewrite.compact_written": "WriterCompaction WriteResult",
    "operations.rewrite.compaction_plan": "CompactionPlan CompactionResult",
    "operations.rewrite.postpone": "PostponePlan PostponeResult",
    "operations.rewrite.rescale": "RescalePlan RescaleResult",
    "operations.rewrite.rewrite_manifests": "RewriteManifestsPlan RewriteManifestsResult",
    "operations.rewrite.settle": "SettlePlan SettleResult",
    "operations.rewrite.sort_compact": "SortCompactionPlan",
    "operations.running.engine": "Engine LocalEngine",
    "operations.schema.alter": "AlterPlan AlterResult",
    "operations.schema.validate_rows": (
        "FileProfile PartProfile ValidateRowsPlan ValidateRowsResult "
    ),
    "operations.state.table_stats": "BucketStats PartitionStats",
    "operations.write.verify": "VerifyLevel",
    "spec.commit": "CommitResult StagedWrite WriterKind WriterUse",
    "spec.data_types": "DataType parse_data_type",
    "spec.lease": "Lease LeaseKind",
    "spec.partition_clock": "EventTime ProcessingTime",
    "spec.schema": "Column SchemaSpec TableSchema",
    "spec.schema_change": (
        "AddColumn ChangeComment ChangeDefault ChangeNullability ChangeTableComment ChangeType "
        "DropColumn MoveColumn Position RenameColumn ResetOption SetOption Side"
    ),
    "spec.schema_gate": (
        "Compatibility Dependent Finding GateRules GateVerdict Rule Severity Waiver"
    ),
    "spec.snapshot": "Snapshot",
    "spec.stream": "StreamRecord",
    "spec.table_distribution": "SupportsBucketing TableDistribution",
    "spec.table_statistics": "ColumnStatistics TableStatistics",
    "spec.tag": "Tag",
    "table": "Table",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "AddColumn",
    "AddPartitionsPlan",
    "AddPartitionsResult",
    "AddPrimaryKeyPlan",
    "AddPrimaryKeyResult",
    "AlterPlan",
    "AlterResult",
    "AnalyzePlan",
    "AnalyzeResult",
    "Branch",
    "BucketStats",
    "Catalog",
    "CatalogDrift",
    "ChangeComment",
    "ChangeDefault",
    "ChangeNullability",
    "ChangePlan",
    "ChangeTableComment",
    "ChangeType",
    "Column",
    "ColumnStatistics",
    "CommitResult",
    "CompactionPlan",
    "CompactionResult",
    "Compatibility",
    "Consumer",
    "DataType",
    "DeleteBranchPlan",
    "DeleteRowsPlan",
    "DeleteTagsPlan",
    "Dependent",
    "DropColumn",
    "DropPartitionsPlan",
    "DropPartitionsResult",
    "DuePartition",
    "Engine",
    "EventTime",
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
    "Finding",
    "FormatTable",
    "GateRules",
    "GateVerdict",
    "HistorySpan",
    "Layout",
    "Lease",
    "LeaseKind",
    "LocalEngine",
    "MarkDonePlan",
    "MarkDoneResult",
    "MergeRowsPlan",
    "MoveColumn",
    "OrphanSearch",
    "OrphansPlan",
    "PartProfile",
    "PartitionProperties",
    "PartitionStats",
    "Position",
    "PostponePlan",
    "PostponeResult",
    "ProcessingTime",
    "PurgePlan",
    "Quarantine",
    "RenameColumn",
    "RenamePartitionPlan",
    "RenamePartitionResult",
    "RepairMode",
    "RepairPlan",
    "RepairResult",
    "RescalePlan",
    "RescaleResult",
    "ResetOption",
    "RespecPlan",
    "RespecResult",
    "RestorePlan",
    "RevertPlan",
    "RevertResult",
    "RewriteManifestsPlan",
    "RewriteManifestsResult",
    "RollbackPlan",
    "RowChangeResult",
    "Rule",
    "SchemaSpec",
    "SetOption",
    "SettlePlan",
    "SettleResult",
    "Severity",
    "Side",
    "Snapshot",
    "SortCompactionPlan",
    "StagedWrite",
    "StorageError",
    "StreamRecord",
    "SupportsBucketing",
    "Table",
    "TableDistribution",
    "TableSchema",
    "TableStatistics",
    "Tag",
    "UnnamedFiles",
    "UpdateRowsPlan",
    "ValidateRowsPlan",
    "ValidateRowsResult",
    "VerifyLevel",
    "Waiver",
    "WriteResult",
    "WriterCompaction",
    "WriterKind",
    "WriterUse",
    "columns_from_arrow",
    "parse_data_type",
]


if not TYPE_CHECKING:
    # Type checkers know the names from above, and tell of those that there are not.
    def __getattr__(name: str) -> object:
        module = _MODULES.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
