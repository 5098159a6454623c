"""The proof at the end of a cut-over: the files of after are those of before."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lakewright.storage import Catalog
from lakewright.storage.errors import VerificationFailed
from lakewright.storage.operations.read.key_values import KeyValues
from lakewright.storage.operations.respec.cut_over import cut_over
from lakewright.storage.operations.respec.prepared import Prepared, _Layer
from lakewright.storage.operations.running.engine import LocalEngine
from lakewright.storage.spec.commit import Change
from lakewright.storage.spec.index import IndexEntry
from lakewright.storage.spec.manifest import ManifestFileMeta
from lakewright.storage.spec.snapshot import Snapshot
from tests.support.tables.builders import content, new_table, remove_orphans, rows
from tests.support.tables.invariants import assert_only_reachable_files


class Forgetful(Prepared):
    """Manifests of which the last is left out of each commit, as an error of ours would."""

    def _change(
        self,
        latest: Snapshot,
        layer: _Layer,
        metas: Sequence[ManifestFileMeta],
        present: Sequence[IndexEntry],
    ) -> Change:
        return super()._change(latest, layer, metas[:-1], present)


@pytest.mark.mission("PT1")
@pytest.mark.parametrize("keys", [("dt", "hh"), ()], ids=["keys come", "keys go"])
def test_a_cut_over_that_lost_files_names_the_rollback_that_brings_them_back(
    catalog: Catalog, keys: tuple[str, ...]
) -> None:
    table = new_table(
        catalog,
        {"dt": "INT", "hh": "INT"},
        partitions=["dt"],
        options={"manifest.target-file-size": "1 kb"},
    )
    table.write(rows(table, [{"dt": day, "hh": day % 3} for day in range(40)]))
    due, files = content(table), table.table_files
    values = KeyValues(files, files.schema.fields_of(keys))
    prepared = Forgetful(files, keys, values, LocalEngine(env=files.env))
    with (
        pytest.raises(
            VerificationFailed,
            match=r"holds \d+ files under .* where snapshot 1 held 40, .* rollback db\.t "
            r"--snapshot 1\)",
        ),
        prepared.discarded_in_the_end(),
    ):
        cut_over(prepared)
    table = catalog.table("db.t")
    assert len(content(table)) < len(due)
    table.history.rollback(snapshot=1, grace_ms=0)
    table = catalog.table("db.t")
    assert (content(table), table.schema.partition_keys) == (due, ("dt",))
    remove_orphans(table)
    assert_only_reachable_files(table)
