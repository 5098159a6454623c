"""Checks that the folders of partitions keep their names when a table's options change.

No manifest names the folder of a file: each client makes it of the partition's values, and of the
options `partition.legacy-name` and `partition.default-name` of the latest schema.
"""

from __future__ import annotations

from dataclasses import replace

from lakewright.storage.errors import InvalidOption
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.references.roots import RootKind, branch_roots
from lakewright.storage.operations.state.live_files import live_entries
from lakewright.storage.spec.options import read_options, trimmed
from lakewright.storage.spec.schema import TableSchema

_NAMING = ("partition.legacy-name", "partition.default-name")


def check_folders_keep_names(files: TableFiles, new: TableSchema) -> None:
    """Check that every file of snapshots and tags lies where the new schema's clients look for it.

    Reads the manifests of the history, if one of the two options changes.

    Raises:
        InvalidOption: names the option, a partition, and both folders.
    """
    old, now = trimmed(files.schema.options), trimmed(new.options)
    changed = [name for name in _NAMING if old.get(name) != now.get(name)]
    if not changed or not files.schema.partition_keys:
        return
    after = read_options(new, table=files.name)
    files = files.reading_once()
    seen: set[bytes] = set()
    for root in branch_roots(files):
        if root.kind is RootKind.CHANGELOG:
            # Its snapshot's state may be deleted.
            continue
        for entry in live_entries(files, root.snapshot):
            # A restated file names its place.
            if entry.partition in seen or entry.file.external_path is not None:
                continue
            seen.add(entry.partition)
            partition = files.partitions.of_entry(entry)
            keys = replace(
                partition.keys,
                legacy_name=after.partition_legacy_name,
                default_name=after.partition_default_name,
            )
            folder = replace(partition, keys=keys).path
            if folder != partition.path:
                raise InvalidOption(
                    f"{files.name}: option {changed[0]} cannot change: the files of "
                    f"{partition.named} lie in {partition.path}, and every client would look for "
                    f"them in {folder}; write the rows to a new table with the option",
                    option=changed[0],
                )
