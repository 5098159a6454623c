"""JSON → values of our own dataclasses, by the types of their fields.

For records and plans that only this library writes; a user may have edited them since.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from lakewright.storage.codec.json_values import MalformedJson, as_list, as_object, as_whole

_T = TypeVar("_T")


def value_of(kind: type[_T], data: object) -> _T:
    """A value of a type: dataclasses, tuples, enums, and the types of JSON.

    Raises:
        ValueError: a part is missing, unknown, or of another type.
    """
    return cast("_T", _value(kind, data))


def _value(kind: Any, data: object) -> Any:
    if get_origin(kind) in (Union, UnionType):
        (present,) = (each for each in get_args(kind) if each is not NoneType)
        return None if data is None else _value(present, data)
    if get_origin(kind) is tuple:
        item, _ = get_args(kind)
        return tuple(_value(item, each) for each in as_list(data))
    if isinstance(kind, type) and is_dataclass(kind):
        return _dataclass(kind, as_object(data))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(data)
    if kind is int:
        return as_whole(data)
    plain = get_origin(kind) or kind
    if not isinstance(data, plain):
        raise MalformedJson(f"{data!r} is not of type {plain.__name__}"[:200])
    return data


def _dataclass(kind: type, given: Mapping[str, object]) -> object:
    hints = _hints(kind)
    unknown = sorted(given.keys() - hints.keys())
    if unknown:
        raise MalformedJson(f"{kind.__name__} has no {unknown[0]}")
    for field in fields(kind):
        has_default = field.default is not MISSING or field.default_factory is not MISSING
        if not has_default and field.name not in given:
            raise MalformedJson(f"{field.name} is missing in a {kind.__name__}")
    return kind(**{name: _value(hints[name], value) for name, value in given.items()})


@lru_cache
def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}
