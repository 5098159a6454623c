"""Options that other clients set: every one is described, and their tables are looked after."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidRequestError, UnsupportedError
from lakewright.storage.spec.known_options import Option
from lakewright.storage.spec.option_values import (
    DURATION,
    NUMBER,
    SIZE,
    parse_duration_ms,
    parse_size,
)
from lakewright.storage.spec.predicate import Leaf, Operator
from lakewright.storage.spec.supported_options import find_option
from tests.oracles.client import LatestJavaOracle
from tests.support.tables.builders import (
    EVENTS,
    compact,
    content,
    events,
    expire,
    remove_orphans,
    rows,
    with_options,
)
from tests.support.tables.invariants import assert_only_reachable_files, assert_sound

pytestmark = pytest.mark.interop


def test_every_option_that_the_newest_java_declares_is_described(
    java_latest: LatestJavaOracle,
) -> None:
    declared = java_latest.declared_options()
    assert len(declared) > 300
    # Names that hold a class are declared with a mark in its place.
    found = {each.key: find_option(each.key.replace("#", "any.Class")) for each in declared}
    assert sorted(name for name, option in found.items() if option is None) == []
    older = {
        (name, each.key)
        for each in declared
        for name in each.fallbacks
        # Another option's own name, which gives its value to this one.
        if (option := find_option(name)) is None or (option.name != each.key and name not in found)
    }
    assert older == set()


def same_default(option: Option[object], java: str | None) -> bool:
    if option.default is None or java is None:
        return True
    match option.kind.says:
        case SIZE.says:
            return parse_size(option.default) == parse_size(java)
        case DURATION.says:
            return in_java(parse_duration_ms(option.default)) == java
        case NUMBER.says:
            return float(option.default) == float(java)
        case _:
            return option.default in (java, java.lower().replace("_", "-"))


def in_java(duration_ms: int) -> str:
    """A duration as Java prints it."""
    seconds = duration_ms / 1000
    hours, minutes = int(seconds // 3600), int(seconds % 3600 // 60)
    rest = f"{seconds % 60:g}"
    parts = [f"{hours}H" * bool(hours), f"{minutes}M" * bool(minutes), f"{rest}S" * (rest != "0")]
    return "PT" + ("".join(parts) or "0S")


def test_defaults_are_those_that_the_newest_java_declares(java_latest: LatestJavaOracle) -> None:
    differing = {
        each.key: (option.default, each.default)
        for each in java_latest.declared_options()
        if (option := find_option(each.key)) is not None
        and option.name == each.key
        and not same_default(option, each.default)
    }
    assert differing == {}


ANY_TABLE = {
    "team": "payments",
    "owner.email": "a@example.com",
    "file.format": "parquet",
    "file-index.bloom-filter.columns": "v",
    "file-index.bloom-filter.v.items": "100",
    "metadata.stats-keep-first-n-columns": "1",
    "manifest.delete-file-drop-stats": "true",
    "scan.mode": "latest-full",
    "snapshot.watermark-idle-timeout": "1 min",
    "file-reader-async-threshold": "1 mb",
    "bucket-append-ordered": "false",
    "manifest-sort.enabled": "true",
    "metadata.stats-mode.per.level": "0:none",
}
DAILY = {
    "partition.timestamp-pattern": "$day",
    "partition.timestamp-formatter": "yyyy-MM-dd",
    "partition.expiration-time": "36500 d",
    "partition.expiration-check-interval": "1 d",
}
TABLES: dict[str, tuple[tuple[str, ...], tuple[str, ...], dict[str, str]]] = {
    "append": ((), (), {"bucket": "-1", "clustering.columns": "v", "target-file-row-num": "3"}),
    "ordered": ((), (), {"bucket": "2", "bucket-key": "id"}),
    "partitioned": (("day",), (), {"bucket": "-1", **DAILY}),
    "keyed": ((), ("id",), {"bucket": "2", "write.sequence-number-init-mode": "snapshot"}),
    "keyed and partitioned": (("day",), ("day", "id"), {"bucket": "1", **DAILY}),
    "keyed, of a materialized table": (
        (),
        ("id",),
        {"bucket": "1", "materialized-table.definition-query": "SELECT 1"},
    ),
}


def read_by(oracle: LatestJavaOracle, table: Table, catalog: Catalog) -> list[str]:
    """What another client reads, in the form of `content`."""
    found = oracle.read(catalog.root, table.name)
    return sorted(json.dumps(row, sort_keys=True) for row in found)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", list(TABLES))
def test_a_table_with_harmless_options_is_read_written_and_kept(
    catalog: Catalog, java_latest: LatestJavaOracle, kind: str
) -> None:
    partitions, keys, options = TABLES[kind]
    java_latest.create(
        catalog.root,
        "db.t",
        {name: f"{kind} NOT NULL" if name in keys else kind for name, kind in EVENTS.items()},
        partition_keys=partitions,
        primary_keys=keys,
        options={**ANY_TABLE, **options},
    )
    for first in (0, 2):
        java_latest.write(catalog.root, "db.t", events(first, first + 4, day="2024-01-02"))
    table = catalog.table("db.t")

    def both() -> list[str]:
        found = content(table)
        assert read_by(java_latest, table, catalog) == found
        return found

    assert len(both()) == (6 if keys else 8)
    table.write(rows(table, events(5, 8, day="2024-01-03", v="ours")))
    written = both()
    assert any("ours7" in row for row in written)
    compact(table, full=True)
    assert both() == written
    java_latest.write(catalog.root, "db.t", events(7, 9, day="2024-01-03", v="theirs"))
    written = both()
    assert any("theirs7" in row for row in written)
    assert any("ours7" in row for row in written) == (not keys)
    expire(table)
    remove_orphans(table)
    java_latest.compact(catalog.root, "db.t")
    assert both() == written
    expire(table)
    assert_sound(table)


def vector_lengths(table: Table) -> list[int]:
    found = table.inspect.table("table_indexes").to_pylist()
    return sorted(each["f2"] for row in found for each in row["dv_ranges"] or ())


def test_deletion_vectors_for_64_bits_are_those_that_java_writes(
    catalog: Catalog, java_latest: LatestJavaOracle
) -> None:
    options = {
        "bucket": "1",
        "deletion-vectors.enabled": "true",
        "deletion-vectors.bitmap64": "true",
        "num-sorted-run.compaction-trigger": "2",
        "write-only": "true",
    }
    fields = {"id": "BIGINT NOT NULL", "day": "STRING", "v": "STRING"}
    found = {}
    for name in ("db.ours", "db.theirs"):
        java_latest.create(catalog.root, name, fields, primary_keys=["id"], options=options)
        java_latest.write(catalog.root, name, events(0, 6))
        java_latest.compact(catalog.root, name)
        java_latest.write(catalog.root, name, events(2, 4, v="new"))
        table = catalog.table(name)
        if name == "db.ours":
            compact(table)
        else:
            java_latest.compact(catalog.root, name, full=False)
        index = table.inspect.table("table_indexes").to_pylist()
        (file_name,) = {row["file_name"] for row in index}
        path = table.table_files.paths.index(file_name)
        found[name] = (vector_lengths(table), table.table_files.fs.read_bytes(path))
        assert read_by(java_latest, table, catalog) == content(table)
        assert len(content(table)) == 6
    assert found["db.ours"] == found["db.theirs"]
    ours = catalog.table("db.ours")
    java_latest.write(catalog.root, ours.name, events(5, 6, v="newer"))
    java_latest.compact(catalog.root, ours.name, full=False)
    assert read_by(java_latest, ours, catalog) == content(ours)
    assert_sound(ours)


def test_java_reads_a_table_whose_files_with_a_variant_were_joined(
    unchecked_catalog: Catalog, java_latest: LatestJavaOracle
) -> None:
    nested = {"type": "ROW", "fields": [{"name": "inner", "type": "VARIANT"}]}
    for name, kind in (("flat", "VARIANT"), ("nested", nested)):
        java_latest.create(unchecked_catalog.root, f"db.{name}", {"id": "INT", "v": kind})
        for number in range(3):
            java_latest.write(unchecked_catalog.root, f"db.{name}", [{"id": number}])
        before = java_latest.read(unchecked_catalog.root, f"db.{name}")
        table = unchecked_catalog.table(f"db.{name}")
        compact(table, full=True)
        assert java_latest.read(unchecked_catalog.root, f"db.{name}") == before
        assert table.inspect.files().num_rows == 1
        assert table.read(columns=["id"]).column("id").to_pylist() == [0, 1, 2]
        with pytest.raises(UnsupportedError, match=r"column v is of type .*VARIANT"):
            table.read()
        assert_only_reachable_files(table)


@pytest.mark.parametrize(("kind", "keyed"), [("INT", False), ("BIGINT", False), ("BIGINT", True)])
def test_rows_find_the_buckets_that_java_gives_them_by_remainder(
    catalog: Catalog, java_latest: LatestJavaOracle, kind: str, keyed: bool
) -> None:
    options = {"bucket": "5", "bucket-key": "id", "bucket-function.type": "mod"}
    numbers: list[int | None] = [17, -3, 5, 0, 2**31 - 1, -(2**31)]
    numbers += [2**62 + 3, -(2**62)] if kind == "BIGINT" else []
    numbers += [] if keyed else [None]
    values = [{"id": number, "v": str(number)} for number in numbers]
    for name in ("db.ours", "db.theirs"):
        java_latest.create(
            catalog.root,
            name,
            {"id": f"{kind} NOT NULL" if keyed else kind, "v": "STRING"},
            primary_keys=["id"] if keyed else [],
            options=options,
        )
    ours, theirs = catalog.table("db.ours"), catalog.table("db.theirs")
    java_latest.write(catalog.root, theirs.name, values)
    ours.write(rows(ours, values))

    def placed(table: Table) -> dict[int, int]:
        found = table.inspect.table("files").to_pylist()
        return {row["bucket"]: row["record_count"] for row in found}

    assert placed(ours) == placed(theirs)
    for table in (ours, theirs):
        table.write(rows(table, values[:2]))
        compact(table, full=True)
        assert read_by(java_latest, table, catalog) == content(table)
        for value in values[2:6]:
            where = Leaf("id", Operator.EQ, (value["id"],))
            assert len(content(table, where=where)) == 1
            found = java_latest.read(catalog.root, table.name, where=[("id", "=", value["id"])])
            assert found == [value]
    if keyed:
        found_by_key = ours.lookup(pa.table({"id": pa.array(numbers, pa.int64())}))
        assert found_by_key.num_rows == len(numbers)
    rescaled = ours.upkeep.run(ours.upkeep.plan_rescale(3))
    assert rescaled is not None
    ours = catalog.table("db.ours")
    assert read_by(java_latest, ours, catalog) == content(ours)
    java_latest.write(catalog.root, ours.name, values[:1])
    assert read_by(java_latest, ours, catalog) == content(ours)


@pytest.mark.parametrize("kind", ["append", "keyed", "keyed and partitioned"])
def test_data_files_in_another_folder_of_the_table_are_read_written_and_kept(
    catalog: Catalog, java_latest: LatestJavaOracle, kind: str
) -> None:
    partitions, keys, options = TABLES[kind]
    java_latest.create(
        catalog.root,
        "db.t",
        {name: f"{kind} NOT NULL" if name in keys else kind for name, kind in EVENTS.items()},
        partition_keys=partitions,
        primary_keys=keys,
        options={**options, "data-file.path-directory": "data/files"},
    )
    java_latest.write(catalog.root, "db.t", events(0, 4, day="2024-01-02"))
    table = catalog.table("db.t")
    table.write(rows(table, events(2, 6, day="2024-01-02", v="ours")))
    assert read_by(java_latest, table, catalog) == content(table)
    compact(table, full=True)
    java_latest.write(catalog.root, "db.t", events(5, 8, day="2024-01-03", v="theirs"))
    expected = content(table)
    assert read_by(java_latest, table, catalog) == expected
    (entry, *_) = table.at().files()
    orphan = f"{table.table_files.bucket_dir(entry.place)}/data-lost-0.parquet"
    assert "/t/data/files/" in orphan
    table.table_files.fs.write_bytes(orphan, b"lost")
    java_latest.compact(catalog.root, "db.t")
    expire(table)
    remove_orphans(table)
    assert not table.table_files.fs.exists(orphan)
    assert read_by(java_latest, table, catalog) == content(table) == expected


def test_data_files_outside_of_the_table_are_read_where_its_options_allow_it(
    unchecked_catalog: Catalog, java_latest: LatestJavaOracle, tmp_path: Path
) -> None:
    catalog, places = unchecked_catalog, [tmp_path / "one place", tmp_path / "two"]
    options = {
        "bucket": "2",
        "data-file.external-paths": ",".join(f"file://{place}" for place in places),
        "data-file.external-paths.strategy": "round-robin",
    }
    fields = {"id": "BIGINT NOT NULL", "day": "STRING", "v": "STRING"}
    java_latest.create(catalog.root, "db.t", fields, primary_keys=["id"], options=options)
    java_latest.write(catalog.root, "db.t", events(0, 4))
    java_latest.write(catalog.root, "db.t", events(2, 6, v="new"))
    table = catalog.table("db.t")
    assert read_by(java_latest, table, catalog) == content(table)
    assert len(content(table)) == 6
    theirs = java_latest.read(catalog.root, "db.t$files")
    ours = table.inspect.table("files").to_pylist()
    assert sorted(row["file_path"] for row in ours) == sorted(row["file_path"] for row in theirs)
    for verb in (
        lambda: table.write(rows(table, events(0, 1))),
        lambda: table.upkeep.plan_compact(full=True),
        table.upkeep.plan_expire_snapshots,
    ):
        with pytest.raises(UnsupportedError, match="files must lie outside of the table"):
            verb()
    fewer = with_options(table, **{"data-file.external-paths": f"file://{places[1]}s"})
    with pytest.raises(UnsupportedError, match=r"no path of its option data-file\.external"):
        fewer.read()
    # Without the option too, nothing takes away what lies elsewhere.
    inside = with_options(table, **{"data-file.external-paths.strategy": "none"})
    outside = sorted(path for place in places for path in place.rglob("*.parquet"))
    expire(inside)
    assert outside
    assert all(path.is_file() for path in outside)
    # Orphans are looked for in the table only.
    expected = content(table)
    remove_orphans(table)
    assert read_by(java_latest, table, catalog) == content(table) == expected


@pytest.mark.parametrize("partitions", [("day",), ()])
def test_partitions_that_are_missing_are_read_from_the_branch_that_an_option_names(
    unchecked_catalog: Catalog, java_latest: LatestJavaOracle, partitions: tuple[str, ...]
) -> None:
    catalog, root = unchecked_catalog, unchecked_catalog.root
    java_latest.create(
        root, "db.t", dict(EVENTS), partition_keys=partitions, options={"bucket": "-1"}
    )
    java_latest.create_branch(root, "db.t", "stream")
    java_latest.alter(root, "db.t", {"set_option": "scan.fallback-branch", "value": "stream"})
    java_latest.write(root, "db.t$branch_stream", events(10, 12, day="a", v="s"))
    java_latest.write(root, "db.t$branch_stream", events(20, 22, day="b", v="s"))
    conditions: list[Leaf | None] = [
        None,
        Leaf("day", Operator.EQ, ("b",)),
        Leaf("id", Operator.GT, (10,)),
        Leaf("v", Operator.EQ, ("s10",)),
    ]

    def both() -> list[int]:
        table, counts = catalog.table("db.t"), []
        for where in conditions:
            told = [] if where is None else [(where.column, where.operator.value, *where.literals)]
            theirs = java_latest.read(root, "db.t", where=told)
            ours = content(table, where=where)
            assert ours == sorted(json.dumps(row, sort_keys=True) for row in theirs)
            counts.append(len(ours))
        return counts

    assert both() == [4, 2, 3, 1]
    java_latest.write(root, "db.t", events(1, 3, day="a", v="m"))
    # The table has that partition, whatever a filter keeps of it.
    assert both() == ([4, 2, 2, 0] if partitions else [2, 0, 0, 0])
    table = catalog.table("db.t")
    with pytest.raises(UnsupportedError, match=r"scan\.fallback-branch=stream"):
        table.at(snapshot=1).read()
    with pytest.raises(UnsupportedError, match=r"scan\.fallback-branch=stream"):
        table.inspect.table("ro")
    with pytest.raises(InvalidRequestError, match=r"in use by option scan\.fallback-branch"):
        table.history.plan_delete_branch("stream", grace_ms=0)
    table.write(rows(table, events(5, 6, day="b", v="ours")))
    assert both()[0] == 3
    java_latest.alter(root, "db.t", {"add_column": "n", "type": "INT"})
    with pytest.raises(UnsupportedError, match="have different columns"):
        catalog.table("db.t").read()


@pytest.mark.parametrize(
    "options",
    [
        {"clustering.incremental": "true"},
        {"record-level.expire-time": "1 d", "deletion-vectors.enabled": "true"},
    ],
)
def test_a_table_that_cannot_be_compacted_is_expired_and_cleaned(
    unchecked_catalog: Catalog, java_latest: LatestJavaOracle, options: dict[str, str]
) -> None:
    catalog, root = unchecked_catalog, unchecked_catalog.root
    keyed = "record-level.expire-time" in options
    of_keys = {"bucket": "1", "record-level.time-field": "at"} if keyed else {"bucket": "-1"}
    java_latest.create(
        root,
        "db.t",
        {"id": "BIGINT NOT NULL", "day": "STRING", "v": "STRING", "at": "INT NOT NULL"},
        primary_keys=["id"] if keyed else [],
        options={**options, **of_keys},
    )
    for first in (0, 5):
        values = [{**row, "at": 2**31 - 1} for row in events(first, first + 3)]
        java_latest.write(root, "db.t", values, overwrite="table")
        java_latest.write(root, "db.t", values[:1])
    table = catalog.table("db.t")
    table.history.create_tag("kept", snapshot=2)
    with pytest.raises(UnsupportedError, match=r"the table cannot be compacted, and was not"):
        table.upkeep.plan_compact(full=True)
    before = read_by(java_latest, table, catalog)
    tagged = java_latest.read(root, "db.t", tag="kept")
    lost = f"{root}/db.db/t/bucket-0/data-lost-0.parquet"
    table.table_files.fs.write_bytes(lost, b"lost")
    expire(table)
    assert len(table.history.snapshots()) == 1
    remove_orphans(table)
    assert not table.table_files.fs.exists(lost)
    assert read_by(java_latest, table, catalog) == before
    assert java_latest.read(root, "db.t", tag="kept") == tagged
    table.history.run(table.history.plan_delete_tags("kept", grace_ms=0))
    assert read_by(java_latest, table, catalog) == before
    java_latest.write(root, "db.t", [{**row, "at": 2**31 - 1} for row in events(20, 21)])
    assert len(read_by(java_latest, table, catalog)) == len(before) + 1
    assert_only_reachable_files(table)
