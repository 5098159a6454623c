"""What other clients require of a schema before they open its table, for reads too.

Java's clients (Spark, Flink, Trino) validate a schema whenever they open its table, and before the
ALTER that would cure it. So a schema that they refuse is not written. A table that others made is
judged by what a change adds to it.

Source: Paimon 1.4 and 2.0, `SchemaValidation`, `FileIndexOptions`; what this package refuses
elsewhere is not repeated here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from lakewright.storage.errors import InvalidOption
from lakewright.storage.spec.data_types import AtomicType, DataField, MapType, RowType, TypeRoot
from lakewright.storage.spec.option_values import BOOLEAN, INTEGER, TEXT, Kind, integer
from lakewright.storage.spec.options import trimmed
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.supported_options import read_option

_FIELDS, _EVERY_FIELD = "fields.", "default-aggregate-function"
_INDEX = re.compile(r"file-index\.(?P<kind>.+)\.columns")
_INDEX_OPTION = re.compile(r"file-index\.(?P<kind>[^.]+)\.(?P<column>[^.]+)\.[^.]+")
# A key of a map, as `column[key]`.
_NESTED = re.compile(r"(?P<column>[^\[]+)\[(?P<key>.+)\]")
_TEXTS = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
_BYTES = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY})
_INTEGERS = frozenset({TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT})
_TIMESTAMPS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
_TIMES = frozenset({TypeRoot.DATE, TypeRoot.TIME}) | _TIMESTAMPS
_FLOATS = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})
# The types of columns that each kind of index takes.
_INDEXED = {
    "bloom-filter": _TEXTS | _BYTES | _INTEGERS | _FLOATS | _TIMES,
    "bitmap": _TEXTS | {TypeRoot.BOOLEAN} | _INTEGERS | _FLOATS | _TIMES,
    "bsi": {TypeRoot.DECIMAL} | _INTEGERS | _TIMES,
    "range-bitmap": _TEXTS | {TypeRoot.BOOLEAN, TypeRoot.DECIMAL} | _INTEGERS | _FLOATS | _TIMES,
}
# Options of which this package needs no value, and other clients read one to open or to merge.
_CHOICES = {
    "merge-engine": ("deduplicate", "partial-update", "aggregation", "first-row"),
    "sort-engine": ("loser-tree", "min-heap"),
    "stream-scan-mode": ("none", "compact-bucket-table", "file-monitor"),
}


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that a schema breaks: the option that is at fault, and what is wrong with it."""

    option: str
    problem: str


@dataclass(frozen=True, slots=True)
class _Judged:
    schema: TableSchema
    table: str
    options: Mapping[str, str]

    def integer(self, option: str, kind: Kind[int] = INTEGER) -> int:
        return read_option(self.schema, option, kind, table=self.table)

    def boolean(self, option: str) -> bool:
        return read_option(self.schema, option, BOOLEAN, table=self.table)

    def text(self, option: str) -> str:
        return read_option(self.schema, option, TEXT, table=self.table)

    def column(self, name: str) -> DataField | None:
        return next((field for field in self.schema.fields if field.name == name), None)

    def root(self, name: str) -> TypeRoot | None:
        field = self.column(name)
        return field.type.root if field and isinstance(field.type, AtomicType) else None

    def listed(self, option: str) -> list[str]:
        """Names between commas as Java reads them: with the blanks around them."""
        text = self.options.get(option)
        return [] if text is None else text.split(",")

    def said(self, option: str) -> str:
        return f"{option}={self.text(option)}"


_Rule = Callable[[_Judged], Iterator[Broken]]


def check_clients_open(
    schema: TableSchema, *, table: str, before: TableSchema | None = None
) -> None:
    """Check that no client refuses to open a table for its schema.

    With `before`, rules count that this version of the schema did not break already.

    Raises:
        InvalidOption: names the first option at fault.
    """
    known = set() if before is None else {*broken_rules(before, table=table)}
    for rule in broken_rules(schema, table=table):
        if rule not in known:
            raise InvalidOption(
                f"{table}: {rule.problem}; Java's clients (Spark, Flink, Trino) would not open the "
                "table any more, for reads either",
                option=rule.option,
            )


def broken_rules(schema: TableSchema, *, table: str) -> Iterator[Broken]:
    """The rules that a schema breaks.

    Raises:
        InvalidOption: a value is not of its option's type.
    """
    if schema.counts_rows:
        # No other client knows the merge engine.
        return
    judged = _Judged(schema, table, trimmed(schema.options))
    for rule in _RULES:
        yield from rule(judged)


