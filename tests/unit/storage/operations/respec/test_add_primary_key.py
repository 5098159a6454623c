"""A table without a primary key gets one, with all rows or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import (
    CommitConflictError,
    InvalidRequestError,
    InvalidSchema,
    NotRevertible,
    SchemaMoved,
    StalePlan,
    StorageError,
    UnsupportedError,
)
from lakewright.storage.operations.respec import add_primary_key
from tests.support.stores.watched_files import Call, WatchedFiles
from tests.support.tables.builders import content, events, expire, new_table, rows, values_of

KEYS = ["day", "id"]


def _attach_log(option: str) -> Callable[[Table], object]:
    def attach(table: Table) -> None:
        schema = table.schema
        options = {**schema.options, option: "kafka"}
        table.table_files.schemas.put_schema(replace(schema, id=schema.id + 1, options=options))

    return attach


def appended(catalog: Catalog, **options: str) -> Table:
    table = new_table(catalog, partitions=["day"], options=options)
    table.write(rows(table, [*events(0, 6), *events(0, 3, day="b")]))
    table.write(rows(table, events(6, 9)))
    return table


@pytest.mark.mission("MT14", "SQ18")
def test_rows_get_a_key_in_one_snapshot_and_replace_each_other_from_then_on(
    catalog: Catalog,
) -> None:
    table = appended(catalog)
    before = content(table)
    result = table.upkeep.add_primary_key(KEYS, buckets=2)
    keyed = catalog.table("db.t")
    assert (result.rows, result.files_before) == (12, 3)
    assert keyed.schema.primary_keys == ("day", "id")
    assert not keyed.schema.field("id").type.nullable
    assert content(keyed) == before
    assert [each.id for each in keyed.history.snapshots()] == [1, 2, 3, 4]
    assert {each.total_buckets for each in keyed.at().files()} == {2}
    keyed.write(rows(keyed, events(0, 2, v="new")))
    keyed.write(rows(keyed, events(8, 9), ["-D"]))
    assert {"new0", "new1", "v2"} <= set(values_of(keyed, "v"))
    assert keyed.read().num_rows == 11
    assert keyed.at(snapshot=1).read().num_rows == 9
    keyed.upkeep.compact(full=True)
    assert keyed.read().num_rows == 11


def test_a_table_without_rows_gets_a_key_by_its_schema(catalog: Catalog) -> None:
    table = new_table(catalog, partitions=["day"])
    assert table.upkeep.add_primary_key(KEYS).snapshot is None
    keyed = catalog.table("db.t")
    assert (keyed.schema.primary_keys, keyed.options.bucket) == (("day", "id"), 1)
    keyed.write(rows(keyed, [*events(0, 2), *events(0, 2, v="new")]))
    assert keyed.read().num_rows == 2


@pytest.mark.mission("MT15", "SQ18")
def test_keys_that_stand_twice_are_shown_before_anything_is_written(catalog: Catalog) -> None:
    table = appended(catalog)
    table.write(rows(table, [*events(3, 4, v="again"), *events(3, 4, v="more")]))
    before = sorted(each.path for each in catalog.fs.list_tree(table.table_files.paths.root))
    with pytest.raises(InvalidRequestError, match=r"more than once, such as \(a, 3\) in 3 rows"):
        table.upkeep.add_primary_key(KEYS)
    after = sorted(each.path for each in catalog.fs.list_tree(table.table_files.paths.root))
    assert after == before
    table.upkeep.add_primary_key([*KEYS, "v"])


def test_a_null_in_the_key_is_refused(catalog: Catalog) -> None:
    table = appended(catalog)
    table.write(rows(table, [{"id": None, "day": "a", "v": "x"}]))
    with pytest.raises(InvalidRequestError, match=r"keys are null .* \(a, None\) in 1 rows"):
        table.upkeep.add_primary_key(KEYS)


@pytest.mark.mission("MT14", "MT16")
@pytest.mark.parametrize(
    ("ready", "error", "message"),
    [
        (
            lambda t: t.upkeep.add_primary_key([*KEYS, "v"]),
            InvalidRequestError,
            "has the primary key day",
        ),
        (lambda t: t.history.set_consumer("reader", 1), UnsupportedError, "consumer reader reads"),
        (lambda t: t.history.create_branch("b"), UnsupportedError, "has branch b"),
        (_attach_log("log.system"), UnsupportedError, r"log\.system=kafka"),
        (
            _attach_log("lakewright.log.system"),
            UnsupportedError,
            r"has a log, .* RESET \('log\.sys",
        ),
    ],
)
def test_what_knows_the_table_without_a_key_rules_it_out(
    catalog: Catalog, ready: Callable[[Table], object], error: type[StorageError], message: str
) -> None:
    ready(appended(catalog))
    with pytest.raises(error, match=message):
        catalog.table("db.t").upkeep.plan_add_primary_key(KEYS)


def test_a_key_without_the_partition_keys_is_refused(catalog: Catalog) -> None:
    with pytest.raises(InvalidSchema, match="partition key 'day' is not in the primary key"):
        appended(catalog).upkeep.add_primary_key(["id"])


def test_others_that_commit_meanwhile_leave_the_table_without_a_key(catalog: Catalog) -> None:
    table = appended(catalog)
    plan = table.upkeep.plan_add_primary_key(KEYS)
    catalog.table("db.t").write(rows(table, events(0, 1, v="twice")))
    with pytest.raises(StalePlan, match="its files are others now"):
        table.upkeep.run(plan)

    def late(call: Call) -> None:
        """Another client commits just after the snapshot."""
        if not done and call.name == "put_if_absent" and call.path.endswith("schema-3"):
            done.append(True)
            other = Table(catalog.table("db.t").table_files)
            other.write(rows(other, events(20, 21)), commit_user="other")

    done: list[bool] = []
    table = catalog.table("db.t")
    table.upkeep.drop_partitions("day = 'a'")
    watched = replace(catalog, fs=WatchedFiles(catalog.fs, before=late))
    with pytest.raises(CommitConflictError, match="the table has no key, and all rows"):
        watched.table("db.t").upkeep.add_primary_key(KEYS)
    again = catalog.table("db.t")
    assert done
    assert not again.schema.has_primary_key
    assert again.read().num_rows == 4
    again.upkeep.add_primary_key(KEYS)
    assert catalog.table("db.t").read().num_rows == 4


def test_who_opened_the_table_before_cannot_write_rows_without_a_key(catalog: Catalog) -> None:
    table = appended(catalog)
    staged = table.stage(rows(table, events(10, 11)))
    table.upkeep.add_primary_key(KEYS)
    other = "primary key|keys of db.t changed"
    for commit in (
        lambda: table.write(rows(table, events(9, 10))),
        lambda: table.commit(staged),
        lambda: catalog.table("db.t").commit(staged),
    ):
        with pytest.raises(SchemaMoved, match=other):
            commit()
    table.abort(staged)


def test_history_does_not_lead_back_over_the_key(catalog: Catalog) -> None:
    appended(catalog).upkeep.add_primary_key(KEYS)
    table = catalog.table("db.t")
    table.write(rows(table, events(0, 1, v="new")))
    with pytest.raises(UnsupportedError, match="before the table got its primary key"):
        table.history.rollback(snapshot=2, grace_ms=0)
    with pytest.raises(NotRevertible, match="has got its primary key since"):
        table.history.revert(2)
    for mode in ("delta", "diff"):
        with pytest.raises(UnsupportedError, match="got its primary key during these changes"):
            table.read_changes(1, 5, mode=mode)
    assert table.read_changes(4, 5, mode="delta").num_rows == 1


@pytest.mark.parametrize(
    ("options", "bucket_key"),
    [
        ({"deletion-vectors.enabled": "true"}, None),
        ({"bucket": "3", "bucket-key": "v"}, None),
        ({"bucket": "3", "bucket-key": "id"}, "id"),
    ],
)
def test_deleted_rows_and_buckets_of_before_are_those_of_the_key(
    catalog: Catalog, options: dict[str, str], bucket_key: str | None
) -> None:
    table = appended(catalog, **options)
    table.delete("id = 2 AND day = 'a'")
    before = content(catalog.table("db.t"))
    catalog.table("db.t").upkeep.add_primary_key(KEYS)
    keyed = catalog.table("db.t")
    assert content(keyed) == before
    assert keyed.schema.options.get("bucket-key") == bucket_key
    assert keyed.options.bucket == int(options.get("bucket", 1))
    keyed.write(rows(keyed, events(0, 1, v="new")))
    keyed.upkeep.compact(full=True)
    assert "new0" in values_of(keyed, "v")
    assert keyed.read().num_rows == 11


def test_a_run_that_died_leaves_a_table_that_is_written_compacted_and_keyed_later(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = appended(catalog)

    def die(*_: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(add_primary_key, "is_latest", die)
    with pytest.raises(KeyboardInterrupt):
        table.upkeep.add_primary_key(KEYS, buckets=2)
    monkeypatch.undo()
    after = catalog.table("db.t")
    after.write(rows(after, events(10, 12)))
    after.upkeep.compact(full=True)
    after.delete("id = 11")
    assert not after.schema.has_primary_key
    assert after.read().num_rows == 13
    expire(after, keep=1)
    after.upkeep.add_primary_key(KEYS, buckets=3)
    assert catalog.table("db.t").read().num_rows == 13
