"""Pipes, sockets and devices where files are expected: told at once, never waited for."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

from lakewright.storage import Catalog
from lakewright.storage.errors import CorruptionError, StorageError
from lakewright.storage.files.file_systems import open_file_system
from lakewright.storage.files.local_files import sizes_and_times
from tests.support.tables.builders import content, events, new_table, rows
from tests.support.tables.landed import LANDED, land, rows_of


@pytest.fixture(autouse=True)
def nothing_waits() -> Iterator[None]:
    def fail(number: int, frame: FrameType | None) -> None:
        pytest.fail("a call waits for a pipe")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def listening(path: Path) -> None:
    path.unlink(missing_ok=True)
    # The system limits the length of a socket's path.
    here = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as opened:
            opened.bind(path.name)
    finally:
        os.chdir(here)


def device(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


KINDS = {"a named pipe": pipe, "a socket": listening, "a device": device}


@pytest.mark.parametrize("kind", KINDS)
def test_only_regular_files_are_opened(tmp_path: Path, kind: str) -> None:
    fs, root = open_file_system(str(tmp_path))
    KINDS[kind](tmp_path / "x")
    opens: list[Callable[[], object]] = [
        lambda: fs.read_bytes(f"{root}/x"),
        lambda: fs.open_input(f"{root}/x"),
        lambda: sizes_and_times(root, ["x"]),
    ]
    for each in opens:
        with pytest.raises(CorruptionError, match=f"x is {kind}, and only regular files"):
            each()


@pytest.mark.parametrize("size", [0, 1, 1 << 20, (3 << 20) + 1])
def test_a_file_is_read_whole(tmp_path: Path, size: int) -> None:
    fs, root = open_file_system(str(tmp_path))
    data = os.urandom(size)
    (tmp_path / "x").write_bytes(data)
    assert fs.read_bytes(f"{root}/x") == data


@pytest.mark.parametrize("hints", [True, False])
@pytest.mark.parametrize("kind", ["a named pipe", "a socket"])
@pytest.mark.parametrize("name", ["snapshot/LATEST", "snapshot/snapshot-1", "schema/schema-0"])
def test_a_table_with_a_pipe_among_its_metadata_is_told_and_the_others_are_listed(
    unchecked_catalog: Catalog, name: str, kind: str, hints: bool
) -> None:
    catalog = unchecked_catalog
    table = new_table(catalog)
    table.write(rows(table, events(0, 3)))
    good = new_table(catalog, name="db.good")
    root = Path(table.table_files.paths.root)
    if not hints:
        (root / "snapshot/LATEST").unlink()
        (root / "snapshot/EARLIEST").unlink(missing_ok=True)
    KINDS[kind](root / name)
    assert catalog.list_tables("db") == ("good", "t")
    with pytest.raises(StorageError, match=f"{name} is {kind}, and only regular files are read"):
        catalog.table("db.t").read()
    assert content(good) == content(catalog.table("db.good"))


@pytest.mark.parametrize("suffix", ["parquet", "orc", "avro", "csv", "json"])
def test_a_pipe_among_data_files_is_told(catalog: Catalog, tmp_path: Path, suffix: str) -> None:
    root = tmp_path / "landing"
    if suffix in ("parquet", "orc", "avro"):
        land(root / f"a.{suffix}", rows_of(0, 2))
    pipe_in(root / f"b.{suffix}")
    table = catalog.create_format_table("db.f", LANDED, file_format=suffix, location=str(root))
    with pytest.raises(CorruptionError, match=rf"b\.{suffix} is a named pipe"):
        table.read()


def pipe_in(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    pipe(path)
