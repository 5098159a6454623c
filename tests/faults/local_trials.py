"""The verbs of `verbs.py` on a real folder: what trials in memory make ready, and judge.

Manifests may name the whole paths of files in the table. So that a trial can judge a copy, its
folder has a name as long as the warehouse's in memory, and the name is replaced in manifests,
which such a trial does not compress.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from secrets import token_hex

from fsspec.implementations.memory import MemoryFile, MemoryFileSystem

from lakewright.storage import Catalog
from lakewright.storage.files.external_files import external_uri
from lakewright.storage.files.local_files import LocalFiles
from tests.faults.trials import TRIES, WAREHOUSE, Disk, Trial, opened
from tests.support.stores.disks import Left

_ROOT = "/" + WAREHOUSE.partition("://")[2]
# How manifests name the warehouse in memory.
_PLACE = external_uri(opened(TRIES).fs, _ROOT)


def laid_out(trial: Trial, folder: Path, *, run: int = TRIES) -> Catalog:
    """The warehouse that a trial begins with, on a local disk."""
    for path in trial.start.folders:
        if path.startswith(_ROOT):
            (folder / path.removeprefix(_ROOT).lstrip("/")).mkdir(parents=True, exist_ok=True)
    for path, file in trial.start.files.items():
        target = folder / path.removeprefix(_ROOT).lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.getvalue())
    return on_disk(folder, run=run)


def on_disk(folder: Path, *, run: int) -> Catalog:
    """What lies in a folder, as a process sees it that begins anew."""
    catalog = opened(run)
    return replace(catalog, fs=LocalFiles(catalog.env), root=str(folder))


def in_memory(left: Left, folder: Path) -> Disk:
    """The same files where trials look at them; `folder` is where they lie."""
    fs = MemoryFileSystem()
    here, there = f"file:{folder}".encode(), _PLACE.encode()
    files = {
        f"{_ROOT}/{path}": MemoryFile(
            fs, f"{_ROOT}/{path}", data.replace(here, there) if "/manifest/" in path else data
        )
        for path, data in left.files.items()
    }
    folders = ["", _ROOT, *(f"{_ROOT}/{path}" for path in sorted(left.folders))]
    return Disk(files, folders)


@contextmanager
def folder_as_long() -> Iterator[Path]:
    """An empty folder whose URI has as many characters as that of the warehouse in memory."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else "/tmp"
    name = token_hex(20)[: len(_PLACE) - len(f"file:{base}/")]
    folder = Path(base) / name
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def what_lies_in(folder: Path) -> Left:
    """Every file and folder."""
    below = sorted(folder.rglob("*"))
    files = {str(path.relative_to(folder)): path.read_bytes() for path in below if path.is_file()}
    folders = frozenset(str(path.relative_to(folder)) for path in below if path.is_dir())
    return Left(files, folders)
