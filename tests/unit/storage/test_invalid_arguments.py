"""Arguments of wrong types are refused by name, before anything is written."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidRequestError, InvalidSchema, TableNotFound, TagNotFound
from tests.support.tables.builders import events, new_table, rows
from tests.support.tables.invariants import assert_sound


@pytest.fixture
def table(catalog: Catalog) -> Table:
    made: Table = new_table(catalog, keys=["id"], options={"bucket": "1"})
    made.write(rows(made, events(0, 2)))
    return made


def files_of(catalog: Catalog) -> list[str]:
    return sorted(each.path for each in catalog.fs.list_tree(catalog.root))


IDENTIFIERS = (2**63, -(2**63) - 1, 1.5, True, "x", b"1", np.float64(1))
USERS = (5, b"u", uuid.UUID(int=1), "\ud800", "a\udfff")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("commit_identifier", each) for each in IDENTIFIERS),
        *(("commit_user", each) for each in USERS),
    ],
    ids=repr,
)
def test_a_commit_that_no_snapshot_can_hold_is_refused_before_the_rows(
    catalog: Catalog, table: Table, name: str, value: Any
) -> None:
    before = files_of(catalog)
    given = {"commit_user": "u", "commit_identifier": 1, name: value}
    with pytest.raises(InvalidRequestError, match=name):
        table.write(rows(table, events(2, 3)), **given)
    assert files_of(catalog) == before


def test_integers_of_numpy_are_identifiers_ids_times_and_counts(table: Table) -> None:
    number = np.int64(5)
    table.write(rows(table, events(2, 3)), commit_user="u", commit_identifier=number)
    assert table.find_committed("u", number) == table.history.latest_snapshot()
    kept = table.stage(rows(table, events(3, 4)), commit_user="u", commit_identifier=number + 1)
    table.keep_pending(kept)
    table.commit_pending("u", up_to=number + 1)
    table.history.create_tag("q", snapshot=np.int64(1), time_retained_ms=np.int64(5_000))
    table.history.set_consumer("c", np.int64(1))
    assert table.history.consumers()[0].next_snapshot_id == 1
    assert table.at(snapshot=np.int32(1)).read(limit=np.uint8(1)).num_rows == 1
    assert table.upkeep.plan_rescale(np.int64(2)).bucket_option == 2
    table.history.delete_consumer("c")
    table.history.rollback(snapshot=np.int64(1), grace_ms=0)
    assert_sound(table)


@pytest.mark.parametrize(
    "wrong", [{"commit_user": 5}, {"commit_identifier": 2**63}, {"watermark": 2**63}]
)
def test_a_staged_write_holds_only_what_a_snapshot_can_hold(
    table: Table, wrong: dict[str, Any]
) -> None:
    staged = table.stage(rows(table, events(2, 3)), commit_user="u", commit_identifier=1)
    with pytest.raises(InvalidRequestError, match=next(iter(wrong))):
        replace(staged, **wrong)
    table.abort(staged)


def test_a_commit_whose_snapshot_no_reader_would_accept_leaves_nothing_behind(
    catalog: Catalog, table: Table
) -> None:
    before = files_of(catalog)
    staged = table.stage(rows(table, events(2, 3)), commit_user="u", commit_identifier=1)
    # Past the checks of a staged write, the encoders stand.
    object.__setattr__(staged, "watermark", 2**63)
    with pytest.raises(InvalidRequestError, match="snapshot 2 was not written"):
        table.commit(staged)
    with pytest.raises(InvalidRequestError, match="the batch was not written"):
        table.keep_pending(staged)
    table.abort(staged)
    assert files_of(catalog) == before


WRONG: dict[str, Callable[[Table], object]] = {
    "time_retained_ms": lambda t: t.history.create_tag("q", time_retained_ms=float("nan")),
    "time_retained_ms of a new tag": lambda t: t.history.replace_tag("old", time_retained_ms=True),
    "tag name": lambda t: t.history.create_tag(5),
    "snapshot of a tag": lambda t: t.history.create_tag("q", snapshot="1"),
    "snapshot of a branch": lambda t: t.history.create_branch("b", snapshot="1"),
    "snapshot to roll back to": lambda t: t.history.rollback(snapshot="1", grace_ms=0),
    "snapshot": lambda t: t.at(snapshot="1"),
    "snapshot, a whole one": lambda t: t.at(snapshot=1.0),
    "version": lambda t: t.at(version=1),
    "tag": lambda t: t.at(tag=1),
    "next_snapshot_id": lambda t: t.history.set_consumer("c", 1.5),
    "next_snapshot_id, no bool": lambda t: t.history.set_consumer("c", True),
    "older_than_ms of consumers": lambda t: t.history.expire_consumers(older_than_ms=-1),
    "end": lambda t: t.read_changes(0, None),
    "where": lambda t: t.read(where=123),
    "limit, a text": lambda t: t.read(limit="a"),
    "limit, a fraction": lambda t: t.read(limit=1.5),
    "limit, negative": lambda t: t.read(limit=-1),
    "limit of changes": lambda t: t.read_changes(0, 1, limit=-1),
    "commit_identifier": lambda t: t.find_committed("u", "x"),
    "commit_user": lambda t: t.pending_batches(5),
    "up_to": lambda t: t.commit_pending("u", up_to="x"),
    "buckets": lambda t: t.upkeep.rescale("2"),
    "buckets, a float": lambda t: t.upkeep.rescale(2.0),
    "min_files": lambda t: t.upkeep.compact(min_files="a"),
    "time_retained_ms of snapshots": lambda t: t.upkeep.expire_snapshots(
        time_retained_ms="7d", grace_ms=0
    ),
    "retain_min": lambda t: t.upkeep.expire_snapshots(retain_min=1.0, grace_ms=0),
    "max_duration_ms": lambda t: list(t.upkeep.expire_in_steps(max_duration_ms=-1)),
    "older_than_ms of tags": lambda t: t.upkeep.expire_tags(older_than_ms=-1, grace_ms=0),
    "before_ms": lambda t: t.upkeep.remove_orphans(before_ms="x"),
    "older_than_ms": lambda t: t.upkeep.remove_orphans(older_than_ms="x"),
    "buckets[0]": lambda t: t.upkeep.compact(buckets=["0"]),
    "record": lambda t: t.upkeep.put_back(5),
    "max_files": lambda t: t.upkeep.collect(max_files="x"),
    "grace_ms": lambda t: t.upkeep.remove_orphans(grace_ms="x"),
    "grace_ms of snapshots": lambda t: t.upkeep.expire_snapshots(grace_ms=-1),
    "grace_ms of a rollback": lambda t: t.history.rollback(snapshot=1, grace_ms=1.5),
}


def test_every_argument_of_a_wrong_type_is_refused_by_its_name_and_nothing_changes(
    catalog: Catalog, table: Table
) -> None:
    table.history.create_tag("old")
    before = files_of(catalog)
    for name, call in WRONG.items():
        argument = name.split(" of ")[0].split(",")[0].split(" to ")[0]
        with pytest.raises(InvalidRequestError, match=f"{re.escape(argument)} is "):
            call(table)
        assert files_of(catalog) == before, name


NEW: dict[str, dict[str, Any]] = {
    "an empty fixed binary": {"schema": pa.schema([("x", pa.binary(0))])},
    "a negative scale": {"schema": pa.schema([("x", pa.decimal128(38, -2))])},
    "a comment that is no text": {"schema": {"a": "INT"}, "comment": 5},
    "a surrogate in a comment": {"schema": {"a": "INT"}, "comment": "\ud800"},
    "a surrogate in a name": {"schema": {"a\ud800": "INT"}},
    "a surrogate in an option": {"schema": {"a": "INT"}, "options": {"k": "\ud800"}},
    "a struct without members": {"schema": pa.schema([("x", pa.struct([]))])},
    "such a struct in a list": {"schema": pa.schema([("x", pa.list_(pa.struct([])))])},
    "a member twice in a list": {
        "schema": pa.schema([("x", pa.list_(pa.struct([("a", pa.int8()), ("a", pa.int8())])))])
    },
    "a type that is nested too deeply": {"schema": {"a": "ARRAY<" * 2000 + "INT" + ">" * 2000}},
    "a type that is no text": {"schema": {"a": 1}},
    "a name that is no text": {"schema": {1: "INT"}},
    "options that are a list": {"schema": {"a": "INT"}, "options": ["x"]},
    "the name of an option that is no text": {"schema": {"a": "INT"}, "options": {1: "x"}},
    "keys that are a text": {"schema": {"a": "INT"}, "primary_keys": "a"},
}


@pytest.mark.parametrize("what", NEW)
def test_a_table_that_could_not_be_opened_is_not_created(catalog: Catalog, what: str) -> None:
    with pytest.raises(InvalidRequestError):
        catalog.create_table("db.new", **NEW[what])
    assert not catalog.table_exists("db.new")
    assert catalog.create_table("db.new", {"a": "INT"}).read().num_rows == 0


def test_a_schema_that_is_nested_a_hundred_times_can_be_stored(catalog: Catalog) -> None:
    deep = "ARRAY<" * 99 + "INT" + ">" * 99
    assert str(catalog.create_table("db.new", {"a": deep}).schema.field("a").type) == deep
    with pytest.raises(InvalidSchema, match="nested more than 100 times"):
        catalog.create_table("db.deeper", {"a": f"ARRAY<{deep[:-1]}>>"})


@pytest.mark.parametrize("name", [None, 5, b"db.t"], ids=repr)
def test_names_of_tables_are_text(catalog: Catalog, name: Any) -> None:
    calls: list[Callable[[], object]] = [
        lambda: catalog.create_table(name, {"a": "INT"}),
        lambda: catalog.table(name),
        lambda: catalog.table_exists(name),
        lambda: catalog.drop_table(name),
        lambda: catalog.system_table(name),
        lambda: catalog.create_database(name),
    ]
    for call in calls:
        with pytest.raises(InvalidRequestError, match=r"name is .*not text"):
            call()


def test_a_table_whose_schema_cannot_be_read_can_be_dropped(unchecked_catalog: Catalog) -> None:
    catalog = unchecked_catalog
    table = catalog.create_table("db.t", {"a": "INT"})
    catalog.fs.replace(table.table_files.paths.schema(0), b"{}")
    catalog.drop_table("db.t", grace_ms=0)
    assert not catalog.table_exists("db.t")
    with pytest.raises(TableNotFound, match=r"no table db\.t in"):
        catalog.drop_table("db.t")


def test_a_name_that_is_too_long_for_the_disk_is_told_as_the_mistake_that_it_is(
    catalog: Catalog,
) -> None:
    table = catalog.create_table("db.t", {"a": "INT", "p": "STRING"}, partition_keys=["p"])
    before = files_of(catalog)
    long = pa.table({"a": pa.array([1], pa.int32()), "p": ["x" * 300]})
    with pytest.raises(InvalidRequestError, match="a name that is too long"):
        table.write(long)
    assert files_of(catalog) == before
    table.write(long.set_column(1, "p", pa.array(["x"])))
    with pytest.raises(InvalidRequestError, match="a name that is too long"):
        table.history.create_tag("x" * 5_000)
    assert table.history.tags() == ()


@pytest.mark.parametrize("wrong", [{"day": "a"}, "day=a", [5], ["day"]], ids=repr)
def test_partitions_are_named_by_their_keys_with_values(catalog: Catalog, wrong: Any) -> None:
    table = new_table(catalog, partitions=["day"])
    with pytest.raises(InvalidRequestError, match=r"partitions(\[0\])? is "):
        table.upkeep.compact(wrong)


def test_a_text_that_no_file_can_hold_is_no_value_of_a_partition(catalog: Catalog) -> None:
    table = new_table(catalog, partitions=["day"])
    before = files_of(catalog)
    for text in ("\ud800", "a\udfff"):
        with pytest.raises(InvalidRequestError, match="valid STRING"):
            table.write(pa.table({"id": [1], "v": ["x"]}), partition={"day": text})
    assert files_of(catalog) == before


@pytest.mark.parametrize("version", ["9" * 20, "9" * 200, "watermark-" + "9" * 20, "watermark---5"])
def test_a_version_that_is_no_number_of_64_bits_is_looked_up_as_a_tag(
    table: Table, version: str
) -> None:
    with pytest.raises(TagNotFound):
        table.at(version=version)
    with pytest.raises(TagNotFound):
        table.read_changes("1", version)


def test_an_age_beyond_the_calendar_expires_no_tag(table: Table) -> None:
    table.history.create_tag("q")
    assert table.upkeep.plan_expire_tags(older_than_ms=2**62, grace_ms=0).tags == ()
