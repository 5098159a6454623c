"""Long histories in little time: writes the files of commits without the safety of commits."""

from __future__ import annotations

from dataclasses import replace

from lakewright.storage import Table
from lakewright.storage.codec.snapshot_json import encode_snapshot
from lakewright.storage.operations.commit.commit_manifests import write_manifests
from lakewright.storage.operations.state.live_files import LiveFiles
from lakewright.storage.spec.commit import Change, Committable
from lakewright.storage.spec.manifest import EMPTY_ROW, DataFileMeta, FileKind, ManifestEntry
from lakewright.storage.spec.partition import Place
from lakewright.storage.spec.snapshot import CommitKind, Snapshot


def add_history(table: Table, template: DataFileMeta, count: int, *, live: int = 3) -> None:
    """Add commits of one file each, which remove the oldest file if more than `live` are live.

    The code of commits writes manifests, lists and snapshots; data files are a few bytes.
    `template` is a data file of bucket 0 of the table.
    """
    files, fs = table.table_files, table.table_files.fs
    folder = files.bucket_dir(Place(EMPTY_ROW, 0))
    latest: Snapshot | None = files.snapshots.latest()
    entries: list[ManifestEntry] = []
    for number in range(count):
        name = f"data-{files.env.new_id()}-{number}.parquet"
        fs.write_bytes(f"{folder}/{name}", b"PAR1")
        added = _entry(template, name)
        removed = [entries.pop(0).removed()] if len(entries) >= live else []
        entries.append(added)
        committable = Committable(
            user="backlog", identifier=number, kind=CommitKind.COMPACT, base_id=None
        )
        change = Change(entries=[*removed, added])
        latest = write_manifests(files, latest, change, committable, LiveFiles(files), [])
        fs.write_bytes(files.paths.snapshot(latest.id), encode_snapshot(latest))
    if latest is not None:
        files.snapshots.hint_latest(latest.id)


def _entry(template: DataFileMeta, name: str) -> ManifestEntry:
    file = replace(template, file_name=name, file_size=4)
    return ManifestEntry(
        kind=FileKind.ADD, partition=EMPTY_ROW, bucket=0, total_buckets=1, file=file
    )
