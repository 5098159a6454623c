"""Partitions in messages, in the words that options take back: `dt=2026-01-31,origin=EWR`.

Where these words would mean another partition, or hide a value, a JSON object names it: null, a
text that looks like null, an empty one. Keys and folders have texts of their own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.partition_text import value_text

NULL_WORD = "null"
# Options take it for null, whatever other name a table's option gives.
_NULL_FOLDER = "__DEFAULT_PARTITION__"
# A comma separates only before another `name=`, since values may hold commas.
_SEPARATOR = re.compile(r",(?=[^,=]+=)")


class ExactText(str):
    """A text of a JSON object, which never stands for null."""

    __slots__ = ()


def describe_partition(spec: Mapping[str, object]) -> str:
    """A partition as messages name it, and `--partition` reads it; `the table` without keys."""
    if not spec:
        return "the table"
    texts = {name: value_text(value) for name, value in spec.items() if value is not None}
    words = ",".join(f"{name}={text}" for name, text in texts.items())
    is_plain = len(texts) == len(spec) and all(map(_is_plain, (words, *texts.values())))
    if is_plain and _says(words, texts):
        return words
    return partition_object(spec)


def partition_object(spec: Mapping[str, object]) -> str:
    """A partition as a JSON object, which `--partition` reads, whatever the values are."""
    values = {name: None if value is None else value_text(value) for name, value in spec.items()}
    shown = json.dumps(values, ensure_ascii=False)
    return shown if shown.isprintable() else json.dumps(values)


def name_partition(spec: Mapping[str, object]) -> str:
    """`partition dt=2026-01-31`, or `the only partition` of a table without partition keys."""
    return f"partition {describe_partition(spec)}" if spec else "the only partition"


def value_word(value: object) -> str:
    """One value as it stands in a column of values.

    Texts that say too little, begin like a text in quotes, or hold what looks like another
    `,name=`, stand in quotes as in JSON. An option takes such a text in a JSON object only.
    """
    if value is None:
        return NULL_WORD
    text = value_text(value)
    return json.dumps(text) if needs_quotes(value) else text


def needs_quotes(value: object) -> bool:
    """Whether a value stands in quotes in a column of values."""
    if value is None:
        return False
    text = value_text(value)
    return not _is_plain(text) or text.startswith('"') or _SEPARATOR.search(text) is not None


def read_partition(text: str) -> dict[str, object]:
    """The values that `key=value,key2=value2` or a JSON object name.

    Raises:
        InvalidRequestError: it is neither of both.
    """
    if text.startswith("{"):
        try:
            spec: dict[str, object] = json.loads(text)
        except ValueError as error:
            raise InvalidRequestError(f"{text!r} is not JSON: {error}") from None
        except RecursionError:
            raise InvalidRequestError(f"{text[:40]!r}… is nested too deeply") from None
        return {
            name: ExactText(value) if isinstance(value, str) else value
            for name, value in spec.items()
        }
    pairs = [pair.split("=", 1) for pair in _SEPARATOR.split(text)]
    names = [pair[0].strip() for pair in pairs]
    if not all(names) or any(len(pair) != 2 for pair in pairs):
        raise InvalidRequestError(f"{text!r} is not of the form key=value,key2=value2")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidRequestError(
            f"{text!r} names {twice} twice; a value that holds ,{twice}= is given in a JSON object"
        )
    return {name: pair[1] for name, pair in zip(names, pairs, strict=True)}


def _is_plain(text: str) -> bool:
    """Whether a text is seen where it stands alone, and is not taken for null."""
    return (
        bool(text)
        and text == text.strip()
        and text.isprintable()
        and text not in (NULL_WORD, _NULL_FOLDER)
    )


def _says(words: str, texts: Mapping[str, str]) -> bool:
    try:
        return read_partition(words) == texts
    except InvalidRequestError:
        return False
