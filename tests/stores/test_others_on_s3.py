"""A table on S3 whose partition keys change: pypaimon and Java read it there at each moment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import pytest

from lakewright.storage import Catalog, Table
from tests.interop.test_changed_partition_keys import events, has_wide_rows
from tests.interop.test_they_read_ours import as_texts
from tests.oracles.client import LatestJavaOracle, WritingOracle, start_java_latest
from tests.oracles.fixtures import running
from tests.support.stores.servers import INSTALLED, KEY, SECRET
from tests.support.stores.watched_files import Call, WatchedFiles, looked_at
from tests.support.tables.builders import content, new_table

COLUMNS = {"dt": "STRING", "hh": "INT", "origin": "STRING", "day": "DATE", "v": "BIGINT"}


@pytest.fixture(scope="module")
def java_on_s3() -> Iterator[LatestJavaOracle]:
    """Java Paimon 1.4.2 with its plugin for S3."""
    plugins = INSTALLED / "paimon-s3"
    if not plugins.is_dir():
        pytest.skip(
            f"paimon-s3 is not in {plugins}; run make test-stores where mvn is installed; "
            "on a local disk Java reads these states otherwise"
        )
    yield from running(lambda home: start_java_latest(home, plugins=plugins), "java_latest")


@pytest.mark.mission("PT1")
def test_they_read_the_rows_from_s3_before_amid_and_after_changes_forth_and_back(
    careful_s3: str, java_on_s3: LatestJavaOracle, released_pypaimon: WritingOracle
) -> None:
    """Files that stay where they lie are named by their whole address, `s3://` and the bucket."""
    warehouse = careful_s3.rpartition("/")[0] + "/warehouse"
    catalog = Catalog.open(warehouse)
    options = {
        "s3.endpoint": os.environ["AWS_ENDPOINT_URL"],
        "s3.region": "us-east-1",
        "s3.access-key": KEY,
        "s3.secret-key": SECRET,
        "s3.path.style.access": "true",
    }
    table = new_table(catalog, COLUMNS, partitions=["dt"])
    for date in ("a", "b"):
        events(table, date, [1])
        events(table, date, [2, 3, None])
    due = content(table)
    seen: list[tuple[tuple[str, ...], bool]] = []

    def look(now: Table) -> None:
        for reader in (java_on_s3, released_pypaimon):
            assert as_texts(reader.read(warehouse, now.name)) == due, (reader.name, seen)
            found = reader.read(warehouse, now.name, where=[("hh", "=", 2)])
            assert len(found) == 6, (reader.name, seen)

    def look_after(call: Call) -> None:
        if call.changes and ("/snapshot/snapshot-" in call.path or "/schema/schema-" in call.path):
            now = catalog.table(table.name)
            look(now)
            seen.append((now.schema.partition_keys, has_wide_rows(now)))

    watched = replace(catalog, fs=WatchedFiles(catalog.fs, after=looked_at(look_after)))
    with java_on_s3.using_catalog(options), released_pypaimon.using_catalog(options):
        look(table)
        watched.table(table.name).upkeep.respec(["dt", "hh"], partitions=[{"dt": "a"}])
        assert seen == [(("dt",), False)]
        watched.table(table.name).upkeep.respec(["dt", "hh"])
        assert seen[1:] == [
            (("dt",), False),
            (("dt",), True),
            (("dt", "hh"), False),
            (("dt", "hh"), False),
        ]
        files = catalog.table(table.name).at().files()
        assert all((each.file.external_path or "").startswith(warehouse) for each in files)
        watched.table(table.name).upkeep.respec(["dt"])
        assert seen[5:] == [(("dt", "hh"), False), (("dt",), True), (("dt",), False)]
