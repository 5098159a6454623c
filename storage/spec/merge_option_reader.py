"""One merge option at a time: its text, and the checks that every merge option needs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from typing import NoReturn

from lakewright.storage.errors import InvalidOption, UnsupportedError
from lakewright.storage.spec.data_types import AtomicType, DataType
from lakewright.storage.spec.merge_option_rows import MERGE_OPTIONS, MergeOptions
from lakewright.storage.spec.option_reader import OptionReader
from lakewright.storage.spec.schema import TableSchema

GROUP_PREFIX, GROUP_SUFFIX = MergeOptions.sequence_group.name.split("*")
_OF_COLUMNS = "fields.*."
_SUFFIXES = "|".join(
    re.escape(each.name.removeprefix(_OF_COLUMNS))
    for each in MERGE_OPTIONS
    if each.name.startswith(_OF_COLUMNS)
)
_FIELD_OPTION = re.compile(rf"fields\.(?P<names>.+)\.(?:{_SUFFIXES})")
_NAMES = frozenset(name for each in MERGE_OPTIONS for name in (each.name, *each.older_names))


def is_merge_option(name: str) -> bool:
    """Whether an option says how rows of one key are merged."""
    return name in _NAMES or _FIELD_OPTION.fullmatch(name) is not None


class MergeOptionReader(OptionReader):
    """Reads merge options of one schema; every error names the option, its value and the table."""

    def __init__(self, schema: TableSchema, table: str) -> None:
        super().__init__(schema.options, table)
        self.schema = schema
        self.types: dict[str, DataType] = {field.name: field.type for field in schema.fields}

    def check_field_names(self) -> None:
        for option, text in self.options.items():
            match = _FIELD_OPTION.fullmatch(option)
            if match is None:
                continue
            group = option.endswith(GROUP_SUFFIX)
            names = split_names(match["names"]) if group else (match["names"],)
            for name in names:
                self.check_column(option, text, name)

    def check_column(self, option: str, text: str, name: str) -> None:
        if name not in self.types:
            self.invalid(
                option,
                text,
                f"names {name!r}, which is not a column; there are {', '.join(self.types)}",
            )

    def check_orders(self, option: str, text: str, name: str) -> None:
        data_type = self.types.get(name)
        if data_type is not None and not isinstance(data_type, AtomicType):
            self.invalid(
                option,
                text,
                f"orders rows by {name!r}, which is {data_type}; take a primitive type",
            )

    def check_once(self, option: str, text: str, names: Collection[str]) -> None:
        repeated = [name for name, times in Counter(names).items() if times > 1]
        if repeated:
            self.invalid(option, text, f"names {repeated[0]!r} more than once")

    def invalid(self, option: str, value: str, problem: str) -> NoReturn:
        raise InvalidOption(f"{self.table}: {option}={value} {problem}", option=option)

    def unsupported(self, option: str, value: str, instead: str) -> NoReturn:
        raise UnsupportedError(
            f"{self.table} sets option {option}={value}, which is not implemented ({instead})",
            option=option,
        )


def split_names(text: str) -> tuple[str, ...]:
    """Names between commas, without the blanks around them."""
    return tuple(name.strip() for name in text.split(","))
