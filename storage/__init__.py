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
    from lakewright.storage.operations.inspection.layout import Layout, UnnamedFiles
    from lakewright.storage.operations.partitions.partition_properties import PartitionProperties
    from lakewright.storage.operations.partitions.repair_partitions import RepairMode
    from lakewright.storage.operations.references.backup import BackupFile
    from lakewright.storage.operations.references.branches import Branch
    from lakewright.storage.operations.references.collect import CondemnedRun
    from lakewright.storage.operations.references.consumers import Consumer
    from lakewright.storage.operations.references.history_span import HistorySpan
    from lakewright.storage.operations.rewrite.compact_written import WriterCompaction
    from lakewright.storage.operations.running.engine import Engine, LocalEngine
    from lakewright.storage.operations.state.table_stats import BucketStats, PartitionStats
    from lakewright.storage.operations.write.verify import VerifyLevel
    from lakewright.storage.spec.commit import StagedWrite, WriterKind, WriterUse
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
    "operations.inspection.layout": "Layout UnnamedFiles",
    "operations.partitions.partition_properties": "PartitionProperties",
    "operations.partitions.repair_partitions": "RepairMode",
    "operations.references.backup": "BackupFile",
    "operations.references.branches": "Branch",
    "operations.references.collect": "CondemnedRun",
    "operations.references.consumers": "Consumer",
    "operations.references.history_span": "HistorySpan",
    "operations.rewrite.compact_written": "WriterCompaction",
    "operations.running.engine": "Engine LocalEngine",
    "operations.state.table_stats": "BucketStats PartitionStats",
    "operations.write.verify": "VerifyLevel",
    "spec.commit": "StagedWrite WriterKind WriterUse",
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
    "BackupFile",
    "Branch",
    "BucketStats",
    "Catalog",
    "CatalogDrift",
    "ChangeComment",
    "ChangeDefault",
    "ChangeNullability",
    "ChangeTableComment",
    "ChangeType",
    "Column",
    "ColumnStatistics",
    "Compatibility",
    "CondemnedRun",
    "Consumer",
    "DataType",
    "Dependent",
    "DropColumn",
    "Engine",
    "EventTime",
    "Finding",
    "FormatTable",
    "GateRules",
    "GateVerdict",
    "HistorySpan",
    "Layout",
    "Lease",
    "LeaseKind",
    "LocalEngine",
    "MoveColumn",
    "PartitionProperties",
    "PartitionStats",
    "Position",
    "ProcessingTime",
    "RenameColumn",
    "RepairMode",
    "ResetOption",
    "Rule",
    "SchemaSpec",
    "SetOption",
    "Severity",
    "Side",
    "Snapshot",
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
    "VerifyLevel",
    "Waiver",
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
