"""A filter on a partition key that came opens the files of its value alone, by every client."""

from __future__ import annotations

from collections.abc import Sequence
from io import SEEK_SET, RawIOBase
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakewright.storage import Catalog, Table
from tests.interop.test_they_read_ours import as_read_by
from tests.oracles.client import Condition, Oracle
from tests.support.processes.traced import files_read, rows_read_by_us, tracing, why_untraced
from tests.support.stores.watched_files import Call, WatchedFiles, over
from tests.support.tables.builders import content, new_table

DAYS, HOURS, ROWS_AN_HOUR = 3, 12, 50
COLUMNS = {
    "dt": "STRING NOT NULL",
    "hh": "INT NOT NULL",
    "id": "BIGINT NOT NULL",
    "payload": "STRING",
}
WHERE: Sequence[Condition] = [("hh", "=", 5)]


class _Counted(RawIOBase):
    """An input of a file system that adds what is read of it to `counts`."""

    def __init__(self, handle: Any, path: str, counts: dict[str, int]) -> None:
        self._handle = handle
        self._path = path
        self._counts = counts

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        return int(self._handle.seek(offset, whence))

    def tell(self) -> int:
        return int(self._handle.tell())

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._handle.read(None if size < 0 else size)
        self._counts[self._path] += len(data)
        return data

    def close(self) -> None:
        self._handle.close()
        super().close()


def read_by_us(table: Table, where: str) -> dict[str, int]:
    """The data files that a read opens, and the bytes that it reads of each."""
    counts: dict[str, int] = {}

    def counted(call: Call, answer: Any) -> Any:
        if call.name != "open_input" or "/bucket-" not in call.path:
            return answer
        counts.setdefault(call.path, 0)
        return _Counted(answer, call.path, counts)

    over(table, WatchedFiles(table.table_files.fs, tells=counted)).read(where)
    return counts


def table_of_days(catalog: Catalog, keys: Sequence[str]) -> Table:
    """A file for each day has all of its hours, in no order; texts do not compress."""
    chosen = np.random.default_rng(7)
    options = {"bucket": "1"} if keys else None
    table = new_table(catalog, COLUMNS, partitions=["dt"], keys=keys, options=options)
    count = HOURS * ROWS_AN_HOUR
    for day in range(DAYS):
        hours = chosen.permutation(np.repeat(np.arange(HOURS, dtype=np.int32), ROWS_AN_HOUR))
        texts = [chosen.bytes(400).hex() for _ in range(count)]
        columns = {"dt": [f"2024-01-0{day + 1}"] * count, "hh": hours, "id": range(count)}
        given = pa.table({**columns, "payload": texts})
        table.write(given.cast(table.arrow_schema))
    return table


@pytest.mark.parametrize("keys", [(), ("dt", "hh", "id")], ids=["append", "primary key"])
@pytest.mark.mission("PT1", "PT2", "PT3")
def test_a_filter_reads_the_files_of_a_key_that_came_alone_and_no_more_once_it_went(
    catalog: Catalog, released_pypaimon: Oracle, java_latest: Oracle, keys: Sequence[str]
) -> None:
    """Statistics of files tell where it went; primary-key tables have files of days again."""
    table = table_of_days(catalog, keys)
    due = content(table, where="hh = 5")
    assert len(due) == DAYS * ROWS_AN_HOUR
    costs: list[dict[str, tuple[int, int]]] = []
    for wanted in (("dt",), ("dt", "hh"), ("dt",)):
        if wanted != table.schema.partition_keys:
            table.upkeep.respec(wanted)
            table = catalog.table(table.name)
        found = {"us": read_by_us(table, "hh = 5")}
        assert content(table, where="hh = 5") == due
        for client in (released_pypaimon, java_latest):
            found[client.name] = client.planned_files(catalog.root, table.name, where=WHERE)
            assert as_read_by(client, catalog, table, where=WHERE) == due
        costs.append({name: (len(each), sum(each.values())) for name, each in found.items()})
    before, finer, coarser = costs
    for name, (opened, size) in before.items():
        assert (opened, finer[name][0]) == (DAYS, DAYS)
        # Our reads look twice at the footer of a file, which weighs more in a small one.
        assert finer[name][1] < size * 2 / HOURS, name
    if not keys:
        assert coarser == finer


def read_at_the_system(
    log: Path, client: Oracle | None, catalog: Catalog, table: Table
) -> tuple[int, int]:
    """The data files that a client's own process opens for the filter, and the bytes it reads."""
    if client is None:
        count = rows_read_by_us(log, catalog.root, table.name, "hh = 5")
    else:
        with client.started_by(*tracing(log)) as traced:
            count = len(traced.read(catalog.root, table.name, where=WHERE))
    assert count == DAYS * ROWS_AN_HOUR
    found = files_read(log, "/bucket-")
    return len(found), sum(found.values())


@pytest.mark.deep
@pytest.mark.parametrize("keys", [(), ("dt", "hh", "id")], ids=["append", "primary key"])
@pytest.mark.parametrize("reader", ["us", "released_pypaimon", "java", "java_latest", "rust"])
@pytest.mark.mission("PT1", "PT2", "PT3")
def test_a_clients_process_opens_and_reads_the_files_of_a_key_that_came_alone(
    catalog: Catalog,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    reader: str,
    keys: Sequence[str],
) -> None:
    """Counted at the operating system, so what a client does beside its plan is counted, too."""
    if (why := why_untraced()) is not None:
        pytest.skip(why)
    if (reader, keys) == ("java", ()):
        pytest.skip(
            "Java Paimon 0.9 reads an append table of restated files only once it is settled"
        )
    client = None if reader == "us" else request.getfixturevalue(reader)
    table = table_of_days(catalog, keys)
    files, size = read_at_the_system(tmp_path / "before", client, catalog, table)
    table.upkeep.respec(("dt", "hh"))
    table = catalog.table(table.name)
    finer_files, finer_size = read_at_the_system(tmp_path / "after", client, catalog, table)
    assert (files, finer_files) == (DAYS, DAYS)
    # The page beside the rows, and the footers that some clients read twice, are the same.
    assert finer_size < size * 3 / HOURS
