"""Applied abilities: what planning pushed into a source or a sink, as JSON and back.

A kept plan says which abilities were applied, and with what. When it is loaded, each is checked
against the connector of that day and applied again, in the same order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from lakewright.connectors.model.catalog_table import ResolvedCatalogTable
from lakewright.connectors.sinks import (
    SupportsOverwrite,
    SupportsPartitioning,
    SupportsStaging,
    SupportsWritingMetadata,
)
from lakewright.connectors.sources import (
    Aggregate,
    SupportsAggregatePushDown,
    SupportsFilterPushDown,
    SupportsLimitPushDown,
    SupportsPartitionPushDown,
    SupportsProjectionPushDown,
    SupportsReadingMetadata,
    SupportsSourceWatermark,
    SupportsWatermarkPushDown,
)
from lakewright.storage.errors import CorruptionError, UnsupportedError
from lakewright.storage.spec.data_types import DataField, parse_data_type
from lakewright.storage.spec.predicate import conjunction, conjuncts
from lakewright.storage.spec.table_distribution import (
    Kind,
    SupportsBucketing,
    TableDistribution,
    check_distribution,
)
from lakewright.storage.sql.where import parse_where


@dataclass(frozen=True)
class AbilitySpec(ABC):
    """One ability and what it was applied with; `ability` is its protocol."""

    ability: ClassVar[type]

    def apply(self, target: Any, table: ResolvedCatalogTable) -> None:
        """Apply it to a source or a sink.

        Raises:
            UnsupportedError: the connector does not have the ability any more.
        """
        if not isinstance(target, self.ability):
            raise UnsupportedError(
                f"a plan of {table.name} was made with {self.ability.__name__}, and its connector "
                f"{table.definition.connector} ({target.summary}) has no such ability; plan the "
                "statement again"
            )
        self._apply(target, table)

    @abstractmethod
    def _apply(self, target: Any, table: ResolvedCatalogTable) -> None:
        """Apply it to a source or a sink that has the ability."""

    def to_json(self) -> dict[str, Any]:
        return {"type": type(self).__name__.removesuffix("Spec"), **asdict(self)}


@dataclass(frozen=True)
class PartitionPushDownSpec(AbilitySpec):
    """The partitions that are read."""

    partitions: tuple[Mapping[str, str | None], ...]
    ability = SupportsPartitionPushDown

    def _apply(self, target: SupportsPartitionPushDown, table: ResolvedCatalogTable) -> None:
        target.apply_partitions([dict(partition) for partition in self.partitions])


@dataclass(frozen=True)
class FilterPushDownSpec(AbilitySpec):
    """`where` is the text of the filters that the source takes."""

    where: str
    ability = SupportsFilterPushDown

    def _apply(self, target: SupportsFilterPushDown, table: ResolvedCatalogTable) -> None:
        filters = conjuncts(parse_where(self.where, table.schema))
        found = target.apply_filters(filters)
        # Filters that it takes no more would let rows through that the plan does not look at.
        if conjunction(tuple(found.accepted)) != conjunction(tuple(filters)):
            raise UnsupportedError(
                f"a plan of {table.name} leaves `{self.where}` to its connector, which takes it "
                "no more; plan the statement again"
            )


@dataclass(frozen=True)
class ProjectionPushDownSpec(AbilitySpec):
    """The columns that are read."""

    columns: tuple[str, ...]
    ability = SupportsProjectionPushDown

    def _apply(self, target: SupportsProjectionPushDown, table: ResolvedCatalogTable) -> None:
        target.apply_projection([each.name for each in table.schema.fields_of(self.columns)])


@dataclass(frozen=True)
class _MetadataSpec(AbilitySpec):
    """`keys` of the table's metadata columns."""

    keys: tuple[str, ...]

    def _columns(self, table: ResolvedCatalogTable) -> list[tuple[str, DataField]]:
        return [each for each in table.metadata if each[0] in self.keys]


@dataclass(frozen=True)
class ReadingMetadataSpec(_MetadataSpec):
    """Metadata behind the columns of a source."""

    ability = SupportsReadingMetadata

    def _apply(self, target: SupportsReadingMetadata, table: ResolvedCatalogTable) -> None:
        target.apply_readable_metadata(self._columns(table))


