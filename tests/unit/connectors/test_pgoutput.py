"""Messages of PostgreSQL's `pgoutput` become rows with kinds, without a server."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from lakewright.connectors.postgres_cdc.captured import INITIAL, Captured
from lakewright.connectors.postgres_cdc.changed_rows import ChangedRows
from lakewright.connectors.postgres_cdc.columns import column_of_texts
from lakewright.connectors.postgres_cdc.database import Server, TableFacts, lsn_number, lsn_text
from lakewright.connectors.postgres_cdc.pgoutput import UNCHANGED, Change, Column, decoded
from lakewright.storage.env import SystemEnv
from lakewright.storage.errors import InvalidRequestError, InvalidRows
from lakewright.storage.spec.data_types import DataField, parse_data_type

_OID, _OTHER = 16384, 16400
_COLUMNS = (Column("id", 23, -1), Column("n", 20, -1), Column("name", 25, -1))


def _tuple(*values: object) -> bytes:
    parts = [struct.pack("!h", len(values))]
    for each in values:
        if each is None or each is UNCHANGED:
            parts.append(b"n" if each is None else b"u")
        else:
            text = str(each).encode()
            parts.append(b"t" + struct.pack("!I", len(text)) + text)
    return b"".join(parts)


def _relation(columns: Sequence[Column] = _COLUMNS, identity: str = "d", key: str = "id") -> bytes:
    head = b"R" + struct.pack("!I", _OID) + b"public\0items\0" + identity.encode()
    texts = [
        bytes([identity == "f" or each.name == key])
        + each.name.encode()
        + b"\0"
        + struct.pack("!Ii", each.type_oid, each.modifier)
        for each in columns
    ]
    return head + struct.pack("!h", len(columns)) + b"".join(texts)


def _change(kind: bytes, *rows: tuple[bytes, bytes], oid: int = _OID) -> bytes:
    return kind + struct.pack("!I", oid) + b"".join(mark + row for mark, row in rows)


def _transaction(begin: int, *changes: bytes) -> list[bytes]:
    """A transaction whose commit record lies between `begin` and `begin + 10`."""
    first = b"B" + struct.pack("!qqI", begin, 0, 7)
    return [first, *changes, b"C" + struct.pack("!bqqq", 0, begin, begin + 10, 0)]


class _Connection:
    """What a connection says of types, and of the row with the key 1."""

    def type_name(self, column: Column) -> str:
        return {23: "integer", 20: "bigint", 25: "text"}[column.type_oid]

    def wait_for_transaction(self, xid: int, _: object) -> None:
        assert xid == 7

    def texts(self, _: str, keys: Sequence[Sequence[str]], names: Sequence[str]) -> pa.Table:
        found = [(str(at), "now") for at, key in enumerate(keys[0]) if key == "1"]
        return pa.table({name: [row[at] for row in found] for at, name in enumerate(names)}).cast(
            pa.schema([(name, pa.string()) for name in names])
        )


def _rows(
    messages: Sequence[bytes], begin: int = 0, end: int = 1000, *, all_kinds: bool = False
) -> list[tuple[Any, ...]]:
    types = {"id": "INT", "n": "BIGINT", "name": "STRING"}
    fields = tuple(
        DataField(at, name, parse_data_type(text)) for at, (name, text) in enumerate(types.items())
    )
    captured = Captured(
        server=Server("localhost", 5432, "db", "ann", "", "lake.items"),
        schema="public",
        table="items",
        fields=fields,
        primary_keys=("id",),
        slot="s",
        publication="p",
        startup=INITIAL,
        chunk_rows=10,
        env=SystemEnv(),
    )
    facts = TableFacts(_OID, "r", "d", ("id",), _COLUMNS, ("integer",))
    connection: Any = _Connection()
    found = ChangedRows(captured, facts, connection, all_kinds=all_kinds)
    return [
        (kind, *row)
        for kinds, rows in found.pieces(messages, begin, end, 1000)
        for kind, row in zip(kinds, rows, strict=True)
    ]


def test_changes_are_rows_in_order_and_those_of_other_tables_are_left_out() -> None:
    changes = [
        _change(b"I", (b"N", _tuple(1, 10, "ä"))),
        _change(b"I", (b"N", _tuple(9)), oid=_OTHER),
        _change(b"U", (b"N", _tuple(1, 11, UNCHANGED))),
        _change(b"U", (b"K", _tuple(1, None, None)), (b"N", _tuple(2, 11, UNCHANGED))),
        _change(b"D", (b"K", _tuple(2, None, None))),
    ]
    assert _rows([_relation(), *_transaction(100, *changes)]) == [
        ("+I", b"1", b"10", "ä".encode()),
        ("+U", b"1", b"11", "ä".encode()),
        ("-D", b"1", None, None),
        ("+I", b"2", b"11", "ä".encode()),
        ("-D", b"2", None, None),
    ]


def test_rows_before_updates_are_given_with_the_values_that_an_update_left_out() -> None:
    changes = [
        _change(b"U", (b"O", _tuple(1, 10, "long")), (b"N", _tuple(1, 11, UNCHANGED))),
        _change(b"D", (b"O", _tuple(1, 11, "long"))),
    ]
    messages = [_relation(identity="f"), *_transaction(100, *changes)]
    assert _rows(messages, all_kinds=True) == [
        ("-U", b"1", b"10", b"long"),
        ("+U", b"1", b"11", b"long"),
        ("-D", b"1", b"11", b"long"),
    ]
    with pytest.raises(InvalidRequestError, match="written without REPLICA IDENTITY FULL"):
        _rows([_relation(), *messages[1:]], all_kinds=True)


def test_transactions_belong_to_the_batch_in_which_they_end() -> None:
    messages = [
        *_transaction(100, _relation(), _change(b"I", (b"N", _tuple(1, 1, "a")))),
        *_transaction(110, _change(b"I", (b"N", _tuple(2, 1, "a")))),
        *_transaction(150, _change(b"I", (b"N", _tuple(3, 1, "a")))),
    ]
    ids = [
        [row[1] for row in _rows(messages, *each)] for each in ((0, 110), (110, 160), (160, 170))
    ]
    assert ids == [[b"1"], [b"2", b"3"], []]


def test_a_value_that_nothing_in_the_batch_has_is_fetched_if_its_row_is_there() -> None:
    changes = [_change(b"U", (b"N", _tuple(key, 2, UNCHANGED))) for key in (1, 3)]
    assert _rows(_transaction(100, _relation(), *changes)) == [("+U", b"1", b"2", b"now")]
    assert _rows(_transaction(100, _relation(), changes[1])) == []


def test_truncation_and_columns_that_do_not_fit_are_refused() -> None:
    truncate = b"T" + struct.pack("!IbII", 2, 0, _OTHER, _OID)
    with pytest.raises(InvalidRequestError, match="was truncated"):
        _rows(_transaction(100, _relation(), truncate))
    insert = _change(b"I", (b"N", _tuple(1, 1, "a")))
    retyped = (*_COLUMNS[:1], Column("n", 25, -1), *_COLUMNS[2:])
    with pytest.raises(InvalidRequestError, match=r"column n .* declared BIGINT, and is text"):
        _rows(_transaction(100, _relation(retyped), insert))
    with pytest.raises(InvalidRequestError, match=r"column name .* is not there in public"):
        _rows(_transaction(100, _relation(_COLUMNS[:2]), _change(b"I", (b"N", _tuple(1, 1)))))


def test_another_key_of_the_source_is_refused() -> None:
    insert = _change(b"I", (b"N", _tuple(1, 1, "a")))
    with pytest.raises(InvalidRequestError, match=r"identified by \(n\), and not by \(id\)"):
        _rows(_transaction(100, _relation(identity="i", key="n"), insert))


def test_a_message_of_another_kind_is_no_row() -> None:
    assert decoded(b"Y" + struct.pack("!I", 1) + b"public\0mood\0") is None
    deleted = decoded(_change(b"D", (b"K", _tuple(1, None))))
    assert deleted == Change(b"D", _OID, [b"1", None], None)


@pytest.mark.parametrize(
    ("text", "declared"),
    [
        ("NaN", "DECIMAL(10, 2)"),
        ("1.005", "DECIMAL(10, 2)"),
        ("infinity", "DATE"),
        ("-infinity", "TIMESTAMP(6)"),
        ("0044-03-15 BC", "DATE"),
        ("24:00:00", "TIME(3)"),
        ("2024-01-01 00:00:00.000001", "TIMESTAMP(3)"),
    ],
)
def test_values_that_a_type_does_not_hold_are_refused_by_name(text: str, declared: str) -> None:
    field = DataField(0, "c", parse_data_type(declared))
    texts = pa.array([None, text], pa.string())
    with pytest.raises(InvalidRows, match=r"column c of t: '.*' is no"):
        column_of_texts(texts, field, owner="t")


def test_positions_are_written_as_the_server_writes_them() -> None:
    assert lsn_text(lsn_number("1A/2B3C")) == "1A/2B3C"
