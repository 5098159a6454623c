"""Java Paimon behind JSON lines: `client.start_java` runs it in its environment.

Rows leave Java in bulk, as BinaryRow bytes; what is written goes through Java's own writers.
"""

# mypy: disable-error-code="import-untyped"

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, JavaPackage, launch_gateway
from py4j.protocol import Py4JError, Py4JJavaError

from . import canonical, wire
from .binary_rows import (
    BYTES,
    COMPACT_DECIMAL,
    COMPACT_TIMESTAMP,
    TEXT,
    decode_changes,
    decode_rows,
)
from .canonical import ValueType, parse_type

HADOOP_JARS = (
    "hadoop-client-api-*.jar",
    "hadoop-client-runtime-*.jar",
    "commons-logging-*.jar",
    "jcl-over-slf4j-*.jar",
    "slf4j-api-*.jar",
)
# With these, a catalog in Hive's metastore opens too.
HIVE_JARS = (
    "hive-*.jar",
    "libfb303-*.jar",
    "libthrift-*.jar",
    "commons-collections-*.jar",
    "commons-lang*.jar",
    "failureaccess-*.jar",
    "guava-*.jar",
)
JVM_OPTIONS = [
    "-Xmx1g",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Duser.timezone=UTC",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
]
# How BinaryRowWriter takes the values of a type, and what makes them from canonical ones.
SCALARS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "BOOLEAN": ("writeBoolean", bool),
    "TINYINT": ("writeByte", int),
    "SMALLINT": ("writeShort", int),
    "INT": ("writeInt", int),
    "BIGINT": ("writeLong", int),
    "FLOAT": ("writeFloat", canonical.parse_float),
    "DOUBLE": ("writeDouble", canonical.parse_float),
    "DATE": ("writeInt", canonical.parse_date),
    "TIME": ("writeInt", canonical.parse_time),
}
ROW_KINDS = {"+I": 0, "-U": 1, "+U": 2, "-D": 3}
BATCH_IDENTIFIER = 2**63 - 1

Type = str | Mapping[str, Any]
Row = Mapping[str, Any]
Where = wire.Where

PREDICATES = {
    "=": "Equal",
    "!=": "NotEqual",
    "<": "LessThan",
    "<=": "LessOrEqual",
    ">": "GreaterThan",
    ">=": "GreaterOrEqual",
    "is null": "IsNull",
    "is not null": "IsNotNull",
}


def jars_of_pypaimon() -> list[Path]:
    package = find_spec("pypaimon")
    assert package is not None
    assert package.submodule_search_locations
    return sorted(Path(package.submodule_search_locations[0]).glob("jars/*.jar"))


def start_gateway(paimon_jars: Sequence[Path], hadoop_jars: Path, scratch: Path) -> JavaGateway:
    jars = list(paimon_jars)
    for pattern in (*HADOOP_JARS, *HIVE_JARS):
        jars += sorted(hadoop_jars.glob(pattern))
    port, token = launch_gateway(
        classpath=":".join(map(str, jars)),
        javaopts=[*JVM_OPTIONS, f"-XX:ErrorFile={scratch}/crash.log"],
        die_on_exit=True,
        redirect_stdout=sys.stderr,
        redirect_stderr=sys.stderr,
        enable_auth=True,
    )
    parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True)
    return JavaGateway(gateway_parameters=parameters)


def answers_calls(gateway: JavaGateway) -> bool:
    """Whether the JVM lives: Paimon reads rows by address, so malformed statistics can crash it."""
    try:
        gateway.jvm.java.lang.System.nanoTime()
    except (Py4JError, OSError):
        return False
    return True


class Names:
    """A Java package whose names are each asked for once: asking is a round trip."""

    def __init__(self, package: Any) -> None:
        self._package = package

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._package, name)
        known = Names(found) if isinstance(found, JavaPackage) else found
        setattr(self, name, known)
        return known


