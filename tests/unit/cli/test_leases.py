"""`lakewright lease`: who works on a table, and what a run takes and leaves."""

from __future__ import annotations

import datetime as dt

import pytest

from lakewright.storage import Catalog, LeaseKind, Table
from lakewright.storage.operations.leases.leases import (
    LeaseRequest,
    acquire_lease,
    release_lease,
    scope_of,
    whole_table,
)
from tests.support.tables.builders import events, new_table, rows
from tests.unit.cli.conftest import Lakewright


@pytest.fixture
def table(catalog: Catalog) -> Table:
    """Two days of two small files each, seen by the clock that the command line reads."""
    created = new_table(catalog, partitions=("day",))
    for day in ("a", "b", "a", "b"):
        created.write(rows(created, events(0, 2, day=day)))
    return Catalog.open(catalog.uri).table(created.name)


def take(table: Table, day: str, kind: LeaseKind = LeaseKind.OVERWRITE) -> str:
    scope = scope_of(table.table_files, [{"day": day}])
    return acquire_lease(
        table.table_files, LeaseRequest(kind=kind, scope=scope, holder="run 17 on host h")
    ).id


def test_leases_are_listed_shown_and_broken(
    catalog: Catalog, lakewright: Lakewright, table: Table
) -> None:
    assert lakewright(catalog, "lease", "list", "db.t").lines == ["no process works on db.t"]
    lease_id = take(table, "a")
    listed = lakewright(catalog, "lease", "list", "db.t")
    assert listed.lines[0].split() == ["lease", "work", "on", "until", "(UTC)", "holder"]
    assert listed.lines[2].split()[:3] == [lease_id[:8], "overwrite", "day=a"]
    assert listed.lines[2].endswith("run 17 on host h")
    (told,) = lakewright(catalog, "lease", "list", "db.t", "--format", "json").json
    assert (told["id"], told["kind"], told["holder"]) == (lease_id, "overwrite", "run 17 on host h")
    assert told["scope"] == {"branch": "", "partitions": ["day=a"], "all_but": False}
    shown = lakewright(catalog, "show", "db.t")
    assert "run 17 on host h (overwrite: day=a)" in shown.out
    (at_work,) = lakewright(catalog, "show", "db.t", "--format", "json").json["health"]["at_work"]
    assert at_work == {"holder": "run 17 on host h", "work": "overwrite", "on": "day=a"}

    broken = lakewright(catalog, "lease", "break", "db.t", lease_id[:8])
    assert broken.lines == [f"lease {lease_id} of run 17 on host h on day=a of db.t broken"]
    assert not table.upkeep.leases()
    again = lakewright(catalog, "lease", "break", "db.t", lease_id[:8], code=3)
    assert (
        again.err
        == f"lakewright: error: no lease of db.t begins with '{lease_id[:8]}'; there are none\n"
    )


def test_a_run_leaves_what_others_work_on_and_does_the_rest(
    catalog: Catalog, lakewright: Lakewright, table: Table
) -> None:
    take(table, "a")
    done = lakewright(catalog, "compact", "db.t", "--full")
    assert done.lines[-1].startswith("  1 task of 2 dropped")
    assert [each.file_count for each in table.at().partitions()] == [2, 1]
    assert len(table.upkeep.leases()) == 1


def test_a_run_that_finds_nothing_free_says_who_is_at_work(
    catalog: Catalog, lakewright: Lakewright, table: Table
) -> None:
    take(table, "a")
    take(table, "b", LeaseKind.COMPACT)
    ended = lakewright(catalog, "compact", "db.t", "--full", code=7)
    assert "run 17 on host h has day=a to overwrite until" in ended.err
    assert "and 1 more like it" in ended.err
    assert len(table.history.snapshots()) == 4


@pytest.mark.parametrize(
    "verb",
    [
        ("expire-snapshots", "db.t", "--retain-min", "1", "--older-than", "0s"),
        ("tag", "expire", "db.t", "--older-than", "0s"),
        ("changelog", "expire", "db.t", "--all"),
    ],
    ids=lambda verb: verb[0],
)
def test_one_expires_at_a_time_and_others_may_look_what_they_would(
    catalog: Catalog, lakewright: Lakewright, table: Table, verb: tuple[str, ...]
) -> None:
    table.history.create_tag("old", snapshot=1)
    request = LeaseRequest(
        kind=LeaseKind.EXPIRE, scope=whole_table(table.table_files), holder="the job on host h"
    )
    held = acquire_lease(table.table_files, request)
    refused = lakewright(catalog, *verb, code=7)
    assert "the job on host h has all of the table to expire until" in refused.err
    assert (len(table.history.snapshots()), len(table.history.tags())) == (4, 1)
    lakewright(catalog, *verb, "--dry-run")

    release_lease(table.table_files, held.id)
    lakewright(catalog, *verb)
    assert not table.upkeep.leases()


def test_a_book_that_cannot_be_read_hides_nothing_else_of_a_table(
    catalog: Catalog, lakewright: Lakewright, table: Table
) -> None:
    book = f"{table.table_files.paths.lease_dir}/book-1"
    table.table_files.fs.put_if_absent(book, b'{"version": 3}')
    shown = lakewright(catalog, "show", "db.t")
    assert "at work      not known: " in shown.out
    assert "upgrade lakewright" in shown.out
    health = lakewright(catalog, "show", "db.t", "--format", "json").json["health"]
    assert "upgrade lakewright" in health["leases_refusal"]
    assert health["at_work"] == []


def test_a_day_under_work_is_shown_as_a_day(catalog: Catalog, lakewright: Lakewright) -> None:
    columns = {"id": "INT", "day": "DATE"}
    table = catalog.create_table("db.days", columns, partition_keys=["day"])
    table.write([{"id": 1, "day": dt.date(2026, 11, 27)}])
    table = Catalog.open(catalog.uri).table("db.days")
    scope = scope_of(table.table_files, [{"day": dt.date(2026, 11, 27)}])
    acquire_lease(
        table.table_files, LeaseRequest(kind=LeaseKind.OVERWRITE, scope=scope, holder="run 17")
    )
    listed = lakewright(catalog, "lease", "list", "db.days")
    assert "day=2026-11-27" in listed.lines[2]


def test_an_option_by_the_name_of_policies_is_answered_with_the_one_meant(
    catalog: Catalog, lakewright: Lakewright, table: Table
) -> None:
    told = lakewright(catalog, "expire-snapshots", table.name, "--time-retained", "1h", code=2)
    assert "--time-retained'. Did you mean '--older-than'?" in told.err
