"""Commands on whole partitions: what is said, what is done, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import UnavailableError
from tests.support.tables.builders import EVENTS, content, events, new_table, rows
from tests.unit.cli.conftest import Lakewright


def days_of(catalog: Catalog, *days: str | None, name: str = "db.t") -> Table:
    table = new_table(catalog, EVENTS, name=name, partitions=["day"])
    for day in days:
        table.write(rows(table, events(0, 3, day=day)))
    return table


def left(table: Table) -> list[object]:
    return [each.spec["day"] for each in table.at().partitions()]


@pytest.mark.mission("PT68")
def test_partitions_are_listed_by_values_with_their_last_update(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    days_of(catalog, "a", "b", None)
    said = lakewright(catalog, "partitions", "db.t", "--partition", "day=b", "--last-update")
    assert len(said.lines) == 3
    assert said.lines[2].endswith("snapshot 2 (APPEND)")
    null = lakewright(
        catalog,
        *("partitions", "db.t", "--partition", "day=__DEFAULT_PARTITION__"),
        *("--last-update", "--format", "json"),
    ).json
    assert [each["partition"] for each in null] == [{"day": None}]
    assert null[0]["last_update"]["snapshot"] == 3
    unknown = lakewright(catalog, "partitions", "db.t", "--partition", "dya=b", code=2)
    assert "'dya' is not a partition key of db.t" in unknown.err


@pytest.mark.mission("CT4")
def test_the_properties_of_partitions_are_listed_as_text_and_json(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table = days_of(catalog, "a", "b/c")
    said = lakewright(catalog, "partitions", "db.t", "--properties")
    assert said.lines[0].split()[-2:] == ["formats", "location"]
    assert said.lines[3].endswith(f"parquet  {table.location}/day%3Db%252Fc")
    one = lakewright(
        catalog, "partitions", "db.t", "--partition", "day=a", "--properties", "--format", "json"
    ).json
    found = one[0]["properties"]
    assert found.pop("columns")[0] == {"name": "id", "minimum": 0, "maximum": 2, "null_count": 0}
    assert found == {
        "location": f"{table.location}/day%3Da",
        "other_folders": [],
        "formats": ["parquet"],
        "compression": "zstd",
        "schema_ids": [0],
    }


def test_dropping_says_what_goes_and_a_dry_run_changes_nothing(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table = days_of(catalog, "a", "b", "c")
    dry = lakewright(catalog, "drop-partitions", "db.t", "--where", "day < 'c'", "--dry-run")
    assert dry.lines[0].startswith("db.t: 2 partitions with 6 rows in 2 files, ")
    assert dry.lines[-1] == "dry run: nothing was written"
    assert left(table) == ["a", "b", "c"]

    done = lakewright(catalog, "drop-partitions", "db.t", "--partition", "day=a")
    assert done.lines[0].startswith("snapshot 4 of db.t: 1 partition with 3 rows in 1 file, ")
    assert left(table) == ["b", "c"]

    for arguments, code, message in (
        (("--partition", "day=a"), 3, "db.t has no partition day=a; there are day=b; day=c"),
        (
            ("--partition", "day=b", "--where", "day > 'b'"),
            3,
            "db.t has no partition that matches both the filter and day=b; there are day=b; day=c",
        ),
        (("--where", "id = 1"), 2, "those of db.t are day"),
        ((), 2, "say which partitions of db.t to drop"),
        (("--partition", "day=a", "--if-exists"), 0, ""),
    ):
        said = lakewright(catalog, "drop-partitions", "db.t", *arguments, code=code)
        assert (said.code, message in said.err) == (code, True)


def test_expiring_says_why_each_goes_or_stays(catalog: Catalog, lakewright: Lakewright) -> None:
    table = days_of(catalog, "2001-01-01", "soon", "9000-01-01")
    table.history.create_tag("kept", snapshot=1)
    said = lakewright(catalog, "expire-partitions", "db.t", "--older-than", "1d", "--dry-run")
    assert "2001-01-01 00:00:00" in said.out
    assert "kept" in said.out
    assert "'soon' is no time" in said.out
    spared = lakewright(
        catalog, "expire-partitions", "db.t", "--older-than", "1d", "--spare-tagged"
    )
    assert spared.lines[0] == "no partition of db.t to expire"
    done = lakewright(
        catalog, "expire-partitions", "db.t", "--older-than", "1d", "--format", "json"
    )
    assert done.json["partitions"] == 1
    assert left(table) == ["9000-01-01", "soon"]
    wrong = lakewright(
        catalog, "expire-partitions", "db.t", "--older-than", "1d", "--pattern", "$zz", code=2
    )
    assert "$zz names no partition key of db.t; write its keys as $day" in wrong.err
    untold = lakewright(catalog, "expire-partitions", "db.t", code=2)
    assert "has no partition.expiration-time" in untold.err


def test_renaming_gives_the_rows_other_values(catalog: Catalog, lakewright: Lakewright) -> None:
    table = days_of(catalog, "a", "b")
    lakewright(catalog, "rename-partition", "db.t", "--partition", "day=a", "--to", "day=z")
    assert left(table) == ["b", "z"]
    there = lakewright(
        catalog, "rename-partition", "db.t", "--partition", "day=b", "--to", "day=z", code=2
    )
    assert "choose other values" in there.err
    several = lakewright(catalog, "rename-partition", "db.t", "--partition", "day=b", code=2)
    assert "say what partition day=b of db.t becomes: to is not given (--to" in several.err


def test_exchanging_moves_partitions_from_another_table(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table, source = days_of(catalog), days_of(catalog, "a", "b", name="db.staged")
    moved = content(source, where="day = 'a'")
    arguments = ("exchange-partition", "db.t", "--from", "db.staged", "--partition", "day=a")
    dry = lakewright(catalog, *arguments, "--dry-run")
    assert "to move from db.staged to db.t" in dry.lines[0]
    lakewright(catalog, *arguments)
    assert (content(table), left(source)) == (moved, ["b"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "source is not given (--from TABLE on the command line)"),
        (("--from", "db.staged"), "partitions is not given (--partition K=V,… on the command"),
    ],
)
def test_an_exchange_that_lacks_an_option_is_told_the_word_that_is_typed(
    catalog: Catalog, lakewright: Lakewright, arguments: tuple[str, ...], said: str
) -> None:
    days_of(catalog, "a")
    days_of(catalog, "b", name="db.staged")
    refused = lakewright(catalog, "exchange-partition", "db.t", *arguments, code=2)
    assert said in refused.err


MARKED: list[tuple[str, object]] = []


def note(table: Table, spec: object) -> None:
    MARKED.append((table.name, spec))


def test_marking_as_done_calls_a_function_for_each_partition(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    days_of(catalog, "a", "b")
    call = f"{__name__}:note"
    done = lakewright(catalog, "mark-done", "db.t", "--where", "day = 'a'", "--then", call)
    assert done.lines[0] == "1 partition of db.t marked as done"
    assert MARKED == [("db.t", {"day": "a"})]
    again = lakewright(catalog, "mark-done", "db.t", "--partition", "day=a", "--dry-run")
    assert "renewed" in again.out
    wrong = lakewright(
        catalog, "mark-done", "db.t", "--partition", "day=a", "--then", "none:f", code=2
    )
    assert "is not a function" in wrong.err


def refuse_b(table: Table, spec: dict[str, object]) -> None:
    if spec["day"] == "b":
        raise LookupError("no such day")


def test_a_function_that_fails_is_told_with_the_partitions_that_are_marked(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    days_of(catalog, "a", "b", "c")
    call = f"{__name__}:refuse_b"
    failed = lakewright(catalog, "mark-done", "db.t", "--where", "day > ''", "--then", call, code=2)
    assert "Traceback" not in failed.err
    told = f"{call} failed for partition day=b of db.t with LookupError: no such day ({__file__},"
    assert told in failed.err
    assert "this partition is marked as done, and day=a before it; the call may be" in failed.err
    dry = lakewright(catalog, "mark-done", "db.t", "--where", "day > ''", "--dry-run")
    assert [line.split() for line in dry.lines[-4:-1]] == [
        *(["a", "renewed"], ["b", "renewed"], ["c", "new"])
    ]


def out_of_reach(table: Table, spec: dict[str, object]) -> None:
    raise UnavailableError("the store of the function is away")


def test_an_error_of_storage_in_a_function_keeps_its_exit_code(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    days_of(catalog, "a")
    call = f"{__name__}:out_of_reach"
    failed = lakewright(
        catalog, "mark-done", "db.t", "--partition", "day=a", "--then", call, code=7
    )
    assert "is marked as done, and none before it" in failed.err


def test_a_listing_past_a_change_of_keys_counts_partitions_once_and_says_what_is_not_known(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table = days_of(catalog)
    for values in ("xy", "w"):
        table.write(rows(table, [{"id": 1, "day": "a", "v": each} for each in values]))
    table.upkeep.respec(["day", "v"])
    table = catalog.table("db.t")
    table.write(rows(table, [{"id": 2, "day": "a", "v": "w"}]))
    now = lakewright(catalog, "partitions", "db.t", "--last-update", "--format", "json").json
    assert [(each["partition"]["v"], each["last_update_unknown"]) for each in now] == [
        ("w", False),
        ("x", True),
        ("y", True),
    ]
    said = lakewright(catalog, "partitions", "db.t", "--last-update")
    assert [line.endswith("not known") for line in said.lines[2:]] == [False, True, True]
    for snapshot in range(1, 1 + catalog.table("db.t").history.snapshots()[-1].id):
        of_then = catalog.table("db.t").at(snapshot=snapshot).schema.partition_keys
        told = lakewright(catalog, "partitions", "db.t", "--snapshot", str(snapshot))
        assert len(told.lines) - 2 == (1 if of_then == ("day",) else 3)


def test_a_partition_that_is_nested_too_deeply_is_refused(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    new_table(catalog, name="db.deep", partitions=["day"])
    nested = '{"day": ' + "[" * 50_000 + "]" * 50_000 + "}"
    ended = lakewright(catalog, "drop-partitions", "db.deep", "--partition", nested, code=2)
    assert "nested too deeply" in ended.err


def test_a_project_is_not_made_over_a_file(lakewright: Lakewright, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("kept")
    ended = lakewright(None, "init", str(file), code=2)
    assert file.read_text() == "kept"
    assert "name another folder" in ended.err
