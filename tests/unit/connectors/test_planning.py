"""Planning: abilities on copies, in a fixed order; what a connector lacks, the plan does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from lakewright.connectors.changes import net_rows
from lakewright.connectors.factories import Context
from lakewright.connectors.model.changelog_mode import ChangelogMode
from lakewright.connectors.planning.abilities import BucketingSpec, ability_of
from lakewright.connectors.planning.plan_sink import WriteRequest, plan_write, sink_of
from lakewright.connectors.planning.plan_source import ScanRequest, plan_scan
from lakewright.connectors.runtime import BoundedScan, Scan, Split
from lakewright.connectors.sources import DynamicTableSource, LookupTableSource, ScanTableSource
from lakewright.connectors.testing.tables import context_of
from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.errors import CorruptionError, InvalidOption, UnsupportedError
from lakewright.storage.spec.predicate import And, Leaf, Operator
from lakewright.storage.spec.rows import ROW_KIND_COLUMN
from lakewright.storage.spec.table_distribution import TableDistribution
from tests.unit.connectors.doubles import (
    MEMORY,
    AbleSource,
    BucketedSink,
    Memory,
    MemorySink,
    MemorySource,
)

_COLUMNS = {"id": "BIGINT", "name": "STRING", "day": "STRING"}
_ROWS = [{"id": at, "name": f"n{at % 3}", "day": f"d{at % 2}"} for at in range(6)]


@pytest.fixture(autouse=True)
def _rows() -> Iterator[None]:
    MEMORY["here"] = [dict(row) for row in _ROWS]
    yield
    MEMORY.clear()


def context(
    source: type | None = None, sink: type | None = None, **parts: Any
) -> tuple[Memory, Context]:
    factory = Memory(source, sink)
    distribution = parts.pop("distribution", None)
    made = context_of(factory, _COLUMNS, {"place": "here"}, **parts)
    if distribution is not None:
        from dataclasses import replace

        table = replace(made.table.definition, distribution=distribution).resolve(made.name)
        made = replace(made, table=table)
    return factory, made


def rows_of(planned: Any) -> list[dict[str, Any]]:
    return [row for piece in planned.rows() for row in piece.to_pylist()]


_ASKED = ScanRequest(
    ("name",), And((Leaf("day", Operator.EQ, ("d1",)), Leaf("id", Operator.GT, (1,)))), limit=1
)


@pytest.mark.mission("CN3", "CN13")
def test_a_source_without_abilities_gives_the_same_rows() -> None:
    _, plain = context()
    _, able = context(AbleSource, partitioned_by=["day"])
    assert rows_of(plan_scan(plain, _ASKED)) == [{"name": "n0"}]
    assert rows_of(plan_scan(plain, ScanRequest(where=_ASKED.where))) == [
        {"id": 3, "name": "n0", "day": "d1"},
        {"id": 5, "name": "n2", "day": "d1"},
    ]
    # Its partitions are pruned by name alone, so only the rest is filtered.
    planned = plan_scan(able, ScanRequest(("id",), Leaf("id", Operator.GT, (3,))))
    assert rows_of(planned) == [{"id": 4}, {"id": 5}]


@pytest.mark.mission("RS20", "CN13", "CN22")
def test_abilities_are_applied_to_a_copy_in_a_fixed_order() -> None:
    factory, able = context(AbleSource, partitioned_by=["day"])
    planned = plan_scan(able, _ASKED)
    original = factory.made[0]
    assert isinstance(planned.source, AbleSource)
    assert isinstance(original, AbleSource)
    assert original.applied == []
    assert planned.source.applied == ["partitions ['d1']", "filters 1", "projection ['id', 'name']"]
    assert [each.to_json()["type"] for each in planned.abilities] == [
        "PartitionPushDown",
        "FilterPushDown",
        "ProjectionPushDown",
    ]


def test_a_limit_is_pushed_where_nothing_is_filtered_behind_it() -> None:
    _, able = context(AbleSource, partitioned_by=["day"])
    planned = plan_scan(able, ScanRequest(limit=2))
    assert isinstance(planned.source, AbleSource)
    assert planned.source.applied == ["limit 2"]
    assert len(rows_of(planned)) == 2


class _Wrapped(ScanTableSource):
    """A source that changes what another one gives: names in capitals."""

    def __init__(self, inner: ScanTableSource) -> None:
        self.inner = inner

    def copy(self) -> _Wrapped:
        return _Wrapped(self.inner.copy())

    def scan(self) -> Scan:
        return _Capitals(self.inner.scan())


class _Capitals(BoundedScan):
    def __init__(self, inner: Scan) -> None:
        self.inner = inner

    def splits(self) -> Sequence[Split]:
        begin = self.inner.earliest()
        return self.inner.plan(begin, self.inner.latest(begin))

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        for batch in self.inner.read(split):
            names = pa.array([each.upper() for each in batch.column("name").to_pylist()])
            yield batch.set_column(batch.schema.get_field_index("name"), "name", names)


class _Loud(Memory):
    identifier = "loud"

    def create_source(self, context: Context) -> DynamicTableSource:
        inner = super().create_source(context)
        assert isinstance(inner, ScanTableSource)
        return _Wrapped(inner)


@pytest.mark.mission("CN4")
def test_a_source_may_wrap_another() -> None:
    loud = context_of(_Loud(), _COLUMNS, {"place": "here"})
    found = rows_of(plan_scan(loud, ScanRequest(("id", "name"), limit=2)))
    assert found == [{"id": 0, "name": "N0"}, {"id": 1, "name": "N1"}]


class _OnlyLookups(LookupTableSource):
    def __init__(self, _: Context) -> None:
        pass

    def lookup_keys(self, columns: Sequence[str]) -> Sequence[str]:
        return columns

    def lookup(self, keys: Sequence[str]) -> Any:
        raise NotImplementedError


@pytest.mark.mission("CN19")
def test_a_source_of_lookups_alone_cannot_be_scanned() -> None:
    _, found = context(_OnlyLookups)
    with pytest.raises(UnsupportedError, match="can only be looked up by keys, not scanned"):
        plan_scan(found, ScanRequest())


class _Changes(MemorySource):
    def changelog_mode(self) -> ChangelogMode:
        return ChangelogMode.all()

    def scan(self) -> BoundedScan:
        return _ChangesScan()


class _ChangesScan(BoundedScan):
    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        rows = [(1, "a", "+I"), (2, "b", "+I"), (1, "a", "-U"), (1, "z", "+U"), (2, "b", "-D")]
        ids, names, kinds = zip(*rows, strict=True)
        yield pa.record_batch(
            [pa.array(ids, pa.int64()), pa.array(names), pa.array(["d"] * 5), pa.array(kinds)],
            names=["id", "name", "day", ROW_KIND_COLUMN],
        )


@pytest.mark.mission("CN20", "CN21")
@pytest.mark.parametrize("keys", [(), ("id",)])
def test_changes_are_carried_out_before_they_are_filtered(keys: Sequence[str]) -> None:
    _, found = context(_Changes, primary_key=keys)
    assert rows_of(plan_scan(found, ScanRequest())) == [{"id": 1, "name": "z", "day": "d"}]
    before = ScanRequest(where=Leaf("name", Operator.EQ, ("a",)))
    assert rows_of(plan_scan(found, before)) == []


def test_without_a_key_a_change_takes_back_a_row_whatever_its_metadata() -> None:
    _, found = context()
    schema = to_arrow_schema(found.table.fields)
    for name, kind in (("offset", pa.int64()), (ROW_KIND_COLUMN, pa.string())):
        schema = schema.append(pa.field(name, kind))
    row = {"id": 1, "name": "a", "day": "d"}
    changes = [
        {**row, "offset": 0, ROW_KIND_COLUMN: "+I"},
        {**row, "offset": 1, ROW_KIND_COLUMN: "-U"},
        {**row, "name": "z", "offset": 2, ROW_KIND_COLUMN: "+U"},
    ]
    given = pa.Table.from_pylist(changes, schema=schema)
    assert net_rows([given], schema, found.table).to_pylist() == [
        {**row, "name": "z", "offset": 2, ROW_KIND_COLUMN: "+I"}
    ]


# --- sinks ----------------------------------------------------------------------------------------


@pytest.mark.mission("BK5", "BK25", "BK26", "RS17")
def test_a_sink_says_whether_it_has_buckets() -> None:
    spread = TableDistribution.of_hash(["id"], 4)
    _, without = context(sink=MemorySink, distribution=spread)
    with pytest.raises(UnsupportedError, match="has no buckets"):
        plan_write(without, WriteRequest())
    _, by_range = context(sink=BucketedSink, distribution=TableDistribution.of_range(["id"], 4))
    with pytest.raises(UnsupportedError, match="distributes rows by HASH, not by RANGE"):
        plan_write(by_range, WriteRequest())
    _, uncounted = context(sink=BucketedSink, distribution=TableDistribution.of_hash(["id"]))
    with pytest.raises(UnsupportedError, match="needs the number of buckets"):
        plan_write(uncounted, WriteRequest())
    _, good = context(sink=BucketedSink, distribution=spread)
    planned = plan_write(good, WriteRequest())
    assert planned.abilities == (BucketingSpec("HASH", 4, ("id",)),)
    assert planned.write([pa.table({"id": [9]})]) == 1
    assert MEMORY["here"][-1] == {"id": 9, "name": None, "day": None}


@pytest.mark.mission("BK27", "BK33")
def test_a_kept_bucketing_is_checked_against_the_connector_of_the_day() -> None:
    kept = BucketingSpec("HASH", 4, ("id",)).to_json()
    assert kept == {"type": "Bucketing", "kind": "HASH", "bucket_count": 4, "bucket_keys": ("id",)}
    spec = ability_of({**kept, "bucket_keys": ["id"]}, "db.t")
    _, able = context(sink=BucketedSink)
    spec.apply(sink_of(able), able.table)
    _, unable = context(sink=MemorySink)
    with pytest.raises(UnsupportedError, match=r"SupportsBucketing.*plan the statement again"):
        spec.apply(sink_of(unable), unable.table)
    with pytest.raises(CorruptionError, match="has no ability"):
        ability_of({"type": "Flying"}, "db.t")


@pytest.mark.mission("CN29")
@pytest.mark.parametrize(
    ("request_", "parts", "said"),
    [
        (WriteRequest(overwrite=True), {}, "cannot be overwritten; write INSERT INTO"),
        (WriteRequest(), {"partitioned_by": ["day"]}, "has no partitions"),
        (WriteRequest(mode=ChangelogMode.all()), {}, "the query gives rows of kinds"),
    ],
)
def test_what_a_sink_cannot_is_refused(
    request_: WriteRequest, parts: Mapping[str, Any], said: str
) -> None:
    _, found = context(sink=MemorySink, **parts)
    with pytest.raises(UnsupportedError, match=said):
        plan_write(found, request_)
    assert len(MEMORY["here"]) == len(_ROWS)


@pytest.mark.mission("CN10")
def test_options_are_read_before_the_factory_is_called() -> None:
    factory = Memory()
    with pytest.raises(InvalidOption, match=r"lacks required options: place \(which rows\)"):
        context_of(factory, _COLUMNS, {})
    with pytest.raises(InvalidOption, match="has no option plaec; did you mean place"):
        context_of(factory, _COLUMNS, {"place": "x", "plaec": "y"})
    assert factory.made == []
