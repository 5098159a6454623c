"""Rows that move between places: small runs are held, large ones are files."""

from __future__ import annotations

import pytest

from lakewright.storage import Catalog
from lakewright.storage.errors import VerificationFailed
from lakewright.storage.operations.read.merge_read import merged_windows
from lakewright.storage.operations.write import dealt_files
from lakewright.storage.operations.write.dealt_files import DealtFiles
from lakewright.storage.operations.write.verify import VerifyLevel, rows_to_rewrite
from lakewright.storage.spec.partition import Place
from tests.support.tables.builders import events, new_table, rows
from tests.support.tables.invariants import assert_only_reachable_files


@pytest.mark.parametrize("held_bytes", [0, 2**20], ids=["files", "held"])
def test_a_key_that_comes_from_two_buckets_is_refused_and_no_row_of_it_lost(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, held_bytes: int
) -> None:
    monkeypatch.setattr(dealt_files, "_HELD_BYTES", held_bytes)
    table = new_table(catalog, keys=["id"], options={"bucket": "1"})
    table.write(rows(table, events(0, 5)))
    files = table.table_files
    source = rows_to_rewrite(files, VerifyLevel.CHECKSUMS)
    (split,) = table.scan().splits

    def deal_twice() -> None:
        with DealtFiles(files, "moved", VerifyLevel.CHECKSUMS, level=1, buckets=1) as dealt:
            for _ in range(2):
                for window in merged_windows(source, split):
                    dealt.proof.expect(window)
                    dealt.write([(Place(split.partition, 0), window)])
                dealt.end_run()
            dealt.close()

    with pytest.raises(VerificationFailed):
        deal_twice()
    assert_only_reachable_files(table)
