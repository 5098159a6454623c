"""What Debezium writes in place of a large value that an update left as it was.

PostgreSQL keeps large values apart, and its log has them where they changed alone. Debezium then
writes a placeholder, which looks like a value: a text as it is, in other types made of its bytes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

from lakewright.connectors.formats.messages import LostChangeError
from lakewright.connectors.options import Option
from lakewright.storage.codec.json_atoms import Number
from lakewright.storage.errors import InvalidOption
from lakewright.storage.spec.data_types import DataField

PLACEHOLDER = Option(
    name="unavailable.value.placeholder",
    default="__debezium_unavailable_value",
    description="what Debezium writes for a large value that did not change, as its own property",
)
_HEX = "hex:"
# A letter that JSON need not escape.
_ESCAPED = re.compile(rb"\\u00[2-7]")


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A placeholder in all its forms: as a text, and as bytes."""

    content: bytes
    texts: frozenset[str]
    # What is in each message of JSON that has it.
    traces: tuple[bytes, ...]
    array: re.Pattern[bytes]

    @classmethod
    def of(cls, text: str) -> Placeholder:
        """The placeholder that the property says: a text, or `hex:` and bytes.

        Raises:
            InvalidOption: what follows `hex:` is none.
        """
        return _placeholder(text)

    def may_be_in(self, data: bytes) -> bool:
        """Whether a message of JSON may have it, and has to be looked at more closely."""
        return (
            any(trace in data for trace in self.traces)
            or self.array.search(data) is not None
            or _ESCAPED.search(data) is not None
        )

    def check(self, row: Mapping[str, object], fields: Sequence[DataField]) -> None:
        """Refuse a row with the placeholder.

        Raises:
            LostChangeError: names the first such column.
        """
        for field in fields:
            if self._is_in(row.get(field.name)):
                raise LostChangeError(
                    f"column {field.name} has the placeholder of Debezium for a large value that "
                    "did not change, which is not in the event; run ALTER TABLE … REPLICA IDENTITY "
                    "FULL in PostgreSQL, which logs it, or have Debezium reselect such columns, "
                    "and read the events from then on"
                )

    def _is_in(self, value: object) -> bool:
        match value:
            case Number() | None | bool() | int() | float():
                return False
            case str():
                return value in self.texts
            case bytes():
                return value == self.content
            case list():
                # A number for each byte, or one element.
                return any(map(self._is_in, value)) or (
                    len(value) == len(self.content) and self._has_bytes(value)
                )
            case Mapping():
                return any(map(self._is_in, value.values()))
            case _:
                return False

    def _has_bytes(self, values: Sequence[object]) -> bool:
        return all(_byte_of(each) == byte for each, byte in zip(values, self.content, strict=True))


@lru_cache(maxsize=100)
def _placeholder(text: str) -> Placeholder:
    try:
        is_hex = text.startswith(_HEX)
        content = bytes.fromhex(text.removeprefix(_HEX)) if is_hex else text.encode()
    except ValueError:
        raise InvalidOption(
            f"{PLACEHOLDER.name} is {text!r:.80}; behind {_HEX} write pairs of digits",
            option=PLACEHOLDER.name,
        ) from None
    if not content:
        raise InvalidOption(
            f"{PLACEHOLDER.name} is empty, and would be each empty text; write what Debezium has",
            option=PLACEHOLDER.name,
        )
    plain = content.decode(errors="replace")
    of_map = {plain: plain}
    texts = {
        plain,
        base64.b64encode(content).decode(),
        base64.urlsafe_b64encode(content).decode(),
        content.hex(),
        content.hex().upper(),
        _uuid_of(content),
        # A map, where maps are written as JSON.
        json.dumps(of_map),
        json.dumps(of_map, separators=(",", ":")),
    }
    first = content[0]
    number = rb"\[\s*%d(?:\.0+)?\s*[,\]]" % (first - 256 if first > 127 else first)
    digit = base64.b64encode(content[:1])
    return Placeholder(
        content,
        frozenset(texts),
        tuple(sorted(json.dumps(each)[1:-1].encode() for each in texts)),
        re.compile(number + rb'|"%s"' % re.escape(digit)),
    )


def _uuid_of(content: bytes) -> str:
    """The UUID that Java makes of bytes: version 3, without a namespace."""
    digest = bytearray(hashlib.md5(content, usedforsecurity=False).digest())
    digest[6], digest[8] = digest[6] & 0x0F | 0x30, digest[8] & 0x3F | 0x80
    text = digest.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _byte_of(value: object) -> int | None:
    """The byte that an element of an array stands for."""
    match value:
        case bool() | None:
            return None
        case Number():
            return _whole(float(value))
        case int():
            return value & 0xFF
        case float():
            return _whole(value)
        case Decimal():
            # The digits without their scale.
            return int("".join(map(str, value.as_tuple().digits)))
        case bytes() if len(value) == 1:
            return value[0]
        case str():
            try:
                found = base64.b64decode(value, validate=True)
            except ValueError:
                return None
            return found[0] if len(found) == 1 else None
        case Mapping():
            return _byte_of(value.get("value"))
        case _:
            return None


def _whole(value: float) -> int | None:
    return int(value) & 0xFF if value.is_integer() else None
