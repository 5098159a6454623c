"""The commands `revert` and `undo`."""

from __future__ import annotations

import re

from lakewright.platform.ledger.ledger import Ledger
from lakewright.storage import Catalog
from tests.support.tables.builders import content, events, new_table, rows, values_of
from tests.unit.cli.conftest import Lakewright


def test_a_run_of_a_command_is_undone_by_what_snapshots_shows_of_it(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table = new_table(catalog, partitions=("day",))
    for number in range(2):
        table.write(rows(table, events(number, number + 2)))
    before = content(table)
    lakewright(catalog, "drop-partitions", "db.t", "--partition", "day=a")
    assert content(table) == []
    users = lakewright(catalog, "snapshots", "db.t", "--format", "json").out
    (run,) = re.findall(r"lakewright drop-partitions \(([0-9a-f]{8})\)", users)

    dry = lakewright(catalog, "undo", run, "--dry-run")

    assert "snapshot 3 of db.t to take back: 0 files to go, 2 files to return" in dry.out
    assert dry.lines[-1] == "dry run: nothing was written"
    assert content(table) == []
    done = lakewright(catalog, "undo", run, "--table", "db.t", "--format", "json")
    (part,) = done.json["parts"]
    assert (part["table"], part["what"], part["verb"]) == ("db.t", "snapshot 3", "revert")
    assert content(table) == before
    again = lakewright(catalog, "undo", run, code=5)
    assert "taken back already, by snapshot 4" in re.sub(r"\s+", " ", again.out)
    lakewright(catalog, "undo", "ffffffff", code=3)


def test_snapshots_are_taken_back_by_a_saved_plan(
    catalog: Catalog, lakewright: Lakewright, tmp_path: object
) -> None:
    table = new_table(catalog)
    for number in range(3):
        table.write(rows(table, events(number, number + 1)))
    plan = f"{tmp_path}/plan.json"
    given = ("revert", "db.t", "--snapshot", "2", "--snapshot", "3")
    lakewright(catalog, *given, "--save-plan", plan)
    assert len(content(table)) == 3
    done = lakewright(catalog, "revert", "db.t", "--plan", plan)
    assert "snapshot 4: 2 snapshots (2 to 3) of db.t reverted" in done.out
    assert len(content(table)) == 1
    lakewright(catalog, "revert", "db.t", "--plan", plan, code=5)
    refused = lakewright(catalog, "revert", "db.t", "--snapshot", "9", code=3)
    assert "undo that expiry first" in refused.err


def test_an_undo_is_in_the_ledger_and_what_it_took_back_is_no_saving(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table = new_table(catalog)
    lakewright(catalog, "ledger", "--create")
    for number in range(4):
        table.write(rows(table, events(number, number + 1)))
    lakewright(catalog, "compact", "db.t", "--full")
    run = table.history.snapshots()[-1].commit_user

    def saved() -> int:
        found = lakewright(catalog, "savings", "--format", "json").json
        return sum(each["benefit_files_fewer"] for each in found if each["table"] == "db.t")

    assert saved() == 3
    lakewright(catalog, "undo", run)
    (action,) = Ledger(catalog).actions(verb="revert")
    assert run[:-37] in action.reason
    assert saved() == 0


def test_an_expiry_is_undone_until_it_is_collected(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table = new_table(catalog)
    lakewright(catalog, "ledger", "--create")
    for number in range(4):
        table.write(rows(table, events(number, number + 1)))
    every = ("expire-snapshots", "db.t", "--retain-max", "1", "--retain-min", "1")
    lakewright(catalog, *every)
    (action,) = Ledger(catalog).actions()
    assert [each.id for each in table.history.snapshots()] == [4]

    back = lakewright(catalog, "undo", action.run)

    assert (back.code, [each.id for each in table.history.snapshots()]) == (0, [1, 2, 3, 4])
    assert values_of(table.at(snapshot=1), "id") == [0]
    again = lakewright(catalog, "undo", action.run, code=5)
    assert re.search(
        r"put back since, by lakewright undo \(\w{8}\)", re.sub(r"\s+", " ", again.out)
    )
    lakewright(catalog, *every)
    lakewright(catalog, "condemned", "collect", "db.t", "--now")
    (action,) = (e for e in Ledger(catalog).actions() if "expire" in e.verb and e.run != action.run)
    told = lakewright(catalog, "undo", action.run, code=5)
    assert told.code == 5
    assert "it deleted is collected: the ledger has no action" in re.sub(r"\s+", " ", told.out)


def test_an_undo_that_is_whole_exits_with_0_beside_a_damaged_table(
    unchecked_catalog: Catalog, lakewright: Lakewright
) -> None:
    catalog = unchecked_catalog
    table = new_table(catalog)
    other = new_table(catalog, name="db.other")
    lakewright(catalog, "ledger", "--create")
    for each in (table, other):
        for number in range(4):
            each.write(rows(each, events(number, number + 1)))
    lakewright(catalog, "compact", "db.t", "--full")
    run = table.history.snapshots()[-1].commit_user
    files = other.table_files
    files.fs.write_bytes(files.paths.snapshot(4), b'{"version": 3, "id')

    (unread,) = lakewright(catalog, "undo", run, "--dry-run", "--format", "json").json["unread"]
    assert unread["table"] == "db.other"
    done = lakewright(catalog, "undo", run)

    assert "note: db.other cannot be read; by the ledger, the run" in done.out
    assert len(table.at().files()) == 4


def test_an_undo_tells_how_many_rows_become_invisible_until_the_next_compaction(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    options = {"bucket": "1", "deletion-vectors.enabled": "true"}
    table = new_table(catalog, keys=("id",), options=options)
    for number in range(2):
        table.write(rows(table, events(3 * number, 3 * number + 3)))
    lakewright(catalog, "compact", "db.t", "--full")
    run = table.history.snapshots()[-1].commit_user
    told = "; 6 rows become invisible until the next compaction"
    assert told in lakewright(catalog, "undo", run, "--dry-run").out
    assert told in lakewright(catalog, "undo", run).out
    assert content(table) == []


def test_undo_without_a_run_lists_what_can_be_undone_in_the_order_in_which_it_can(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table = new_table(catalog, partitions=("day",))
    for number in range(6):
        table.write(rows(table, events(number, number + 2)))
    before = content(table)
    assert "nothing can be undone" in lakewright(catalog, "undo").out
    lakewright(catalog, "compact", "db.t", "--full")
    for kept in ("4", "1"):
        given = ("--retain-max", kept, "--retain-min", "1")
        lakewright(catalog, "expire-snapshots", "db.t", *given)
    lakewright(catalog, "sql", "DROP TABLE db.t")
    dropped = lakewright(catalog, "undo", "--format", "json").json
    assert [(each["what"], each["after"]) for each in dropped] == [("drop table", None)]
    lakewright(catalog, "undo", dropped[0]["run"])
    found = lakewright(catalog, "undo", "--table", "db.t", "--format", "json").json
    assert [each["what"] for each in found] == [
        "expire snapshots",
        "expire snapshots",
        "snapshot 7",
    ]
    assert found[1]["after"] == found[0]["run"]
    assert found[2]["until"] is None
    # The earlier expiry waits for the later one, as the list says.
    assert "take a later expiry back first" in lakewright(
        catalog, "undo", found[1]["run"], code=5
    ).out.replace("\n", " ")
    for each in found:
        lakewright(catalog, "undo", each["run"])
    assert content(catalog.table("db.t")) == before
    assert len(catalog.table("db.t").history.snapshots()) == 8
