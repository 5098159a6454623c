"""Long histories in little time: writes the files of commits without the safety of commits."""

from __future__ import annotations

from dataclasses import replace

from lakewright.storage import Table
from lakewright.storage.codec.snapshot_json import encode_snapshot
from lakewright.storage.operations.commit.commit_manifests import write_manifests
from lakewright.storage.operations.state.table_state import TableState
from lakewright.storage.spec.commit import Change, Committable
from lakewright.storage.spec.manifest import EMPTY_ROW, DataFileMeta, FileKind, ManifestEntry
from lakewright.storage.spec.partition import Place
from lakewright.storage.spec.snapshot import CommitKind, Snapshot


def add_history(
    table: Table,
    template: DataFileMeta,
    count: int,
    *,
    live: int = 3,
    files_each: int = 1,
    tag_every: int = 0,
) -> None:
    """Add commits of `files_each` files, which remove the oldest files beyond `live` commits.

    The code of commits writes manifests, lists and snapshots; data files are a few bytes.
    `template` is a data file of bucket 0 of the table. A tag names one of `tag_every` snapshots.
    """
    files, fs = table.table_files, table.table_files.fs
    folder = files.bucket_dir(Place(EMPTY_ROW, 0))
    latest: Snapshot | None = files.snapshots.latest()
    commits: list[list[ManifestEntry]] = []
    for number in range(count):
        names = [f"data-{files.env.new_id()}-{each}.parquet" for each in range(files_each)]
        for name in names:
            fs.write_bytes(f"{folder}/{name}", b"PAR1")
        removed = [each.removed() for each in commits.pop(0)] if len(commits) >= live else []
        commits.append([_entry(template, name) for name in names])
        committable = Committable(
            user="backlog", identifier=number, kind=CommitKind.COMPACT, base_id=None
        )
        change = Change(entries=[*removed, *commits[-1]])
        latest = write_manifests(TableState(files, latest), change, committable, [])
        data = encode_snapshot(latest)
        fs.write_bytes(files.paths.snapshot(latest.id), data)
        if tag_every and not number % tag_every:
            fs.write_bytes(files.paths.tag(f"tag-{latest.id}"), data)
    if latest is not None:
        files.snapshots.hint_latest(latest.id)


def _entry(template: DataFileMeta, name: str) -> ManifestEntry:
    file = replace(template, file_name=name, file_size=4)
    return ManifestEntry(
        kind=FileKind.ADD, partition=EMPTY_ROW, bucket=0, total_buckets=1, file=file
    )
