"""Partitions that a person names by the values of their keys."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.partition_words import NULL_WORD, ExactText
from lakewright.storage.spec.values import from_python

if TYPE_CHECKING:
    from lakewright.storage.files.table_files import TableFiles
    from lakewright.storage.spec.data_types import DataType


def named_partition(files: TableFiles, spec: Mapping[str, object]) -> dict[str, object]:
    """A partition by its values, where the name of the default partition is null.

    Raises:
        InvalidRequestError: a value is probably meant for null; the message says how to type it.
    """
    null = files.options.partition_default_name
    types = {field.name: field.type for field in files.partitions.keys.fields}

    def value_of(name: str, given: object) -> object:
        if isinstance(given, str) and name in types:
            _check_not_meant_for_null(name, given, types[name], null)
        if isinstance(given, ExactText):
            return str(given)
        return None if given == null else given

    return {name: value_of(name, value) for name, value in spec.items()}


def _check_not_meant_for_null(name: str, text: str, data_type: DataType, null: str) -> None:
    """Refuse `null` and blanks where they are no values, and say how null is typed."""
    if text.strip().lower() not in ("", NULL_WORD):
        return
    try:
        from_python(text, data_type)
    except InvalidRequestError as error:
        raise InvalidRequestError(
            f"{name}: {error.message}; null is typed {name}={null} or in a JSON object: "
            f"{json.dumps({name: None})}"
        ) from error
