"""Java Paimon 1.4.2 behind JSON lines: `client.start_java_latest` runs it in its environment.

It does what `java_driver` does, by the names that the later version has for it.
"""

# mypy: disable-error-code="import-untyped"

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .java_driver import JavaPaimon, RowEncoder, serve_java

UNLIMITED_BUCKETS = -1
# Where Paimon declares options of tables: those of its core, and those of its engines' catalogs.
OPTION_CLASSES = ("CoreOptions", "options.CatalogOptions")


def installed_jars() -> Sequence[Path]:
    return sorted((Path(sys.prefix) / "jars").glob("*.jar"))


class LatestRowEncoder(RowEncoder):
    def _put_bytes(self, writer: Any, index: int, value: bytes) -> None:
        writer.writeBinary(index, value, 0, len(value))


class LatestJavaPaimon(JavaPaimon):
    """The commands of `JavaPaimon`, and those that only the later version has."""

    names = f"{JavaPaimon.names} declared_options use_catalog tables drop rename"
    bucket_limit = (UNLIMITED_BUCKETS,)
    encoder = LatestRowEncoder

    def use_catalog(self, options: Mapping[str, str]) -> None:
        """Open catalogs with these options from now on."""
        self._catalog_options = dict(options)
        self._catalogs = {}

    def tables(self, warehouse: str, table: str) -> list[str]:
        """The tables of a database."""
        return sorted(self._catalog(warehouse).listTables(table))

    def drop(self, warehouse: str, table: str) -> None:
        self._catalog(warehouse).dropTable(self._identifier(table), False)

    def rename(self, warehouse: str, table: str, to: str) -> None:
        self._catalog(warehouse).renameTable(self._identifier(table), self._identifier(to), False)

    def declared_options(self) -> list[dict[str, Any]]:
        """Every option that a class of options declares, read from its constants."""
        found = []
        for name in OPTION_CLASSES:
            options = self._java.lang.Class.forName(f"org.apache.paimon.{name}")
            for field in options.getFields():
                if field.getType().getSimpleName() != "ConfigOption":
                    continue
                option = field.get(None)
                default = option.defaultValue()
                found.append(
                    {
                        "class": name,
                        "key": option.key(),
                        "fallbacks": [each.getKey() for each in option.fallbackKeys()],
                        "default": None if default is None else str(default),
                    }
                )
        return found

    def _partition_expire(self, table: Any) -> Any:
        return table.store().newPartitionExpire("an oracle", table)

    def _tag_manager(self, table: Any) -> Any:
        return table.newTagAutoManager()

    def _store_commit(self, table: Any) -> Any:
        return table.store().newCommit("java-oracle", table)

    def _orphans_removed(self, table: Any, older_than: str) -> Any:
        operation = self._paimon.operation
        bound = operation.OrphanFilesClean.olderThanMillis(older_than)
        return operation.LocalOrphanFilesClean(table, bound, False).clean().getDeletedFilesPath()

    def _compaction_task(self, partition: Any, files: list[Any]) -> Any:
        return self._paimon.append.AppendCompactTask(partition, files)

    def _compaction_write(self, table: Any) -> Any:
        """A write that keeps the ids of rows, as those of Flink and Spark do."""
        write = super()._compaction_write(table)
        if table.coreOptions().rowTrackingEnabled():
            fields = self._paimon.table.SpecialFields
            write.withWriteType(fields.rowTypeWithRowTracking(table.rowType()))
        return write

    def _schema_change(self, change: Mapping[str, Any]) -> Any:
        """A change of `JavaPaimon`, or one whose column is a path into nested rows."""
        make = self._paimon.schema.SchemaChange
        match change:
            case {"add_column": list(path), "type": declared}:
                return make.addColumn(self._path(path), self._data_type(declared), None, None)
            case {"drop_column": list(path)}:
                return make.dropColumn(self._path(path))
            case {"rename_column": list(path), "to": new_name}:
                return make.renameColumn(self._path(path), new_name)
            case {"update_type": list(path), "type": declared}:
                return make.updateColumnType(self._path(path), self._data_type(declared), False)
            case _:
                return super()._schema_change(change)

    def _path(self, names: Sequence[str]) -> Any:
        path = self._gateway.new_array(self._java.lang.String, len(names))
        for index, name in enumerate(names):
            path[index] = name
        return path


if __name__ == "__main__":
    serve_java(LatestJavaPaimon, installed_jars)
