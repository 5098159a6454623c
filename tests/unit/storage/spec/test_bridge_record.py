"""How a change of partition keys ends is read from a snapshot, or its damage is told."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lakewright.storage.errors import CorruptionError
from lakewright.storage.spec.bridge_record import BRIDGE_PROPERTY, BridgeRecord
from lakewright.storage.spec.commit import PreparedBase
from tests.unit.storage.codec.test_encoders import SNAPSHOT

pytestmark = pytest.mark.mission("PT50")

RECORD = BridgeRecord(
    keys=("dt", "hh"), prepared=PreparedBase(list_name="list-1", list_size=7, rows=3), before_id=2
)
TOLD = json.loads(RECORD.properties()[BRIDGE_PROPERTY])


def test_a_record_is_read_as_it_was_written() -> None:
    assert BridgeRecord.of(replace(SNAPSHOT, properties=RECORD.properties())) == RECORD
    assert BridgeRecord.of(replace(SNAPSHOT, properties=None)) is None


@pytest.mark.parametrize(
    "text",
    [
        *(json.dumps(TOLD)[:length] for length in range(len(json.dumps(TOLD)))),
        *("null", "[]", "1", "{}", "[" * 100_000),
        *(
            json.dumps({**TOLD, name: value})
            for name in TOLD
            for value in (None, [1], {}, True, "../x", "9")
            if (name, value) != ("list", "9")
        ),
    ],
)
def test_a_damaged_record_names_its_snapshot_and_the_way_out(text: str) -> None:
    damaged = replace(SNAPSHOT, properties={BRIDGE_PROPERTY: text})
    with pytest.raises(CorruptionError, match=rf"^snapshot {SNAPSHOT.id} .*; put the snapshot's"):
        BridgeRecord.of(damaged)
