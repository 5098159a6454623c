"""`lakewright sort-compact`: what is planned, said and done."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewright.storage import Catalog
from lakewright.storage.operations.rewrite.sort_compact import SortCompactionPlan
from tests.support.tables.builders import EVENTS, events, new_table, rows, values_of
from tests.unit.cli.conftest import Lakewright


@pytest.mark.mission("FS7")
def test_a_partition_is_sorted_by_a_saved_plan(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    table = new_table(catalog, EVENTS, partitions=["day"])
    for day in ("a", "b"):
        table.write(rows(table, [*events(5, 9, day=day), *events(0, 5, day=day)]))
    asked = ("sort-compact", "db.t", "--by", "id, v", "--order", "zorder", "--partition", "day=a")
    lines = lakewright(catalog, *asked, "--dry-run").lines
    assert lines[0].startswith("compaction of db.t, at snapshot 2: 1 file, ")
    assert lines[4].endswith("sorted by id, v, zorder")
    ended = lakewright(catalog, *asked, "--save-plan", "-")
    assert ended.json["summary"]["rows"] == 9
    assert SortCompactionPlan.from_json(ended.out).by == ("id", "v")
    saved = tmp_path / "plan.json"
    saved.write_text(ended.out)
    dry = lakewright(catalog, *asked, "--dry-run")
    assert dry.lines[-1] == "dry run: nothing was written"
    done = lakewright(catalog, "sort-compact", "db.t", "--plan", str(saved), "--format", "json")
    assert (done.json["operation"], done.json["rows_after"]) == ("sort-compact", 9)
    read = table.read().to_pylist()
    assert [row["id"] for row in read if row["day"] == "a"] == list(range(9))
    assert values_of(table, "id")[-1] == 8
    # The files it speaks of are gone.
    assert lakewright(catalog, "sort-compact", "db.t", "--plan", str(saved), code=5).code != 0


def test_columns_are_needed_and_must_exist(catalog: Catalog, lakewright: Lakewright) -> None:
    new_table(catalog, EVENTS)
    ended = lakewright(catalog, "sort-compact", "db.t", "--dry-run", code=2)
    assert ended.code != 0
    assert "the columns to sort db.t by are missing (--by COLUMN,…" in ended.err
    ended = lakewright(catalog, "sort-compact", "db.t", "--dry-run", "--by", "nope", code=2)
    assert "'nope' is not a column of db.t" in ended.err
    ended = lakewright(catalog, "sort-compact", "db.t", "--by", "id")
    assert ended.lines[0] == "nothing to compact in db.t, which has no snapshot"
