"""Staged writes and commit messages as JSON: how they cross processes and wait in logs."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from lakewright.storage.codec.manifest_avro import decode_manifest, encode_manifest
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.index import DeletionVectorRange, IndexFileMeta
from lakewright.storage.spec.manifest import EMPTY_ROW, DataFileMeta, FileKind, ManifestEntry


def encode_message(message: CommitMessage) -> str:
    """A commit message as one line of JSON; file metadata as base64 of a manifest."""
    return json.dumps(
        {
            "partition": message.partition.hex(),
            "bucket": message.bucket,
            "total_buckets": message.total_buckets,
            "new_files": _encode_files(message.new_files),
            "compact_before": _encode_files(message.compact_before),
            "compact_after": _encode_files(message.compact_after),
            "changelog_files": _encode_files(message.changelog_files),
            "compact_changelog": _encode_files(message.compact_changelog),
            "new_indexes": [asdict(index) for index in message.new_indexes],
            "removed_indexes": [asdict(index) for index in message.removed_indexes],
        }
    )


def decode_message(text: str) -> CommitMessage:
    """The inverse of `encode_message`."""
    data: dict[str, Any] = json.loads(text)
    return CommitMessage(
        partition=bytes.fromhex(data["partition"]),
        bucket=data["bucket"],
        total_buckets=data["total_buckets"],
        new_files=_decode_files(data["new_files"]),
        compact_before=_decode_files(data["compact_before"]),
        compact_after=_decode_files(data["compact_after"]),
        changelog_files=_decode_files(data["changelog_files"]),
        compact_changelog=_decode_files(data["compact_changelog"]),
        new_indexes=tuple(map(_decode_index, data["new_indexes"])),
        removed_indexes=tuple(map(_decode_index, data["removed_indexes"])),
    )


def _encode_files(files: Iterable[DataFileMeta]) -> str:
    entries = [
        ManifestEntry(kind=FileKind.ADD, partition=EMPTY_ROW, bucket=0, total_buckets=-1, file=file)
        for file in files
    ]
    if not entries:
        return ""
    return base64.b64encode(encode_manifest(entries, compression="null")).decode()


def _decode_files(text: str) -> tuple[DataFileMeta, ...]:
    if not text:
        return ()
    entries = decode_manifest(base64.b64decode(text), name="a commit message")
    return tuple(entry.file for entry in entries)


def _decode_index(data: dict[str, Any]) -> IndexFileMeta:
    vectors = data.pop("deletion_vectors")
    return IndexFileMeta(
        **data,
        deletion_vectors=(
            None if vectors is None else tuple(DeletionVectorRange(**each) for each in vectors)
        ),
    )