def _retention(judged: _Judged) -> Iterator[Broken]:
    least = judged.integer("snapshot.num-retained.min")
    most = judged.integer("snapshot.num-retained.max")
    for kind in ("snapshot", "changelog"):
        if f"{kind}.num-retained.min" in judged.options:
            least = judged.integer(f"{kind}.num-retained.min")
        if f"{kind}.num-retained.max" in judged.options:
            most = judged.integer(f"{kind}.num-retained.max")
        if least < 1:
            yield Broken(f"{kind}.num-retained.min", f"{kind}.num-retained.min={least} is below 1")
        elif least > most:
            yield Broken(
                f"{kind}.num-retained.max",
                f"{kind}.num-retained.max={most} is below {kind}.num-retained.min={least} (10 and "
                "those of snapshots where they are not set); set both",
            )


def _row_count_of_files(judged: _Judged) -> Iterator[Broken]:
    name = "target-file-row-num"
    if name in judged.options and judged.integer(name, integer(bits=64)) < 1:
        yield Broken(name, f"{judged.said(name)} is below 1; reset it for no limit")


def _changelog(judged: _Judged) -> Iterator[Broken]:
    options, keyed = judged.options, judged.schema.has_primary_key
    producer = judged.text("changelog-producer").lower()
    told = judged.said("changelog-producer")
    if not keyed and producer != "none":
        yield Broken("changelog-producer", f"{told} needs a primary key")
    overwrites = "streaming-read-overwrite"
    if judged.boolean(overwrites):
        if producer in ("full-compaction", "lookup"):
            yield Broken(
                overwrites, f"{overwrites}=true and {told} would report changes of overwrites twice"
            )
        if not keyed:
            yield Broken(
                overwrites,
                f"{overwrites}=true needs a primary key; set streaming-read-append-overwrite",
            )
    delta = "full-compaction.delta-commits"
    if delta in options:
        if producer == "lookup":
            yield Broken(
                delta, f"{delta} does not go with {told}; set changelog-producer=full-compaction"
            )
        if not keyed and judged.integer("bucket") == -1:
            yield Broken(delta, f"{delta} needs a fixed number of buckets in an append table")
    if judged.boolean("deletion-vectors.enabled"):
        if producer == "full-compaction":
            yield Broken(
                "changelog-producer",
                f"{told} does not go with deletion-vectors.enabled=true: its changelog would lack "
                "deletions and former values; use none, input or lookup",
            )
        if judged.text("merge-engine").lower() == "first-row":
            yield Broken(
                "deletion-vectors.enabled",
                "deletion-vectors.enabled=true does not go with merge-engine=first-row",
            )
    if judged.boolean("table-read.sequence-number.enabled") and not keyed:
        name = "table-read.sequence-number.enabled"
        yield Broken(name, f"{name}=true needs a primary key")


def _row_tracking(judged: _Judged) -> Iterator[Broken]:
    name = "row-tracking.enabled"
    if not judged.boolean(name):
        if judged.boolean("data-evolution.enabled"):
            yield Broken("data-evolution.enabled", f"data-evolution.enabled=true needs {name}=true")
        return
    if judged.schema.has_primary_key:
        yield Broken(name, f"{name}=true does not go with a primary key")
    if judged.integer("bucket") != -1:
        yield Broken(name, f"{name}=true needs bucket=-1")


def _choices(judged: _Judged) -> Iterator[Broken]:
    for name, values in _CHOICES.items():
        if name in judged.options and judged.text(name).lower() not in values:
            yield Broken(name, f"{judged.said(name)} is not one of {', '.join(values)}")


def _merging(judged: _Judged) -> Iterator[Broken]:
    """Options of merging, also where no rows are merged."""
    options, names = judged.options, judged.schema.field_names
    engine = judged.text("merge-engine").lower()
    sequence = judged.listed("sequence.field")
    told = judged.said("sequence.field")
    for name in dict.fromkeys(sequence):
        if name not in names:
            yield Broken("sequence.field", f"{told} names no column {name!r}")
        elif sequence.count(name) > 1:
            yield Broken("sequence.field", f"{told} names {name} twice")
        elif f"{_FIELDS}{name}.aggregate-function" in options:
            yield Broken("sequence.field", f"{told} names {name}, which has an aggregate function")
    if sequence and engine == "first-row":
        yield Broken("sequence.field", f"{told} does not go with merge-engine=first-row")
    kinds = judged.text("rowkind.field")
    if kinds and kinds not in names:
        yield Broken("rowkind.field", f"{judged.said('rowkind.field')} names no column")


def _fields(judged: _Judged) -> Iterator[Broken]:
    """Options of single columns: `fields.<columns>.<what>`."""
    for option in judged.options:
        if not option.startswith(_FIELDS):
            continue
        parts = option.split(".")
        columns = parts[1].split(",")
        for name in columns:
            if name != _EVERY_FIELD and judged.column(name) is None:
                yield Broken(option, f"option {option} names no column {name!r}")
        field = judged.column(columns[0])
        if field is None:
            continue
        if len(parts) > 3 and len(columns) == 1 and isinstance(field.type, RowType):
            yield Broken(option, f"option {option} names a member of the row {field.name}")
        if option.endswith(".map.storage-layout") and not isinstance(field.type, MapType):
            yield Broken(option, f"option {option} is for maps, and {field.name} is none")


