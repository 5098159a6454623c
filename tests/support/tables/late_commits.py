"""Commits of a client that opened a table before its partition keys changed.

Clients but ours do not ask for the schema when they commit. `tests/interop` has the real ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain

import pytest

from lakewright.storage import StagedWrite, Table
from lakewright.storage.operations.commit import commit_loop, commit_manifests, keys_gate
from lakewright.storage.operations.state.live_files import live_entries
from lakewright.storage.operations.state.table_state import TableState
from lakewright.storage.spec.commit import Change
from lakewright.storage.spec.manifest import ManifestEntry


def commit_late(opened: Table, staged: StagedWrite) -> None:
    """Commit what was staged under the keys that the table had when it was opened."""
    with as_other_clients_do():
        opened.commit(staged)


def upgrade_late(opened: Table, names: Collection[str]) -> None:
    """Commit a compaction of late files that only moves them to the deepest level."""
    level = opened.options.max_level
    _replace_late(opened, names, lambda each: [replace(each, file=replace(each.file, level=level))])


def remove_late(opened: Table, names: Collection[str]) -> None:
    """Commit the removal of late files."""
    _replace_late(opened, names, lambda _: [])


def _replace_late(
    opened: Table, names: Collection[str], by: Callable[[ManifestEntry], list[ManifestEntry]]
) -> None:
    files = opened.table_files
    live = live_entries(files, files.snapshots.latest())
    chosen = [each for each in live if each.file.file_name in names]
    assert chosen

    def build(state: TableState) -> Change:
        assert state.snapshot is not None
        entries = [*(each.removed() for each in chosen), *chain.from_iterable(map(by, chosen))]
        return Change(entries=entries, statistics=state.snapshot.statistics)

    with as_other_clients_do():
        assert commit_loop.commit_bridging(files, build).snapshot


def names_of_latest(table: Table) -> set[str]:
    """The data files that the latest commit added."""
    files = table.table_files
    latest = files.snapshots.latest()
    assert latest is not None
    delta = files.manifests.entries(files.manifests.read_delta_list(latest))
    return {each.file.file_name for each in delta}


@contextmanager
def as_other_clients_do() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys_gate, "_has_keys", lambda *_: True)
        patch.setattr(commit_manifests, "check_keys_stay", lambda *_: None)
        # Nor whether another client replaced the hash index of a bucket.
        patch.setattr(commit_loop, "check_conflicts", lambda *_: None)
        yield
