"""Formats by name, with options as a table gives them, and fields by their types."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from lakewright.connectors.formats.built_in import BUILT_IN_FORMATS
from lakewright.connectors.formats.model import DecodingFormat, EncodingFormat
from lakewright.connectors.options import ReadOptions, read_options
from lakewright.storage.spec.data_types import DataField, parse_data_type


def format_factory(name: str) -> Any:
    module, made = BUILT_IN_FORMATS[name].split(":")
    return getattr(import_module(module), made)()


def decoding(name: str, options: Mapping[str, str] | None = None) -> DecodingFormat:
    factory = format_factory(name)
    made: DecodingFormat = factory.decoding_format(_read(factory, options))
    return made


def encoding(name: str, options: Mapping[str, str] | None = None) -> EncodingFormat:
    factory = format_factory(name)
    made: EncodingFormat = factory.encoding_format(_read(factory, options))
    return made


def _read(factory: Any, options: Mapping[str, str] | None) -> ReadOptions:
    return read_options(
        options or {},
        required=factory.required_options,
        optional=factory.optional_options,
        owner=f"format {factory.identifier}",
    )


def fields_of(**types: str) -> list[DataField]:
    """Fields by name; `__` in a name stands for a point."""
    return [
        DataField(at, name.replace("__", "."), parse_data_type(text))
        for at, (name, text) in enumerate(types.items())
    ]