class RowEncoder:
    """Canonical values as Java rows of one type, written by Java's BinaryRowWriter."""

    def __init__(self, paimon: Any, java: Any, row_type: Any) -> None:
        self._paimon = paimon
        self._java = java
        self._fields = [self._field(field) for field in row_type.getFields()]
        self._nested: dict[ValueType, RowEncoder] = {}
        self._row = paimon.data.BinaryRow(len(self._fields))
        self._writer = paimon.data.BinaryRowWriter(self._row)

    def _field(self, field: Any) -> tuple[str, ValueType, Any]:
        declared = json.loads(self._paimon.utils.JsonSerdeUtil.toFlatJson(field))
        return declared["name"], parse_type(declared["type"]), field.type()

    def encode(self, values: Row, kind: int = 0) -> Any:
        """A BinaryRow, good until the next call; columns that `values` lacks are null."""
        unknown = values.keys() - {name for name, _, _ in self._fields}
        if unknown:
            raise ValueError(f"no such columns: {', '.join(sorted(unknown))}")
        row, writer = self._row, self._writer
        writer.reset()
        for index, (name, value_type, data_type) in enumerate(self._fields):
            value = values.get(name)
            if value is None:
                self._put_null(writer, index, value_type)
            else:
                self._put(writer, index, value, value_type, data_type)
        writer.complete()
        if kind:
            row.setRowKind(self._paimon.types.RowKind.fromByteValue(kind))
        return row

    def _put_null(self, writer: Any, index: int, value_type: ValueType) -> None:
        # Wide decimals and timestamps reserve their variable part even when null.
        if value_type.root == "DECIMAL" and value_type.precision > COMPACT_DECIMAL:
            writer.writeDecimal(index, None, value_type.precision)
        elif (
            value_type.root in ("TIMESTAMP", "TIMESTAMP_LTZ")
            and value_type.precision > COMPACT_TIMESTAMP
        ):
            writer.writeTimestamp(index, None, value_type.precision)
        else:
            writer.setNullAt(index)

    def _put(
        self, writer: Any, index: int, value: Any, value_type: ValueType, data_type: Any
    ) -> None:
        paimon, root = self._paimon, value_type.root
        if root in SCALARS:
            method, convert = SCALARS[root]
            getattr(writer, method)(index, convert(value))
            return
        if root in BYTES:
            self._put_bytes(writer, index, bytes.fromhex(value))
            return
        if root in TEXT:
            writer.writeString(index, paimon.data.BinaryString.fromString(value))
            return
        match root:
            case "DECIMAL":
                precision = value_type.precision
                number = self._java.math.BigDecimal(value)
                decimal = paimon.data.Decimal.fromBigDecimal(number, precision, value_type.scale)
                writer.writeDecimal(index, decimal, precision)
            case "TIMESTAMP" | "TIMESTAMP_LTZ":
                parts = canonical.parse_timestamp(value)
                moment = paimon.data.Timestamp.fromEpochMillis(*parts)
                writer.writeTimestamp(index, moment, value_type.precision)
            case "ARRAY":
                element = data_type.getElementType()
                serializer = paimon.data.serializer.InternalArraySerializer(element)
                array = self._array(value, value_type.element, element)
                writer.writeArray(index, array, serializer)
            case "MAP":
                self._put_map(writer, index, value, value_type, data_type)
            case "ROW":
                serializer = paimon.data.serializer.InternalRowSerializer(data_type)
                nested = self._nested_encoder(value_type, data_type)
                writer.writeRow(index, nested.encode(value), serializer)
            case _:
                raise ValueError(f"cannot write values of type {root}")

    def _nested_encoder(self, value_type: ValueType, data_type: Any) -> RowEncoder:
        nested = self._nested.get(value_type)
        if nested is None:
            nested = self._nested[value_type] = type(self)(self._paimon, self._java, data_type)
        return nested

    def _put_bytes(self, writer: Any, index: int, value: bytes) -> None:
        writer.writeBinary(index, value)

    def _put_map(
        self, writer: Any, index: int, value: Any, value_type: ValueType, data_type: Any
    ) -> None:
        multiset = data_type.getTypeRoot().toString() == "MULTISET"
        key = data_type.getElementType() if multiset else data_type.getKeyType()
        element = self._paimon.types.IntType(False) if multiset else data_type.getValueType()
        keys = self._array([pair[0] for pair in value], value_type.key, key)
        values = self._array([pair[1] for pair in value], value_type.element, element)
        serializer = self._paimon.data.serializer.InternalMapSerializer(key, element)
        writer.writeMap(index, self._paimon.data.BinaryMap.valueOf(keys, values), serializer)

    def _array(self, values: Sequence[Any], value_type: ValueType | None, data_type: Any) -> Any:
        assert value_type is not None
        binary_array = self._paimon.data.BinaryArray
        array = binary_array()
        width = binary_array.calculateFixLengthPartSize(data_type)
        writer = self._paimon.data.BinaryArrayWriter(array, len(values), width)
        for index, value in enumerate(values):
            if value is None:
                writer.setNullAt(index, data_type)
            else:
                self._put(writer, index, value, value_type, data_type)
        writer.complete()
        return array


