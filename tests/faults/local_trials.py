"""The verbs of `verbs.py` on a real folder: what trials in memory make ready, and judge."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fsspec.implementations.memory import MemoryFile, MemoryFileSystem

from lakewright.storage import Catalog
from lakewright.storage.files.local_files import LocalFiles
from tests.faults.trials import TRIES, WAREHOUSE, Disk, Trial, opened
from tests.support.stores.disks import Left

_ROOT = "/" + WAREHOUSE.partition("://")[2]


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


def in_memory(left: Left) -> Disk:
    """The same files where trials look at them."""
    fs = MemoryFileSystem()
    files = {
        f"{_ROOT}/{path}": MemoryFile(fs, f"{_ROOT}/{path}", data)
        for path, data in left.files.items()
    }
    folders = ["", _ROOT, *(f"{_ROOT}/{path}" for path in sorted(left.folders))]
    return Disk(files, folders)


def what_lies_in(folder: Path) -> Left:
    """Every file and folder."""
    below = sorted(folder.rglob("*"))
    files = {str(path.relative_to(folder)): path.read_bytes() for path in below if path.is_file()}
    folders = frozenset(str(path.relative_to(folder)) for path in below if path.is_dir())
    return Left(files, folders)
