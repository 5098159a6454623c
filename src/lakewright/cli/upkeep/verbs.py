"""Makes commands of the platform's verbs: options, plan, lease, run and report.

A verb defines its options and its report. A command defines the spelling of the options, and may
show plans and results in its own form instead of the verb's report.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import Described, HowOption, command
from lakewright.cli.grammar.options import FROM_0, FROM_1
from lakewright.cli.grammar.values import age_ms, names, partition
from lakewright.cli.output.answers import Answer
from lakewright.cli.output.progress import CountedEngine, Steps
from lakewright.cli.output.report_text import report_facts, report_text
from lakewright.cli.upkeep.work import Telling, carry_out, raise_stale
from lakewright.cli.upkeep.work import Work as Asked
from lakewright.platform.declare.declarations import EngineChoice
from lakewright.platform.upkeep.rewrites import Partitions
from lakewright.platform.upkeep.verb import (
    AnyVerb,
    InSteps,
    OptionField,
    Outcome,
    Work,
    option_fields,
)
from lakewright.platform.upkeep.verb import carry_out as carry_out_verb
from lakewright.storage import Engine, LocalEngine, Table

AnyTelling = Telling[Any, Any]


def verb_command(
    verb: AnyVerb,
    *,
    examples: str,
    name: str | None = None,
    notes: str = "",
    flags: Mapping[str, str] | None = None,
    arguments: Mapping[str, str] | None = None,
    telling: Callable[[Table], AnyTelling] | None = None,
    may_go: Callable[[Table, Any], Collection[object]] | None = None,
) -> Described:
    """The command of a verb.

    `flags` rename options. `arguments` are positional options, with their names in help. `may_go`
    plans again which files may be deleted, for verbs whose run does not check the files of a saved
    plan.
    """
    options = option_fields(verb.options)

    def run(call: Call, **given: Any) -> Answer | None:
        table = call.table()
        chosen = {each.name: _value(each, given[each.name], table) for each in options}
        return run_verb(verb, call, table, verb.options(**chosen), telling, may_go)

    run.__doc__ = f"{verb.description[0].upper()}{verb.description[1:]}."
    words = name or verb.name.replace("_", "-")
    made = command(words, plans=True, examples=examples, notes=notes)(run)
    places = arguments or {}
    own = [
        _argument(each, places[each.name])
        if each.name in places
        else _option(each, (flags or {}).get(each.name))
        for each in options
    ]
    # After the table.
    made.params[1:1] = sorted(own, key=lambda each: isinstance(each, click.Option))
    return made


def run_verb(
    verb: AnyVerb,
    call: Call,
    table: Table,
    options: object,
    telling: Callable[[Table], AnyTelling] | None = None,
    may_go: Callable[[Table, Any], Collection[object]] | None = None,
) -> Answer | None:
    """Carry a verb out as a call asks for."""

    def do(given: Any, dry_run: bool, steps: Steps) -> tuple[Any, Any]:
        if given is not None and may_go is not None:
            surplus = set(given.files).difference(may_go(table, given))
            if surplus:
                raise_stale(given)
        work = _ShownWork(
            run=f"lakewright {call.command} ({table.files.env.new_id()[:8]})",
            session=lambda: _session(call.command, steps),
            steps=steps,
            step=call.command,
        )

        def stepped(done: Outcome[Any, Any, Any]) -> None:
            if isinstance(verb, InSteps):
                steps.begin(f"{call.command}: {verb.report(table, done).summary}")

        outcome = carry_out_verb(
            verb,
            table,
            options,
            work,
            plan=given,
            dry_run=dry_run,
            planned=lambda plan: steps.begin(call.command),
            stepped=stepped,
        )
        return outcome.plan, outcome.result

    told = _reported(verb, table, options) if telling is None else telling(table)
    return carry_out(call, table, Asked(kind=verb.plan_type, do=do, telling=told))


def _reported(verb: AnyVerb, table: Table, options: object) -> AnyTelling:
    """What a verb says of itself."""

    def planned(plan: Any) -> Outcome[Any, Any, Any]:
        return Outcome(options=options, plan=plan)

    def done(plan: Any, result: Any) -> Outcome[Any, Any, Any]:
        return Outcome(options=options, plan=plan, result=result)

    return Telling(
        is_empty=lambda plan: verb.report(table, planned(plan)).is_empty,
        describe=lambda plan: report_text(verb.report(table, planned(plan))),
        summary=lambda plan: verb.report(table, planned(plan)).facts,
        report=lambda plan, result: report_text(verb.report(table, done(plan, result))),
        facts=lambda plan, result: report_facts(verb.report(table, done(plan, result))),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _ShownWork(Work):
    """Work whose tasks in this process are counted on a terminal."""

    steps: Steps
    step: str

    def engine(self, choice: EngineChoice, size_bytes: int) -> Engine:
        engine = Work.engine(self, choice, size_bytes)
        if isinstance(engine, LocalEngine):
            return CountedEngine(engine, self.steps, self.step)
        return engine


def _session(name: str, steps: Steps) -> Any:
    from lakewright.storage.spark import build_session

    steps.begin("starting Spark")
    session = build_session(f"lakewright {name}")
    steps.begin(name)
    return session


# --- options -----------------------------------------------------------------------------------


def _argument(field: OptionField, shown: str) -> click.Argument:
    several = get_origin(_present(field.type)) is tuple
    return click.Argument([field.name], metavar=shown, required=False, nargs=-1 if several else 1)


def _option(field: OptionField, flag: str | None) -> click.Option:
    kind = _present(field.type)
    spelled = flag or "--" + field.name.removesuffix("_ms").replace("_", "-")
    settings: dict[str, Any] = {"help": field.text}
    if field.name.endswith("_ms"):
        settings.update(type=age_ms, metavar="AGE")
    elif kind is bool:
        settings.update(is_flag=True)
    elif kind == Partitions:
        spelled = "--partition"
        settings.update(type=partition, metavar="K=V,…", multiple=True)
        settings["help"] += " Null is __DEFAULT_PARTITION__; a JSON object does too."
    elif kind == tuple[int, ...]:
        spelled = spelled.removesuffix("s")
        settings.update(type=FROM_0, metavar="N", multiple=True)
    elif get_origin(kind) is tuple:
        settings.update(type=names, metavar="A,B")
    elif isinstance(kind, type) and issubclass(kind, Enum):
        # A command works where it was called, unless it is told otherwise.
        default = EngineChoice.LOCAL if kind is EngineChoice else field.default
        choice = click.Choice([each.value for each in kind])
        settings.update(type=choice, default=default.value, show_default=True)
    else:
        settings.update(type=FROM_1 if kind is int else str, metavar="N" if kind is int else "TEXT")
    made = HowOption if field.at_run else click.Option
    return made([spelled, field.name], **settings)


def _value(field: OptionField, given: Any, table: Table) -> Any:
    """What was given, as the verb takes it; its default where nothing was."""
    kind = _present(field.type)
    if given is None or given == ():
        return field.default
    if kind == Partitions:
        null = table.options.partition_default_name
        return tuple(
            {name: None if text == null else text for name, text in spec.items()} for spec in given
        )
    if isinstance(given, list):
        return tuple(given)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(given)
    return given


def _present(kind: Any) -> Any:
    """A type without the None that stands beside it."""
    if get_origin(kind) not in (Union, UnionType):
        return kind
    (present,) = (each for each in get_args(kind) if each is not NoneType)
    return present
