"""Makes commands of the platform's verbs: options, plan, lease, run and report.

A verb says all that is its own: its words, options, examples, and report.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from lakewright.cli.exit_codes import CONFLICT
from lakewright.cli.grammar.call import Call, command_word
from lakewright.cli.grammar.command import Described, command, dry_run_option
from lakewright.cli.output.answers import Answer
from lakewright.cli.output.progress import Steps, shown_steps
from lakewright.cli.output.report_text import report_record, report_text
from lakewright.cli.upkeep.gate import workspace_of
from lakewright.cli.upkeep.parameters import parameters, read_options
from lakewright.cli.upkeep.plan_files import plan_data, read_plan, save_plan
from lakewright.cli.upkeep.project_paths import project_paths
from lakewright.platform.documents.variables import TABLES_VARIABLE
from lakewright.platform.ledger.recording import Recorder
from lakewright.platform.upkeep.deletions import UNDO_RUN
from lakewright.platform.upkeep.procedure import AnyProcedure, Outcome, Report, Work
from lakewright.storage import Table


def verb_command(verb: AnyProcedure) -> Described:
    """The command of a verb.

    Where a declared table has a verb of its own, `--tables` names the declarations.
    """
    spelled = verb.command
    assert spelled is not None
    of_declared = spelled.of_declared

    def run(call: Call, tables: tuple[Path, ...] = (), **given: Any) -> Answer | None:
        table = call.table()
        chosen = read_options(verb.options, given, table)
        declaration = workspace_of(tables, ()).declaration(table.name) if tables else None
        own = verb
        if of_declared is not None and declaration is not None:
            own = of_declared(declaration)
        return run_verb(own, call, table, chosen)

    run.__doc__ = f"{verb.summary[0].upper()}{verb.summary[1:]}."
    made = command(
        spelled.words or command_word(verb.name),
        plans=spelled.saves_plans,
        examples=spelled.examples,
        notes=spelled.notes,
    )(run)
    own = parameters(verb.options)
    if not spelled.saves_plans:
        own.append(dry_run_option())
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
    verb: AnyProcedure,
    call: Call,
    table: Table,
    options: object,
) -> Answer | None:
    """Carry a verb out as a call asks for; None if the plan itself was printed."""
    # Told after the progress, which has the terminal to itself.
    warnings: list[str] = []
    # Where a project keeps tables by policies, what was done by hand is asked for, too.
    is_kept = bool(project_paths("policies"))
    recorder = Recorder.of(call.catalog(), warn=warnings.append, make=is_kept)
    run = table.table_files.env.new_id()[:8]
    try:
        outcome = _carried_out(verb, call, table, options, recorder, run)
        report = verb.report(table, outcome)
        if outcome.result is None:
            report = recorder.foretell(verb, table, outcome, report)
    finally:
        for warning in warnings:
            sys.stderr.write(f"lakewright: warning: {warning}\n")
    if outcome.result is None:
        answer = _planned(verb, call, table, outcome.plan, report)
        code = _exit_code(verb, outcome) if call.dry_run else 0
        return None if answer is None else replace(answer, code=code)
    told = tuple(note.replace(UNDO_RUN, f"undo {run}") for note in report.notes)
    report = replace(report, notes=told)
    return Answer(
        text=lambda: report_text(report, table.schema),
        value=lambda: {
            "operation": call.command,
            "table": table.name,
            **report_record(report),
        },
        code=CONFLICT if report.was_beaten else _exit_code(verb, outcome),
    )


def _exit_code(verb: AnyProcedure, outcome: Outcome[Any, Any, Any]) -> int:
    return 0 if verb.command is None else verb.command.exit_code(outcome)


def _carried_out(
    verb: AnyProcedure, call: Call, table: Table, options: object, recorder: Recorder, run: str
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
                run=f"lakewright {call.command} ({run})",
                session=lambda: _session(call.command, steps),
                counts=_Bar(steps, call.command),
            ),
            plan=read_plan(call, table, verb),
            dry_run=call.only_plans,
            planned=lambda _: steps.begin(call.command),
            stepped=stepped,
        )


def _planned(
    verb: AnyProcedure, call: Call, table: Table, plan: Any, report: Report
) -> Answer | None:
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
    parts = data.get("tasks") or data.get("files")
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
