"""Changing partition keys on an object store: nothing is renamed, conditions guard names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from lakewright.storage import Catalog, Table
from lakewright.storage.files.clients import forget_clients
from lakewright.storage.files.object_files import ObjectFiles
from tests.support.stores.watched_files import Call, WatchedFiles, looked_at
from tests.support.tables.builders import compact, content, expire, rows
from tests.support.tables.environment import FixedEnv
from tests.support.tables.invariants import assert_only_reachable_files, assert_readable_history
from tests.unit.storage.operations.respec import test_keyed, test_respec


class Bucket(MemoryFileSystem):
    """Objects of S3: `If-None-Match: *` works, and nothing can be renamed."""

    store: dict[str, Any] = {}  # noqa: RUF012 - as in the class above
    pseudo_dirs = [""]  # noqa: RUF012 - as in the class above

    def _no_rename(self, *_: object, **__: object) -> NoReturn:
        raise AssertionError("an object store renames no object")

    mv = mv_file = move = rename = _no_rename


@dataclass(frozen=True)
class BucketFiles(ObjectFiles):
    scheme = "s3"

    @property
    def fs(self) -> fsspec.AbstractFileSystem:
        return Bucket(skip_instance_cache=True)

    def _ask_for_bucket(self, bucket: str) -> None:
        """Nothing: it is there."""


@pytest.fixture
def bucket() -> Iterator[Catalog]:
    forget_clients()
    env = FixedEnv()
    yield Catalog(BucketFiles(env), "/bucket/warehouse", env)
    Bucket.store.clear()
    Bucket.pseudo_dirs[:] = [""]
    forget_clients()


def days(bucket: Catalog, kind: str) -> Table:
    return (test_respec if kind == "append" else test_keyed).by_day(bucket)


@pytest.mark.mission("PT1", "PT2")
@pytest.mark.parametrize("kind", ["append", "keyed"])
def test_keys_change_on_an_object_store_as_on_a_disk(bucket: Catalog, kind: str) -> None:
    table = days(bucket, kind)
    due, moments = content(table), 0

    def look(call: Call) -> None:
        nonlocal moments
        if call.changes and ("/snapshot/snapshot-" in call.path or "/schema/schema-" in call.path):
            moments += 1
            assert content(bucket.table(table.name)) == due

    watched = replace(bucket, fs=WatchedFiles(bucket.fs, after=looked_at(look)))
    for keys in (("dt", "hh"), (), ("hh",)):
        watched.table(table.name).upkeep.respec(keys)
        now = bucket.table(table.name)
        assert now.schema.partition_keys == keys
        assert content(now) == due
        assert now.upkeep.plan_respec(keys).changes_nothing
        places = {each.file.external_path for each in now.at().files()} - {None}
        assert all(str(each).startswith("s3://") for each in places)
        assert places or kind == "keyed"
    assert moments >= 9
    now.upkeep.settle()
    assert not any(each.file.external_path for each in now.at().files())
    assert content(now) == due
    now.write(rows(now, [{"dt": "z", "hh": 9, "id": 9} if kind == "keyed" else {"dt": "z"}]))
    compact(now, full=True)
    assert len(content(now)) == len(due) + 1
    assert_readable_history(now, mixed=False)
    expire(now)
    assert_only_reachable_files(now)
