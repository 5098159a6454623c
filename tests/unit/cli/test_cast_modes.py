"""Cast modes on the command line: what a user sees of values that do not fit."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from lakewright.storage import Catalog, ChangeType
from tests.support.tables.builders import ANY_LOSS, new_table, rows
from tests.unit.cli.conftest import Lakewright

_MAIN = "import sys; from lakewright.cli import main; sys.exit(main(sys.argv[1:]))"


def table_of(catalog: Catalog, mode: str) -> None:
    table = new_table(catalog, {"k": "INT", "s": "STRING"}, options={"lakewright.cast-mode": mode})
    table.write(rows(table, [{"k": 1, "s": "one"}, {"k": 2, "s": "2"}]))
    table.alter(ChangeType("s", "INT"), rules=ANY_LOSS)


@pytest.mark.mission("SE41")
def test_a_read_notes_the_values_that_it_made_null(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table_of(catalog, "explicit-null")
    # As a process of its own: pytest takes the log of this one.
    command = [sys.executable, "-c", _MAIN, "--warehouse", catalog.uri, "read", "db.t"]
    ended = subprocess.run(
        [*command, "--format", "csv", "--limit", "1"], capture_output=True, text=True, check=True
    )
    assert ended.stdout == "k,s\n1,\n"
    assert ended.stderr.startswith("db.t: values that do not fit the types of their columns were")
    assert "read as null: 1 of column s (lakewright.cast-mode=explicit-null)" in ended.stderr
    catalog.table("db.t").write(pa.table({"k": [3], "s": pa.array([3], pa.int32())}))
    compacted = lakewright(catalog, "compact", "db.t", "--full", "--format", "json")
    assert compacted.json["nulled_values"] == 1


@pytest.mark.mission("SE41")
def test_a_rewrite_says_how_many_values_it_made_null_for_good(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table_of(catalog, "explicit-null")
    lakewright(catalog, "alter", "db.t", "--set", "compaction.force-rewrite-all-files=true")
    said = lakewright(catalog, "compact", "db.t", "--full").out
    assert "1 value that does not fit the type of its column became null permanently" in said
    assert catalog.table("db.t").read().column("s").to_pylist() == [None, 2]


@pytest.mark.mission("SE40")
def test_a_read_that_fails_names_the_value_and_the_way_out(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table_of(catalog, "explicit-fail")
    ended = lakewright(catalog, "read", "db.t", "--format", "json", code=4)
    assert not ended.out
    assert "1 of the 2 rows of data file" in ended.err
    assert "such as 'one'; write these rows again, alter the column" in ended.err


@pytest.mark.mission("SE39")
def test_an_alter_says_what_the_mode_does_to_values(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    new_table(
        catalog, {"k": "INT", "s": "STRING"}, options={"lakewright.cast-mode": "explicit-fail"}
    )
    told = lakewright(catalog, "alter", "db.t", "--type", "s:INT", "--dry-run", code=1).out
    assert "texts that are no INT fail the read" in told
    lakewright(catalog, "alter", "db.t", "--set", "lakewright.cast-mode=explicit-null")
    told = lakewright(catalog, "alter", "db.t", "--type", "s:INT", "--dry-run", code=1).out
    assert "texts that are no INT become null" in told
