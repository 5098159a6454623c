"""Encoders refuse what their decoders refuse, so that no file is written that no reader accepts."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

import pytest

from lakewright.storage.codec.schema_json import encode_schema
from lakewright.storage.codec.snapshot_json import decode_tag, encode_snapshot, encode_tag
from lakewright.storage.errors import InvalidRequestError, InvalidSchema
from lakewright.storage.spec.data_types import STRING
from lakewright.storage.spec.schema import Column, SchemaSpec, new_schema
from lakewright.storage.spec.snapshot import CommitKind, Snapshot

SNAPSHOT = Snapshot(
    id=1,
    schema_id=0,
    base_manifest_list="manifest-list-a-0",
    delta_manifest_list="manifest-list-a-1",
    commit_user="u",
    commit_identifier=1,
    commit_kind=CommitKind.APPEND,
    time_millis=0,
    total_record_count=1,
    delta_record_count=1,
)
SCHEMA = new_schema(SchemaSpec(columns=(Column("a", STRING),)), time_millis=0)
MADE = dt.datetime(2024, 1, 1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"commit_user": 5},
        {"commit_user": "\ud800"},
        {"commit_identifier": 2**63},
        {"commit_identifier": 1.5},
        {"commit_identifier": True},
        {"watermark": "1"},
        {"delta_manifest_list": "../x"},
        {"properties": {"k": 1}},
    ],
    ids=repr,
)
def test_a_snapshot_that_no_reader_accepts_is_not_encoded(wrong: dict[str, Any]) -> None:
    assert encode_snapshot(SNAPSHOT)
    with pytest.raises(InvalidRequestError, match="snapshot 1 was not written"):
        encode_snapshot(replace(SNAPSHOT, **wrong))


def test_a_tag_that_no_reader_accepts_is_not_encoded() -> None:
    file = encode_snapshot(SNAPSHOT)
    kept = encode_tag(file, create_time=MADE, time_retained_ms=2**63 - 1)
    assert decode_tag(kept, tag_name="q", name="q").expires_at is None
    wrong: Any = float("nan")
    with pytest.raises(InvalidRequestError, match="the tag was not written"):
        encode_tag(file, create_time=MADE, time_retained_ms=wrong)


@pytest.mark.parametrize(
    "wrong",
    [{"comment": 5}, {"comment": "\ud800"}, {"primary_keys": ("b",)}, {"time_millis": 2**62}],
    ids=repr,
)
def test_a_schema_that_no_reader_accepts_is_not_encoded(wrong: dict[str, Any]) -> None:
    assert encode_schema(SCHEMA)
    with pytest.raises(InvalidSchema, match="the schema was not written"):
        encode_schema(replace(SCHEMA, **wrong))
