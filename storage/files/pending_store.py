"""Staged batches that wait for their commit: one file each, in a folder of their user.

<table>/.lakewright/pending/user-<user>/batch-<identifier>
"""

from __future__ import annotations

from dataclasses import dataclass

from lakewright.storage.codec.commit_json import decode_staged, encode_staged
from lakewright.storage.env import FileSystem
from lakewright.storage.files.paths import TablePaths, numbered
from lakewright.storage.spec.commit import StagedWrite


@dataclass(frozen=True, slots=True)
class PendingStore:
    """Creates, reads and deletes batch files, which never change."""

    fs: FileSystem
    paths: TablePaths

    def files(self, user: str | None = None) -> list[str]:
        """Paths of the batches of one user, or of all users."""
        folder = self.paths.pending_dir
        if user is not None:
            folder = self.paths.pending(user, 0).rsplit("/", 1)[0]
        listed = self.fs.list_tree(folder)
        return [each.path for each in listed if numbered(each.name, "batch-") is not None]

    def put(self, staged: StagedWrite) -> bool:
        """Create the file of a batch; False if its user and identifier have one."""
        path = self.paths.pending(staged.commit_user, staged.commit_identifier)
        return self.fs.put_if_absent(path, encode_staged(staged))

    def read(self, path: str) -> StagedWrite:
        """One batch.

        Raises:
            FileMissing: the batch was committed or aborted.
        """
        return decode_staged(self.fs.read_bytes(path), name=path)
