"""Rows that deletion vectors delete, as other clients leave them."""

from __future__ import annotations

import numpy as np

from lakewright.storage import Table
from lakewright.storage.operations.commit.commit import commit_compaction
from lakewright.storage.operations.state.live_files import grouped_by_bucket, index_entries
from lakewright.storage.spec.commit import CommitMessage


def delete_first_rows(table: Table, count: int = 1) -> None:
    """Delete the first rows of each file, as Java does with DELETE: by an index file a bucket."""
    files = table.table_files
    messages = []
    indexes = index_entries(files, files.snapshots.latest())
    for place, group in grouped_by_bucket(table.at().files()).items():
        marks = {entry.file.file_name: np.arange(count) for entry in group}
        index = files.indexes.write_deletion_vectors(marks, write_id=files.env.new_id())
        messages.append(
            CommitMessage(
                partition=place.partition,
                bucket=place.bucket,
                total_buckets=-1,
                new_indexes=(index,),
                removed_indexes=tuple(each.file for each in indexes if each.place == place),
            )
        )
    commit_compaction(
        files, messages, user="delete", base_snapshot_id=table.history.snapshots()[-1].id
    )
