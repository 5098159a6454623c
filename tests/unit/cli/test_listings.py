"""`ls`, `show`, `snapshots`, `files`, `partitions`: what a user sees, and what a script gets."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from lakewright.session import Session
from lakewright.storage import Catalog, Table
from tests.support.tables.builders import EVENTS, events, expire, new_table, rows
from tests.support.tables.late_commits import commit_late
from tests.unit.cli.conftest import Lakewright

KEYED = {"keys": ["id", "day"], "partitions": ["day"], "options": {"bucket": "2"}}


def keyed_table(catalog: Catalog, *, commits: int = 6) -> Table:
    table = new_table(catalog, EVENTS, name="shop.orders", **KEYED)  # type: ignore[arg-type]
    for _ in range(commits):
        table.write(rows(table, [*events(0, 2, day="a"), *events(0, 1, day="b")]))
    return table


def rewrite_schema(table: Table, **changes: Any) -> None:
    path = Path(table.table_files.paths.schema(0))
    data = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps({**data, **changes}), "utf-8")


# --- ls ----------------------------------------------------------------------------------------


def test_ls_lists_tables_of_all_databases_or_of_one(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    keyed_table(catalog)
    new_table(catalog, EVENTS, name="web.clicks")
    lines = lakewright(catalog, "ls").lines
    assert [line.split()[0] for line in lines[2:]] == ["shop.orders", "web.clicks"]
    assert lines[0].split("  ")[0] == "table"
    assert "18         6  2024-01-01 00:00:00." in lines[2]
    assert lines[3].split() == ["web.clicks", "-", "-", "0", "-", "-"]
    assert len(lakewright(catalog, "ls", "web").lines) == 3

    found = lakewright(catalog, "ls", "--format", "json").json
    assert [each["table"] for each in found] == ["shop.orders", "web.clicks"]
    assert found[0]["primary_key"] == ["id", "day"]
    assert found[0]["snapshot_id"] == 6
    assert found[1]["snapshot_id"] is None


def with_external_table(catalog: Catalog) -> None:
    new_table(catalog, EVENTS, name="shop.zones")
    Session(catalog).sql("""
        CREATE TABLE shop.items (id BIGINT, twice AS id * 2, PRIMARY KEY (id) NOT ENFORCED)
          COMMENT 'elsewhere' WITH ('connector' = 'jdbc', 'url' = 'sqlite:///nowhere.db',
          'table-name' = 'items', 'password' = '${env:NOT_SET}')
    """)


def test_ls_lists_external_tables_by_their_connector_without_a_look_at_them(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    with_external_table(catalog)
    lines = lakewright(catalog, "ls").lines
    assert lines[2].split() == ["shop.items", "id", "-", "(connector", "jdbc)", "-", "-"]
    assert lines[3].split()[0] == "shop.zones"
    items, zones = lakewright(catalog, "ls", "shop", "--format", "json").json
    assert (items["connector"], items["primary_key"], items["rows_in_files"]) == (
        "jdbc",
        ["id"],
        None,
    )
    assert zones["connector"] is None
    definition = Path(catalog.root, ".lakewright/external/shop/items.json")
    definition.write_text("{", "utf-8")
    ended = lakewright(catalog, "ls")
    assert ended.lines[2].split() == ["shop.items", "(cannot", "be", "read)"]
    assert ended.err.startswith("lakewright: warning: shop.items: ")


def test_show_prints_the_definition_of_an_external_table(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    with_external_table(catalog)
    shown = lakewright(catalog, "show", "shop.items")
    for text in ("external table of connector jdbc", "elsewhere", "BIGINT AS id * 2"):
        assert text in shown.out
    assert "password" in shown.out
    assert "${env:NOT_SET}" in shown.out
    found = lakewright(catalog, "show", "shop.items", "--format", "json").json
    assert found["connector"] == "jdbc"
    assert [(each["name"], each["type"]) for each in found["columns"]] == [
        ("id", "BIGINT NOT NULL")
    ]
    assert found["primary_key"] == ["id"]
    assert found["options"]["table-name"] == "items"


def test_an_empty_warehouse_says_so(catalog: Catalog, lakewright: Lakewright) -> None:
    catalog.create_database("web")
    assert lakewright(catalog, "ls").lines == [f"no tables in {catalog.uri}"]
    assert lakewright(catalog, "ls", "web").lines == ["no tables in database web"]
    assert lakewright(catalog, "ls", "--format", "json").json == []


def test_a_table_that_cannot_be_opened_hides_none_of_the_others(
    unchecked_catalog: Catalog, lakewright: Lakewright
) -> None:
    broken = new_table(unchecked_catalog, EVENTS, name="web.broken")
    new_table(unchecked_catalog, EVENTS, name="web.clicks")
    Path(broken.table_files.paths.schema(0)).write_text("{", "utf-8")
    ended = lakewright(unchecked_catalog, "ls")
    assert [line.split()[0] for line in ended.lines[2:]] == ["web.broken", "web.clicks"]
    assert "(cannot be read)" in ended.lines[2]
    assert ended.err.startswith("lakewright: warning: web.broken: ")
    assert "error" in lakewright(unchecked_catalog, "ls", "--format", "json").json[0]


def test_the_warehouse_may_be_named_before_or_after_or_in_the_environment(
    catalog: Catalog, lakewright: Lakewright, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_table(catalog, EVENTS, name="web.clicks")
    before = lakewright(None, "--warehouse", catalog.uri, "ls", "--format", "json")
    after = lakewright(None, "ls", "--warehouse", catalog.uri, "--format", "json")
    monkeypatch.setenv("LAKEWRIGHT_WAREHOUSE", catalog.uri)
    named = lakewright(None, "ls", "--format", "json")
    assert before.json == after.json == named.json != []
    monkeypatch.delenv("LAKEWRIGHT_WAREHOUSE")
    monkeypatch.chdir(Path(catalog.root).parent)
    assert lakewright(None, "ls", "--format", "json").json == named.json


# --- show --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bucket", "said"),
    [
        ("-1", "primary-key table, dynamic buckets, found by an index of keys"),
        ("-2", "primary-key table, postponed buckets, assigned by id after the write"),
    ],
)
def test_show_says_how_rows_find_their_bucket(
    catalog: Catalog, lakewright: Lakewright, bucket: str, said: str
) -> None:
    new_table(catalog, keys=("id",), options={"bucket": bucket})
    assert said in lakewright(catalog, "show", "db.t").out


def test_show_describes_a_keyed_table(catalog: Catalog, lakewright: Lakewright) -> None:
    table = keyed_table(catalog)
    out = lakewright(catalog, "show", "shop.orders").out
    for said in (
        f"location        {table.location}",
        "kind            primary-key table, 2 buckets by id",
        "primary key     id, day",
        "partitioned by  day",
        "snapshot        6 (APPEND, 2024-01-01 ",
        "6 kept from 1 on",
        "id    BIGINT NOT NULL  primary",
        "day   STRING NOT NULL  primary, partition",
        "bucket       2",
        "partitions  2",
        "rows        18 in files, including older versions of a key",
        "below 89.6 MiB",
        "sorted runs  at most 6 in a bucket, merged from 5 on",
        "compaction   would rewrite ",
    ):
        assert said in out, out


def test_show_of_an_empty_unpartitioned_table_leaves_out_what_there_is_not(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    new_table(catalog, EVENTS)
    out = lakewright(catalog, "show", "db.t").out
    assert "kind            append table" in out or "kind      append table" in out
    assert "none: nothing was committed yet" in out
    assert "compaction   nothing to do" in out
    assert "partition" not in out
    assert "primary" not in out
    assert "sorted runs" not in out
    assert not [line for line in out.splitlines() if line != line.rstrip()]


def test_show_json_has_exact_numbers(catalog: Catalog, lakewright: Lakewright) -> None:
    table = keyed_table(catalog)
    found = lakewright(catalog, "show", "shop.orders", "--format", "json").json
    entries = table.at().files()
    assert found["file_count"] == len(entries)
    assert found["size_bytes"] == sum(entry.file.file_size for entry in entries)
    assert found["rows_in_files"] == 18
    assert found["columns"][0] == {
        "id": 0,
        "name": "id",
        "type": "BIGINT NOT NULL",
        "nullable": False,
        "comment": None,
    }
    assert found["snapshot"]["id"] == 6
    assert found["health"]["most_sorted_runs"] == 6
    assert found["health"]["compaction"]["files"] == table.upkeep.plan_compact().files_before


def test_show_tells_files_of_former_partition_keys_with_what_ends_them(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table = new_table(catalog, EVENTS, partitions=["day"])
    opened = catalog.table("db.t")
    late = opened.stage(rows(opened, events(0, 1, day="a")))
    table.upkeep.respec(["day", "id"])
    commit_late(opened, late)
    assert (
        "partition keys  files of other partition keys" in lakewright(catalog, "show", "db.t").out
    )
    shown = lakewright(catalog, "show", "db.t", "--format", "json").json
    assert shown["health"]["has_other_keys"] is True
    lakewright(catalog, "respec", "db.t", "--keys", "day,id")
    assert "files of other" not in lakewright(catalog, "show", "db.t").out
    expire(catalog.table("db.t"))


def test_show_says_which_option_stands_in_the_way(
    unchecked_catalog: Catalog, lakewright: Lakewright
) -> None:
    table = keyed_table(unchecked_catalog, commits=1)
    options = dict(table.schema.options)
    rewrite_schema(table, options={**options, "clustering.incremental": "true"})
    out = lakewright(unchecked_catalog, "show", "shop.orders").out
    assert (
        "refused      cannot be compacted: shop.orders sets option clustering.incremental=true"
        in out
    )
    assert "it can be read, expired and cleared of orphans" in out

    rewrite_schema(table, options={**options, "merge-engine": "magic"})
    ended = lakewright(unchecked_catalog, "show", "shop.orders")
    assert (
        "refused      cannot be read or compacted: shop.orders sets option merge-engine=magic"
        in (ended.out)
    )


# --- snapshots, files, partitions --------------------------------------------------------------


def test_snapshots_are_listed_oldest_first(catalog: Catalog, lakewright: Lakewright) -> None:
    table = keyed_table(catalog, commits=2)
    table.upkeep.run(table.upkeep.plan_compact(full=True))
    lines = lakewright(catalog, "snapshots", "shop.orders").lines
    assert [line.split()[0] for line in lines[2:]] == ["1", "2", "3"]
    assert [line.split()[3:6] for line in lines[2:]] == [
        ["APPEND", "3", "+3"],
        ["APPEND", "6", "+3"],
        ["COMPACT", "3", "-3"],
    ]
    found = lakewright(catalog, "snapshots", "shop.orders", "--format", "json").json
    assert [each["id"] for each in found] == [1, 2, 3]
    assert found[2]["commit_kind"] == "COMPACT"
    assert found[2]["time_millis"] == table.history.snapshots()[2].time_millis


def test_listings_of_an_empty_table_say_that_there_is_nothing(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    new_table(catalog, EVENTS)
    assert lakewright(catalog, "snapshots", "db.t").lines == [
        "db.t has no snapshot: nothing was committed yet"
    ]
    assert lakewright(catalog, "files", "db.t").lines == ["no data files"]
    assert lakewright(catalog, "partitions", "db.t").lines == ["no partitions"]
    for listing in ("snapshots", "files", "partitions"):
        assert lakewright(catalog, listing, "db.t", "--format", "json").json == []


def test_files_name_what_lies_on_disk(catalog: Catalog, lakewright: Lakewright) -> None:
    table = keyed_table(catalog, commits=2)
    found = lakewright(catalog, "files", "shop.orders", "--format", "json").json
    assert found
    for each in found:
        path = Path(table.table_files.paths.root) / each["path"]
        assert path.stat().st_size == each["size_bytes"]
        assert each["uri"] == path.as_uri()
    lines = lakewright(catalog, "files", "shop.orders").lines
    assert [line.split()[-1] for line in lines[2:]] == [each["file_name"] for each in found]
    earlier = lakewright(
        catalog, "files", "shop.orders", "--format", "json", "--snapshot", "1"
    ).json
    assert len(earlier) < len(found)


def test_files_with_a_filter_are_those_a_read_opens(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table = new_table(catalog, EVENTS, partitions=["day"])
    table.write(rows(table, [*events(0, 10, day="a"), *events(0, 10, day="b")]))
    table.write(rows(table, events(10, 20, day="a")))

    def files(where: str) -> list[tuple[str, int]]:
        found = lakewright(catalog, "files", "db.t", "--format", "json", "--where", where).json
        return [(each["partition"]["day"], each["min_sequence_number"]) for each in found]

    assert len(files("id >= 0")) == 3
    assert len(files("day = 'a'")) == 2
    assert len(files("day = 'a' AND id > 15")) == 1
    assert files("id > 100") == []


def test_partitions_show_null_blank_and_odd_values(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table = new_table(catalog, EVENTS, partitions=["day"])
    days = [None, "", "null", "a b/c=d", "żółć"]
    table.write(rows(table, [row for day in days for row in events(0, 2, day=day)]))
    lines = lakewright(catalog, "partitions", "db.t").lines
    assert {line.split("  ")[0] for line in lines[2:-2]} == {
        "null",
        '""',
        '"null"',
        "a b/c=d",
        "żółć",
    }
    found = lakewright(catalog, "partitions", "db.t", "--format", "json").json
    assert {each["partition"]["day"] for each in found} == set(days)
    assert {each["row_count"] for each in found} == {2}


def test_listed_partitions_tell_how_null_and_values_in_quotes_are_typed(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table = new_table(catalog, EVENTS, partitions=["day"])
    table.write(rows(table, events(0, 2, day="a")))
    assert len(lakewright(catalog, "partitions", "db.t").lines) == 3
    table.write(rows(table, [*events(0, 2, day=None), *events(0, 2, day="null")]))
    null = """null as day=__DEFAULT_PARTITION__ or in a JSON object: '{"day": null}'"""
    quoted = """a value in quotes in a JSON object: '{"day": "null"}'"""
    note = f"--partition takes {null}; {quoted}"
    assert lakewright(catalog, "partitions", "db.t").lines[-2:] == ["", note]
    dry = lakewright(catalog, "drop-partitions", "db.t", "--where", "day <> 'a'", "--dry-run")
    assert dry.lines[-2] == f"  --partition takes {quoted}"
    for form in ("json", "csv"):
        assert (
            "--partition takes"
            not in lakewright(catalog, "partitions", "db.t", "--format", form).out
        )
    chosen = lakewright(catalog, "partitions", "db.t", "--partition", '{"day": "null"}').lines
    assert chosen[-1] == f"--partition takes {quoted}"
    chosen = lakewright(catalog, "partitions", "db.t", "--partition", "day=__DEFAULT_PARTITION__")
    assert chosen.lines[-1] == f"--partition takes {null}"


@pytest.mark.parametrize(("kind", "text"), [("DATE", "null"), ("BOOLEAN", ""), ("INT", "NULL")])
def test_a_value_that_was_meant_for_null_is_refused_with_how_null_is_typed(
    catalog: Catalog, lakewright: Lakewright, kind: str, text: str
) -> None:
    table = new_table(catalog, {"id": "BIGINT", "k": kind}, partitions=["k"])
    table.write([{"id": 1, "k": None}])
    refused = lakewright(catalog, "partitions", "db.t", "--partition", f"k={text}", code=2)
    assert 'null is typed k=__DEFAULT_PARTITION__ or in a JSON object: {"k": null}' in refused.err


def test_partition_values_of_any_type_are_json(catalog: Catalog, lakewright: Lakewright) -> None:
    table = new_table(
        catalog,
        {"n": "INT", "d": "DATE", "t": "TIMESTAMP(3)", "p": "DECIMAL(5, 2)", "b": "BOOLEAN"},
        partitions=["d", "t", "p", "b"],
    )
    value = {"d": dt.date(2024, 1, 31), "t": dt.datetime(2024, 1, 31, 1), "b": True}
    table.write(rows(table, [{"n": 1, **value}]))
    (found,) = lakewright(catalog, "partitions", "db.t", "--format", "json").json
    assert found["partition"] == {
        "d": "2024-01-31",
        "t": "2024-01-31T01:00:00",
        "p": None,
        "b": True,
    }
    assert (
        lakewright(catalog, "partitions", "db.t")
        .lines[2]
        .startswith("2024-01-31  2024-01-31T01:00:00  null  true")
    )


def test_partitions_are_chosen_by_partition_keys_only(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    keyed_table(catalog)
    chosen = lakewright(catalog, "partitions", "shop.orders", "--where", "day = 'b'")
    assert [line.split()[0] for line in chosen.lines[2:]] == ["b"]
    refused = lakewright(
        catalog, "partitions", "shop.orders", "--where", "day = 'b' AND id = 1", code=2
    )
    assert "the filter looks at id" in refused.err


def test_an_unpartitioned_table_is_one_partition(catalog: Catalog, lakewright: Lakewright) -> None:
    table = new_table(catalog, EVENTS)
    table.write(rows(table, events(0, 3)))
    assert lakewright(catalog, "partitions", "db.t").lines[2].startswith("(unpartitioned)")
    assert lakewright(catalog, "files", "db.t").lines[2].startswith("(unpartitioned)")
    assert lakewright(catalog, "partitions", "db.t", "--format", "json").json[0]["partition"] == {}


# --- after a change of the partition keys ------------------------------------------------------


@pytest.mark.parametrize("keys", [["id"], ["id", "day"], []])
def test_listings_of_the_past_have_the_partition_keys_of_their_time(
    catalog: Catalog, lakewright: Lakewright, keys: list[str]
) -> None:
    table = new_table(catalog, EVENTS, partitions=["day"])
    table.write(rows(table, [*events(0, 2, day="a"), *events(0, 1, day="b")]))
    table.upkeep.respec(keys)
    for verb in ("files", "partitions"):
        past = ("--snapshot", "1")
        lines = lakewright(catalog, verb, "db.t", *past).lines
        assert (lines[0].split()[0], [line.split()[0] for line in lines[2:]]) == ("day", ["a", "b"])
        found = lakewright(catalog, verb, "db.t", *past, "--format", "json").json
        assert [each["partition"] for each in found] == [{"day": "a"}, {"day": "b"}]
        found = lakewright(catalog, verb, "db.t", *past, "--where", "day = 'b'", "--format", "json")
        assert [each["partition"] for each in found.json] == [{"day": "b"}]
        now = lakewright(catalog, verb, "db.t", "--format", "json").json
        assert {tuple(each["partition"]) for each in now} == {tuple(keys)}


def test_rows_that_readers_may_not_see_are_called_rows_in_files(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    columns = {"day": "STRING NOT NULL", "id": "BIGINT NOT NULL", "v": "STRING"}
    options = {"deletion-vectors.enabled": "true"}
    marked = new_table(catalog, columns, name="db.marked", partitions=["day"], options=options)
    marked.write(rows(marked, events(0, 2)))
    keyed = new_table(catalog, columns, name="db.keyed", partitions=["day"], keys=["day", "id"])
    for _ in range(2):
        keyed.write(rows(keyed, events(0, 2)))
    for name in ("db.marked", "db.keyed"):
        for command in ("snapshots", "partitions"):
            assert "rows in files" in lakewright(catalog, command, name).out
        assert "in files" in lakewright(catalog, "show", name).out
    (found,) = lakewright(catalog, "partitions", "db.keyed", "--format", "json").json
    assert (found["row_count"], found["merged_row_count"]) == (4, None)
    keyed.upkeep.compact(full=True)
    (found,) = lakewright(catalog, "partitions", "db.keyed", "--format", "json").json
    assert (found["row_count"], found["merged_row_count"]) == (2, 2)
