"""Small metadata files that were read: known again while the store lists them alike."""

from __future__ import annotations

from dataclasses import replace

from lakewright.storage.env import FileStatus
from lakewright.storage.files.seen_files import SeenFiles
from tests.support.tables.environment import FixedEnv

HOUR_MS = 3_600_000


def test_a_settled_file_is_read_once_and_again_when_it_is_listed_otherwise() -> None:
    env, contents = FixedEnv(), iter("abcdefgh")
    seen = SeenFiles(env)
    old = FileStatus("/t/tag/tag-a", 10, env.now_ms() - HOUR_MS)
    assert [seen.read(old, lambda: next(contents)) for _ in range(3)] == ["a", "a", "a"]
    assert seen.read(replace(old, size=11), lambda: next(contents)) == "b"
    # What was just written, or is dated in the future, may be replaced and look the same.
    for modified_ms in (env.now_ms() - 1_000, env.now_ms() + HOUR_MS):
        young = FileStatus("/t/tag/tag-b", 10, modified_ms)
        assert seen.read(young, lambda: next(contents)) != seen.read(young, lambda: next(contents))
