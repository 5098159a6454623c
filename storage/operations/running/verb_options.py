"""Options of verbs: each has a kind, which every way in reads and shows alike.

The ways in are Python, the command line, the run config of a job, and the tools of agents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from lakewright.storage.errors import InvalidOption, InvalidRequestError
from lakewright.storage.operations.running.named_partitions import named_partition
from lakewright.storage.spec.arguments import (
    list_argument,
    listed_names,
    text_argument,
    whole_number,
)
from lakewright.storage.spec.durations import duration_ms
from lakewright.storage.spec.option_values import duration_of_ms, parse_size
from lakewright.storage.spec.partition_text import read_partition_text
from lakewright.storage.spec.partition_words import read_partition
from lakewright.storage.spec.values import to_python
from lakewright.storage.spec.written_values import moment_ms, parse_bytes, parse_names

if TYPE_CHECKING:
    from lakewright.storage.files.table_files import TableFiles

_T = TypeVar("_T")
PartitionValues = Mapping[str, object]
Partitions = Sequence[PartitionValues]


def _as_it_is(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


# For how long a deletion can be undone, unless the verb or its call says otherwise.
GRACE_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What the values of an option are.

    `read` makes the verb's value of one that a person or a program wrote; it gets the name of the
    option for its errors, and raises InvalidRequestError. `write` is the way back. `parse` reads
    the text of a command line before a table is opened; an option that `repeats` is given several
    times there. `metavar` stands for the value in help, None for a flag. `config` is the type in
    run config, and `says` describes it to programs. The name of a field ends in the `unit` of its
    number, which the written value carries itself. `choices` are those of an enum, `here` the
    default of a command, where it differs, and `flag` its spelling there, if it is not the name of
    the option.
    """

    read: Callable[[Any, str, TableFiles], object]
    says: str
    config: Any = str
    metavar: str | None = None
    parse: Callable[[str], object] = str
    write: Callable[[Any], object] = _as_it_is
    repeats: bool = False
    unit: str = ""
    choices: type[Enum] | None = None
    here: Enum | None = None
    flag: str = ""


# --- kinds -------------------------------------------------------------------------------------


def _flag(value: object, name: str, _: TableFiles) -> bool:
    if not isinstance(value, bool):
        raise InvalidRequestError(f"{name} is {value!r:.100}; give true or false")
    return value


def _number(text: str, minimum: int) -> int:
    if text.strip().removeprefix("-").isdecimal() and int(text) >= minimum:
        return int(text)
    raise InvalidRequestError(f"{text!r} is not a whole number from {minimum} on")


def count(minimum: int = 1) -> Kind:
    """A whole number from a minimum on."""
    return Kind(
        read=lambda value, name, _: whole_number(value, name),
        says="int",
        config=int,
        metavar="N",
        parse=lambda text: _number(text, minimum),
    )


def counts(minimum: int) -> Kind:
    """Several whole numbers."""
    return Kind(
        read=lambda value, name, _: list_argument(value, name, whole_number),
        says="a list of int",
        config=list[int],
        metavar="N",
        parse=lambda text: _number(text, minimum),
        repeats=True,
    )


def text(metavar: str = "TEXT") -> Kind:
    """One text."""
    return Kind(read=lambda value, name, _: text_argument(value, name), says="str", metavar=metavar)


def texts(metavar: str = "TEXT") -> Kind:
    """Several texts, each given by itself."""
    return Kind(
        read=lambda value, name, _: listed_names(value, name),
        says="a list of str",
        config=list[str],
        metavar=metavar,
        repeats=True,
    )


def names(*, may_be_none: bool = False) -> Kind:
    """Names as A,B; where `may_be_none`, an empty text says that there are none."""
    return Kind(
        read=lambda value, name, _: listed_names(value, name),
        says="a list of str",
        config=list[str],
        metavar="A,B",
        parse=lambda text: parse_names(text) if text.strip() or not may_be_none else [],
    )


def _named(name: str, read: Callable[[Any], object], value: object) -> object:
    try:
        return read(value)
    except (InvalidOption, InvalidRequestError) as error:
        raise InvalidRequestError(f"{name}: {error.message}") from None


def _size(value: object, name: str, _: TableFiles) -> object:
    return _named(name, parse_size, value) if isinstance(value, str) else whole_number(value, name)


def _age(value: object, name: str, _: TableFiles) -> object:
    return _named(name, duration_ms, value)


def _written_age(text: str) -> str:
    """A duration as it is written, since a bare number has no unit."""
    duration_ms(text)
    return text


def _moment(value: object, name: str, _: TableFiles) -> object:
    return _named(name, moment_ms, value) if isinstance(value, str) else whole_number(value, name)


def _partition(value: object, name: str, files: TableFiles) -> PartitionValues:
    _check_partitioned(name, files)
    keys = files.schema.partition_fields
    if isinstance(value, Mapping):
        return named_partition(files, value)
    values = read_partition_text(text_argument(value, name), keys)
    return {key.name: to_python(each, key.type) for key, each in zip(keys, values, strict=True)}


