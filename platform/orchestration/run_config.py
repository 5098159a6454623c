"""Run config of a verb's job, derived from the verb's options, and back to options.

The declaration of the table gives what a run leaves out. A choice is written by its value, a
duration as 1h or 7d under a name without `_ms`, and partitions by their keys. Dagster shows all of
it, and refuses invalid choices at launch.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from functools import cache
from typing import Any, TypeVar

import dagster as dg
from pydantic import Field, create_model

from lakewright.storage import Table
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.operations.running.verb_options import (
    PARTITIONS,
    OptionField,
    option_fields,
)

OptionsT = TypeVar("OptionsT")
_BY_KEY = " Partition keys: a value, or dt=…/hh=… for several columns."


class VerbConfig(dg.Config):
    """The run config that a verb accepts."""

    dry_run: bool = Field(default=False, description="Report what would be done; write nothing.")


class PlannedConfig(dg.Config):
    """What the run config of a verb may hold of one table, beside the verb's options."""

    plan: Any = Field(
        default=None,
        description=(
            "A saved plan to carry out as it stands: its JSON, or the path of a file that this "
            "run's worker reads. Leave out what would plan otherwise."
        ),
    )


class TableVerbConfig(PlannedConfig, VerbConfig):
    """The run config of a verb for one table."""


@cache
def choices_of(kind: type[Enum]) -> Any:
    """An enum whose names are the values of another enum, since Dagster shows names."""
    return Enum(kind.__name__, {each.value: each for each in kind})


@cache
def config_class(options: type[Any], base: type[dg.Config] = VerbConfig) -> type[dg.Config]:
    """The run config for some options; each is optional."""
    given: dict[str, Any] = {
        field.written_name: (
            _config_type(field) | None,
            Field(default=None, description=_description(field)),
        )
        for field in option_fields(options)
    }
    made: type[dg.Config] = create_model(
        options.__name__.replace("Options", "Config"), __base__=base, **given
    )
    return made


def options_of_run(config: dg.Config, declared: OptionsT, table: Table) -> OptionsT:
    """The options of a run; what the run leaves out, the declaration gives.

    Raises:
        InvalidRequestError: a text is not a duration, or the key of no partition.
    """
    given = {}
    for option in option_fields(type(declared)):
        value = getattr(config, option.written_name)
        if value is not None:
            plain = value.value if isinstance(value, Enum) else value
            given[option.name] = option.kind.read(plain, option.written_name, table.table_files)
    return replace(declared, **given)  # type: ignore[type-var]  # a dataclass, as options are


def check_nothing_else_planned(config: dg.Config, options: type[Any]) -> None:
    """Check that a run with a saved plan gives no option that would plan otherwise.

    Raises:
        InvalidRequestError: it gives one.
    """
    for option in option_fields(options):
        if not option.at_run and getattr(config, option.written_name) is not None:
            raise InvalidRequestError(
                f"the plan says what to do; leave {option.written_name} out, or plan again"
            )


def _config_type(option: OptionField) -> Any:
    choices = option.kind.choices
    return option.kind.config if choices is None else choices_of(choices)


def _description(option: OptionField) -> str:
    return option.text + (_BY_KEY if option.kind is PARTITIONS else "")
