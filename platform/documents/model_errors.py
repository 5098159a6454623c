"""What a model found wrong in YAML, as a place and the correction."""

from __future__ import annotations

import re
import typing
from collections.abc import Mapping
from contextlib import suppress
from difflib import get_close_matches
from enum import Enum

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from lakewright.platform.documents.marked_yaml import Place
from lakewright.platform.documents.wrong_places import Finding, did_you_mean
from lakewright.storage.errors import StorageError
from lakewright.storage.secret_texts import MASK, shown_option, shown_value
from lakewright.storage.spec.data_types import parse_data_type


def findings_of(error: ValidationError, model: type[BaseModel]) -> list[Finding]:
    """All that a model found wrong; a needed key that is misspelt is not missing, too."""
    details = error.errors()
    meant = {
        (*detail["loc"][:-1], *_near(str(detail["loc"][-1]), known_keys(model, detail["loc"][:-1])))
        for detail in details
        if detail["type"] == "extra_forbidden"
    }
    return [
        explain(detail, model)
        for detail in details
        if detail["type"] != "missing" or detail["loc"] not in meant
    ]


def explain(detail: ErrorDetails, model: type[BaseModel]) -> Finding:
    """The place of a problem that a model found, and the correction."""
    place: Place = tuple(detail["loc"])
    given = _shown(detail.get("input"), place)
    context = detail.get("ctx", {})
    match detail["type"]:
        case "missing":
            # A missing key has no line, so the line of its mapping is used.
            return place[:-1], f"{place[-1]} is missing; add it"
        case "extra_forbidden":
            return place, _unknown(place, model)
        case "value_error":
            return place, str(context.get("error", detail["msg"]))
        case "enum":
            expected = str(context.get("expected", "")).replace("'", "")
            near = get_close_matches(str(given), re.split(r", | or ", expected), n=1)
            meant = f"; did you mean {near[0]}?" if near else ""
            return place, f"{given} is not one of {expected}{meant}"
        case "bool_parsing" | "bool_type":
            return place, f"{given!r} is neither true nor false"
        case "int_parsing" | "int_type" | "int_from_float":
            return place, f"{given!r} is not a whole number"
        case "string_type" if given is None:
            return place, 'null is not text; write "null" in quotes for the word, or leave it out'
        case "string_type":
            return place, f"{given!r} is not text; put it in quotes"
        case "tuple_type" | "list_type" if place == ("columns",) and isinstance(given, dict):
            columns = list(dict(detail["input"]).items())[:3]
            shown = "; ".join(f"- {{name: {name}, type: {_type(kind)}}}" for name, kind in columns)
            return place, f"columns are a list; write each on a line of its own as {shown}"
        case "tuple_type" | "list_type" if isinstance(given, dict):
            return place, f"{given!r:.60} is not a list; begin each of its lines with `- `"
        case "tuple_type" | "list_type":
            return place, f"{given!r} is not a list; write [{given}]"
        case "model_type" | "model_attributes_type" if place == ("source",):
            return place, f"{given!r} does not say what kind it is; write {_source_form(given)}"
        case "mapping_type" | "dict_type" | "model_type" | "model_attributes_type":
            # A URL may be a secret, such as that of a webhook.
            is_url = isinstance(given, str) and "://" in given
            shown = "null" if given is None else "a URL" if is_url else repr(given)
            return place, f"{shown} is not a mapping of keys to values"
        case _:
            return place, f"{given!r}: {detail['msg'][:1].lower()}{detail['msg'][1:]}"


def _shown(given: object, place: Place) -> object:
    """What was written, without a secret in it."""
    name = next((str(each) for each in reversed(place) if isinstance(each, str)), "")
    if given is not None and not isinstance(given, (str, Mapping, list, tuple)):
        # A password may be a number.
        return given if shown_option(name, str(given)) == str(given) else MASK
    return _names_alone(shown_value(given, name))


def _names_alone(given: object) -> object:
    """A value without those of the mappings in it: the name of a secret may be misspelt there."""
    match given:
        case Mapping():
            return {name: _Left() for name in given}
        case list() | tuple():
            return [_names_alone(each) for each in given]
        case _:
            return given


def _type(written: object) -> str:
    """A data type as it is written; what is none is not shown."""
    with suppress(StorageError):
        parse_data_type(str(written))
        return f'"{written}"'
    return repr(_Left())


class _Left:
    """What stands for a value that is not shown."""

    def __repr__(self) -> str:
        return "…"


def _unknown(place: Place, model: type[BaseModel]) -> str:
    """An unknown key, the nearest one of its section, and the section that has this very key."""
    key, known = str(place[-1]), known_keys(model, place[:-1])
    sections = [name for name, each in _sections(model) if key in fields_by_key(each)]
    if not sections:
        return f"unknown key {key!r}; {did_you_mean(key, known)}"
    alike = [
        section for section in sections if section.split(".")[-1:] == [*map(str, place[-2:-1])]
    ]
    near = f"{did_you_mean(key, known)} " if _near(key, known) else ""
    return f"unknown key {key!r}; {near}it is a key of {(alike or sections)[0]}"


def _near(key: str, known: list[str]) -> list[str]:
    return get_close_matches(key, known, n=1, cutoff=0.6)


def _sections(model: type[BaseModel]) -> list[tuple[str, type[BaseModel]]]:
    """The sections of a file by name, those that are nested the least first."""
    found = [("the top of the file", model)]
    for name, each in found:
        for below, field in fields_by_key(each).items():
            inner = _model_in(field.annotation)
            if inner is not None and all(inner is not known for _, known in found):
                found.append((str(below) if each is model else f"{name}.{below}", inner))
    return found


def _source_form(given: object) -> str:
    """How a source is written that was given as a word."""
    text = str(given)
    suffix = text.lower().rpartition(".")[2]
    if suffix in ("parquet", "orc", "avro", "csv", "json"):
        return f"{suffix}: {text}"
    if re.fullmatch(r"[\w.]+:\w+", text):
        return f"python: {text}"
    return "one of python: module:function, parquet: path, orc:, avro:, csv:, json: path"


def known_keys(model: type[BaseModel], place: Place) -> list[str]:
    """The keys of the model at a place below another one."""
    parts = iter(place)
    for part in parts:
        field = fields_by_key(model).get(part)
        if field is None:
            continue
        model = _model_in(field.annotation) or model
        if _is_mapping(field.annotation):
            # The next part is a name that the author chose.
            next(parts, None)
    return [str(key) for key in fields_by_key(model)]


def fields_by_key(model: type[BaseModel]) -> dict[str | int, FieldInfo]:
    """The fields of a model by the keys that people write."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _is_mapping(annotation: object) -> bool:
    origin = typing.get_origin(annotation)
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _model_in(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in typing.get_args(annotation):
        if isinstance(argument, type) and issubclass(argument, Enum):
            continue
        found = _model_in(argument)
        if found is not None:
            return found
    return None