@dataclass(frozen=True)
class AggregatePushDownSpec(AbilitySpec):
    """`aggregates`: function, column, and name and type of the output."""

    group_by: tuple[str, ...]
    aggregates: tuple[tuple[str, str | None, str, str], ...]
    ability = SupportsAggregatePushDown

    def asked(self) -> list[Aggregate]:
        return [
            Aggregate(function, column, DataField(at, name, parse_data_type(kind)))
            for at, (function, column, name, kind) in enumerate(self.aggregates)
        ]

    def _apply(self, target: SupportsAggregatePushDown, table: ResolvedCatalogTable) -> None:
        if not target.apply_aggregates(list(self.group_by), self.asked()):
            raise UnsupportedError(
                f"a plan of {table.name} leaves aggregates to its connector, which takes them no "
                "more; plan the statement again"
            )


@dataclass(frozen=True)
class LimitPushDownSpec(AbilitySpec):
    """The number of rows behind which a source may stop."""

    limit: int
    ability = SupportsLimitPushDown

    def _apply(self, target: SupportsLimitPushDown, table: ResolvedCatalogTable) -> None:
        target.apply_limit(self.limit)


@dataclass(frozen=True)
class WatermarkPushDownSpec(AbilitySpec):
    """A watermark by a column."""

    column: str
    delay_ms: int
    ability = SupportsWatermarkPushDown

    def _apply(self, target: SupportsWatermarkPushDown, table: ResolvedCatalogTable) -> None:
        target.apply_watermark(self.column, self.delay_ms)


@dataclass(frozen=True)
class SourceWatermarkSpec(AbilitySpec):
    """The source's own watermark."""

    ability = SupportsSourceWatermark

    def _apply(self, target: SupportsSourceWatermark, table: ResolvedCatalogTable) -> None:
        target.apply_source_watermark()


# --- of sinks -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OverwriteSpec(AbilitySpec):
    """Rows replace those that are there."""

    overwrite: bool = True
    ability = SupportsOverwrite

    def _apply(self, target: SupportsOverwrite, table: ResolvedCatalogTable) -> None:
        target.apply_overwrite(self.overwrite)


@dataclass(frozen=True)
class PartitioningSpec(AbilitySpec):
    """`partition` is the static one of a statement."""

    partition: Mapping[str, Any]
    ability = SupportsPartitioning

    def _apply(self, target: SupportsPartitioning, table: ResolvedCatalogTable) -> None:
        target.apply_static_partition(dict(self.partition))


@dataclass(frozen=True)
class BucketingSpec(AbilitySpec):
    """The sink's table is distributed; the connector says whether it can, of each plan anew."""

    kind: str
    bucket_count: int | None
    bucket_keys: tuple[str, ...]
    ability = SupportsBucketing

    def _apply(self, target: SupportsBucketing, table: ResolvedCatalogTable) -> None:
        spread = TableDistribution(Kind[self.kind], self.bucket_count, tuple(self.bucket_keys))
        check_distribution(spread, target, table.name)


@dataclass(frozen=True)
class WritingMetadataSpec(_MetadataSpec):
    """Metadata behind the columns of a sink."""

    ability = SupportsWritingMetadata

    def _apply(self, target: SupportsWritingMetadata, table: ResolvedCatalogTable) -> None:
        target.apply_writable_metadata(self._columns(table))


@dataclass(frozen=True)
class StagingSpec(AbilitySpec):
    """The table is made with its first rows."""

    ability = SupportsStaging

    def _apply(self, target: SupportsStaging, table: ResolvedCatalogTable) -> None:
        target.apply_staging()


_SPECS: Mapping[str, type[AbilitySpec]] = {
    each.__name__.removesuffix("Spec"): each
    for each in (
        PartitionPushDownSpec,
        FilterPushDownSpec,
        ProjectionPushDownSpec,
        ReadingMetadataSpec,
        AggregatePushDownSpec,
        LimitPushDownSpec,
        WatermarkPushDownSpec,
        SourceWatermarkSpec,
        OverwriteSpec,
        PartitioningSpec,
        BucketingSpec,
        WritingMetadataSpec,
        StagingSpec,
    )
}


def ability_of(found: Mapping[str, Any], table: str) -> AbilitySpec:
    """The ability that `to_json` wrote.

    Raises:
        CorruptionError: there is no such ability, or its parts are others.
    """
    parts = {name: _tuples(value) for name, value in found.items() if name != "type"}
    try:
        return _SPECS[found["type"]](**parts)
    except (KeyError, TypeError) as error:
        raise CorruptionError(
            f"a plan of {table} has no ability {dict(found)!r:.200}: {error}"
        ) from error


def _tuples(value: Any) -> Any:
    return tuple(_tuples(each) for each in value) if isinstance(value, list) else value
