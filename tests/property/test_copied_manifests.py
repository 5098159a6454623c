"""Manifests that are merged by copying hold what manifests merged entry by entry hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from lakewright.storage.codec import manifest_blocks
from lakewright.storage.codec.manifest_avro import MANIFEST_SCHEMA, encode_manifest
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.merge_manifests import merge_manifests
from lakewright.storage.spec.manifest import (
    ManifestContents,
    ManifestEntry,
    ManifestFileMeta,
    fold_entries,
)
from tests.property.test_columnar_planning import FEWER, entries_of, outcome, tables
from tests.support.tables.builders import with_options
from tests.support.tables.fixtures import empty_memory


@pytest.fixture(autouse=True)
def _empty_memory() -> Iterator[None]:
    yield
    empty_memory()


def schema_of(change: Callable[[Any], Any]) -> Any:
    """Our schema as another writer declares it."""
    own = json.loads(
        fastavro.reader(BytesIO(encode_manifest((), compression="null"))).metadata["avro.schema"]
    )
    return fastavro.parse_schema(change(own))


def older(schema: Any) -> Any:
    """Without the fields that came last."""
    schema["fields"][-1]["type"]["fields"] = schema["fields"][-1]["type"]["fields"][:-2]
    return schema


# The schema and how many bytes a block has at least, by the writer.
WRITERS = {
    "ours": (MANIFEST_SCHEMA, 16_000),
    "ours, small blocks": (MANIFEST_SCHEMA, 1),
    "renamed": (schema_of(lambda schema: {**schema, "name": "ManifestEntry"}), 16_000),
    "nullable": (schema_of(lambda schema: ["null", schema]), 500),
    "older": (schema_of(older), 16_000),
}


@st.composite
def manifests(
    draw: st.DrawFn, files: TableFiles, entries: list[ManifestEntry]
) -> tuple[ManifestFileMeta, ...]:
    """Manifests of entries in order, of different writers and codecs."""
    metas = []
    while entries:
        size = draw(st.integers(1, len(entries)))
        for keys, group in files.partitions.by_keys(entries[:size]):
            schema, block_bytes = WRITERS[draw(st.sampled_from([*WRITERS, "ours"]))]
            codec = draw(st.sampled_from(["null", "deflate", "zstandard", "zstandard"]))
            records = fastavro.reader(BytesIO(encode_manifest(group, compression="null")))
            data = BytesIO()
            fastavro.writer(data, schema, list(records), codec, sync_interval=block_bytes)
            metas.append(
                files.manifests.write_contents(
                    data.getvalue(), ManifestContents.of(group), keys=keys, written=[]
                )
            )
        entries = entries[size:]
    return tuple(metas)


def told(files: TableFiles, metas: Sequence[ManifestFileMeta]) -> Any:
    """What a merge left, without names, sizes, and the order of entries that do not meet."""
    lists = [replace(meta, file_name="", file_size=0) for meta in metas]
    held = [
        sorted(files.manifests.read_listed(meta), key=lambda entry: repr(entry.identity))
        for meta in metas
    ]
    folded = sorted(map(repr, fold_entries(files.manifests.entries(metas)).values()))
    return lists, held, folded


@pytest.mark.mission("FS14", "SE36")
@pytest.mark.parametrize("copied_bytes", [0, 1_000_000], ids=["blocks", "entries"])
@settings(max_examples=FEWER)
@given(data=st.data())
def test_a_merge_that_copies_leaves_what_a_merge_of_objects_leaves(
    copied_bytes: int, data: st.DataObject
) -> None:
    table, values, schemas = data.draw(tables())
    full = data.draw(st.booleans(), label="full")
    table = with_options(
        table,
        manifest__merge_min_count="2",
        manifest__full_compaction_threshold_size="1 b" if full else "1 gb",
        manifest__compression=data.draw(st.sampled_from(["zstd", "null"])),
    )
    files = table.table_files
    metas = data.draw(manifests(files, data.draw(entries_of(table, values, schemas))))

    def merged(least: int) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(manifest_blocks, "_LEAST_ENTRIES_A_STEP", least)
            patch.setattr(manifest_blocks, "_LEAST_COPIED_BYTES", copied_bytes)
            return outcome(lambda: told(files, merge_manifests(files, metas, [])))

    expected = merged(1_000_000)
    event("fails" if isinstance(expected, type) else f"{min(len(expected[2]), 3)} entries")
    assert merged(0) == expected


@settings(max_examples=FEWER)
@given(data=st.data())
def test_manifests_of_any_target_size_hold_what_was_merged(data: st.DataObject) -> None:
    table, values, schemas = data.draw(tables())
    target = data.draw(st.sampled_from([1, 3000, 4000]))
    table = with_options(
        table,
        manifest__merge_min_count="2",
        manifest__full_compaction_threshold_size="1 b",
        manifest__target_file_size=f"{target} b",
    )
    files = table.table_files
    metas = data.draw(manifests(files, data.draw(entries_of(table, values, schemas))))
    before = outcome(lambda: told(files, metas)[2])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_blocks, "_LEAST_ENTRIES_A_STEP", 0)
        merged = outcome(lambda: merge_manifests(files, metas, []))
    if isinstance(before, type):
        return
    assert told(files, merged)[2] == before
    of_keys: dict[Any, list[int]] = {}
    for meta in set(merged) - set(metas):
        of_keys.setdefault(files.partitions.keys_of_manifest(meta).names, []).append(meta.file_size)
    for sizes in of_keys.values():
        assert sum(size < target for size in sizes) <= 1
