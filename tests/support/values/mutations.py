"""Mutations of files and texts, as by damage, other clients or attackers: one or a few changes."""

from __future__ import annotations

import json
from copy import deepcopy
from io import BytesIO
from typing import Any

import fastavro
from hypothesis import strategies as st

DEEP = 20_000

# Values that are of another type, out of range, or lead elsewhere.
HOSTILE: st.SearchStrategy[Any] = st.sampled_from(
    [
        None,
        True,
        -1,
        0,
        1,
        2**31,
        2**63 - 1,
        -(2**63),
        2**63,
        10**30,
        1.5,
        -0.0,
        1e300,
        "",
        " ",
        ".",
        "..",
        "../../x",
        "/etc/hosts",
        "a\0b",
        "\ud800",
        "9" * 5_000,
        "١",
        "x" * 300,
        "2024-02-30",
        [],
        {},
        [None],
        [[]],
        {"": ""},
        [2**40] * 3,
    ]
)
# Texts that no JSON encoder writes.
RAW_JSON = st.sampled_from(
    [
        "NaN",
        "Infinity",
        "1e999",
        "-1e999",
        "1" * 5_000,
        "[" * DEEP + "]" * DEEP,
        '{"a":' * DEEP + "1" + "}" * DEEP,
        '"\\ud800"',
        '{"a": 1, "a": 2}',
    ]
)
_MARK = "@@here@@"


def places_of(value: Any, here: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """All places in a JSON value that hold a value."""
    found = [here]
    if isinstance(value, dict):
        for key, each in value.items():
            found += places_of(each, (*here, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            found += places_of(each, (*here, index))
    return found


def with_value(value: Any, place: tuple[str | int, ...], new: Any) -> Any:
    """A copy with another value at a place."""
    if not place:
        return new
    copy = deepcopy(value)
    inside = copy
    for step in place[:-1]:
        inside = inside[step]
    inside[place[-1]] = new
    return copy


def without(value: Any, place: tuple[str | int, ...]) -> Any:
    """A copy without the value at a place."""
    copy = deepcopy(value)
    inside = copy
    for step in place[:-1]:
        inside = inside[step]
    del inside[place[-1]]
    return copy


@st.composite
def mutated_json(draw: st.DrawFn, data: Any) -> bytes:
    """The text of a JSON value with one place changed, left out, or replaced by invalid JSON."""
    place = draw(st.sampled_from(places_of(data)))
    how = draw(st.sampled_from(["value", "value", "value", "missing", "raw", "unknown key"]))
    if how == "missing" and place:
        return json.dumps(without(data, place)).encode()
    if how == "raw":
        text = json.dumps(with_value(data, place, _MARK))
        return text.replace(f'"{_MARK}"', draw(RAW_JSON)).encode()
    if how == "unknown key":
        return json.dumps(with_value(data, place, {"lakewright": draw(HOSTILE)})).encode()
    return json.dumps(with_value(data, place, draw(HOSTILE))).encode()


@st.composite
def mutated_bytes(draw: st.DrawFn, data: bytes) -> bytes:
    """Bytes with some flipped, cut off, doubled or put in."""
    if not data:
        return draw(st.binary(min_size=1, max_size=20))
    at = draw(st.integers(0, len(data) - 1))
    match draw(st.sampled_from(["flip", "cut", "insert", "double", "zero", "other"])):
        case "flip":
            return data[:at] + bytes([data[at] ^ draw(st.integers(1, 255))]) + data[at + 1 :]
        case "cut":
            return data[:at]
        case "insert":
            return data[:at] + draw(st.binary(min_size=1, max_size=12)) + data[at:]
        case "double":
            return data[:at] + data[at : at + 40] + data[at:]
        case "zero":
            return data[:at] + bytes(len(data) - at)
        case _:
            return draw(st.binary(max_size=60))


# Each is a type of Avro, and a value of it.
_OTHER_AVRO = st.sampled_from(
    [
        ("null", None),
        ("boolean", True),
        ("long", -1),
        ("long", 2**63 - 1),
        ("long", -(2**63)),
        ("double", 1e300),
        ("string", ""),
        ("string", "../../x"),
        ("string", "a\0b"),
        ("bytes", b""),
        ("bytes", b"\0\0\0\1\xff" + b"\xff" * 40),
        ({"type": "array", "items": "long"}, [1]),
        ({"type": "map", "values": "string"}, {"a": "b"}),
        ({"type": "long", "logicalType": "timestamp-millis"}, 2**62),
    ]
)


@st.composite
def mutated_records(draw: st.DrawFn, data: bytes) -> bytes:
    """An Avro file whose records have one field of another type or value, or lack it."""
    reader = fastavro.reader(BytesIO(data))
    records: list[Any] = list(reader)
    schema: Any = deepcopy(reader.writer_schema)
    fields, inside = schema["fields"], records
    while True:
        field = draw(st.sampled_from(fields))
        kind = field["type"]
        if not (isinstance(kind, dict) and kind.get("type") == "record" and draw(st.booleans())):
            break
        fields, inside = kind["fields"], [each[field["name"]] for each in inside]
    if draw(st.booleans()) and draw(st.booleans()):
        fields.remove(field)
        for each in inside:
            del each[field["name"]]
    else:
        field["type"], value = draw(_OTHER_AVRO)
        field.pop("default", None)
        for each in inside:
            each[field["name"]] = value
    buffer = BytesIO()
    # The mutation may have removed the definition of a named type.
    try:
        fastavro.writer(buffer, fastavro.parse_schema(_unparsed(schema)), records)
    except (fastavro.schema.UnknownType, fastavro.schema.SchemaParseException):
        return data[: len(data) // 2]
    return buffer.getvalue()


def _unparsed(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {key: _unparsed(each) for key, each in schema.items() if not key.startswith("__")}
    return [_unparsed(each) for each in schema] if isinstance(schema, list) else schema


@st.composite
def mutated_text(draw: st.DrawFn, text: str, words: st.SearchStrategy[str]) -> str:
    """A text with a few words inserted, removed, doubled or exchanged."""
    parts = text.split(" ")
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(0, len(parts) - 1)))
        match draw(st.sampled_from(["put", "take", "double", "exchange"])):
            case "put":
                parts.insert(at, draw(words))
            case "take":
                parts = parts[:at] + parts[at + 1 :]
            case "double":
                parts = parts[: at + 1] + parts[at:]
            case _:
                parts = [*parts[:at], draw(words), *parts[at + 1 :]]
    return " ".join(parts)