def _record_time(judged: _Judged) -> Iterator[Broken]:
    name = "record-level.time-field"
    column = judged.text(name)
    if not column:
        return
    if judged.column(column) is None:
        yield Broken(name, f"{judged.said(name)} names no column")
    elif judged.root(column) not in _TIMESTAMPS | {TypeRoot.INT, TypeRoot.BIGINT}:
        yield Broken(name, f"{judged.said(name)} is no INT, BIGINT or TIMESTAMP")


def _buckets(judged: _Judged) -> Iterator[Broken]:
    keys, told = judged.listed("bucket-key"), judged.said("bucket-key")
    for name in dict.fromkeys(keys):
        field = judged.column(name)
        if field is None:
            blank = "; leave the blanks out" if judged.column(name.strip()) else ""
            yield Broken("bucket-key", f"{told} names no column {name!r}{blank}")
        elif keys.count(name) > 1:
            yield Broken("bucket-key", f"{told} names {name} twice")
        elif not isinstance(field.type, AtomicType):
            yield Broken("bucket-key", f"{told} names {name}, which is {field.type}")


def _clustering(judged: _Judged) -> Iterator[Broken]:
    name = "clustering.incremental"
    if not judged.boolean(name):
        return
    if judged.schema.has_primary_key:
        yield Broken(name, f"{name}=true is for tables without a primary key")
    elif judged.integer("bucket") != -1:
        if judged.boolean("bucket-append-ordered"):
            yield Broken(name, f"{name}=true in buckets needs bucket-append-ordered=false")
        if judged.boolean("deletion-vectors.enabled"):
            yield Broken(name, f"{name}=true in buckets does not go with deletion vectors")


def _partitions(judged: _Judged) -> Iterator[Broken]:
    options, keys = judged.options, judged.schema.partition_keys
    if "partition.expiration-time" in options and not keys:
        yield Broken("partition.expiration-time", "partition.expiration-time needs partition keys")
    name, sorts_by = "manifest-sort.enabled", "manifest-sort.partition-field"
    if judged.boolean(name):
        if not keys:
            yield Broken(name, f"{name}=true needs partition keys")
        elif judged.text(sorts_by) and judged.text(sorts_by) not in keys:
            yield Broken(sorts_by, f"{judged.said(sorts_by)} is no partition key")


def _file_indexes(judged: _Judged) -> Iterator[Broken]:
    declared: set[tuple[str, str]] = set()
    for option in judged.options:
        match = _INDEX.fullmatch(option)
        if match is None:
            continue
        kind = match["kind"]
        if kind not in _INDEXED:
            yield Broken(option, f"option {option} is for no kind of {', '.join(_INDEXED)}")
            continue
        for name in (each.strip() for each in judged.listed(option)):
            nested = _NESTED.fullmatch(name)
            column = name if nested is None else nested["column"]
            declared |= {(kind, name), (kind, column)}
            problem = _index_problem(judged, kind, column, nested is not None)
            if problem:
                yield Broken(option, f"{judged.said(option)} names {name!r}, {problem}")
    for option in judged.options:
        match = _INDEX_OPTION.fullmatch(option)
        if match and match["kind"] in _INDEXED and (match["kind"], match["column"]) not in declared:
            yield Broken(
                option,
                f"option {option} is for a column that file-index.{match['kind']}.columns does "
                "not name",
            )


def _index_problem(judged: _Judged, kind: str, column: str, nested: bool) -> str | None:
    field = judged.column(column)
    if field is None:
        return "which is no column"
    kept = field.type
    if nested:
        if not isinstance(kept, MapType) or not _is_text(kept.key):
            return "which is no map with texts as keys"
        kept = kept.value
    if not isinstance(kept, AtomicType) or kept.root not in _INDEXED[kind]:
        return f"which is {kept}, and a {kind} index takes no such values"
    return None


def _is_text(kind: object) -> bool:
    return isinstance(kind, AtomicType) and kind.root in _TEXTS


def _columns_of_other_types(judged: _Judged) -> Iterator[Broken]:
    """Options for columns of types that no table of this package has."""
    for option, kind in {
        "vector-field": "VECTOR",
        "blob-field": "BLOB",
        "blob-descriptor-field": "BLOB",
        "blob-view-field": "BLOB",
    }.items():
        for name in filter(None, judged.listed(option)):
            yield Broken(option, f"{judged.said(option)} names {name!r}, which is no {kind} column")


_RULES: tuple[_Rule, ...] = (
    _retention,
    _row_count_of_files,
    _changelog,
    _row_tracking,
    _choices,
    _merging,
    _fields,
    _record_time,
    _buckets,
    _clustering,
    _partitions,
    _file_indexes,
    _columns_of_other_types,
)
