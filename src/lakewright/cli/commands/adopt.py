"""`lakewright adopt`: the state of every table of a warehouse, and one policy file for them."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command
from lakewright.cli.output.answers import Answer
from lakewright.cli.output.progress import shown_steps
from lakewright.cli.output.tables import Block, Heading, TextColumn, TextTable
from lakewright.cli.output.text import Cell, printable
from lakewright.platform.upkeep.words import counted, size_text

if TYPE_CHECKING:
    from lakewright.platform.decide.survey import TableSurvey

_COLUMNS = (
    TextColumn("table"),
    TextColumn("kind", minor=True),
    TextColumn("files", right=True, minor=True),
    TextColumn("size", right=True, minor=True),
    TextColumn("partitions", right=True, minor=True),
    TextColumn("snapshots", right=True, minor=True),
    TextColumn("debt", right=True),
    TextColumn("what is wrong"),
)
_NOTES = """
Reads metadata alone, and without --moved-from writes nothing to the warehouse. Debt counts files
that upkeep could take away: files to join, snapshots above a hundred, small manifests, and files
that the latest snapshot does not name. The last are estimated from a few folders; older snapshots
may need them.
"""


@command(
    "adopt",
    of_table=False,
    notes=_NOTES,
    examples="""
lakewright adopt s3://lake/warehouse
lakewright adopt thrift://metastore:9083 --policy policies/warehouse.yaml
lakewright adopt ./warehouse --policy policies/warehouse.yaml
lakewright adopt ./warehouse --tables 'sales.*' --format json
lakewright adopt s3://new-lake/warehouse --moved-from s3://lake/warehouse
""",
)
@click.argument("uri", required=False)
@click.option(
    "--policy",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Write the proposed policy file there; an existing file is never overwritten.",
)
@click.option(
    "--tables",
    "pattern",
    metavar="PATTERN",
    default="*",
    help="Only tables whose name database.table fits, such as 'sales.*'.",
)
@click.option(
    "--moved-from",
    metavar="PLACE",
    help="The warehouse was moved or copied from this URI or path: name the files that tables name "
    "there where they lie now, in one snapshot a table, before anything else.",
)
def adopt(
    call: Call, *, uri: str | None, policy: str | None, pattern: str, moved_from: str | None
) -> Answer | None:
    """Examine every table of a warehouse, and propose a policy file for their upkeep."""
    from lakewright.platform.decide.debt import worst_first
    from lakewright.platform.decide.proposal import propose

    call = call if uri is None else replace(call, warehouse=uri)
    _check_is_new(policy)
    where = call.place()
    if moved_from is not None:
        _name_moved(call, moved_from, pattern)
    if call.form == "json" and policy is None:
        # One line after the other: a large warehouse need not be held.
        for survey in _surveys(call, pattern):
            print_line(survey)
        return None
    surveys = list(_surveys(call, pattern))
    if policy is not None:
        _write_new(policy, propose(surveys, warehouse=where))
    if call.form == "json":
        for survey in surveys:
            print_line(survey)
        return None
    return Answer(
        text=lambda: _text(worst_first(surveys), call, pattern, policy),
        value=lambda: [survey_record(survey) for survey in surveys],
        records=lambda: [_flat(survey_record(survey)) for survey in surveys],
    )


def _name_moved(call: Call, moved_from: str, pattern: str) -> None:
    """Name files of a moved warehouse where they lie now; says on stderr what was done."""
    from lakewright.platform.decide.moved_warehouse import name_moved_tables

    moved = list(name_moved_tables(call.catalog(), moved_from, pattern=pattern))
    for each in moved:
        done = each.problem or f"{counted(each.files, 'file')} named where they lie now"
        if each.tags:
            done += (
                f"; {counted(len(each.tags), 'tag')} ({', '.join(each.tags)}) can be read in the "
                "former place alone: tags stay as they were made"
            )
        click.echo(f"{each.table}: {done}", err=True)
    if not moved:
        click.echo(
            f"no table names files below {moved_from}: all are named where they lie now, or it is "
            "not the place that the warehouse had",
            err=True,
        )


def _surveys(call: Call, pattern: str) -> Iterator[TableSurvey]:
    from lakewright.platform.decide.take_survey import survey_warehouse

    with shown_steps() as steps:
        yield from survey_warehouse(
            call.catalog(),
            pattern=pattern,
            started=lambda folders: steps.begin("looking at tables", folders),
            looked=steps.advance,
        )


def survey_record(survey: TableSurvey) -> dict[str, object]:
    """A survey as a JSON value, with its debt and what is wrong."""
    from lakewright.platform.decide.debt import debt_of, findings

    record = asdict(survey)
    # Partitions are not asked for here.
    del record["worst"]
    return {**record, "debt": asdict(debt_of(survey)), "findings": list(findings(survey))}


def print_line(survey: TableSurvey) -> None:
    """Print one JSON object on one line."""
    sys.stdout.write(json.dumps(survey_record(survey), ensure_ascii=False) + "\n")


def _flat(record: Mapping[str, object]) -> dict[str, object]:
    """One level of names: `files.rows`; other values as JSON."""
    found: dict[str, object] = {}
    for name, value in record.items():
        if isinstance(value, Mapping) and name not in ("options", "refused"):
            found |= {f"{name}.{below}": each for below, each in value.items()}
        elif isinstance(value, Mapping | list | tuple):
            found[name] = json.dumps(value, ensure_ascii=False)
        else:
            found[name] = value
    return found


def _check_is_new(policy: str | None) -> None:
    from lakewright.storage.errors import AlreadyExistsError, InvalidRequestError

    if policy is None:
        return
    if Path(policy).exists():
        raise AlreadyExistsError(
            f"{policy} exists and was left as it is; name another file, or move it away"
        )
    if not Path(policy).absolute().parent.is_dir():
        raise InvalidRequestError(
            f"{policy} cannot be written: there is no folder {Path(policy).absolute().parent}"
        )


def _write_new(policy: str, text: str) -> None:
    from lakewright.storage.errors import AlreadyExistsError, InvalidRequestError

    try:
        with Path(policy).open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise AlreadyExistsError(
            f"{policy} was created meanwhile and was left as it is; name another file"
        ) from None
    except OSError as error:
        raise InvalidRequestError(f"{policy} cannot be written: {error}") from None


def _text(
    surveys: Sequence[TableSurvey], call: Call, pattern: str, policy: str | None
) -> list[Block]:
    from lakewright.platform.decide.debt import findings

    if not surveys:
        of_pattern = "" if pattern == "*" else f" that fit {pattern}"
        return [f"no tables{of_pattern} in {call.place()}"]
    ill = [survey for survey in surveys if findings(survey)]
    blocks: list[Block] = []
    if ill:
        blocks.append(TextTable(_COLUMNS, [_cells(each) for each in ill]))
    if len(ill) < len(surveys):
        well = len(surveys) - len(ill)
        blocks.append(f"{counted(well, 'table')} {'has' if well == 1 else 'have'} nothing wrong.")
    return [*blocks, "", *_totals(surveys), "", *_next(ill, call.program, policy)]


def _cells(survey: TableSurvey) -> list[Cell]:
    from lakewright.platform.decide.debt import debt_of, findings

    wrong = "; ".join(findings(survey))
    if survey.problem is not None:
        return [survey.table, survey.kind or "-", "-", "-", "-", "-", "-", wrong]
    return [
        survey.table,
        survey.kind,
        survey.files.files,
        size_text(survey.files.bytes),
        survey.layout.partitions,
        survey.history.snapshots,
        debt_of(survey).files,
        wrong,
    ]


def _totals(surveys: Sequence[TableSurvey]) -> list[Block]:
    from lakewright.platform.decide.debt import total_debt

    debt = total_debt(surveys)
    read = [survey for survey in surveys if survey.problem is None]
    unread = len(surveys) - len(read)
    figures = (
        counted(sum(each.files.files for each in read), "file"),
        size_text(sum(each.files.bytes for each in read)),
        counted(sum(each.history.snapshots for each in read), "snapshot"),
    )
    lines = [
        f"{counted(len(surveys), 'table')}: {', '.join(figures)}",
        f"debt: {counted(debt.files, 'file')}; {size_text(debt.bytes)} to rewrite",
    ]
    if unread:
        lines.append(f"{counted(unread, 'table')} cannot be read, and would be frozen")
    return list(lines)


def _next(ill: Sequence[TableSurvey], program: str, policy: str | None) -> list[Block]:
    """The commands that help now."""
    commands = []
    if policy is None:
        commands.append(f"{program} adopt --policy warehouse.yaml")
    else:
        commands.append(f"{program} upkeep --policy {shlex.quote(policy)} --dry-run")
    worst = next((each for each in ill if each.problem is None and not each.read_only), None)
    if worst is not None:
        # Another person may have chosen the name, and the line is to be pasted into a shell.
        name = printable(shlex.quote(worst.table))
        if worst.files.mergeable_files:
            commands.append(f"{program} compact {name} --dry-run")
        if worst.history.snapshots > 1:
            commands.append(f"{program} expire-snapshots {name} --dry-run")
        if worst.orphans.estimated_files:
            commands.append(f"{program} remove-orphans {name} --dry-run")
    said: list[Block] = [] if policy is None else [f"wrote {policy}; it starts in shadow mode"]
    return [*said, Heading("next:"), *(f"  {each}" for each in commands)] if commands else said
