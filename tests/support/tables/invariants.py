"""Invariants of every table at any time, computed from the raw files only.

The computation of reachable files shares no code with scan, commit or expiry: it reads snapshots as
JSON and manifests as plain Avro records.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from io import BytesIO
from typing import Any

import fastavro
import pyarrow.parquet as pq
from hypothesis import settings
from pyarrow import orc

from lakewright.storage import Table
from lakewright.storage.codec.bucket_hash import hashes_of
from lakewright.storage.operations.state.table_state import TableState
from lakewright.storage.spec.index import HASH_INDEX
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.spec.partition import Place

Json = dict[str, Any]
# A data file as manifests name it: by folder and file name.
DataFile = tuple[str, str]

_METADATA = re.compile(
    r"(branch/branch-[^/]+/)?"
    r"(schema/schema-\d+|snapshot/(snapshot-\d+|LATEST|EARLIEST)|tag/tag-[^/]+"
    r"|consumer/consumer-[^/]+|changelog/(changelog-\d+|LATEST|EARLIEST))"
    r"|\.lakewright/leases/[^/]+"
    # Columns that only a deleted branch had.
    r"|\.lakewright/columns/column-[^/]+"
    # The mark of a partition that is done.
    r"|([^/]+=[^/]*/)+_SUCCESS"
    r"|(branch/branch-[^/]+/)?\.lakewright/pending/user-[^/]+/batch-\d+"
    r"|(branch/branch-[^/]+/)?\.lakewright/streams/stream-[^/]+"
    r"|(branch/branch-[^/]+/)?\.lakewright/respec/(change-\d+|staged-\d+-[^/]+)"
    # Spark's own, of a declared stream.
    r"|\.lakewright/checkpoint/.+"
)
_PENDING = re.compile(r".*\.lakewright/pending/.*")
_STAGED = re.compile(r".*\.lakewright/respec/staged-[^/]+")
_MAIN_SNAPSHOT = re.compile(r"snapshot/snapshot-\d+")
_ROOT = re.compile(
    r"(branch/branch-[^/]+/)?(snapshot/snapshot-\d+|tag/tag-[^/]+|changelog/changelog-\d+)"
)
# The hidden folder of maintenance data, and the lists of what is condemned in it.
_UPKEEP = ".lakewright/"
_RECORD = re.compile(r"\.lakewright/condemned/([^/.]+)\.(json|claim|\d{6}\.list)")
_VERSION = re.compile(r"metadata/v(\d+)\.metadata\.json")
# The status of removed files in manifests of Iceberg.
_DELETED = 2
# The number for files of compactions in manifest entries.
_COMPACTED = 1


@dataclass
class Reachable:
    """Files that snapshots, tags, branches and long-lived changelogs keep."""

    metadata: set[str] = field(default_factory=set)
    data: set[DataFile] = field(default_factory=set)


class RawTable:
    """The files of a table as bytes, by their paths below its root."""

    def __init__(self, table: Table) -> None:
        self.fs = table.table_files.fs
        self.root = table.table_files.paths.root
        self.name = table.name

    @cached_property
    def paths(self) -> list[str]:
        """Listed once: a raw table is looked at while nothing changes."""
        return sorted(
            status.path.removeprefix(self.root + "/") for status in self.fs.list_tree(self.root)
        )

    def json(self, path: str) -> Json:
        found: Json = json.loads(self.fs.read_bytes(f"{self.root}/{path}"))
        return found

    def avro(self, name: str | None) -> tuple[Json, ...]:
        if name is None:
            return ()
        return _records(self.fs.read_bytes(f"{self.root}/manifest/{name}"))

    def roots(self) -> Iterator[tuple[str, Json]]:
        """The roots on main and on branches: folder and content.

        The content is reduced to the keys by which the root keeps files.
        """
        without = {
            "snapshot": (),
            # The changelog of a commit is deleted with its snapshot.
            "tag": ("changelogManifestList",),
            "changelog": ("baseManifestList", "indexManifest", "statistics"),
        }
        paths = self.paths
        for path in paths:
            if _ROOT.fullmatch(path) and not self.is_half_gone(path, paths):
                kind = path.split("/")[-2]
                gone = {*without[kind]}
                found = self.json(path)
                if kind == "changelog" and self.has_producer(path, found["schemaId"]):
                    gone.add("deltaManifestList")
                yield kind, {key: value for key, value in found.items() if key not in gone}

    def is_half_gone(self, path: str, paths: Collection[str]) -> bool:
        """Whether a root keeps nothing, since its branch is half made or deleted.

        A branch exists if it has its first schema.
        """
        folder = f"/{path}".rsplit("/", 2)[0]
        below = f"{folder}/".removeprefix("/")
        return bool(below) and f"{below}schema/schema-0" not in paths and "schema/schema-0" in paths

    def has_producer(self, path: str, schema_id: int) -> bool:
        """Whether the table wrote changelog files when it had a schema; a path beside that."""
        folder = path.rsplit("/", 2)[0] + "/" if path.count("/") > 1 else ""
        options = self.json(f"{folder}schema/schema-{schema_id}")["options"]
        return bool(options.get("changelog-producer", "none") != "none")

    def live_records(self, snapshot: Json) -> list[Json]:
        """Manifest records of the files live in a snapshot."""
        live: dict[tuple[Any, ...], Json] = {}
        for list_name in (snapshot["baseManifestList"], snapshot["deltaManifestList"]):
            for meta in self.avro(list_name):
                for entry in self.avro(meta["_FILE_NAME"]):
                    file = entry["_FILE"]
                    identity = (
                        entry["_PARTITION"],
                        entry["_BUCKET"],
                        file["_LEVEL"],
                        file["_FILE_NAME"],
                    )
                    if entry["_KIND"] == 0:
                        assert identity not in live, f"{self.name}: {file['_FILE_NAME']} twice"
                        live[identity] = entry
                    else:
                        assert identity in live, f"{self.name}: {file['_FILE_NAME']} not there"
                        del live[identity]
        return list(live.values())

    def deleted_rows(self, snapshot: Json) -> int:
        """The number of rows that deletion vectors delete from the live files of a snapshot."""
        records = self.avro(snapshot.get("indexManifest"))
        return sum(
            vector["_CARDINALITY"]
            for record in records
            for vector in record["_DELETIONS_VECTORS_RANGES"] or ()
        )

    def reachable(self) -> Reachable:
        found = Reachable()
        for kind, snapshot in self.roots():
            for key in ("baseManifestList", "deltaManifestList", "changelogManifestList"):
                if snapshot.get(key):
                    found.metadata.add(f"manifest/{snapshot[key]}")
                    found.metadata |= {
                        f"manifest/{meta['_FILE_NAME']}" for meta in self.avro(snapshot[key])
                    }
            ending = (snapshot.get("properties") or {}).get("lakewright.respec")
            if ending is not None:
                prepared = json.loads(ending)["list"]
                found.metadata |= {
                    f"manifest/{prepared}",
                    *(f"manifest/{meta['_FILE_NAME']}" for meta in self.avro(prepared)),
                }
            if snapshot.get("changelogManifestList"):
                # Changelog files belong to the snapshot that names them, and to no state.
                for meta in self.avro(snapshot["changelogManifestList"]):
                    for entry in self.avro(meta["_FILE_NAME"]):
                        found.data |= _data_files(entry, self)
            if snapshot.get("indexManifest"):
                found.metadata.add(f"manifest/{snapshot['indexManifest']}")
                found.metadata |= {
                    f"index/{record['_FILE_NAME']}"
                    for record in self.avro(snapshot["indexManifest"])
                }
            if snapshot.get("statistics"):
                found.metadata.add(f"statistics/{snapshot['statistics']}")
            if kind == "changelog":
                # Without a changelog producer, the files of a commit are its changelog.
                for meta in self.avro(snapshot.get("deltaManifestList")):
                    for entry in self.avro(meta["_FILE_NAME"]):
                        if entry["_KIND"] == 0 and entry["_FILE"]["_FILE_SOURCE"] != _COMPACTED:
                            found.data |= _data_files(entry, self)
                continue
            for entry in self.live_records(snapshot):
                found.data |= _data_files(entry, self)
        return found

    def awaited(self) -> Reachable:
        """The files of pending batches, and those staged by a change of keys that was stopped."""
        found = Reachable()
        for path in self.paths:
            if _PENDING.fullmatch(path) and _METADATA.fullmatch(path):
                for message in self.json(path)["messages"]:
                    self._add_staged(found, message)
            if _STAGED.fullmatch(path):
                for partition in self.json(path)["partitions"]:
                    for message in partition["messages"]:
                        self._add_staged(found, message)
        return found

    def iceberg(self) -> tuple[set[str], set[str]]:
        """The files that versions of Iceberg metadata name, and those that the current one needs.

        What a version retired is named by it, and need not be there.
        """
        folder = f"{self.root}/metadata/"
        named, needed = {"metadata/version-hint.text"}, set()
        versions = {
            path: int(match[1]) for path in self.paths if (match := _VERSION.fullmatch(path))
        }
        for path, number in versions.items():
            metadata = self.json(path)
            retired = json.loads(metadata["properties"].get("lakewright.retired", "{}"))
            named |= {path, *(f"metadata/{name}" for name in retired)}
            for snapshot in metadata["snapshots"]:
                found = {snapshot["manifest-list"]}
                listed = f"{folder}{snapshot['manifest-list'].rpartition('/')[2]}"
                if not self.fs.exists(listed):
                    # Of a former version.
                    assert number < max(versions.values()), f"{listed} is missing"
                    continue
                for manifest in _records(self.fs.read_bytes(listed)):
                    found.add(manifest["manifest_path"])
                    name = manifest["manifest_path"].rpartition("/")[2]
                    for entry in _records(self.fs.read_bytes(folder + name)):
                        if entry["status"] != _DELETED:
                            found.add(entry["data_file"]["file_path"])
                below = {each.rpartition(f"{self.root}/")[2] for each in found}
                named |= {each for each in below if each.startswith("metadata/")}
                if number == max(versions.values()):
                    needed |= below
        return named, needed

    def _add_staged(self, found: Reachable, message: Json) -> None:
        for kind in ("new_files", "changelog_files"):
            if message[kind]:
                for entry in fastavro.reader(BytesIO(base64.b64decode(message[kind]))):
                    assert isinstance(entry, dict)
                    found.data |= _data_files({**entry, "_BUCKET": message["bucket"]}, self)
        found.metadata |= {f"index/{index['file_name']}" for index in message["new_indexes"]}


@lru_cache(maxsize=4096)
def _records(data: bytes) -> tuple[Json, ...]:
    """The records of a manifest with these bytes: the snapshots of a table share manifests."""
    if data.startswith(b"ORC"):
        return tuple(orc.ORCFile(BytesIO(data)).read().to_pylist())
    if data.startswith(b"PAR1"):
        return tuple(pq.read_table(BytesIO(data)).to_pylist())
    return tuple(record for record in fastavro.reader(BytesIO(data)) if isinstance(record, dict))


def _data_files(entry: Json, raw: RawTable) -> set[DataFile]:
    """The files of an entry; those outside of the table are looked for at once."""
    outside = entry["_FILE"].get("_EXTERNAL_PATH")
    if outside is not None and not outside.startswith(
        (f"file:{raw.root}/", f"{raw.fs.uri(raw.root)}/")
    ):
        path = outside.removeprefix("file:").removeprefix("memory:/")
        assert raw.fs.exists(path), f"{raw.name} refers to {outside}, which is not there"
        return set()
    names = [entry["_FILE"]["_FILE_NAME"], *(entry["_FILE"]["_EXTRA_FILES"] or ())]
    folder = f"bucket-{'postpone' if entry['_BUCKET'] == -2 else entry['_BUCKET']}"
    if outside is not None:
        # An entry may name a bucket other than that of the folder while partition keys change.
        folder = outside.rsplit("/", 2)[1]
    return {(folder, name) for name in names}


def unreachable_files(table: Table) -> list[str]:
    """Unreferenced files of a table."""
    return _differences(table)[0]


def missing_files(table: Table) -> list[str]:
    """Referenced files that are missing."""
    return _differences(table)[1]


def _differences(table: Table) -> tuple[list[str], list[str]]:
    raw = RawTable(table)
    reachable, awaited = raw.reachable(), raw.awaited()
    metadata: set[str] = set()
    data: dict[DataFile, str] = {}
    for path in raw.paths:
        if _METADATA.fullmatch(path) or path.startswith(_UPKEEP):
            continue
        *folders, name = path.split("/")
        if folders and folders[-1].startswith("bucket-"):
            data[folders[-1], name] = path
        else:
            metadata.add(path)
    hidden = {path for path in raw.paths if path.startswith(_UPKEEP)}
    extra = (
        (metadata - reachable.metadata - awaited.metadata)
        | {path for file, path in data.items() if file not in reachable.data | awaited.data}
        | {path for path in hidden if not _METADATA.fullmatch(path) and not _RECORD.fullmatch(path)}
    ) - condemned_files(raw)
    missing = (reachable.metadata - metadata) | {
        "/".join(file) for file in reachable.data - set(data)
    }
    if any(map(_VERSION.fullmatch, raw.paths)):
        named, needed = raw.iceberg()
        extra -= named
        missing |= needed - set(raw.paths)
    return sorted(extra), sorted(missing)


def condemned_files(raw: RawTable) -> set[str]:
    """Paths of the files that records name."""
    lists = [path for path in raw.paths if _RECORD.fullmatch(path) and path.endswith(".list")]
    return {path for each in lists for path, _ in raw.json(each)["files"]}


def assert_only_reachable_files(table: Table) -> None:
    """Check that exactly the files that snapshots, tags and branches reach are on disk.

    What is condemned does not count.
    """
    extra, missing = _differences(table)
    assert not missing, f"{table.name} lacks files that it refers to: {missing}"
    assert not extra, f"{table.name} holds files that nothing refers to: {extra}"


def assert_nothing_missing(table: Table) -> None:
    """Check that all referenced files exist; unreferenced files are allowed."""
    missing = missing_files(table)
    assert not missing, f"{table.name} lacks files that it refers to: {missing}"


def rows_of(live: list[dict[str, Any]], table: Table) -> int:
    """How many rows files have; those of some columns have the row ids of others."""
    ids = {entry["_FILE"].get("_FIRST_ROW_ID"): entry["_FILE"]["_ROW_COUNT"] for entry in live}
    if table.options.data_evolution_enabled:
        return sum(ids.values())
    return sum(entry["_FILE"]["_ROW_COUNT"] for entry in live)


def assert_readable_history(
    table: Table, *, mixed: bool = False, reads_oldest: bool = True
) -> None:
    """Check that snapshots have consecutive ids, and that they are readable with correct counts.

    Of a long history, `make test` looks at the oldest snapshot and the newest; rows of the oldest
    are read where `reads_oldest`. A `mixed` history has gaps, or snapshots of two branches, since
    its replacement stopped halfway.
    """
    raw = RawTable(table)
    paths = raw.paths
    found = [
        raw.json(path)
        for path in paths
        if _MAIN_SNAPSHOT.fullmatch(path) and not raw.is_half_gone(path, paths)
    ]
    found.sort(key=lambda snapshot: int(snapshot["id"]))
    ids = [snapshot["id"] for snapshot in found]
    assert mixed or not ids or ids == list(range(ids[0], ids[0] + len(ids))), f"gaps between {ids}"
    is_deep = settings.get_current_profile_name() == "deep"
    if not is_deep and len(found) > 2:
        found = [found[0], found[-1]]
    before: tuple[int, int] | None = None
    for snapshot in found:
        live = raw.live_records(snapshot)
        in_files = sum(entry["_FILE"]["_ROW_COUNT"] for entry in live)
        assert snapshot["totalRecordCount"] == in_files, f"snapshot {snapshot['id']} miscounts"
        if before is not None and before[0] + 1 == snapshot["id"] and not mixed:
            assert snapshot["deltaRecordCount"] == in_files - before[1]
        before = snapshot["id"], in_files
        if not is_deep and not reads_oldest and snapshot is not found[-1]:
            continue
        read = table.at(snapshot=snapshot["id"]).read()
        if not table.schema.is_keyed:
            assert read.num_rows == rows_of(live, table) - raw.deleted_rows(snapshot)
        elif table.schema.counts_rows:
            assert read.group_by(read.column_names).aggregate([]).num_rows <= in_files
        else:
            assert read.num_rows <= in_files


def assert_true_hints(table: Table, *, raced: bool = False) -> None:
    """Check that LATEST and EARLIEST name the last and first snapshot; a crash may prevent it.

    Where commits `raced`, the slower may have set LATEST back to its own snapshot.
    """
    raw = RawTable(table)
    ids = sorted(raw.json(path)["id"] for path in raw.paths if _MAIN_SNAPSHOT.fullmatch(path))
    for hint, expected in (("LATEST", ids[-1:]), ("EARLIEST", ids[:1])):
        path = f"{raw.root}/snapshot/{hint}"
        if raw.fs.exists(path):
            possible = ids if raced and hint == "LATEST" else expected
            assert int(raw.fs.read_bytes(path)) in possible, f"{hint} of {table.name} is wrong"


def assert_keys_are_indexed(table: Table) -> None:
    """Check that the hash index of each dynamic bucket lists its keys, and no other bucket does.

    The next write would store a key twice that no bucket lists, or that two buckets list. Only
    Parquet files are looked at.
    """
    files = table.table_files
    state = TableState(files, table.history.latest_snapshot())
    is_dynamic = files.options.bucket_mode is BucketMode.DYNAMIC
    if not is_dynamic or table.schema.crosses_partitions or not state.is_settled:
        return
    indexed: dict[Place, list[int]] = {}
    for index in state.indexes:
        if index.file.index_type == HASH_INDEX:
            indexed[index.place] = files.indexes.read_hash_index(index.file).tolist()
    keys = table.schema.key_fields
    for entry in state.entries:
        path = files.entry_paths(entry)[0]
        renamed = not {each.name for each in keys} <= {
            each.name for each in files.at_schema(entry.file.schema_id).schema.fields
        }
        if renamed or not path.endswith(".parquet"):
            continue
        rows = pq.read_table(BytesIO(files.fs.read_bytes(path)))
        lacking = set(hashes_of(rows, keys).tolist()) - set(indexed.get(entry.place, ()))
        assert not lacking, f"{path} of {table.name} has keys that no index of its bucket lists"
    for row in {place.partition for place in indexed}:
        together = [
            each for place, own in indexed.items() if place.partition == row for each in own
        ]
        assert len(together) == len(set(together)), f"{table.name} lists a key in two buckets"


def assert_sound(table: Table, *, raced: bool = False) -> None:
    """Check all invariants above; `raced` where several writers committed at the same time."""
    assert_only_reachable_files(table)
    assert_readable_history(table, reads_oldest=False)
    assert_true_hints(table, raced=raced)
    assert_keys_are_indexed(table)
