"""Commits of a client that opened a table before its partition keys changed.

Clients but ours do not ask for the schema when they commit. `tests/interop` has the real ones.
"""

from __future__ import annotations

import pytest

from lakewright.storage import StagedWrite, Table
from lakewright.storage.operations.commit import commit_loop, commit_manifests


def commit_late(opened: Table, staged: StagedWrite) -> None:
    """Commit what was staged under the keys that the table had when it was opened."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commit_loop, "_keys_stand", lambda *_: True)
        patch.setattr(commit_manifests, "check_keys_stay", lambda *_: None)
        # Nor whether another client replaced the hash index of a bucket.
        patch.setattr(commit_loop, "check_conflicts", lambda *_: None)
        opened.commit(staged)
