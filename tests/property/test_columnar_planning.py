"""Planning on columns finds what planning entry by entry finds, or raises what that raises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from lakewright.storage import AddColumn, ChangeType, RenameColumn, Table
from lakewright.storage.codec import manifest_columns
from lakewright.storage.codec.binary_row import encode_row
from lakewright.storage.codec.manifest_avro import MANIFEST_SCHEMA, decode_manifest, encode_manifest
from lakewright.storage.codec.manifest_columns import NO_NUMBER, PackedEntries, decode_entry_columns
from lakewright.storage.errors import StorageError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.bin_packing import is_small
from lakewright.storage.lsm.sections import sortable
from lakewright.storage.operations.read.scan import plan_scan
from lakewright.storage.operations.state.bucket_columns import BucketColumns, bucket_columns
from lakewright.storage.operations.state.live_columns import live_columns
from lakewright.storage.operations.state.live_files import (
    grouped_by_bucket,
    readable_entries,
    snapshot_manifests,
)
from lakewright.storage.operations.state.partition_filter import PartitionFilter
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.index import DeletionVectorRange, IndexEntry, IndexFileMeta
from lakewright.storage.spec.manifest import (
    EMPTY_ROW,
    EMPTY_STATS,
    DataFileMeta,
    FileKind,
    FileSource,
    ManifestEntry,
    SimpleStats,
)
from lakewright.storage.spec.predicate import And, Leaf, Not, Operator, Or, Predicate
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.snapshot import CommitKind, Snapshot
from lakewright.storage.spec.values import Value, order_key
from tests.support.models.plain_plan import plain_entries, plain_splits
from tests.support.tables.builders import new_table
from tests.support.tables.fixtures import empty_memory, memory_catalog

# An example writes a table, so half of what other laws try has to do.
FEWER = settings().max_examples // 2

# Stored values of each type, few enough that bounds, keys and literals meet.
_TEXTS = st.sampled_from(
    ["", "a", "a ", "ab", "b", "b\tc", "zzzzzzz", "zzzzzzzz", "ä中\U0001f600x"]
)
_FLOATS = st.sampled_from([-1.5, -0.0, 0.0, 2.0, float("inf"), float("nan")])
TYPES: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.sampled_from([-128, -1, 0, 5, 127]),
    "SMALLINT": st.sampled_from([-32768, -1, 0, 5, 32767]),
    "INT": st.integers(-3, 3) | st.sampled_from([-(2**31), 2**31 - 1]),
    "BIGINT": st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1]),
    "FLOAT": _FLOATS,
    "DOUBLE": _FLOATS,
    "DATE": st.integers(-3, 3),
    "TIME(3)": st.integers(0, 5),
    "TIMESTAMP(3)": st.integers(-3, 3).map(lambda millis: millis * 1_000_000),
    "TIMESTAMP(6)": st.integers(-3, 3).map(lambda micros: micros * 1_000) | st.just(10**22),
    "TIMESTAMP(9) WITH LOCAL TIME ZONE": st.integers(-3, 3),
    "DECIMAL(6, 2)": st.integers(-3, 3).map(lambda cents: Decimal(cents) / 100),
    "DECIMAL(30, 2)": st.integers(-3, 3).map(lambda cents: Decimal(cents) / 100),
    "STRING": _TEXTS,
    "VARCHAR(9)": _TEXTS,
    "CHAR(9)": _TEXTS,
    "BYTES": st.sampled_from([b"", b"a", b"longer than seven"]),
}
_COLUMNS = ("p", "k", "k2", "v", "w")


@pytest.fixture(autouse=True)
def _empty_memory() -> Iterator[None]:
    yield
    empty_memory()


@st.composite
def tables(draw: st.DrawFn) -> tuple[Table, dict[str, st.SearchStrategy[Any]], list[TableSchema]]:
    """A table of drawn columns, and its schemas, oldest first."""
    keyed = draw(st.booleans())
    keys = [each for each in TYPES if each not in ("FLOAT", "DOUBLE") or draw(st.booleans())]
    of = {
        "p": draw(st.sampled_from([each for each in TYPES if each != "BYTES"])),
        "k": draw(st.sampled_from(keys)),
        "k2": draw(st.sampled_from(["INT", "STRING", "BYTES"])),
        "v": draw(st.sampled_from(list(TYPES))),
        "w": draw(st.sampled_from(["INT", "STRING"])),
    }
    options = {"bucket": "2"} if keyed else {"bucket": "-1"}
    partitions = ["p"] if draw(st.booleans()) else []
    if keyed:
        options |= draw(st.sampled_from([{}, {}, {"deletion-vectors.enabled": "true"}]))
    table = new_table(
        memory_catalog(),
        {name: of[name] for name in _COLUMNS},
        partitions=partitions,
        keys=[*partitions, "k", "k2"] if keyed else [],
        options=options,
    )
    schemas = [table.schema]
    if draw(st.booleans()):
        change = ChangeType("w", "BIGINT") if of["w"] == "INT" else RenameColumn("w", "renamed")
        table = table.alter(AddColumn("added", "INT"), change)
        schemas.append(table.schema)
    values = {name: TYPES[text] for name, text in of.items()}
    values |= {"added": TYPES["INT"], "renamed": _TEXTS}
    return table, values, schemas


@st.composite
def entries_of(
    draw: st.DrawFn,
    table: Table,
    values: dict[str, st.SearchStrategy[Any]],
    schemas: list[TableSchema],
) -> list[ManifestEntry]:
    """Entries that add and remove files, some of them in the wrong order."""
    keyed = table.schema.has_primary_key
    made: list[ManifestEntry] = []
    for number in range(draw(st.integers(0, 12))):
        if made and draw(st.integers(0, 2)) == 0:
            before = draw(st.sampled_from(made))
            match draw(st.integers(0, 5)):
                case 0 | 1 | 2:
                    made.append(before.removed())
                case 3:
                    moved = replace(before.file, level=before.file.level + 1)
                    made += [before.removed(), replace(before, file=moved)]
                case 4:
                    made.append(replace(before, kind=FileKind.ADD))
                case _:
                    other = replace(before.file, extra_files=("other.index",))
                    made.append(replace(before, file=other))
            continue
        schema = draw(st.sampled_from(schemas))
        partition = [draw(st.none() | values[field.name]) for field in schema.partition_fields]
        made.append(
            ManifestEntry(
                kind=FileKind.ADD,
                partition=encode_row(partition, [each.type for each in schema.partition_fields]),
                bucket=draw(st.sampled_from([0, 1, 1, -2])) if keyed else 0,
                total_buckets=draw(st.sampled_from([2, 2, 3])) if keyed else -1,
                file=draw(data_files(number, schema, values)),
            )
        )
    return made


@st.composite
def data_files(
    draw: st.DrawFn, number: int, schema: TableSchema, values: dict[str, st.SearchStrategy[Any]]
) -> DataFileMeta:
    """A file of a schema with metadata of every form."""
    rows = draw(st.sampled_from([0, 3, 1000]))
    keys = schema.key_fields
    low, high = sorted(
        (tuple(draw(values[key.name]) for key in keys) for _ in range(2)), key=sortable
    )
    types = [key.type for key in keys]
    chosen = draw(st.none() | st.sets(st.sampled_from(schema.field_names)))
    named = None if chosen is None else tuple(each for each in schema.field_names if each in chosen)
    written = draw(st.sampled_from([None, None, schema.field_names[:-1]]))
    covered = named if named is not None else written or schema.field_names
    sequence = draw(st.integers(0, 3))
    ending = draw(st.sampled_from(["parquet", "parquet", "orc", "avro"]))
    return DataFileMeta(
        file_name=f"data-{draw(st.just(number) | st.integers(0, 2))}.{ending}",
        file_size=draw(st.sampled_from([1, 2**40])),
        row_count=rows,
        min_key=encode_row(low, types) if keys else EMPTY_ROW,
        max_key=encode_row(high, types) if keys else EMPTY_ROW,
        key_stats=draw(stats(keys, values, rows)) if keys and draw(st.booleans()) else EMPTY_STATS,
        value_stats=draw(stats(schema.fields_of(covered), values, rows)),
        min_sequence_number=sequence,
        max_sequence_number=sequence + rows,
        schema_id=schema.id,
        level=draw(st.sampled_from([0, 0, 1, 5])),
        extra_files=draw(st.sampled_from([(), (), ("a.changelog",)])),
        creation_time=draw(st.sampled_from([None, 0, 1_700_000_000_000])),
        delete_row_count=draw(st.sampled_from([None, 0, 0, 2])),
        embedded_file_index=draw(st.sampled_from([None, None, b"index"])),
        file_source=draw(st.sampled_from([None, *FileSource])),
        value_stats_cols=named,
        external_path=draw(st.sampled_from([None, None, "file:/elsewhere/data-0.parquet"])),
        first_row_id=draw(st.sampled_from([None, 2**50])),
        write_cols=written,
    )


@st.composite
def stats(
    draw: st.DrawFn,
    fields: tuple[DataField, ...],
    values: dict[str, st.SearchStrategy[Any]],
    rows: int,
) -> SimpleStats:
    """Bounds of some fields, of which some are unknown."""
    low: list[Value] = []
    high: list[Value] = []
    for field in fields:
        pair = [draw(values[field.name]) for _ in range(2)] if draw(st.integers(0, 3)) else []
        known = sorted(pair, key=order_key) or [None, None]
        low.append(known[0])
        high.append(known[1])
    types = [field.type for field in fields]
    counts = tuple(draw(st.sampled_from([0, 0, rows, 1, None, 200])) for _ in fields)
    return SimpleStats(
        encode_row(low, types), encode_row(high, types), counts if draw(st.integers(0, 4)) else ()
    )


def predicates(names: list[str], values: dict[str, st.SearchStrategy[Any]]) -> Any:
    """Filters over some columns, of every operator."""

    def leaf(name: str) -> st.SearchStrategy[Leaf]:
        literal = st.none() | values[name] | values[name]
        compared = st.builds(
            lambda operator, value: Leaf(name, operator, (value,)),
            st.sampled_from(
                [Operator.EQ, Operator.NE, Operator.LT, Operator.LE, Operator.GT, Operator.GE]
            ),
            literal,
        )
        asked = st.lists(literal, max_size=3).map(lambda each: Leaf(name, Operator.IN, tuple(each)))
        nulls = st.sampled_from([Leaf(name, Operator.IS_NULL), Leaf(name, Operator.IS_NOT_NULL)])
        prefix = st.sampled_from(["", "a", "zzzz"]).map(
            lambda text: Leaf(name, Operator.STARTS_WITH, (text,))
        )
        return st.one_of(
            compared, compared, asked, nulls, *([prefix] if values[name] is _TEXTS else [])
        )

    leaves = st.sampled_from(names).flatmap(leaf)
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map(lambda parts: And(tuple(parts))),
            st.lists(inner, min_size=1, max_size=3).map(lambda parts: Or(tuple(parts))),
            inner.map(Not),
        ),
        max_leaves=4,
    )


@st.composite
def states(draw: st.DrawFn) -> tuple[TableFiles, Snapshot, Predicate | None]:
    """A table, a snapshot of drawn manifests, and a filter."""
    table, values, schemas = draw(tables())
    entries = draw(entries_of(table, values, schemas))
    files = table.table_files
    metas = []
    while entries:
        size = draw(st.integers(1, len(entries)))
        for keys, group in files.partitions.by_keys(entries[:size]):
            metas.append(
                files.manifests.write_manifest(
                    group, keys=keys, compression="zstandard", written=[]
                )
            )
        entries = entries[size:]
    half = len(metas) // 2
    base, delta = (
        files.manifests.write_list(part, compression="zstandard", written=[])[0]
        for part in (metas[:half], metas[half:])
    )
    index = None
    if files.options.deletion_vectors_enabled:
        index = files.manifests.write_index_manifest(
            [deletions()], compression="zstandard", written=[]
        )
    snapshot = Snapshot(
        id=1,
        schema_id=files.schema.id,
        base_manifest_list=base,
        delta_manifest_list=delta,
        index_manifest=index,
        commit_user="u",
        commit_identifier=1,
        commit_kind=CommitKind.APPEND,
        time_millis=0,
        total_record_count=0,
        delta_record_count=0,
    )
    names = list(files.schema.field_names)
    predicate = draw(st.none() | predicates(names, values))
    return files, snapshot, predicate


def deletions() -> IndexEntry:
    """An index file with deletion vectors of two data files."""
    vectors = tuple(
        DeletionVectorRange(data_file=f"data-{number}.parquet", offset=number, length=9)
        for number in range(2)
    )
    file = IndexFileMeta(
        index_type="DELETION_VECTORS",
        file_name="index-0",
        file_size=20,
        row_count=2,
        deletion_vectors=vectors,
    )
    return IndexEntry(partition=EMPTY_ROW, bucket=1, file=file)


def outcome(work: Callable[[], Any]) -> Any:
    """What work returns, or the kind of the error that it raises."""
    try:
        return work()
    except StorageError as error:
        return type(error)


@pytest.mark.parametrize("least_blocks", [0, 1_000_000], ids=["columns", "objects"])
@settings(max_examples=FEWER)
@given(state=states())
def test_a_plan_on_columns_is_the_plan_by_entries(
    least_blocks: int, state: tuple[TableFiles, Snapshot, Predicate | None]
) -> None:
    files, snapshot, predicate = state
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_columns, "LEAST_BLOCKS", least_blocks)
        found = outcome(lambda: list(plan_scan(files, snapshot, predicate).splits))
        wanted = PartitionFilter(files, predicate=predicate)
        metas = snapshot_manifests(files, snapshot)
        live = outcome(lambda: live_columns(files, metas, wanted).entries())
    expected = outcome(lambda: plain_splits(files, snapshot, predicate))
    event("fails" if isinstance(expected, type) else f"{min(len(expected), 3)} splits")
    assert found == expected
    assert live == outcome(lambda: plain_entries(files, snapshot, predicate))


@pytest.mark.parametrize("least_blocks", [0, 1_000_000], ids=["columns", "objects"])
@settings(max_examples=FEWER)
@given(state=states())
def test_figures_of_buckets_are_the_sums_of_their_entries(
    least_blocks: int, state: tuple[TableFiles, Snapshot, Predicate | None]
) -> None:
    files, snapshot, predicate = state
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_columns, "LEAST_BLOCKS", least_blocks)
        wanted = PartitionFilter(files, predicate=predicate)
        metas = snapshot_manifests(files, snapshot)
        found = outcome(lambda: figures(bucket_columns(files, metas, wanted)))
    expected = outcome(lambda: plain_figures(files, plain_entries(files, snapshot, predicate)))
    event("fails" if isinstance(expected, type) else f"{min(len(expected), 3)} buckets")
    assert found == expected


def figures(columns: BucketColumns) -> dict[tuple[bytes, int], tuple[int, ...]]:
    """What columns say of each bucket."""
    of_partitions = list(columns.of_partitions())
    assert sorted(np.concatenate(of_partitions or [[]]).tolist()) == list(range(len(columns)))
    return {
        (row, int(columns.bucket[each])): (
            int(columns.file_count[each]),
            int(columns.row_count[each]),
            int(columns.size_bytes[each]),
            int(columns.small_file_count[each]),
            int(columns.level0_count[each]),
            int(columns.sorted_run_count[each]),
            int(columns.waiting_file_count[each]),
            int(columns.waiting_row_count[each]),
            int(columns.mergeable_count[each]),
            int(columns.mergeable_bytes[each]),
            int(columns.last_creation_ms[each]),
            len(set(columns.names_of(each).tolist())),
        )
        for row, buckets in zip(columns.partition_rows, of_partitions, strict=True)
        for each in buckets.tolist()
    }


def plain_figures(
    files: TableFiles, entries: list[ManifestEntry]
) -> dict[tuple[bytes, int], tuple[int, ...]]:
    """The same, entry by entry."""
    found = {}
    keyed = files.schema.is_keyed
    for place, group in grouped_by_bucket(entries).items():
        metas = [entry.file for entry in group]
        readable = [entry.file for entry in readable_entries(files, group)]
        levels = {each.level for each in metas}
        runs = sum(each.level == 0 for each in metas) + len(levels - {0})
        small = [
            each
            for each in metas
            if is_small(
                each, files.options.target_file_size, files.options.compaction_small_file_ratio
            )
        ]
        beside = [each for each in metas if each.level < max(levels) or each.level == 0]
        several = runs > 1 if keyed else len(small) > 1
        mergeable = (beside if keyed else small) if several else []
        created = [each.creation_time for each in metas if each.creation_time is not None]
        found[place.partition, place.bucket] = (
            len(metas),
            sum(each.row_count for each in metas),
            sum(each.file_size for each in metas),
            len(small),
            sum(each.level == 0 for each in metas) if keyed else 0,
            runs if keyed else len(metas),
            len(metas) - len(readable),
            sum(each.row_count for each in metas) - sum(each.row_count for each in readable),
            len(mergeable),
            sum(each.file_size for each in mergeable),
            max(created, default=NO_NUMBER),
            len({each.file_name for each in metas}),
        )
    return found


@settings(max_examples=FEWER)
@given(data=st.data())
def test_a_manifest_of_many_blocks_has_the_same_entries_in_columns(data: st.DataObject) -> None:
    table, values, schemas = data.draw(tables())
    entries = data.draw(entries_of(table, values, schemas))
    records = fastavro.reader(BytesIO(encode_manifest(entries, compression="null")))
    codec = data.draw(st.sampled_from(["null", "deflate", "zstandard"]))
    encoded = BytesIO()
    interval = data.draw(st.sampled_from([1, 500]))
    fastavro.writer(encoded, MANIFEST_SCHEMA, list(records), codec, sync_interval=interval)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_columns, "LEAST_BLOCKS", 0)
        found = decode_entry_columns(encoded.getvalue(), name="m")
    assert isinstance(found, PackedEntries)
    decoded = list(decode_manifest(encoded.getvalue(), name="m"))
    assert [found.entry(row) for row in range(len(found))] == decoded == entries
