"""Damaged messages: each gives rows, or is refused as a message; the others are not touched."""

from __future__ import annotations

import random

import pytest

from lakewright.storage.errors import InvalidRows
from tests.support.formats import decoding, fields_of

_TYPES = {"i": "INT", "s": "STRING", "d": "DECIMAL(6, 2)", "t": "TIMESTAMP(3)", "a": "ARRAY<INT>"}
_ROW = b'{"i":1,"s":"\\u00e9\\"","d":1.25,"t":"2020-01-01 00:00:00.5","a":[1,null]}'
_MESSAGES = {
    "json": [_ROW],
    "csv": [b'1,"a""b",1.25,2020-01-01 00:00:00.5,1;2', b"1,a,1.25,2020-01-01 00:00:00,"],
    "changelog-csv": [b"INSERT|1|a|1.25|2020-01-01 00:00:00.5|1;2"],
    "avro": [b"\x02\x02\x02\x02a\x02\x02}\x02\x80\xa0\xb7\xe6\xeb[\x02\x04\x02\x02\x00\x00"],
    "debezium-json": [b'{"before":%s,"after":%s,"op":"u","ts_ms":1}' % (_ROW, _ROW)],
    "canal-json": [b'{"data":[%s],"old":[{"i":2}],"type":"UPDATE"}' % _ROW],
    "maxwell-json": [b'{"data":%s,"old":{"i":2},"type":"update"}' % _ROW],
    "ogg-json": [b'{"before":%s,"after":%s,"op_type":"U"}' % (_ROW, _ROW)],
}


@pytest.mark.parametrize("ignored", ["false", "true"])
@pytest.mark.parametrize("name", _MESSAGES)
@pytest.mark.sampled(5)
def test_damage_of_a_message_is_its_own(name: str, ignored: str) -> None:
    options = {} if name in ("avro", "changelog-csv") else {"ignore-parse-errors": ignored}
    decoder = decoding(name, options).decoder(fields_of(**_TYPES))
    chance = random.Random(name)
    messages = [_damaged(chance.choice(_MESSAGES[name]), chance) for _ in range(400)]
    told: dict[int, str] = {}
    together = decoder.decode(messages, told.__setitem__)
    alone = []
    for number, message in enumerate(messages):
        try:
            alone += decoder.decode([message]).to_pylist()
        except InvalidRows:
            assert number in told
        else:
            assert number not in told
    assert together.to_pylist() == alone
    # An event that is whole and does not say what became of a column is no broken message.
    broken = [why for why in told.values() if "after lacks" not in why]
    assert not (broken and options.get("ignore-parse-errors") == "true")


def _damaged(message: bytes, chance: random.Random) -> bytes:
    data = bytearray(message)
    for _ in range(chance.randint(0, 2)):
        at = chance.randrange(len(data))
        match chance.randrange(4):
            case 0:
                data[at] = chance.randrange(256)
            case 1:
                del data[at : at + chance.randint(1, 4)]
            case 2:
                data[at:at] = chance.choice(
                    (b'"', b",", b"{", b"}", b"[", b"\n", b"\\", b"0", b"|")
                )
            case _:
                data[at:at] = data[chance.randrange(len(data)) :]
        if not data:
            break
    return bytes(data)