class JavaPaimon(wire.Client):
    """The commands, over one JVM, as Java Paimon 0.9.0 has them."""

    names = """
        create alter read open read_opened planned_files changes lookup statistics analyze
        write begin_write finish_write begin_compact finish_compact compact snapshots
        expire_snapshots expire_changelogs expire_partitions maintain_tags create_tag
        delete_tag rollback_to create_branch delete_branch fast_forward remove_orphan_files
        binary_row
    """
    # What a bucket assigner takes after the number of rows.
    bucket_limit: tuple[int, ...] = ()
    encoder: type[RowEncoder] = RowEncoder

    def __init__(self, gateway: JavaGateway, scratch: Path) -> None:
        self._gateway = gateway
        self._java = Names(gateway.jvm.java)
        self._paimon = Names(gateway.jvm.org.apache.paimon)
        # By warehouse, and by row type as Java prints it.
        self._catalogs: dict[str, Any] = {}
        self._catalog_options: dict[str, str] = {}
        self._value_types: dict[str, ValueType] = {}
        self._encoders: dict[str, RowEncoder] = {}
        self._sinks: dict[str, Any] = {}
        # The table, writer and commit of a write that is under way.
        self._begun: tuple[Any, Any, Any, Callable[[Any], int] | None] | None = None
        # The table, commit and messages of a compaction that is under way, and whether in a batch.
        self._compacted: tuple[Any, Any, Any, bool] | None = None
        self._loader = self._java.lang.ClassLoader.getSystemClassLoader()
        self._io_manager = self._paimon.disk.IOManager.create(str(scratch))

    def create(
        self,
        warehouse: str,
        table: str,
        fields: Sequence[Mapping[str, Any]],
        partition_keys: Sequence[str] = (),
        primary_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> None:
        builder = self._paimon.schema.Schema.newBuilder()
        for field in fields:
            builder.column(field["name"], self._data_type(field["type"]))
        builder.partitionKeys(list(partition_keys))
        builder.primaryKey(list(primary_keys))
        builder.options(dict(options or {}))
        catalog = self._catalog(warehouse)
        catalog.createDatabase(table.split(".", 1)[0], True)
        catalog.createTable(self._identifier(table), builder.build(), False)

    def alter(self, warehouse: str, table: str, changes: Sequence[Mapping[str, Any]]) -> None:
        self._catalog(warehouse).alterTable(
            self._identifier(table), [self._schema_change(change) for change in changes], False
        )

    def _read(self, source: Any, where: Where) -> list[dict[str, Any]]:
        row_type = self._row_type(source)
        # Format tables have a builder of their own; the gateway sees no default method of others.
        is_format_table = "FormatTable" in source.getClass().getSimpleName()
        builder = (
            source.newReadBuilder()
            if is_format_table
            else self._paimon.table.source.ReadBuilderImpl(source)
        )
        for condition in where:
            builder.withFilter(self._predicate(row_type, *condition))
        table_read = builder.newRead().withIOManager(self._io_manager)
        if where:
            self._invoke(self._paimon.table.source.TableRead, "executeFilter", table_read)
        data = self._rows_of(table_read, builder.newScan().plan(), row_type)
        return list(decode_rows(data, self._value_type(row_type)))

    def planned_files(self, warehouse: str, table: str, where: Where) -> dict[str, int]:
        source = self._table(warehouse, table)
        row_type = self._row_type(source)
        builder = self._paimon.table.source.ReadBuilderImpl(source)
        for condition in where:
            builder.withFilter(self._predicate(row_type, *condition))
        return {
            file.fileName(): int(file.fileSize())
            for split in builder.newScan().plan().splits()
            for file in split.dataFiles()
        }

    def changes(
        self,
        warehouse: str,
        table: str,
        first: int,
        last: int,
        options: Mapping[str, str] | None = None,
    ) -> list[list[Any]]:
        """What a streaming reader gets of snapshots `first` to `last`: [snapshot, kind, row]."""
        source = self._table(warehouse, table, options)
        row_type = self._row_type(source)
        value_type = self._value_type(row_type)
        builder = self._paimon.table.source.ReadBuilderImpl(source)
        table_read = builder.newRead().withIOManager(self._io_manager)
        scan = builder.newStreamScan()
        scan.restore(first)
        kinds = list(ROW_KINDS)
        found: list[list[Any]] = []
        while True:
            plan = scan.plan()
            following = scan.checkpoint()
            read_up_to = last if following is None else int(following) - 1
            if read_up_to > last:
                return found
            data = self._rows_of(table_read, plan, row_type)
            found += [
                [read_up_to, kinds[kind], row] for kind, row in decode_changes(data, value_type)
            ]
            if read_up_to >= last:
                return found

    def lookup(
        self, warehouse: str, table: str, keys: Sequence[Row]
    ) -> list[dict[str, Any] | None]:
        """Rows by their primary keys, found as lookup joins find them: without a scan."""
        source = self._table(warehouse, table)
        row_type = self._row_type(source)
        query = source.newLocalTableQuery().withIOManager(self._io_manager)
        try:
            for split in source.newSnapshotReader().read().dataSplits():
                query.refreshFiles(split.partition(), split.bucket(), [], split.dataFiles())
            extractor = source.createRowKeyExtractor()
            encoder = self._encoder(row_type)
            return [self._found(query, extractor, encoder.encode(key), row_type) for key in keys]
        finally:
            query.close()

    def _found(self, query: Any, extractor: Any, key: Any, row_type: Any) -> dict[str, Any] | None:
        extractor.setRecord(key)
        found = query.lookup(
            extractor.partition(), extractor.bucket(), extractor.trimmedPrimaryKey()
        )
        if found is None:
            return None
        rows = self._paimon.io.DataOutputSerializer(1 << 10)
        self._row_sink(row_type, rows).accept(found)
        return next(decode_rows(bytes(rows.getCopyOfBuffer()), self._value_type(row_type)))

    def statistics(self, warehouse: str, table: str) -> dict[str, Any] | None:
        """The statistics of the latest snapshot that has any, as Java's optimizers get them."""
        source = self._table(warehouse, table)
        found = self._invoke(self._paimon.table.Table, "statistics", source)
        if not found.isPresent():
            return None
        statistics = found.get()
        statistics.serializeFieldsToString(source.schema())
        parsed: dict[str, Any] = json.loads(statistics.toJson())
        return parsed

    def analyze(
        self,
        warehouse: str,
        table: str,
        merged_record_count: int,
        merged_record_size: int,
        columns: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> int | None:
        """Commit statistics of the latest snapshot, those of columns as their file holds them."""
        target = self._table(warehouse, table)
        snapshot = target.snapshotManager().latestSnapshot()
        text = {
            "snapshotId": snapshot.id(),
            "schemaId": target.schema().id(),
            "mergedRecordCount": merged_record_count,
            "mergedRecordSize": merged_record_size,
            "colStats": columns or {},
        }
        statistics = self._paimon.stats.Statistics.fromJson(json.dumps(text))
        # There and back, so that what is published is what Java itself makes of the values.
        statistics.deserializeFieldsFromString(target.schema())
        statistics.serializeFieldsToString(target.schema())
        commit = self._store_commit(target)
        try:
            commit.commitStatistics(statistics, BATCH_IDENTIFIER)
        finally:
            commit.close()
        return self._latest_snapshot(target)

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
        """Write and commit; `overwrite` is "dynamic", "table" or a static partition."""
        dynamic_options = dict(options or {})
        if overwrite is not None:
            dynamic_options["dynamic-partition-overwrite"] = (
                "true" if overwrite == "dynamic" else "false"
            )
        target = self._table(warehouse, table, dynamic_options)
        partition = dict(overwrite) if isinstance(overwrite, Mapping) else {}
        encoder = self._encoder(self._row_type(target))
        if commit_user is None and commit_identifier is None:
            builder = self._paimon.table.sink.BatchWriteBuilderImpl(target)
            if overwrite is not None:
                builder.withOverwrite(partition)
            with self._closing(builder.newWrite(), builder.newCommit()) as (write, commit):
                bucket_of = self._bucket_assigner(target, overwrite is not None)
                self._write_rows(write, encoder, rows, kinds, bucket_of)
                commit.commit(write.prepareCommit())
        else:
            identifier = BATCH_IDENTIFIER if commit_identifier is None else commit_identifier
            user = commit_user or "java-oracle"
            with self._closing(target.newWrite(user), target.newCommit(user)) as (write, commit):
                if overwrite is not None:
                    write.withIgnorePreviousFiles(True)
                    commit.withOverwrite(partition)
                bucket_of = self._bucket_assigner(target, overwrite is not None)
                self._write_rows(write, encoder, rows, kinds, bucket_of)
                commit.commit(identifier, write.prepareCommit(True, identifier))
        return self._latest_snapshot(target)

    def begin_write(
        self,
        warehouse: str,
        table: str,
        rows: Sequence[Row],
        prepare: bool = False,
        overwrite: Mapping[str, str] | None = None,
    ) -> None:
        options = {} if overwrite is None else {"dynamic-partition-overwrite": "false"}
        target = self._table(warehouse, table, options)
        builder = self._paimon.table.sink.BatchWriteBuilderImpl(target)
        if overwrite is not None:
            builder.withOverwrite(dict(overwrite))
        write, commit = builder.newWrite(), builder.newCommit()
        bucket_of = self._bucket_assigner(target, overwrite is not None)
        self._begun = target, write, commit, bucket_of
        self._write_rows(write, self._encoder(self._row_type(target)), rows, None, bucket_of)
        if prepare:
            write.prepareCommit()

    def finish_write(self, warehouse: str, table: str, rows: Sequence[Row]) -> int | None:
        assert self._begun is not None
        (target, write, commit, bucket_of), self._begun = self._begun, None
        with self._closing(write, commit):
            self._write_rows(write, self._encoder(self._row_type(target)), rows, None, bucket_of)
            commit.commit(write.prepareCommit())
        return self._latest_snapshot(target)

    def compact(
        self,
        warehouse: str,
        table: str,
        partition: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
        full: bool = True,
        bucket: int | None = None,
    ) -> int | None:
        """Compact every bucket, or every partition of an append table without buckets."""
        target = self._table(warehouse, table, {"write-only": "false", **(options or {})})
        snapshot_reader = target.newSnapshotReader()
        if partition is not None:
            snapshot_reader.withPartitionFilter(dict(partition))
        splits = snapshot_reader.read().dataSplits()
        if self._bucket_mode(target) == "BUCKET_UNAWARE":
            self._compact_unaware(target, splits)
        else:
            builder = self._paimon.table.sink.BatchWriteBuilderImpl(target)
            with self._closing(builder.newWrite(), builder.newCommit()) as (write, commit):
                write.withIOManager(self._io_manager)
                for _, number, data_split in self._buckets(splits):
                    if bucket is None or bucket == number:
                        write.compact(data_split.partition(), number, full)
                commit.commit(write.prepareCommit())
        return self._latest_snapshot(target)

    def begin_compact(self, warehouse: str, table: str) -> None:
        """Rewrite every bucket, as a dedicated compaction does, and commit nothing."""
        target = self._table(warehouse, table, {"write-only": "false"})
        splits = target.newSnapshotReader().read().dataSplits()
        if self._bucket_mode(target) == "BUCKET_UNAWARE":
            messages = self._compacted_unaware(target, splits)
            self._compacted = target, target.newCommit("java-oracle"), messages, False
            return
        builder = self._paimon.table.sink.BatchWriteBuilderImpl(target)
        write, commit = builder.newWrite(), builder.newCommit()
        try:
            write.withIOManager(self._io_manager)
            for _, number, data_split in self._buckets(splits):
                write.compact(data_split.partition(), number, True)
            self._compacted = target, commit, write.prepareCommit(), True
        finally:
            write.close()

    def finish_compact(self, warehouse: str, table: str) -> int | None:
        assert self._compacted is not None
        (target, commit, messages, is_batch), self._compacted = self._compacted, None
        try:
            if is_batch:
                commit.commit(messages)
            else:
                commit.commit(BATCH_IDENTIFIER, messages)
        finally:
            commit.close()
        return self._latest_snapshot(target)

    def snapshots(self, warehouse: str, table: str) -> list[dict[str, Any]]:
        """Snapshot files as Java understood them, oldest first."""
        manager = self._table(warehouse, table).snapshotManager()
        found = manager.snapshots()
        parsed = []
        while found.hasNext():
            parsed.append(json.loads(found.next().toJson()))
        return sorted(parsed, key=lambda snapshot: snapshot["id"])

    def expire_snapshots(
        self,
        warehouse: str,
        table: str,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than_ms: int | None = None,
        changelog_retain_min: int | None = None,
    ) -> int:
        """Expire what the counts allow; `older_than_ms` is a wall-clock bound, now if absent.

        A count of changelogs lets those outlive their snapshots.
        """
        config = self._paimon.options.ExpireConfig.builder()
        if changelog_retain_min is not None:
            config.changelogRetainMin(changelog_retain_min)
        if retain_max is not None:
            config.snapshotRetainMax(retain_max)
        if retain_min is not None:
            config.snapshotRetainMin(retain_min)
        # Java expires what is strictly older than now minus the retained time.
        retained_ms = -1 if older_than_ms is None else int(time.time() * 1000) - older_than_ms
        config.snapshotTimeRetain(self._java.time.Duration.ofMillis(retained_ms))
        expire = self._table(warehouse, table).newExpireSnapshots()
        return int(expire.config(config.build()).expire())

    def expire_changelogs(self, warehouse: str, table: str, retain_min: int) -> int:
        """Expire long-lived changelogs beyond a number of commits, however young."""
        config = self._paimon.options.ExpireConfig.builder()
        config.changelogRetainMin(retain_min).changelogRetainMax(retain_min)
        config.changelogTimeRetain(self._java.time.Duration.ofMillis(-1))
        expire = self._table(warehouse, table).newExpireChangelog()
        return int(expire.config(config.build()).expire())

    def expire_partitions(self, warehouse: str, table: str) -> list[dict[str, str]]:
        """Expire partitions as the table's options say; which."""
        # A number of 64 bits, so that the gateway finds the method.
        expired = self._partition_expire(self._table(warehouse, table)).expire(2**40)
        return [dict(each) for each in expired or ()]

    def create_tag(
        self,
        warehouse: str,
        table: str,
        tag: str,
        snapshot: int | None = None,
        time_retained_ms: int | None = None,
    ) -> None:
        target = self._table(warehouse, table)
        arguments: list[Any] = [] if snapshot is None else [snapshot]
        if time_retained_ms is not None:
            arguments.append(self._java.time.Duration.ofMillis(time_retained_ms))
        target.createTag(tag, *arguments)

    def maintain_tags(
        self, warehouse: str, table: str, options: Mapping[str, str] | None = None
    ) -> None:
        """Make the automatic tags that are due, and delete those whose time is over."""
        self._tag_manager(self._table(warehouse, table, options)).run()

    def delete_tag(self, warehouse: str, table: str, tag: str) -> None:
        self._table(warehouse, table).deleteTag(tag)

    def rollback_to(self, warehouse: str, table: str, target: int | str) -> None:
        """Roll back to a snapshot id, or to a tag by its name."""
        self._table(warehouse, table).rollbackTo(target)

    def create_branch(
        self, warehouse: str, table: str, branch: str, tag: str | None = None
    ) -> None:
        target = self._table(warehouse, table)
        if tag is None:
            target.createBranch(branch)
        else:
            target.createBranch(branch, tag)

    def delete_branch(self, warehouse: str, table: str, branch: str) -> None:
        self._table(warehouse, table).deleteBranch(branch)

    def fast_forward(self, warehouse: str, table: str, branch: str) -> None:
        self._table(warehouse, table).fastForward(branch)

    def remove_orphan_files(self, warehouse: str, table: str, older_than: str) -> list[str]:
        """Delete unreferenced files older than a UTC time like "2024-01-01 00:00:00"; which."""
        removed = self._orphans_removed(self._table(warehouse, table), older_than)
        return sorted(path.toString() for path in removed)

    def binary_row(self, types: Sequence[Type], values: Sequence[Any]) -> dict[str, Any]:
        """Serialised bytes and hash of one row, as manifests and bucket assignment use them."""
        names = [f"f{index}" for index in range(len(types))]
        fields = [self._data_type(declared) for declared in types]
        encoder = self._encoder(self._row_of(fields))
        row = encoder.encode(dict(zip(names, values, strict=True)))
        return {
            "hex": bytes(self._paimon.utils.SerializationUtils.serializeBinaryRow(row)).hex(),
            "hash": row.hashCode(),
        }

    # What later versions call otherwise.

    def _tag_manager(self, table: Any) -> Any:
        return table.store().newTagCreationManager()

    def _store_commit(self, table: Any) -> Any:
        return table.store().newCommit("java-oracle")

    def _orphans_removed(self, table: Any, older_than: str) -> Any:
        return self._paimon.operation.OrphanFilesClean(table).olderThan(older_than).clean()

    def _partition_expire(self, table: Any) -> Any:
        return table.store().newPartitionExpire("an oracle")

    def _compaction_task(self, partition: Any, files: list[Any]) -> Any:
        return self._paimon.append.UnawareAppendCompactionTask(partition, files)

    def _catalog(self, warehouse: str) -> Any:
        if warehouse not in self._catalogs:
            named = {"warehouse": warehouse, "cache-enabled": "false", **self._catalog_options}
            options = self._paimon.options.Options(named)
            context = self._paimon.catalog.CatalogContext.create(options)
            made = self._paimon.catalog.CatalogFactory.createCatalog(context)
            self._catalogs = {warehouse: made}
        return self._catalogs[warehouse]

    def _identifier(self, table: str) -> Any:
        return self._paimon.catalog.Identifier.fromString(table)

    def _table(self, warehouse: str, table: str, options: Mapping[str, str] | None = None) -> Any:
        found = self._catalog(warehouse).getTable(self._identifier(table))
        return found.copy(dict(options)) if options else found

    def _row_type(self, table: Any) -> Any:
        return self._invoke(self._paimon.table.Table, "rowType", table)

    def _latest_snapshot(self, table: Any) -> int | None:
        latest = table.snapshotManager().latestSnapshotId()
        return None if latest is None else int(latest)

    def _data_type(self, declared: Type) -> Any:
        field = json.dumps({"id": 0, "name": "f", "type": with_field_ids(declared)})
        data_field = self._paimon.types.DataField
        return self._paimon.utils.JsonSerdeUtil.fromJson(field, data_field._java_lang_class).type()

    def _row_of(self, types: Sequence[Any]) -> Any:
        array = self._gateway.new_array(self._paimon.types.DataType, len(types))
        for index, data_type in enumerate(types):
            array[index] = data_type
        return self._paimon.types.RowType.of(array)

    def _schema_change(self, change: Mapping[str, Any]) -> Any:
        make = self._paimon.schema.SchemaChange
        match change:
            case {"add_column": name, "type": declared}:
                return make.addColumn(name, self._data_type(declared))
            case {"drop_column": name}:
                return make.dropColumn(name)
            case {"rename_column": name, "to": new_name}:
                return make.renameColumn(name, new_name)
            case {"update_type": name, "type": declared}:
                return make.updateColumnType(name, self._data_type(declared))
            case {"move_first": name}:
                return make.updateColumnPosition(make.Move.first(name))
            case {"set_option": key, "value": value}:
                return make.setOption(key, value)
            case {"remove_option": key}:
                return make.removeOption(key)
            case _:
                raise ValueError(f"unknown schema change {change}")

    def _invoke(self, interface: Any, method: str, target: Any, *arguments: tuple[Any, Any]) -> Any:
        """Call a method by the interface that declares it: py4j does not see default methods.

        Each argument goes with the class of its parameter.
        """
        classes = self._gateway.new_array(self._java.lang.Class, len(arguments))
        values = self._gateway.new_array(self._java.lang.Object, len(arguments))
        for index, (parameter, value) in enumerate(arguments):
            classes[index] = parameter._java_lang_class
            values[index] = value
        return interface._java_lang_class.getMethod(method, classes).invoke(target, values)

    def _predicate(self, row_type: Any, column: str, operator: str, literal: Any = None) -> Any:
        index = row_type.getFieldIndex(column)
        column_type = row_type.getTypeAt(index)
        # The literal goes through a row, since py4j would turn a boxed long back into a Python int.
        encoder = self._encoder(row_type)
        row = encoder.encode({column: literal})
        values = self._paimon.utils.RowDataToObjectArrayConverter(row_type).convert(row)
        # By constructor, because py4j wraps the argument of Arrays.asList once more.
        literals = self._java.util.concurrent.CopyOnWriteArrayList(values)
        literals = literals.subList(index, index if literal is None else index + 1)
        function = getattr(self._paimon.predicate, PREDICATES[operator]).INSTANCE
        return self._paimon.predicate.LeafPredicate(function, column_type, index, column, literals)

    def _rows_of(self, table_read: Any, plan: Any, row_type: Any) -> bytes:
        """The rows of a plan, each after its length."""
        rows = self._paimon.io.DataOutputSerializer(1 << 16)
        sink = self._row_sink(row_type, rows)
        for split in plan.splits():
            self._invoke(
                self._paimon.reader.RecordReader,
                "forEachRemaining",
                table_read.createReader(split),
                (self._java.util.function.Consumer, sink),
            )
        return bytes(rows.getCopyOfBuffer())

    def _value_type(self, row_type: Any) -> ValueType:
        printed = row_type.toString()
        if printed not in self._value_types:
            fields = [
                json.loads(self._paimon.utils.JsonSerdeUtil.toFlatJson(field))
                for field in row_type.getFields()
            ]
            self._value_types[printed] = parse_type({"type": "ROW", "fields": fields})
        return self._value_types[printed]

    def _encoder(self, row_type: Any) -> RowEncoder:
        printed = row_type.toString()
        if printed not in self._encoders:
            self._encoders[printed] = self.encoder(self._paimon, self._java, row_type)
        return self._encoders[printed]

    def _row_sink(self, row_type: Any, rows: Any) -> Any:
        """A Java Consumer that appends each row to `rows`, so that the loop stays in Java."""
        invoke = self._java.lang.invoke
        printed = row_type.toString()
        if printed not in self._sinks:
            serializer = self._paimon.data.serializer.InternalRowSerializer(row_type)
            signature = invoke.MethodType.fromMethodDescriptorString(
                "(Lorg/apache/paimon/data/InternalRow;Lorg/apache/paimon/io/DataOutputView;)V",
                self._loader,
            )
            self._sinks[printed] = (
                invoke.MethodHandles.publicLookup().findVirtual(
                    serializer.getClass(), "serialize", signature
                )
            ).bindTo(serializer)
        arguments = self._gateway.new_array(self._java.lang.Object, 1)
        arguments[0] = rows
        return invoke.MethodHandleProxies.asInterfaceInstance(
            self._java.util.function.Consumer._java_lang_class,
            invoke.MethodHandles.insertArguments(self._sinks[printed], 1, arguments),
        )

    def _write_rows(
        self,
        write: Any,
        encoder: RowEncoder,
        rows: Sequence[Row],
        kinds: Sequence[str] | None,
        bucket_of: Callable[[Any], int] | None,
    ) -> None:
        write.withIOManager(self._io_manager)
        for row, kind in zip(rows, kinds or ["+I"] * len(rows), strict=True):
            encoded = encoder.encode(row, ROW_KINDS[kind])
            if bucket_of is None:
                write.write(encoded)
            else:
                write.write(encoded, bucket_of(encoded))

    def _bucket_assigner(self, table: Any, overwrites: bool) -> Callable[[Any], int] | None:
        """What an engine's shuffle does for tables with dynamic buckets; None for others."""
        if self._bucket_mode(table) in ("CROSS_PARTITION", "KEY_DYNAMIC"):
            # An engine looks for the former row of each key; callers delete it themselves.
            return lambda _: 0
        if self._bucket_mode(table) != "HASH_DYNAMIC":
            return None
        extractor = table.createRowKeyExtractor()
        target_rows = table.coreOptions().dynamicBucketTargetRowNum()
        index = self._paimon.index
        if overwrites:
            assigner = index.SimpleHashBucketAssigner(1, 0, target_rows, *self.bucket_limit)
        else:
            files = table.store().newIndexFileHandler()
            assigner = index.HashBucketAssigner(
                table.snapshotManager(),
                "java-oracle",
                files,
                *(1, 1, 0, target_rows, *self.bucket_limit),
            )

        def bucket_of(row: Any) -> int:
            extractor.setRecord(row)
            key_hash = extractor.trimmedPrimaryKey().hashCode()
            return int(assigner.assign(extractor.partition(), key_hash))

        return bucket_of

    def _bucket_mode(self, table: Any) -> str:
        return str(self._invoke(self._paimon.table.FileStoreTable, "bucketMode", table).toString())

    def _compact_unaware(self, table: Any, splits: Any) -> None:
        messages = self._compacted_unaware(table, splits)
        commit = table.newCommit("java-oracle")
        try:
            if messages:
                commit.commit(BATCH_IDENTIFIER, messages)
        finally:
            commit.close()

    def _compacted_unaware(self, table: Any, splits: Any) -> list[Any]:
        groups: dict[str, tuple[Any, list[Any]]] = {}
        for partition, _, data_split in self._buckets(splits, merge=False):
            groups.setdefault(partition, (data_split.partition(), []))[1].extend(
                data_split.dataFiles()
            )
        store_write = self._compaction_write(table)
        try:
            return [
                self._compaction_task(partition, files).doCompact(table, store_write)
                for partition, files in groups.values()
                if len(files) > 1
            ]
        finally:
            store_write.close()

    def _compaction_write(self, table: Any) -> Any:
        return table.store().newWrite("java-oracle")

    def _buckets(self, splits: Any, merge: bool = True) -> Iterator[tuple[str, int, Any]]:
        seen = set()
        serialize = self._paimon.utils.SerializationUtils.serializeBinaryRow
        for data_split in splits:
            key = (bytes(serialize(data_split.partition())).hex(), data_split.bucket())
            if not merge or key not in seen:
                seen.add(key)
                yield *key, data_split

    @contextmanager
    def _closing(self, write: Any, commit: Any) -> Iterator[tuple[Any, Any]]:
        try:
            yield write, commit
        finally:
            write.close()
            commit.close()


def with_field_ids(declared: Type) -> Type:
    """Row fields need ids to be parsed; Paimon assigns the real ones when the table is made."""
    if isinstance(declared, str):
        return declared
    completed = dict(declared)
    for part in ("element", "key", "value"):
        if part in completed:
            completed[part] = with_field_ids(completed[part])
    if "fields" in completed:
        completed["fields"] = [
            {"id": index, **field, "type": with_field_ids(field["type"])}
            for index, field in enumerate(completed["fields"])
        ]
    return completed


def describe_java(error: BaseException) -> tuple[str, str]:
    if not isinstance(error, Py4JJavaError):
        return wire.describe_python(error)
    thrown = error.java_exception
    kind, messages = thrown.getClass().getSimpleName(), []
    while thrown is not None:
        messages.append(thrown.toString())
        thrown = thrown.getCause()
    return kind, "; caused by ".join(messages)


def serve_java(
    make: Callable[[JavaGateway, Path], JavaPaimon], paimon_jars: Callable[[], Sequence[Path]]
) -> None:
    """Answer requests with the commands that `make` returns, until standard input ends."""
    answers = wire.take_over_stdout()
    parser = argparse.ArgumentParser(description="serve Java Paimon on standard input and output")
    parser.add_argument(
        "hadoop_jars", type=Path, help="directory that holds the Hadoop client jars"
    )
    parser.add_argument(
        "plugins", type=Path, nargs="?", help="directory that holds jars of Paimon's plugins"
    )
    given = parser.parse_args()
    plugins = sorted(given.plugins.glob("*.jar")) if given.plugins else []
    with tempfile.TemporaryDirectory(prefix="java-oracle-") as scratch:
        gateway = start_gateway([*paimon_jars(), *plugins], given.hadoop_jars, Path(scratch))
        try:
            commands = make(gateway, Path(scratch)).commands()
            wire.serve(commands, answers, describe_java, alive=lambda: answers_calls(gateway))
        finally:
            gateway.shutdown()


if __name__ == "__main__":
    serve_java(JavaPaimon, jars_of_pypaimon)
