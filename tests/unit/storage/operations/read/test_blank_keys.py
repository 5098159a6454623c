"""CHAR keys that end in blanks: ORC files cannot tell them apart, so they hold none."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidRows
from tests.support.tables.builders import compact, content, new_table, rows, with_options
from tests.support.tables.invariants import assert_only_reachable_files

NAMES = [{"k": "ab", "n": 1}, {"k": "ab ", "n": 2}]


def keyed_by(catalog: Catalog, key: str, options: Mapping[str, str]) -> Table:
    wanted = {"bucket": "1", **options}
    return new_table(catalog, {"k": key, "n": "INT"}, keys=("k",), options=wanted)


@pytest.mark.parametrize(
    "options",
    [
        {"file.format": "orc"},
        {"file.format": "avro", "file.format.per.level": "5:orc"},
        {"changelog-file.format": "orc", "changelog-producer": "input"},
    ],
)
def test_a_char_key_that_ends_in_blanks_is_refused_for_orc_files(
    catalog: Catalog, options: dict[str, str]
) -> None:
    table = keyed_by(catalog, "CHAR(4)", options)
    with pytest.raises(InvalidRows, match=r"1 of 2 rows .* first 'ab '; .*the key 'ab'.*VARCHAR"):
        table.write(rows(table, NAMES))
    assert table.history.latest_snapshot() is None
    assert_only_reachable_files(table)


@pytest.mark.parametrize(
    ("key", "format_name"), [("CHAR(4)", "parquet"), ("CHAR(4)", "avro"), ("VARCHAR(4)", "orc")]
)
def test_keys_that_differ_in_blanks_are_two_where_files_keep_blanks(
    catalog: Catalog, key: str, format_name: str
) -> None:
    table = keyed_by(catalog, key, {"file.format": format_name})
    for _ in range(2):
        table.write(rows(table, NAMES))
    due = ['{"k": "ab", "n": 1}', '{"k": "ab ", "n": 2}']
    assert sorted(content(table)) == sorted(due)
    compact(table, full=True)
    assert sorted(content(table)) == sorted(due)


def test_keys_that_end_in_blanks_are_not_moved_into_orc_files(catalog: Catalog) -> None:
    table = keyed_by(catalog, "CHAR(4)", {"file.format": "parquet"})
    for _ in range(2):
        table.write(rows(table, NAMES))
    before = content(table)
    altered = with_options(table, **{"file.format": "orc"})
    with pytest.raises(InvalidRows, match="ends in blanks"):
        compact(altered, full=True)
    assert content(altered) == before
    assert_only_reachable_files(altered)
