"""Options of connectors and formats: described once, then read, checked and listed.

A factory lists its options; a definition of a table gives texts. Reading them refuses what is
missing, unknown or of another kind, and names the option, its value and what there is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum
from typing import Any

from lakewright.storage.errors import InvalidOption
from lakewright.storage.secret_texts import shown_option
from lakewright.storage.spec.option_values import parse_duration_ms, parse_size

_MOST_SHOWN = 120


class OptionKind(Enum):
    """What the text of an option says; the value is how listings describe it."""

    TEXT = "text"
    INTEGER = "whole number"
    NUMBER = "number"
    BOOLEAN = "true or false"
    # Milliseconds.
    DURATION = "duration such as 10 s"
    # Bytes.
    SIZE = "size such as 64 mb"
    # A tuple of texts, which `;` separates.
    LIST = "texts separated by ;"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option of a connector or a format.

    `aliases` are older names. `choices` are all texts that are allowed. Of a `secret`, messages
    and listings show the name alone.
    """

    name: str
    kind: OptionKind = OptionKind.TEXT
    description: str = ""
    default: Any = None
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    secret: bool = False
    minimum: int | None = None

    def read(self, text: str, owner: str) -> Any:
        """The value that a text says.

        Raises:
            InvalidOption: it says none.
        """
        try:
            value = _value(self.kind, text)
        except (ValueError, KeyError, InvalidOption):
            raise self._refused(owner, text, f"is no {self.kind.value}") from None
        if self.choices and value not in self.choices:
            raise self._refused(owner, text, f"is none of {', '.join(self.choices)}")
        if self.minimum is not None and value < self.minimum:
            raise self._refused(owner, text, f"is less than {self.minimum}")
        return value

    def _refused(self, owner: str, text: str, problem: str) -> InvalidOption:
        shown = "its value" if self.secret else repr(shown_option(self.name, text)[:_MOST_SHOWN])
        return InvalidOption(f"option {self.name} of {owner}: {shown} {problem}", option=self.name)


@dataclass(frozen=True)
class ReadOptions:
    """The options of one connector or format, by name: given values, or defaults."""

    values: Mapping[str, Any]
    # Those that the definition gives, without aliases.
    given: frozenset[str] = field(default_factory=frozenset)

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def get(self, name: str) -> Any:
        return self.values.get(name)


def read_options(
    texts: Mapping[str, str],
    *,
    required: Sequence[Option],
    optional: Sequence[Option] = (),
    owner: str,
    prefixes: Sequence[str] = (),
) -> ReadOptions:
    """Read the options of a definition; those under `prefixes` are others' and pass.

    Raises:
        InvalidOption: one is missing, unknown, given twice by an alias, or not of its kind.
    """
    known: dict[str, Option] = {}
    for each in (*required, *optional):
        for name in (each.name, *each.aliases):
            known[name] = each
    found: dict[str, tuple[str, str]] = {}
    for name, text in texts.items():
        option = known.get(name)
        if option is None:
            if any(name.startswith(prefix) for prefix in prefixes):
                continue
            raise _unknown(name, known, owner)
        if option.name in found:
            raise InvalidOption(
                f"{owner} has {found[option.name][0]} and {name}, which are the same option; "
                "leave one out",
                option=option.name,
            )
        found[option.name] = (name, text)
    missing = [each for each in required if each.name not in found]
    if missing:
        told = "; ".join(_described(each) for each in missing)
        raise InvalidOption(
            f"{owner} lacks required options: {told}", options=[each.name for each in missing]
        )
    values = {each.name: each.default for each in (*required, *optional)}
    values |= {name: known[name].read(text, owner) for name, (_, text) in found.items()}
    return ReadOptions(values, frozenset(found))


def _described(option: Option) -> str:
    return f"{option.name} ({option.description})" if option.description else option.name


def _unknown(name: str, known: Mapping[str, Option], owner: str) -> InvalidOption:
    close = get_close_matches(name, known, 1)
    hint = f"did you mean {close[0]}? " if close else ""
    return InvalidOption(
        f"{owner} has no option {name[:_MOST_SHOWN]}; {hint}it has {', '.join(sorted(known))}",
        option=name,
    )


def _value(kind: OptionKind, text: str) -> Any:
    match kind:
        case OptionKind.TEXT:
            return text
        case OptionKind.LIST:
            return tuple(part.strip() for part in text.split(";") if part.strip())
        case OptionKind.INTEGER:
            return int(text.strip())
        case OptionKind.NUMBER:
            return float(text.strip())
        case OptionKind.BOOLEAN:
            return {"true": True, "false": False}[text.strip().lower()]
        case OptionKind.DURATION:
            return parse_duration_ms(text)
        case OptionKind.SIZE:
            return parse_size(text)
