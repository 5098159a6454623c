"""Reads the options of a table as values."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import TypeVar

from lakewright.storage.errors import InvalidOption
from lakewright.storage.spec.known_options import Option
from lakewright.storage.spec.option_values import Kind
from lakewright.storage.spec.schema import TableSchema

T = TypeVar("T")


class OptionReader:
    """Reads options without surrounding blanks; every error names the option and its value.

    Paimon reads a duration without a unit as milliseconds, and a size without one as bytes.
    `bare_numbers=False` refuses both as likely mistakes.
    """

    def __init__(
        self, options: Mapping[str, str], table: str, *, bare_numbers: bool = True
    ) -> None:
        self.options = {name.strip(): str(text).strip() for name, text in options.items()}
        self.table = table
        self.bare_numbers = bare_numbers

    def read_into(self, values: object, schema: TableSchema) -> None:
        """Give an instance of a class of options their values."""
        above = SimpleNamespace(schema=schema)
        for attribute, option in vars(type(values)).items():
            if isinstance(option, Option):
                value = self.value(option, above=above)
                vars(above)[attribute] = vars(values)[attribute] = value

    def value(self, option: Option[T], column: str = "*", above: object = None) -> T:
        """The value of an option, of a column if its name has a `*`."""
        for name in (option.name, *option.older_names):
            text = self.options.get(name.replace("*", column))
            if text is not None:
                return self.parsed(option.of(column), option.kind, text)
        if option.unset is not None:
            return option.unset(above)
        return option.kind.parse(option.default or "")

    def parsed(self, name: str, kind: Kind[T], text: str) -> T:
        """The value of an option's text.

        Raises:
            InvalidOption: it is not of the kind.
        """
        try:
            if kind.units and not self.bare_numbers and text.isdigit():
                examples = " or ".join(f"{text} {unit}" for unit in kind.units)
                raise InvalidOption(f"={text} has no unit; write {examples}")
            return kind.parse(text)
        except InvalidOption as error:
            raise InvalidOption(f"{self.table}: {name}{error.message}", option=name) from None
