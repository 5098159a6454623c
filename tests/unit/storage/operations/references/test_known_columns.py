"""What dead writers of a branch left in folders of its own partition keys is found without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakewright.storage import AddColumn, Catalog, Table
from tests.support.stores.watched_files import Call, Crashed, WatchedFiles, over
from tests.support.tables.builders import content, new_table, remove_orphans, rows
from tests.support.tables.invariants import assert_only_reachable_files

COLUMNS = {"dt": "STRING NOT NULL", "hh": "INT NOT NULL", "id": "BIGINT NOT NULL", "v": "STRING"}
LAYOUTS: dict[str, dict[str, Any]] = {
    "append": {},
    "keyed": {"keys": ("dt", "hh", "id"), "options": {"bucket": "2"}},
}
OWN = "data-00000000-0000-4000-8000-000000000000-0.parquet"


def branched(catalog: Catalog, layout: str, keys: list[str], *, adds: bool) -> tuple[Table, Table]:
    """A table, and a branch of it with other partition keys, maybe of a column of its own."""
    table = new_table(catalog, COLUMNS, partitions=["dt"], **LAYOUTS[layout])
    given = [{"dt": d, "hh": h, "id": n, "v": d} for d in "ab" for h in (1, 2) for n in (1, 2)]
    table.write(rows(table, given))
    table.history.create_tag("t")
    table.history.create_branch("b", tag="t")
    branch = catalog.table("db.t$branch_b")
    if adds:
        branch = branch.alter(AddColumn("a/b c", "INT"))
    branch.upkeep.respec(keys)
    branch = catalog.table("db.t$branch_b")
    branch.write(rows(branch, [{"dt": "a", "hh": 9, "id": 9, "v": "of the branch"}]))
    return table, branch


def leave_orphans(branch: Table) -> None:
    """Let a writer die that has staged rows."""
    branch.stage(rows(branch, [{"dt": "c", "hh": 3, "id": 3, "v": "dead"}]))


CASES = {
    "append, a key comes": ("append", ["dt", "hh"], False),
    "append, other keys": ("append", ["hh", "dt"], False),
    "append, a column of the branch": ("append", ["a/b c", "dt"], True),
    "keyed, a key comes": ("keyed", ["dt", "hh"], False),
    "keyed, other keys": ("keyed", ["hh"], False),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("when", ["before", "died during", "beside"])
@pytest.mark.sampled(5)
def test_a_deleted_branch_leaves_no_file_of_its_partition_keys(
    catalog: Catalog, case: str, when: str
) -> None:
    layout, keys, adds = CASES[case]
    table, branch = branched(catalog, layout, keys, adds=adds)
    due, place = content(table), Path(table.table_files.paths.root)
    if when == "before":
        leave_orphans(branch)
        table.history.delete_branch("b", grace_ms=0)
    if when == "beside":
        # The writer does not know yet that its branch is gone.
        table.history.delete_branch("b", grace_ms=0)
        leave_orphans(branch)
    if when == "died during":

        def die(call: Call) -> None:
            if call.name == "delete" and "/bucket-" in call.path:
                raise Crashed

        dying = over(table, WatchedFiles(table.table_files.fs, before=die))
        with pytest.raises(Crashed):
            dying.history.delete_branch("b", grace_ms=0)
    folder = place / "/".join(f"{key.replace('/', '%2F')}=x" for key in keys) / "bucket-0"
    theirs = [folder / "theirs.parquet", folder / "data-of-mine.csv", place / f"x=1/bucket-0/{OWN}"]
    for each in theirs:
        each.parent.mkdir(parents=True, exist_ok=True)
        each.write_bytes(b"theirs")
    if when == "died during":
        assert table.upkeep.collect(under_way=True).files_deleted
    else:
        assert remove_orphans(table, grace_ms=None).files_condemned
    for each in theirs:
        assert each.read_bytes() == b"theirs"
        each.unlink()
    assert_only_reachable_files(table)
    assert content(table) == due
    assert (place / ".lakewright/columns/column-a%2Fb c").exists() is adds
    assert not remove_orphans(table, grace_ms=None).files_condemned


@pytest.mark.parametrize("case", CASES)
def test_a_removal_of_main_takes_the_orphans_of_branches_and_leaves_their_rows(
    catalog: Catalog, case: str
) -> None:
    layout, keys, adds = CASES[case]
    table, branch = branched(catalog, layout, keys, adds=adds)
    due, of_branch = content(table), content(branch)
    leave_orphans(branch)
    assert remove_orphans(table, grace_ms=None).files_condemned
    assert (content(table), content(branch)) == (due, of_branch)
    assert_only_reachable_files(table)


def test_a_branch_of_this_name_begins_anew_and_finds_what_the_former_one_left(
    catalog: Catalog,
) -> None:
    table, branch = branched(catalog, "append", ["a/b c"], adds=True)
    leave_orphans(branch)
    table.history.delete_branch("b", grace_ms=0)
    table.history.create_branch("b", tag="t")
    assert remove_orphans(catalog.table("db.t$branch_b"), grace_ms=None).files_condemned
    assert_only_reachable_files(table)
