"""Writes manifests that replace others of a table, and proves that the same files are live.

1. Write the new manifests, and read them back from the store: they hold the entries as given.
2. Compare the live files of both sets, which are folded from all their manifests.

Manifests that later commits added follow both sets alike, so they need no proof. So a committer
that loses against other writers need not write and prove again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from lakewright.storage.errors import VerificationFailed
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.state.live_columns import live_columns, told_files
from lakewright.storage.operations.state.partition_filter import PartitionFilter
from lakewright.storage.spec.commit import EncodedManifest
from lakewright.storage.spec.manifest import ManifestFileMeta

# What tells one live file from another, and its rows.
_NUMBERS = ("_BUCKET", "_FILE._LEVEL", "_FILE._ROW_COUNT")
_TEXTS = ("_FILE._FILE_NAME", "_PARTITION")


def write_rewritten(
    files: TableFiles,
    replaced: Sequence[ManifestFileMeta],
    kept: Sequence[ManifestFileMeta],
    new: Sequence[EncodedManifest],
    written: list[str],
) -> tuple[ManifestFileMeta, ...]:
    """The kept manifests and the new ones, in order; names of new files are added to `written`.

    None of them holds a deletion. `replaced` are the manifests whose place they take.

    Raises:
        VerificationFailed: other files would be live than by the manifests to be replaced.
    """
    metas: list[ManifestFileMeta] = []
    for each in new:
        meta = files.manifests.write_contents(
            each.data, each.contents, keys=each.keys, written=written
        )
        if not each.holds(files.manifests.read_bytes(meta.file_name)):
            raise _differs(files, f"manifest {meta.file_name} does not hold what was written to it")
        metas.append(meta)
    files.fs.make_durable(list(map(files.paths.manifest, written)), below=files.paths.root)
    # A committer joins small manifests with those that follow them.
    target = files.options.manifest_target_file_size
    state = tuple(sorted((*kept, *metas), key=lambda meta: meta.file_size < target))
    old, now = _live(files, replaced), _live(files, state)
    if not now.equals(old):
        raise _differs(
            files, f"{old.num_rows} data files are live, and {now.num_rows} or others would be"
        )
    return state


def _live(files: TableFiles, metas: Iterable[ManifestFileMeta]) -> pa.Table:
    return told_files(live_columns(files, metas, PartitionFilter(files)), _TEXTS, _NUMBERS)


def _differs(files: TableFiles, why: str) -> VerificationFailed:
    return VerificationFailed(
        f"the manifests of {files.name} were rewritten, and {why}; nothing was published"
    )
