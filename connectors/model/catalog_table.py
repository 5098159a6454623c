"""Catalog tables: the metadata of an external table, and their resolved form.

A definition is text and nouns alone. It is kept as JSON, and says nothing of whether its connector
is installed. Resolving it checks that its parts agree.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from lakewright.connectors.model.written_options import modern_options
from lakewright.storage.errors import CorruptionError, InvalidSchema
from lakewright.storage.spec.data_types import DataField, DataType, parse_data_type
from lakewright.storage.spec.flink_columns import UnstoredColumn, Watermark
from lakewright.storage.spec.schema import Column, SchemaSpec, TableSchema, new_schema
from lakewright.storage.spec.table_distribution import Kind, TableDistribution

CONNECTOR = "connector"
_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogTable:
    """The definition of a table; `builder` makes one step by step.

    `distribution` is None if the connector decides. `unstored` are its computed columns and those
    of metadata.
    """

    columns: tuple[Column, ...] = ()
    unstored: tuple[UnstoredColumn, ...] = ()
    watermark: Watermark | None = None
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str = ""
    distribution: TableDistribution | None = None

    @classmethod
    def builder(cls) -> CatalogTableBuilder:
        return CatalogTableBuilder()

    @property
    def connector(self) -> str | None:
        """The identifier of its connector; None for a managed table."""
        return modern_options(self.options).get(CONNECTOR)

    def copy(self, options: Mapping[str, str]) -> CatalogTable:
        """The table with other options."""
        return replace(self, options=dict(options))

    def resolve(self, name: str) -> ResolvedCatalogTable:
        """The table with its fields, checked.

        Raises:
            InvalidSchema: keys or the distribution name what is no physical column, or names
                repeat.
        """
        spec = SchemaSpec(
            columns=self.columns,
            partition_keys=self.partition_keys,
            primary_keys=self.primary_keys,
            options={**self.options, **self._unstored_options()},
            comment=self.comment,
        )
        schema = new_schema(spec, time_millis=0)
        names = [*schema.field_names, *(each.name for each in self.unstored)]
        repeated = [each for each in names if names.count(each) > 1]
        if repeated:
            raise InvalidSchema(f"{name} has column {repeated[0]} twice")
        keys = () if self.distribution is None else self.distribution.bucket_keys
        for key in keys:
            if key not in schema.field_names:
                is_other = any(each.name == key for each in self.unstored)
                what = "is computed or metadata" if is_other else "is no column"
                raise InvalidSchema(
                    f"{name} is distributed by {key}, which {what}; the physical columns are "
                    f"{', '.join(schema.field_names)}"
                )
        return ResolvedCatalogTable(name, self, schema)

    def _unstored_options(self) -> dict[str, str]:
        """Columns that are not stored and the watermark, as options of a schema hold them."""
        found = {name: text for each in self.unstored for name, text in each.options()}
        return found if self.watermark is None else found | dict(self.watermark.options())

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "version": _VERSION,
            "columns": [_column_json(column) for column in self.columns],
            "options": dict(self.options),
        }
        if self.unstored:
            data["unstored"] = [
                {name: getattr(each, name) for name in UnstoredColumn.__slots__}
                for each in self.unstored
            ]
        if self.watermark is not None:
            mark = self.watermark
            data["watermark"] = [mark.column, mark.expression, mark.type]
        if self.partition_keys:
            data["partitionKeys"] = list(self.partition_keys)
        if self.primary_keys:
            data["primaryKeys"] = list(self.primary_keys)
        if self.comment:
            data["comment"] = self.comment
        if self.distribution is not None:
            data["distribution"] = {
                "kind": self.distribution.kind.name,
                "bucketCount": self.distribution.bucket_count,
                "bucketKeys": list(self.distribution.bucket_keys),
            }
        return data

    @classmethod
    def from_json(cls, text: str | bytes | Mapping[str, Any], name: str) -> CatalogTable:
        """The table that `to_json` wrote.

        Raises:
            CorruptionError: the text is none.
        """
        try:
            data = text if isinstance(text, Mapping) else json.loads(text)
            if data["version"] != _VERSION:
                raise ValueError(f"version {data['version']}")
            mark, spread = data.get("watermark"), data.get("distribution")
            return cls(
                columns=tuple(_column_of(each) for each in data["columns"]),
                unstored=tuple(UnstoredColumn(**each) for each in data.get("unstored", ())),
                watermark=None if mark is None else Watermark(*mark),
                partition_keys=tuple(data.get("partitionKeys", ())),
                primary_keys=tuple(data.get("primaryKeys", ())),
                options=dict(data["options"]),
                comment=data.get("comment", ""),
                distribution=None
                if spread is None
                else TableDistribution(
                    Kind[spread["kind"]], spread["bucketCount"], tuple(spread["bucketKeys"])
                ),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptionError(f"the definition of {name} cannot be read: {error}") from error


@dataclass(frozen=True)
class ResolvedCatalogTable:
    """A definition whose parts agree: what connectors get."""

    name: str
    definition: CatalogTable
    schema: TableSchema

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The physical columns."""
        return self.schema.fields

    @cached_property
    def options(self) -> Mapping[str, str]:
        """The options by their present names."""
        return modern_options(self.definition.options)

    @property
    def distribution(self) -> TableDistribution | None:
        return self.definition.distribution

    @property
    def partition_keys(self) -> tuple[str, ...]:
        return self.definition.partition_keys

    @property
    def primary_keys(self) -> tuple[str, ...]:
        return self.definition.primary_keys

    @cached_property
    def metadata(self) -> tuple[tuple[str, DataField], ...]:
        """Columns of metadata: the key and the field of each, numbered behind the others."""
        first = self.schema.highest_field_id + 1
        return tuple(
            (each.metadata, DataField(first + at, each.name, parse_data_type(each.type)))
            for at, each in enumerate(self.definition.unstored)
            if each.metadata is not None
        )


class CatalogTableBuilder:
    """Makes a definition; `build` ends it."""

    def __init__(self) -> None:
        self._table = CatalogTable()

    def column(
        self, name: str, data_type: str | DataType, comment: str | None = None
    ) -> CatalogTableBuilder:
        kind = parse_data_type(data_type) if isinstance(data_type, str) else data_type
        return self._with(columns=(*self._table.columns, Column(name, kind, comment)))

    def partitioned_by(self, *columns: str) -> CatalogTableBuilder:
        return self._with(partition_keys=columns)

    def primary_key(self, *columns: str) -> CatalogTableBuilder:
        return self._with(primary_keys=columns)

    def distributed_by(self, distribution: TableDistribution | None) -> CatalogTableBuilder:
        return self._with(distribution=distribution)

    def option(self, name: str, value: str) -> CatalogTableBuilder:
        return self._with(options={**self._table.options, name: value})

    def options(self, options: Mapping[str, str]) -> CatalogTableBuilder:
        return self._with(options={**self._table.options, **options})

    def comment(self, text: str) -> CatalogTableBuilder:
        return self._with(comment=text)

    def build(self) -> CatalogTable:
        return self._table

    def _with(self, **parts: Any) -> CatalogTableBuilder:
        self._table = replace(self._table, **parts)
        return self


def _column_json(column: Column) -> dict[str, Any]:
    found: dict[str, Any] = {"name": column.name, "type": str(column.type)}
    if column.comment:
        found["comment"] = column.comment
    if column.default is not None:
        found["default"] = column.default
    return found


def _column_of(found: Mapping[str, Any]) -> Column:
    kind = parse_data_type(found["type"])
    return Column(found["name"], kind, found.get("comment"), found.get("default"))
