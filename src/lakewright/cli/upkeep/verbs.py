"""Makes commands of the platform's verbs: options, plan, lease, run and report.

A verb defines its options and its report. A command defines the spelling of the options.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, get_origin

import click

from lakewright.cli.exit_codes import CONFLICT
from lakewright.cli.grammar.call import Call, named_partitions
from lakewright.cli.grammar.command import Described, HowOption, command
from lakewright.cli.grammar.options import FROM_0, FROM_1
from lakewright.cli.grammar.values import age_ms, names, names_or_none, partition, size_bytes
from lakewright.cli.output.answers import Answer
from lakewright.cli.output.progress import Steps, shown_steps
from lakewright.cli.output.report_text import report_record, report_text
from lakewright.cli.upkeep.gate import workspace_of
from lakewright.cli.upkeep.plan_files import plan_data, read_plan, save_plan
from lakewright.platform.declare.declarations import TableDeclaration
from lakewright.platform.declare.upkeep_policies import EngineChoice
from lakewright.platform.declare.variables import TABLES_VARIABLE
from lakewright.platform.upkeep.rewrites import Partitions
from lakewright.platform.upkeep.verb import (
    AnyVerb,
    OptionField,
    Outcome,
    Report,
    Work,
    option_fields,
)
from lakewright.platform.warehouse.recording import Recorder
from lakewright.storage import Table

# What help calls the value of an option, where TEXT would say too little.
_METAVARS = {"where": "EXPR"}


def verb_command(
    verb: AnyVerb,
    *,
    examples: str,
    name: str | None = None,
    notes: str = "",
    flags: Mapping[str, str] | None = None,
    arguments: Mapping[str, str] | None = None,
    code_of_result: Callable[[Any], int] = lambda _: 0,
    of_declared: Callable[[TableDeclaration], AnyVerb] | None = None,
) -> Described:
    """The command of a verb.

    `flags` rename options. `arguments` are positional options, with their names in help.
    `code_of_result` is the exit code of a run. Where a declared table has a verb of its own,
    `of_declared` makes it, and `--tables` names the declarations.
    """
    options = option_fields(verb.options)

    def run(call: Call, tables: tuple[Path, ...] = (), **given: Any) -> Answer | None:
        table = call.table()
        chosen = {each.name: _value(each, given[each.name], table) for each in options}
        declaration = workspace_of(tables, ()).declaration(table.name) if tables else None
        own = verb
        if of_declared is not None and declaration is not None:
            own = of_declared(declaration)
        return run_verb(own, call, table, verb.options(**chosen), code_of_result=code_of_result)

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
    if of_declared is not None:
        own.append(
            click.Option(
                ["--tables"],
                metavar="PATH",
                type=click.Path(path_type=Path),
                multiple=True,
                envvar=TABLES_VARIABLE,
                help="Declarations: partitions are named as those of the table's asset "
                f"(default: ${TABLES_VARIABLE}).",
            )
        )
    # After the table.
    made.params[1:1] = sorted(own, key=lambda each: isinstance(each, click.Option))
    return made


def run_verb(
    verb: AnyVerb,
    call: Call,
    table: Table,
    options: object,
    *,
    code_of: Callable[[Any], int] = lambda _: 0,
    code_of_result: Callable[[Any], int] = lambda _: 0,
) -> Answer | None:
    """Carry a verb out as a call asks for; None if the plan itself was printed.

    `code_of` is the exit code of a dry run with a plan, and `code_of_result` that of a run.
    """
    # Told after the progress, which has the terminal to itself.
    warnings: list[str] = []
    recorder = Recorder.of(call.catalog(), warn=warnings.append)
    try:
        outcome = _carried_out(verb, call, table, options, recorder)
        report = verb.report(table, outcome)
        if outcome.result is None:
            report = recorder.foretell(verb, table, outcome, report)
    finally:
        for warning in warnings:
            sys.stderr.write(f"lakewright: warning: {warning}\n")
    if outcome.result is None:
        answer = _planned(verb, call, table, outcome.plan, report)
        code = code_of(outcome.plan) if call.dry_run else 0
        return None if answer is None else replace(answer, code=code)
    return Answer(
        text=lambda: report_text(report, table.schema),
        value=lambda: {
            "operation": call.command,
            "table": table.name,
            **report_record(report),
        },
        code=CONFLICT if report.was_beaten else code_of_result(outcome.result),
    )


def _carried_out(
    verb: AnyVerb, call: Call, table: Table, options: object, recorder: Recorder
) -> Outcome[Any, Any, Any]:
    with shown_steps() as steps:
        steps.begin(f"planning {call.command}")

        def stepped(done: Outcome[Any, Any, Any]) -> None:
            told = f"{call.command}: {verb.report(table, done).summary}"
            extent = None if verb.extent is None else verb.extent(done)
            if extent is None:
                steps.begin(told)
            else:
                steps.reach(told, extent.done, extent.total)

        return recorder.carry_out(
            verb,
            table,
            options,
            Work(
                run=f"lakewright {call.command} ({table.table_files.env.new_id()[:8]})",
                session=lambda: _session(call.command, steps),
                counts=_Bar(steps, call.command),
                warn=recorder.warn,
            ),
            plan=read_plan(call, table, verb),
            dry_run=call.only_plans,
            planned=lambda _: steps.begin(call.command),
            stepped=stepped,
        )


def _planned(verb: AnyVerb, call: Call, table: Table, plan: Any, report: Report) -> Answer | None:
    """Show a plan, and save it if requested."""
    data = plan_data(call, verb, plan, report_record(report))
    said = "dry run: nothing was written"
    if call.save_plan is not None:
        save_plan(call.save_plan, data)
        if call.save_plan == "-":
            return None
        file, name = shlex.quote(call.save_plan), shlex.quote(call.table_name)
        words = f"lakewright {call.command} {name} --plan {file}"
        said = f"plan saved, nothing else was written; carry it out with: {words}"
    return Answer(
        text=lambda: [*report_text(report, table.schema), said],
        value=lambda: data,
        records=lambda: _parts(data) if report.rows is None else report.rows,
    )


def _parts(data: dict[str, object]) -> Sequence[Mapping[str, object]]:
    """The rows of a plan: its tasks or its files, otherwise its figures."""
    inner = data.get("files")
    parts = data.get("tasks") or (inner.get("tasks") if isinstance(inner, dict) else inner)
    summary = data["summary"]
    assert isinstance(summary, dict)
    return parts if isinstance(parts, list) and parts else [summary]


@dataclass(frozen=True, slots=True)
class _Bar:
    """Tasks, in this process or on Spark, counted on a terminal."""

    steps: Steps
    step: str

    def begin(self, total: int) -> None:
        self.steps.begin(self.step, total)

    def advance(self) -> None:
        self.steps.advance()

    def reach(self, done: int, of: str, total: int | None = None) -> None:
        told = f"{done:,} {of}" if total is None else of
        self.steps.reach(f"{self.step}: {told}", done, total)


def _session(name: str, steps: Steps) -> Any:
    from lakewright.storage.spark import build_session

    steps.begin("starting Spark")
    session = build_session(f"lakewright {name}")
    steps.begin(name)
    return session


# --- options -----------------------------------------------------------------------------------


def _argument(field: OptionField, shown: str) -> click.Argument:
    several = get_origin(field.kind) is tuple
    return click.Argument([field.name], metavar=shown, required=False, nargs=-1 if several else 1)


def _option(field: OptionField, flag: str | None) -> click.Option:
    kind = field.kind
    spelled = flag or "--" + field.written_name.replace("_", "-")
    settings: dict[str, Any] = {"help": field.text}
    if field.is_duration:
        settings.update(type=age_ms, metavar="AGE")
    elif field.is_size:
        settings.update(type=size_bytes, metavar="SIZE")
    elif kind is bool:
        settings.update(is_flag=True)
    elif kind == Partitions:
        spelled = flag or "--partition"
        settings.update(type=partition, metavar="K=V,…", multiple=True)
        settings["help"] += " Null is __DEFAULT_PARTITION__; a JSON object does too."
    elif kind == tuple[int, ...]:
        spelled = spelled.removesuffix("s")
        settings.update(type=FROM_0, metavar="N", multiple=True)
    elif get_origin(kind) is tuple:
        # Where nothing given means something else than no names, no names can be given.
        settings.update(type=names if field.default == () else names_or_none, metavar="A,B")
    elif isinstance(kind, type) and issubclass(kind, Enum):
        # A command works where it was called, unless it is told otherwise.
        default = EngineChoice.LOCAL if kind is EngineChoice else field.default
        choice = click.Choice([each.value for each in kind])
        settings.update(type=choice, default=default.value, show_default=True)
    else:
        settings.update(
            type=FROM_1 if kind is int else str,
            metavar="N" if kind is int else _METAVARS.get(field.name, "TEXT"),
        )
    made = HowOption if field.at_run else click.Option
    return made([spelled, field.name], **settings)


def _value(field: OptionField, given: Any, table: Table) -> Any:
    """What was given, as the verb takes it; its default where nothing was."""
    kind = field.kind
    if given is None or given == ():
        return field.default
    if kind == Partitions:
        return named_partitions(table, given)
    if isinstance(given, list):
        return tuple(given)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(given)
    return given
