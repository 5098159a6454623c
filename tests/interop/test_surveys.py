"""Surveys of tables that other clients wrote count what is there, and change nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from lakewright.platform.decide.proposal import propose
from lakewright.platform.decide.take_survey import survey_warehouse
from lakewright.platform.tables.upkeep_policies import WarehousePolicy
from lakewright.storage import Catalog
from tests.interop.test_they_read_ours import KINDS
from tests.interop.test_we_read_theirs import of_kind
from tests.oracles.client import WritingOracle
from tests.support.stores.watched_files import WatchedFiles
from tests.support.tables.builders import compact, events


@pytest.mark.parametrize("client", ["java", "released_pypaimon"])
@pytest.mark.parametrize("kind", list(KINDS))
def test_a_survey_of_their_table_counts_what_they_wrote(
    catalog: Catalog, request: pytest.FixtureRequest, client: str, kind: str
) -> None:
    writer: WritingOracle = request.getfixturevalue(client)
    table = of_kind(catalog, writer, kind)
    for first in (0, 2, 4):
        writer.write(catalog.root, table.name, events(first, first + 4, day="a"))
    fs = WatchedFiles(catalog.fs)
    (found,) = survey_warehouse(replace(catalog, fs=fs))
    assert not fs.changes
    assert (found.problem, found.read_only, found.refused) == (None, None, {})
    assert found.keyed == table.schema.has_primary_key
    on_disk = list(Path(table.table_files.paths.root).rglob("bucket-*/data-*"))
    assert found.files.files == len(table.at().files())
    assert found.files.files + found.orphans.unnamed_files == len(on_disk)
    assert found.history.snapshots == len(table.history.snapshots())
    assert found.files.mergeable_files > 0
    WarehousePolicy.model_validate(yaml.safe_load(propose([found], warehouse="w"))["warehouse"])
    compact(table, full=True)
    (after,) = survey_warehouse(catalog)
    assert after.files.mergeable_files == 0
    assert after.history.snapshots == found.history.snapshots + 1
