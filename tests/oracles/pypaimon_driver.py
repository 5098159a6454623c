"""pypaimon behind JSON lines: `client.start_pypaimon` runs it in its environment."""

# mypy: disable-error-code="import-not-found, import-untyped"

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pypaimon import CatalogFactory, Schema
from pypaimon.common.json_util import JSON
from pypaimon.manifest.manifest_file_manager import ManifestFileManager
from pypaimon.schema.data_types import AtomicInteger, DataTypeParser, PyarrowFieldParser
from pypaimon.schema.schema_change import Move, SchemaChange

from . import wire
from .arrow_values import arrow_table, canonical_rows, native_literal

Type = str | Mapping[str, Any]
Row = Mapping[str, Any]
Where = wire.Where

PREDICATES = {
    "=": "equal",
    "!=": "not_equal",
    "<": "less_than",
    "<=": "less_or_equal",
    ">": "greater_than",
    ">=": "greater_or_equal",
    "is null": "is_null",
    "is not null": "is_not_null",
}


class Pypaimon(wire.Client):
    """The commands."""

    names = """
        create alter read open read_opened planned_files write begin_write finish_write
        snapshots create_tag delete_tag rollback_to create_branch delete_branch fast_forward
        use_catalog update_columns
    """

    def __init__(self) -> None:
        # The table, writer and commit of a write that is under way.
        self._begun: tuple[Any, Any, Any] | None = None
        self._catalog_options: dict[str, str] = {}

    def use_catalog(self, options: Mapping[str, str]) -> None:
        """Open catalogs with these options from now on."""
        self._catalog_options = dict(options)

    def create(
        self,
        warehouse: str,
        table: str,
        fields: Sequence[Mapping[str, Any]],
        partition_keys: Sequence[str] = (),
        primary_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> None:
        ids = AtomicInteger(-1)
        schema = Schema(
            fields=[DataTypeParser.parse_data_field(dict(field), ids) for field in fields],
            partition_keys=list(partition_keys),
            primary_keys=list(primary_keys),
            options=dict(options or {}),
        )
        catalog = self._catalog(warehouse)
        catalog.create_database(table.split(".", 1)[0], True)
        catalog.create_table(table, schema, False)

    def alter(self, warehouse: str, table: str, changes: Sequence[Mapping[str, Any]]) -> None:
        self._catalog(warehouse).alter_table(table, [schema_change(change) for change in changes])

    def _read(self, source: Any, where: Where) -> list[dict[str, Any]]:
        builder = filtered(source.new_read_builder(), where)
        found = builder.new_read().to_arrow(builder.new_scan().plan().splits())
        return canonical_rows(found)

    def planned_files(self, warehouse: str, table: str, where: Where) -> dict[str, int]:
        builder = filtered(self._table(warehouse, table).new_read_builder(), where)
        return {
            file.file_name: file.file_size
            for split in builder.new_scan().plan().splits()
            for file in split.files
        }

    def write(
        self,
        warehouse: str,
        table: str,
        rows: Sequence[Row],
        kinds: Sequence[str] | None = None,
        overwrite: str | Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
        commit_user: str | None = None,
        commit_identifier: int | None = None,
    ) -> int | None:
        if kinds is not None and set(kinds) != {"+I"}:
            raise ValueError(
                "pypaimon takes row kinds only from a column, named by the option rowkind.field"
            )
        if commit_user is not None:
            raise ValueError("pypaimon chooses the commit user itself")
        dynamic_options = dict(options or {})
        if overwrite is not None:
            dynamic_options["dynamic-partition-overwrite"] = (
                "true" if overwrite == "dynamic" else "false"
            )
        target = self._table(warehouse, table)
        if dynamic_options:
            target = target.copy(dynamic_options)
        batch = commit_identifier is None
        builder = target.new_batch_write_builder() if batch else target.new_stream_write_builder()
        if overwrite is not None:
            spec = overwrite if isinstance(overwrite, Mapping) else {}
            builder = builder.overwrite(self._literals(target, spec))
        identifier = () if batch else (commit_identifier,)
        write, commit = builder.new_write(), builder.new_commit()
        try:
            if rows:
                write.write_arrow(
                    arrow_table(
                        rows, PyarrowFieldParser.from_paimon_schema(target.table_schema.fields)
                    )
                )
            commit.commit(write.prepare_commit(*identifier), *identifier)
        finally:
            write.close()
            commit.close()
        latest = target.snapshot_manager().get_latest_snapshot()
        return None if latest is None else latest.id

    def update_columns(
        self, warehouse: str, table: str, columns: Sequence[str], rows: Sequence[Row]
    ) -> None:
        """Give rows, by their `_ROW_ID`, new values of some columns, in files of their own."""
        target = self._table(warehouse, table)
        builder = target.new_batch_write_builder()
        schema = PyarrowFieldParser.from_paimon_schema(target.table_schema.fields)
        fields = [pa.field("_ROW_ID", pa.int64()), *(schema.field(name) for name in columns)]
        update = builder.new_update().with_update_type(list(columns))
        messages = update.update_by_arrow_with_row_id(arrow_table(rows, pa.schema(fields)))
        commit = builder.new_commit()
        try:
            commit.commit(messages)
        finally:
            commit.close()

    def begin_write(
        self,
        warehouse: str,
        table: str,
        rows: Sequence[Row],
        prepare: bool = False,
        overwrite: Mapping[str, str] | None = None,
    ) -> None:
        target = self._table(warehouse, table)
        if overwrite is not None:
            target = target.copy({"dynamic-partition-overwrite": "false"})
        builder = target.new_batch_write_builder()
        if overwrite is not None:
            builder = builder.overwrite(self._literals(target, overwrite))
        write = builder.new_write()
        self._begun = target, write, builder.new_commit()
        self._write_begun(rows)
        if prepare:
            write.prepare_commit()

    def finish_write(self, warehouse: str, table: str, rows: Sequence[Row]) -> int | None:
        assert self._begun is not None
        target, write, commit = self._begun
        try:
            self._write_begun(rows)
            commit.commit(write.prepare_commit())
        finally:
            self._begun = None
            write.close()
            commit.close()
        latest = target.snapshot_manager().get_latest_snapshot()
        return None if latest is None else latest.id

    def _literals(self, table: Any, spec: Mapping[str, str]) -> dict[str, Any]:
        schema = PyarrowFieldParser.from_paimon_schema(table.table_schema.fields)
        return {name: partition_literal(schema, name, text) for name, text in spec.items()}

    def _write_begun(self, rows: Sequence[Row]) -> None:
        assert self._begun is not None
        target, write, _ = self._begun
        schema = PyarrowFieldParser.from_paimon_schema(target.table_schema.fields)
        write.write_arrow(arrow_table(rows, schema))

    def snapshots(self, warehouse: str, table: str) -> list[dict[str, Any]]:
        found = self._table(warehouse, table).snapshot_manager().list_snapshots()
        return [json.loads(JSON.to_json(snapshot)) for snapshot in found]

    def create_tag(self, warehouse: str, table: str, tag: str, snapshot: int | None = None) -> None:
        self._table(warehouse, table).create_tag(tag, snapshot)

    def delete_tag(self, warehouse: str, table: str, tag: str) -> None:
        if not self._table(warehouse, table).delete_tag(tag):
            raise ValueError(f"no tag {tag}")

    def rollback_to(self, warehouse: str, table: str, target: int | str) -> None:
        self._table(warehouse, table).rollback_to(target)

    def create_branch(
        self, warehouse: str, table: str, branch: str, tag: str | None = None
    ) -> None:
        self._table(warehouse, table).branch_manager().create_branch(branch, tag)

    def delete_branch(self, warehouse: str, table: str, branch: str) -> None:
        self._table(warehouse, table).branch_manager().drop_branch(branch)

    def fast_forward(self, warehouse: str, table: str, branch: str) -> None:
        self._table(warehouse, table).branch_manager().fast_forward(branch)

    def _catalog(self, warehouse: str) -> Any:
        return CatalogFactory.create({"warehouse": warehouse, **self._catalog_options})

    def _table(self, warehouse: str, table: str, options: Mapping[str, str] | None = None) -> Any:
        found = self._catalog(warehouse).get_table(table)
        return found.copy(dict(options)) if options else found


def schema_change(change: Mapping[str, Any]) -> Any:
    match change:
        case {"add_column": name, "type": declared}:
            return SchemaChange.add_column(name, data_type(declared))
        case {"drop_column": name}:
            return SchemaChange.drop_column(name)
        case {"rename_column": name, "to": new_name}:
            return SchemaChange.rename_column(name, new_name)
        case {"update_type": name, "type": declared}:
            return SchemaChange.update_column_type(name, data_type(declared))
        case {"move_first": name}:
            return SchemaChange.update_column_position(Move.first(name))
        case {"set_option": key, "value": value}:
            return SchemaChange.set_option(key, value)
        case {"remove_option": key}:
            return SchemaChange.remove_option(key)
        case _:
            raise ValueError(f"unknown schema change {change}")


def data_type(declared: Type) -> Any:
    return DataTypeParser.parse_data_type(declared, AtomicInteger(-1))


def filtered(builder: Any, where: Where) -> Any:
    """A read builder with a filter, if there is one."""
    if not where:
        return builder
    schema = PyarrowFieldParser.from_paimon_schema(builder.read_type())
    return builder.with_filter(predicate(builder.new_predicate_builder(), schema, where))


def predicate(builder: Any, schema: pa.Schema, where: Where) -> Any:
    leaves = []
    for column, operator, *literals in where:
        values = [native_literal(literal, schema.field(column).type) for literal in literals]
        leaves.append(getattr(builder, PREDICATES[operator])(column, *values))
    return builder.and_predicates(leaves)


def partition_literal(schema: pa.Schema, name: str, text: str) -> Any:
    """The typed value of a partition that is given as text."""
    column_type = schema.field(name).type
    if pa.types.is_boolean(column_type):
        return text == "true"
    if pa.types.is_integer(column_type):
        return int(text)
    return native_literal(text, column_type)


def read_manifests_of_java_0_9() -> None:
    """Let manifests lack _VALUE_STATS_COLS, which says that statistics cover every column."""
    unpatched = ManifestFileManager._get_value_stats_fields

    def value_stats_fields(self: Any, file_dict: dict[str, Any], file_schema: Any) -> Any:
        file_dict.setdefault("_VALUE_STATS_COLS", None)
        return unpatched(self, file_dict, file_schema)

    ManifestFileManager._get_value_stats_fields = value_stats_fields


def main() -> None:
    answers = wire.take_over_stdout()
    parser = argparse.ArgumentParser(description="serve pypaimon on standard input and output")
    parser.add_argument(
        "--read-java-0.9", action="store_true", dest="read_java_0_9", help="mend one known defect"
    )
    if parser.parse_args().read_java_0_9:
        read_manifests_of_java_0_9()
    wire.serve(Pypaimon().commands(), answers)


if __name__ == "__main__":
    main()
