"""The options of a verb as parameters of a command, and back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import click

from lakewright.cli.grammar.command import HowOption
from lakewright.cli.grammar.values import parsed
from lakewright.storage import Table
from lakewright.storage.operations.running.verb_options import OptionField, option_fields

OptionsT = TypeVar("OptionsT")
Runner = Callable[..., Any]


def options_of(options: type[Any], *, without: Collection[str] = ()) -> Callable[[Runner], Runner]:
    """Add the options of a verb to a command that is written by itself."""

    def add(run: Runner) -> Runner:
        added = [parameter for parameter in parameters(options) if parameter.name not in without]
        run.__click_params__ = [  # type: ignore[attr-defined]  # where Click keeps them
            *getattr(run, "__click_params__", []),
            *reversed(added),
        ]
        return run

    return add


def parameters(options: type[Any]) -> list[click.Parameter]:
    """A parameter for each option: an argument where it has a place, else an option."""
    return [_argument(field) if field.place else _option(field) for field in option_fields(options)]


def read_options(options: type[OptionsT], given: Mapping[str, Any], table: Table) -> OptionsT:
    """The options that a command line has given; the others have their defaults.

    Raises:
        InvalidRequestError: a value is none of its option; the message names it.
    """
    known = option_fields(options)
    return options(**{each.name: _value(each, given.get(each.name), table) for each in known})


def flag_of(field: OptionField) -> str:
    """The option as it is typed."""
    return field.flag or field.kind.flag or "--" + field.written_name.replace("_", "-")


def _argument(field: OptionField) -> click.Argument:
    several = -1 if field.kind.repeats else 1
    return click.Argument([field.name], metavar=field.place, required=False, nargs=several)


def _option(field: OptionField) -> click.Option:
    kind = field.kind
    settings: dict[str, Any] = {"help": field.text, "metavar": kind.metavar}
    if kind.choices is not None:
        shown = kind.here or field.default
        names = [str(choice.value) for choice in kind.choices]
        settings["type"] = click.Choice(names, case_sensitive=False)
        if shown is not None:
            settings |= {"default": shown.value, "show_default": True}
        if kind.metavar is not None:
            settings["help"] += f" One of {', '.join(names)}."
    elif kind.metavar is None:
        settings["is_flag"] = True
    else:
        settings |= {"type": parsed(kind.parse), "multiple": kind.repeats}
    made: Callable[..., click.Option] = HowOption if field.at_run else click.Option
    return made([flag_of(field), field.name], **settings)


def _value(field: OptionField, given: Any, table: Table) -> object:
    """What was given, as the verb takes it; its default where nothing was."""
    if given is None or given == ():
        return field.default
    return field.kind.read(given, field.place or flag_of(field), table.table_files)
