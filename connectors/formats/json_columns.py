"""JSON values as columns, and columns as the texts of JSON values, for every format over JSON."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.connectors.formats.messages import (
    BadMessages,
    Numbered,
    parts_of,
    python_columns,
)
from lakewright.connectors.options import Option, OptionKind, ReadOptions
from lakewright.storage.codec.json_atoms import JsonLayout, json_object
from lakewright.storage.errors import InvalidOption
from lakewright.storage.spec.data_types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    OpaqueType,
    RowType,
    TypeRoot,
    not_decoded,
)

FAIL_ON_MISSING_FIELD = Option(
    name="fail-on-missing-field",
    kind=OptionKind.BOOLEAN,
    default=False,
    description="refuse a message that lacks a column, instead of reading null",
)
IGNORE_PARSE_ERRORS = Option(
    name="ignore-parse-errors",
    kind=OptionKind.BOOLEAN,
    default=False,
    description="read a value that does not fit as null, and leave out a message that is broken",
)
TIMESTAMP_FORMAT = Option(
    name="timestamp-format.standard",
    default="SQL",
    choices=("SQL", "ISO-8601"),
    description="whether a date and a time are parted by a blank (SQL) or by T (ISO-8601)",
)
MAP_NULL_KEY_MODE = Option(
    name="map-null-key.mode",
    default="FAIL",
    choices=("FAIL", "DROP", "LITERAL"),
    description="accepted, and without effect: no key of a map is null here",
)
MAP_NULL_KEY_LITERAL = Option(
    name="map-null-key.literal", default="null", description="accepted, and without effect"
)
PLAIN_DECIMALS = Option(
    name="encode.decimal-as-plain-number",
    kind=OptionKind.BOOLEAN,
    default=False,
    description="write 0.000000027 instead of 2.7E-8",
)
IGNORE_NULL_FIELDS = Option(
    name="encode.ignore-null-fields",
    kind=OptionKind.BOOLEAN,
    default=False,
    description="write no member for a column that is null",
)
# What each format over JSON reads beside options of its own.
DECODE_OPTIONS = (IGNORE_PARSE_ERRORS, TIMESTAMP_FORMAT)
ENCODE_OPTIONS = (MAP_NULL_KEY_MODE, MAP_NULL_KEY_LITERAL, PLAIN_DECIMALS, IGNORE_NULL_FIELDS)

_NUMBERS = ("NaN", "Infinity", "-Infinity")


def type_problem(data_type: DataType) -> str | None:
    """Why JSON has no form for a type; None if it has one."""
    keys = {MapType: "key", MultisetType: "element"}.get(type(data_type))
    if keys is None:
        return None
    key = getattr(data_type, keys)
    if isinstance(key, AtomicType) and key.root.is_text:
        return None
    return f"members of a JSON object have texts as names; make the {keys} a STRING"


@dataclass(frozen=True, slots=True)
class JsonForm:
    """How values are written in JSON, as the options say."""

    is_iso: bool = False
    ignores_errors: bool = False
    requires_members: bool = False
    plain_decimals: bool = False
    ignores_nulls: bool = False

    @classmethod
    def of(cls, options: ReadOptions) -> JsonForm:
        ignores = bool(options[IGNORE_PARSE_ERRORS.name])
        requires = bool(options.get(FAIL_ON_MISSING_FIELD.name))
        if ignores and requires:
            raise InvalidOption(
                f"{FAIL_ON_MISSING_FIELD.name} and {IGNORE_PARSE_ERRORS.name} contradict each "
                "other; leave one out",
                option=FAIL_ON_MISSING_FIELD.name,
            )
        return cls(
            is_iso=options[TIMESTAMP_FORMAT.name] == "ISO-8601",
            ignores_errors=ignores,
            requires_members=requires,
            plain_decimals=bool(options.get(PLAIN_DECIMALS.name)),
            ignores_nulls=bool(options.get(IGNORE_NULL_FIELDS.name)),
        )

    @property
    def layout(self) -> JsonLayout:
        """How the values are read."""
        return JsonLayout(
            base64=True,
            texts_of_values=True,
            requires_members=self.requires_members,
            unfit_is_null=self.ignores_errors,
            ignores_unknown=True,
        )

    @property
    def mark(self) -> str:
        """What stands between a date and a time."""
        return "T" if self.is_iso else " "

    def objects(self, messages: Sequence[Numbered]) -> tuple[list[dict[str, Any]], list[int]]:
        """The objects of messages, and the number of each."""
        objects, numbers = [], []
        bad = BadMessages()
        for number, message in messages:
            try:
                objects.append(json_object(message))
                numbers.append(number)
            except ValueError as error:
                if not self.ignores_errors:
                    bad.add(number, str(error))
        bad.check()
        return objects, numbers

    def columns(
        self, objects: Sequence[object], fields: Sequence[DataField], numbers: Sequence[int]
    ) -> list[pa.Array]:
        """Objects as columns; `numbers` has the message of each.

        Raises:
            BadMessagesError: values do not fit their columns.
        """
        (made,) = python_columns([objects], [_record(fields)], self.layout.reading, numbers)
        return list(made.flatten())


def _record(fields: Sequence[DataField]) -> DataField:
    return DataField(-1, "", RowType(tuple(fields)))


# --- encoding -------------------------------------------------------------------------------------


def encoded_rows(rows: pa.RecordBatch, fields: Sequence[DataField], form: JsonForm) -> list[str]:
    """The columns named by the fields as a JSON object for each row."""
    members = [_texts(rows.column(field.name), field.type, form) for field in fields]
    return _objects([field.name for field in fields], members, rows.num_rows, form)


def _objects(
    names: Sequence[str], members: Sequence[Sequence[str]], count: int, form: JsonForm
) -> list[str]:
    keys = [f"{encode_basestring(name)}:" for name in names]
    if not members:
        return ["{}"] * count
    if form.ignores_nulls:
        return [
            "{" + ",".join(k + v for k, v in zip(keys, row, strict=True) if v != "null") + "}"
            for row in zip(*members, strict=True)
        ]
    layout = (
        "{{" + ",".join(key.replace("{", "{{").replace("}", "}}") + "{}" for key in keys) + "}}"
    )
    return list(map(layout.format, *members))


def _texts(array: pa.Array, data_type: DataType, form: JsonForm) -> list[str]:
    """The JSON of each value."""
    match data_type:
        case AtomicType():
            return _atom_texts(array, data_type, form)
        case OpaqueType():
            raise not_decoded(data_type)
        case ArrayType(element=element):
            inner = _texts(array.flatten(), element, form)
            return [
                "null" if each is None else f"[{','.join(each)}]" for each in parts_of(array, inner)
            ]
        case MapType(key=key, value=value):
            return _map_texts(array, key, value, form)
        case MultisetType(element=element):
            return _map_texts(array, element, AtomicType(TypeRoot.INT), form)
        case RowType(fields=fields):
            members = [_texts(each, field.type, form) for each, field in _members(array, fields)]
            made = _objects([each.name for each in fields], members, len(array), form)
            return _with_nulls(array, made)


def _members(
    array: pa.StructArray, fields: Sequence[DataField]
) -> list[tuple[pa.Array, DataField]]:
    return list(zip(array.flatten(), fields, strict=True))


def _with_nulls(array: pa.Array, made: list[str]) -> list[str]:
    if not array.null_count:
        return made
    valid = array.is_valid().to_pylist()
    return [text if is_valid else "null" for text, is_valid in zip(made, valid, strict=True)]


def _map_texts(array: pa.Array, key: DataType, value: DataType, form: JsonForm) -> list[str]:
    present = array.filter(array.is_valid())
    names, values = _texts(present.keys, key, form), _texts(present.items, value, form)
    inner = [f"{name}:{text}" for name, text in zip(names, values, strict=True)]
    return [
        "null" if each is None else "{" + ",".join(each) + "}" for each in parts_of(array, inner)
    ]


def _atom_texts(array: pa.Array, data_type: AtomicType, form: JsonForm) -> list[str]:
    root = data_type.root
    if root.is_text:
        return ["null" if each is None else encode_basestring(each) for each in array.to_pylist()]
    if root.is_bytes:
        return [
            "null" if each is None else f'"{base64.b64encode(each).decode()}"'
            for each in array.to_pylist()
        ]
    texts = atom_texts(array, data_type, form.mark)
    if root is TypeRoot.DECIMAL and form.plain_decimals:
        texts = pa.array([None if each is None else f"{each:f}" for each in array.to_pylist()])
    if root.is_floating:
        quoted = pc.is_in(texts, pa.array(_NUMBERS))
        texts = pc.if_else(quoted, _quoted(texts), texts)
    elif root is TypeRoot.DATE or root is TypeRoot.TIME or root.is_timestamp:
        texts = _quoted(texts)
    return list(pc.fill_null(texts, "null").to_pylist())


def _quoted(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', texts, '"', "")


def atom_texts(array: pa.Array, data_type: AtomicType, mark: str) -> pa.Array:
    """Values that are neither text nor bytes, as text; `mark` parts a date from a time."""
    root = data_type.root
    if root.is_floating:
        return _float_texts(array)
    if root is TypeRoot.TIME:
        return _without_zeros(array.cast(pa.string()))
    if not root.is_timestamp:
        return array.cast(pa.string())
    is_moment = root is TypeRoot.TIMESTAMP_LTZ
    local = array.cast(pa.timestamp(array.type.unit)) if is_moment else array
    texts = _without_zeros(local.cast(pa.string()))
    if mark != " ":
        texts = pc.replace_substring(texts, " ", mark, max_replacements=1)
    return pc.binary_join_element_wise(texts, "Z", "") if is_moment else texts


def _float_texts(array: pa.Array) -> pa.Array:
    """Numbers in the fewest digits that read as the same number, as Java's names if not finite."""
    texts = array.cast(pa.string())
    finite = pc.is_finite(array)
    if pc.all(finite).as_py() in (True, None):
        return texts
    infinite = pc.if_else(pc.greater(array, 0), "Infinity", "-Infinity")
    return pc.if_else(finite, texts, pc.if_else(pc.is_nan(array), "NaN", infinite))


def _without_zeros(texts: pa.Array) -> pa.Array:
    """Times without zeros at the end of their fraction."""
    shorter = pc.replace_substring_regex(texts, r"\.0+$", "")
    return pc.replace_substring_regex(shorter, r"(\.\d*[1-9])0+$", r"\1")
