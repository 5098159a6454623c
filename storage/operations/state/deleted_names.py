"""Which manifests may add files that other manifests of a state delete."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.state.partition_filter import PartitionFilter
from lakewright.storage.spec.manifest import FileKind, ManifestFileMeta


def may_hold_deleted(
    files: TableFiles, metas: Sequence[ManifestFileMeta]
) -> Callable[[ManifestFileMeta], bool]:
    """Tells of a manifest whether it has an entry of a name that a deletion in any of `metas` has.

    Only manifests that count deletions are asked for them, and only those whose bounds of
    partitions may hold one are opened to be told of.
    """
    names: list[pa.Array] = []
    partitions: set[bytes] = set()
    for meta in metas:
        if meta.num_deleted_files:
            entries = files.manifests.read_columns(meta)
            rows = np.flatnonzero(entries.numbers("_KIND") == FileKind.DELETE)
            names.append(entries.texts("_FILE._FILE_NAME", rows))
            partitions.update(entries.texts("_PARTITION", rows).unique().to_pylist())
    if not partitions:
        return lambda meta: False
    wanted = PartitionFilter(files, rows=partitions)
    gone = pa.concat_arrays(names).unique()

    def may_hold(meta: ManifestFileMeta) -> bool:
        if not wanted.may_hold(meta):
            return False
        held = files.manifests.read_columns(meta).texts("_FILE._FILE_NAME")
        return bool(pc.any(pc.is_in(held, gone)).as_py())

    return may_hold
