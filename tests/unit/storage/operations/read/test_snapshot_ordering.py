"""Option `sequence.snapshot-ordering`: of the rows of a key the one of the latest snapshot wins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.codec.manifest_avro import decode_manifest, encode_manifest
from lakewright.storage.errors import UnsupportedError
from lakewright.storage.spec.manifest import ManifestEntry
from tests.support.tables.builders import compact, content, events, new_table, rows, with_options
from tests.support.tables.invariants import assert_only_reachable_files


def stamped(table: Table, file_name: str, number: int) -> None:
    """Give a file of a commit the number by which Java's committer orders its rows."""

    def stamp(entry: ManifestEntry) -> ManifestEntry:
        if entry.file.file_name != file_name:
            return entry
        file = replace(entry.file, min_sequence_number=number, max_sequence_number=number)
        return replace(entry, file=file)

    for path in Path(table.table_files.paths.root, "manifest").glob("manifest-*-0"):
        if not path.name.startswith("manifest-list"):
            entries = list(decode_manifest(path.read_bytes(), name=path.name))
            path.write_bytes(encode_manifest(map(stamp, entries), compression="zstandard"))


def write_stamped(table: Table, first: int, last: int, number: int) -> None:
    """Commit rows whose `v` says their number, which contradicts the order of the commits."""
    before = {each["file_path"] for each in table.inspect.files().to_pylist()}
    table.write(rows(table, events(first, last, v=f"{number}-")))
    (new,) = {each["file_path"] for each in table.inspect.files().to_pylist()} - before
    stamped(table, Path(new).name, number)


def numbers(table: Table) -> list[int]:
    """The number of the row that wins of each id, in the order of ids."""
    found = table.read().sort_by("id").column("v").to_pylist()
    return [int(text.partition("-")[0]) for text in found]


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_the_number_of_its_snapshot_decides_which_row_wins_before_and_after_compactions(
    catalog: Catalog, engine: str
) -> None:
    written = new_table(catalog, keys=("id",), options={"bucket": "1", "merge-engine": engine})
    table = with_options(written, sequence__snapshot_ordering="true")
    for number, (first, last) in ((7, (0, 4)), (5, (1, 6)), (6, (3, 8)), (3, (5, 10))):
        write_stamped(written, first, last, number)
    due = [7, 7, 7, 7, 6, 6, 6, 6, 3, 3]
    assert numbers(table) == due

    compact(table, full=True)
    assert numbers(table) == due
    write_stamped(written, 2, 5, 8)
    write_stamped(written, 4, 7, 9)
    due[2:7] = [8, 8, 9, 9, 9]
    assert numbers(table) == due
    compact(table, min_files=2)
    assert numbers(table) == due
    compact(table, full=True)
    assert numbers(table) == due
    assert_only_reachable_files(table)
    with pytest.raises(UnsupportedError, match=r"sequence\.snapshot-ordering"):
        table.write(rows(table, events(0, 1)))


def test_a_file_without_a_source_is_refused(unchecked_catalog: Catalog) -> None:
    table = new_table(unchecked_catalog, keys=("id",), options={"bucket": "1"})
    for number in range(2):
        table.write(rows(table, events(number, 3)))
    for path in Path(table.table_files.paths.root, "manifest").glob("manifest-*-0"):
        if not path.name.startswith("manifest-list"):
            entries = list(decode_manifest(path.read_bytes(), name=path.name))
            old = [replace(each, file=replace(each.file, file_source=None)) for each in entries]
            path.write_bytes(encode_manifest(old, compression="zstandard"))
    assert len(content(table)) == 3
    with pytest.raises(UnsupportedError, match="does not say whether a compaction wrote it"):
        with_options(table, sequence__snapshot_ordering="true").read()
