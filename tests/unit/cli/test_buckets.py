"""`rescale`, `postpone-compact` and `lookup`: what is said, what is done, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakewright.storage import Catalog, LocalEngine, Table
from tests.support.tables.builders import content, events, new_table, rows
from tests.unit.cli.conftest import Lakewright


def orders(catalog: Catalog, bucket: str = "2") -> Table:
    table = new_table(
        catalog, name="db.t", partitions=["day"], keys=["day", "id"], options={"bucket": bucket}
    )
    table.write(rows(table, [*events(0, 20), *events(0, 5, day="b")]))
    table.write(rows(table, events(10, 30, v="new")))
    return table


def test_a_rescale_is_planned_shown_and_done(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    table = orders(catalog)
    before = content(table)
    planned = lakewright(catalog, "rescale", "db.t", "--dry-run", "--buckets", "4").lines
    assert planned[0].startswith("2 partitions of db.t to rescale, at snapshot 2: 6 files, ")
    assert planned[2].split() == ["day", "buckets", "files", "size", "rows"]
    assert planned[4].split()[:4] == ["a", "2", "→", "4"]
    assert planned[-2:] == ["  option bucket becomes 4", "dry run: nothing was written"]
    assert table.history.latest_snapshot() == catalog.table("db.t").history.latest_snapshot()
    plan = tmp_path / "plan.json"
    saved = lakewright(catalog, "rescale", "db.t", "--buckets", "4", "--save-plan", str(plan)).lines
    assert saved[:-1] == planned[:-1]
    assert saved[-1].endswith(f"carry it out with: lakewright rescale db.t --plan {plan}")
    assert table.history.latest_snapshot() == catalog.table("db.t").history.latest_snapshot()
    done = lakewright(catalog, "rescale", "db.t", "--plan", str(plan)).lines
    assert done[-1].startswith("2 snapshots (3 to 4) of db.t: 2 partitions in")
    assert catalog.table("db.t").options.bucket == 4
    assert content(catalog.table("db.t")) == before
    again = lakewright(catalog, "rescale", "db.t", "--buckets", "4")
    assert again.lines == ["nothing to rescale in db.t, at snapshot 4"]


def test_one_partition_is_rescaled(catalog: Catalog, lakewright: Lakewright) -> None:
    orders(catalog)
    arguments = ("rescale", "db.t", "--buckets", "3", "--partition", "day=b")
    assert lakewright(catalog, *arguments, "--dry-run").lines[-1] == (
        "dry run: nothing was written"
    )
    result = lakewright(catalog, *arguments, "--format", "json").json
    assert (result["operation"], result["partitions"], result["snapshots"]) == ("rescale", 1, [3])
    assert catalog.table("db.t").options.bucket == 2


def test_a_rescale_that_writers_beat_everywhere_says_so(
    catalog: Catalog, lakewright: Lakewright, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = orders(catalog)
    whole, new = LocalEngine.map, rows(table, [*events(0, 1), *events(0, 1, day="b")])

    def beaten(engine: LocalEngine, *work: Any) -> Any:
        done = whole(engine, *work)
        table.write(new, mode="overwrite")
        return done

    monkeypatch.setattr(LocalEngine, "map", beaten)
    told = lakewright(catalog, "rescale", "db.t", "--buckets", "3", "--partition", "day=b")
    assert told.lines[-2].startswith("no snapshot of db.t: 0 partitions in")
    assert told.lines[-1].startswith("  1 partition skipped: others changed them meanwhile")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("rescale", "db.t", "--buckets", "2", "--partition", "x=1"), "not a partition key"),
        (("postpone-compact", "db.t"), "has fixed buckets and no postponed rows"),
    ],
)
def test_what_cannot_be_moved_is_refused_in_a_line(
    catalog: Catalog, lakewright: Lakewright, arguments: tuple[str, ...], words: str
) -> None:
    orders(catalog)
    ended = lakewright(catalog, *arguments, code=2)
    assert words in ended.err
    assert len(ended.err.splitlines()) == 1


def test_postponed_rows_get_their_buckets(catalog: Catalog, lakewright: Lakewright) -> None:
    table = orders(catalog, "-2")
    assert table.read().num_rows == 0
    planned = lakewright(catalog, "postpone-compact", "db.t", "--dry-run").lines
    assert planned[0].startswith("2 partitions of db.t to give buckets to, at snapshot 2")
    done = lakewright(catalog, "postpone-compact", "db.t").lines
    assert done[-1].startswith("2 snapshots (3 to 4) of db.t: 2 partitions in")
    assert table.read().num_rows == 35
    nothing = lakewright(catalog, "postpone-compact", "db.t").lines
    assert nothing == ["nothing to give buckets to in db.t, at snapshot 4"]


@pytest.mark.mission("CN24")
def test_single_keys_are_printed(catalog: Catalog, lakewright: Lakewright) -> None:
    orders(catalog)
    keys = ("day=a,id=15", json.dumps({"id": "3", "day": "a"}), "day=z,id=1")
    found = lakewright(catalog, "lookup", "db.t", *keys, "--format", "json").json_lines
    assert sorted(row["v"] for row in found) == ["new15", "v3"]
    earlier = lakewright(
        catalog, "lookup", "db.t", "day=a,id=15", "--snapshot", "1", "--format", "json"
    )
    assert [row["v"] for row in earlier.json_lines] == ["v15"]
    only = lakewright(catalog, "lookup", "db.t", "day=a,id=3", "--columns", "v", "--format", "csv")
    assert only.lines == ["v", "v3"]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (("17",), "'17' is not of the form key=value,key2=value2; a key of db.t is day=…,id=…"),
        (("id=1",), "a key is a value for each of day, id"),
        (("day=a,id=x",), "is not a valid BIGINT"),
        (("day=a,id=1,v=x",), "a key is a value for each of day, id"),
    ],
)
def test_keys_that_are_none_are_refused(
    catalog: Catalog, lakewright: Lakewright, keys: tuple[str, ...], words: str
) -> None:
    orders(catalog)
    ended = lakewright(catalog, "lookup", "db.t", *keys, code=2)
    assert words in ended.err
