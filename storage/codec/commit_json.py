"""Staged writes and commit messages as JSON, for other processes and for pending batches."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable
from dataclasses import asdict, replace
from decimal import Decimal, InvalidOperation
from typing import Any

from lakewright.storage.codec.json_values import (
    as_list,
    as_object,
    as_text,
    as_whole,
    check_readable,
    read_object,
)
from lakewright.storage.codec.manifest_avro import decode_manifest, encode_manifest
from lakewright.storage.codec.sealed_json import sealed, unsealed
from lakewright.storage.codec.typed_json import value_of
from lakewright.storage.errors import CorruptionError, UnreadableManifest, UnsupportedError
from lakewright.storage.spec.commit import CommitMessage, OverwriteScope, StagedWrite
from lakewright.storage.spec.file_names import plain_name
from lakewright.storage.spec.index import IndexFileMeta
from lakewright.storage.spec.manifest import EMPTY_ROW, DataFileMeta, FileKind, ManifestEntry
from lakewright.storage.spec.values import Value

# Batches of version 1 had no checksum.
_VERSION = 2


def encode_staged(staged: StagedWrite) -> bytes:
    """A staged write as a file, without its summary of each partition.

    Raises:
        InvalidRequestError: a value is one that `decode_staged` refuses.
    """
    scope = staged.overwrite
    head = {
        "version": _VERSION,
        "table": staged.table,
        "write_id": staged.write_id,
        "mode": staged.mode.value,
        "schema_id": staged.schema_id,
        "base_snapshot_id": staged.base_snapshot_id,
        "base_commit": staged.base_commit,
        "commit_user": staged.commit_user,
        "commit_identifier": staged.commit_identifier,
        "overwrite": None if scope is None else _encode_scope(scope),
        "watermark": staged.watermark,
    }
    # Messages come from writers, never from callers; they may be large.
    check_readable(
        lambda read: decode_staged(read, name="it"), _dumped({**head, "messages": []}), "the batch"
    )
    messages = [json.loads(encode_message(message)) for message in staged.messages]
    return _dumped({**head, "messages": messages})


def _dumped(data: dict[str, Any]) -> bytes:
    return json.dumps(sealed(data), allow_nan=False).encode()


def decode_staged(data: bytes, *, name: str) -> StagedWrite:
    """The inverse of `encode_staged`; the summary of each partition is empty.

    Raises:
        UnsupportedError: a later version of lakewright wrote the file.
        CorruptionError: the file is not a staged write.
    """
    try:
        # Batches of before {"float": "nan"} hold a bare NaN or Infinity.
        read = unsealed(read_object(data, only_finite=False), since=2)
        if as_whole(read.pop("version")) > _VERSION:
            raise UnsupportedError(
                f"{name} was written by a later version of lakewright; upgrade, and try again",
                path=name,
            )
        scope, messages = read.pop("overwrite"), as_list(read.pop("messages"))
        staged = value_of(StagedWrite, {**read, "messages": [], "partitions": []})
        return replace(
            staged,
            messages=tuple(_message(as_object(message)) for message in messages),
            overwrite=None if scope is None else _decode_scope(as_object(scope)),
        )
    except UnreadableManifest as error:
        raise CorruptionError(
            f"{name} is not a staged write: {error.message}", path=name
        ) from error
    except (ValueError, KeyError) as error:
        raise CorruptionError(
            f"{name} is not a staged write: {error!r}; delete it if its batch is written again",
            path=name,
        ) from error


def _encode_scope(scope: OverwriteScope) -> dict[str, Any]:
    spec = [[name, _encode_value(value)] for name, value in scope.spec]
    return {"spec": spec, "dynamic": scope.dynamic}


def _decode_scope(data: dict[str, Any]) -> OverwriteScope:
    spec = [as_list(each) for each in as_list(data["spec"])]
    if any(len(each) != 2 for each in spec):
        raise ValueError("an overwrite must name pairs of a column and a value")
    pairs = tuple((as_text(name), _decode_value(value)) for name, value in spec)
    return OverwriteScope(pairs, value_of(bool, data["dynamic"]))


def _encode_value(value: Value) -> object:
    match value:
        case bytes():
            return {"bytes": value.hex()}
        case Decimal():
            return {"decimal": str(value)}
        case float() if not math.isfinite(value):
            return {"float": str(value)}
        case _:
            return value


def _decode_value(data: object) -> Value:
    match data:
        case {"bytes": text}:
            return bytes.fromhex(as_text(text))
        case {"decimal": text}:
            try:
                return Decimal(as_text(text))
            except InvalidOperation:
                raise ValueError(f"{text!r} is not a decimal") from None
        case {"float": "nan" | "inf" | "-inf" as text}:
            return float(text)
        case bool() | int() | float() | str() | None:
            return data
        case _:
            raise ValueError(f"a {type(data).__name__} is not a value of a column")


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
    """The inverse of `encode_message`.

    Raises:
        CorruptionError: the text is not a commit message, or names a file outside of the table.
    """
    try:
        return _message(read_object(text))
    except (ValueError, KeyError) as error:
        raise CorruptionError(f"this is not a commit message: {error!r}") from error


def _message(data: dict[str, Any]) -> CommitMessage:
    return CommitMessage(
        partition=bytes.fromhex(as_text(data["partition"])),
        bucket=as_whole(data["bucket"]),
        total_buckets=as_whole(data["total_buckets"]),
        new_files=_decode_files(data["new_files"]),
        compact_before=_decode_files(data["compact_before"]),
        compact_after=_decode_files(data["compact_after"]),
        changelog_files=_decode_files(data["changelog_files"]),
        compact_changelog=_decode_files(data["compact_changelog"]),
        new_indexes=_decode_indexes(data["new_indexes"]),
        removed_indexes=_decode_indexes(data["removed_indexes"]),
    )


def _encode_files(files: Iterable[DataFileMeta]) -> str:
    entries = [
        ManifestEntry(kind=FileKind.ADD, partition=EMPTY_ROW, bucket=0, total_buckets=-1, file=file)
        for file in files
    ]
    if not entries:
        return ""
    return base64.b64encode(encode_manifest(entries, compression="null")).decode()


def _decode_files(data: object) -> tuple[DataFileMeta, ...]:
    text = as_text(data)
    if not text:
        return ()
    entries = decode_manifest(base64.b64decode(text), name="a commit message")
    return tuple(entry.file for entry in entries)


def _decode_indexes(data: object) -> tuple[IndexFileMeta, ...]:
    indexes = value_of(tuple[IndexFileMeta, ...], data)
    for index in indexes:
        plain_name(index.file_name)
        for vector in index.deletion_vectors or ():
            plain_name(vector.data_file)
    return indexes