def _check_partitioned(name: str, files: TableFiles) -> None:
    if not files.schema.partition_keys:
        raise InvalidRequestError(f"{files.name} has no partitions; leave `{name}` out")


def _partitions(value: object, name: str, files: TableFiles) -> Partitions:
    listed = list_argument(value, name, lambda one, _: one)
    _check_partitioned(name, files)
    if not listed:
        raise InvalidRequestError(f"{name} is an empty list; leave it out for all partitions")
    return list_argument(listed, name, lambda one, at: _partition(one, at, files))


def _assignments(value: object, _: str, __: TableFiles) -> Mapping[str, object]:
    """`COLUMN=EXPR`, each column once."""
    values: dict[str, object] = {}
    for assignment in listed_names(value, "values"):
        name, sign, expression = assignment.partition("=")
        if not sign or not expression.strip():
            raise InvalidRequestError(f"{assignment!r} is not COLUMN=EXPR, such as price=price*1.1")
        if name.strip() in values:
            raise InvalidRequestError(f"{name.strip()} gets two values; give it one")
        values[name.strip()] = expression
    return values


def choice(values: type[Enum], *, here: Enum | None = None, metavar: str | None = None) -> Kind:
    """One value of an enum; `here` is what a command takes where nothing is given."""
    listed = ", ".join(str(each.value) for each in values)

    def read(value: object, name: str, _: TableFiles) -> Enum:
        try:
            return values(value)
        except ValueError:
            raise InvalidRequestError(f"{name}: {value!r} is none of {listed}") from None

    return Kind(
        read=read,
        write=lambda value: value.value,
        says=f"one of {listed}",
        choices=values,
        here=here,
        metavar=metavar,
    )


FLAG = Kind(read=_flag, says="bool", config=bool)
COUNT = count()
TEXT = text()
WHERE = text("EXPR")
ASSIGNMENTS = Kind(
    read=_assignments,
    write=lambda values: [f"{name}={value}" for name, value in values.items()],
    says="a list of COLUMN=EXPR",
    config=list[str],
    metavar="COLUMN=EXPR",
    repeats=True,
)
DURATION = Kind(
    read=_age,
    says="a duration, such as 1h or 7d",
    metavar="AGE",
    parse=_written_age,
    unit="_ms",
    write=lambda value: f"{value}ms",
)
BYTES = Kind(
    read=_size,
    says="a number of bytes, or a size such as 64 MB",
    config=int,
    metavar="SIZE",
    parse=parse_bytes,
)
MOMENT = Kind(
    read=_moment,
    says="a time in ISO format, or milliseconds since 1970 (UTC)",
    config=int,
    metavar="TIME",
    parse=moment_ms,
)
_PARTITION_SAYS = "the key of a partition: a value, or dt=…/hh=… for several columns"
PARTITION = Kind(
    read=_partition,
    says=_PARTITION_SAYS,
    metavar="K=V,…",
    parse=read_partition,
)
PARTITIONS = Kind(
    read=_partitions,
    says=f"a list, each {_PARTITION_SAYS}",
    config=list[str],
    metavar="K=V,…",
    parse=read_partition,
    repeats=True,
    flag="--partition",
)


# --- options -----------------------------------------------------------------------------------


def needed(value: _T | None, message: str) -> _T:
    """An option without which a verb cannot plan.

    Raises:
        InvalidRequestError: it is not given; the message says which, and of what.
    """
    if value is None:
        raise InvalidRequestError(message)
    return value


def option(
    kind: Kind,
    default: _T,
    text: str,
    *,
    at_run: bool = False,
    flag: str = "",
    place: str = "",
) -> _T:
    """A field of an options class: its kind, its default, and the text for help and run config.

    An `at_run` option affects the run. Other options affect the plan, so they cannot be combined
    with a saved plan. On the command line it is `flag`, or its name, or an argument where help
    shows `place`.
    """
    made: _T = field(
        default=default,
        metadata={
            "kind": kind,
            "text": text,
            "at_run": at_run,
            "flag": flag,
            "place": place,
        },
    )
    return made


def grace(default_ms: int = GRACE_MS) -> int:
    """The option of verbs that condemn files: an hour, unless the verb has another default."""
    return option(
        DURATION,
        default_ms,
        "How long this can be undone; the files go then. Without one, "
        f"{duration_of_ms(default_ms)}; 0 deletes them at once.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionField:
    """One option of a verb, for all ways in."""

    name: str
    kind: Kind
    default: Any
    text: str
    at_run: bool
    flag: str
    place: str

    @property
    def written_name(self) -> str:
        """The name of the option in run config and for programs; the value carries the unit."""
        return self.name.removesuffix(self.kind.unit)


def option_fields(options: type[Any]) -> tuple[OptionField, ...]:
    """The options of an options class, in order, without fields that only Python gives."""
    return tuple(
        OptionField(name=each.name, default=each.default, **each.metadata)
        for each in fields(options)
        if each.metadata
    )


def written_options(options: Any) -> dict[str, object]:
    """The options of a verb as run config has them; those without a value are left out."""
    given = ((each, getattr(options, each.name)) for each in option_fields(type(options)))
    return {each.written_name: each.kind.write(value) for each, value in given if value is not None}
