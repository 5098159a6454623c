"""The form of every command: `lakewright VERB TABLE [options]`, and help with examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from lakewright.cli.grammar.call import Call
from lakewright.platform.documents.variables import DEFAULT_WAREHOUSE, WAREHOUSE_VARIABLE

if TYPE_CHECKING:
    from lakewright.cli.output.answers import Answer

# Longer lines of help are hard to read, even on a wide terminal.
MOST_COLUMNS = 100

Runner = Callable[..., "Answer | None"]


class Described(click.Command):
    """A command whose help ends with notes and examples, printed line by line as given."""

    def __init__(self, *args: Any, notes: str = "", examples: str = "", **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.notes = notes
        self.examples = examples

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse an option that is given twice and has one value: the first would be dropped."""
        try:
            return self._parse(ctx, args)
        except click.NoSuchOption as error:
            # Policies and Paimon have names of their own for what the option says.
            name = error.option_name.lstrip("-").replace("-", "_")
            options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
            meant = [option.opts[0] for option in options if (option.name or "").startswith(name)]
            if not name or error.possibilities or not meant:
                raise
            told = f"{error.format_message().rstrip('.')}. Did you mean {meant[0]!r}?"
            raise click.NoSuchOption(error.option_name, told, ctx=error.ctx) from None

    def _parse(self, ctx: click.Context, args: list[str]) -> list[str]:
        seen: set[str] = set()
        for each in self.make_parser(ctx).parse_args(list(args))[2] if args else ():
            is_one = isinstance(each, click.Option) and not (each.multiple or each.is_flag)
            if is_one and each.name in seen:
                raise click.UsageError(
                    f"{each.opts[0]} is given twice, and has one value; write it once", ctx
                )
            seen.add(each.name or "")
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, text in (("", self.notes), ("Examples", self.examples)):
            lines = text.strip("\n").splitlines()
            if not lines:
                continue
            formatter.write_paragraph()
            if heading:
                formatter.write_heading(heading)
            formatter.write("".join(f"  {line}".rstrip() + "\n" for line in lines))


class HowOption(click.Option):
    """An option that changes how a plan is shown or run, not what is planned."""


class DescribedGroup(Described, click.Group):
    """A command whose verbs are commands too."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [
            (name, each.get_short_help_str(limit=MOST_COLUMNS))
            for name, each in self.commands.items()
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class TableName(click.ParamType[str]):
    """The name of a table; shells complete it from the warehouse."""

    name = "table"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from lakewright.storage import Catalog, StorageError

        try:
            catalog = Catalog.open(warehouse_of(ctx))
            tables = [
                f"{db}.{table}"
                for db in catalog.list_databases()
                for table in catalog.list_tables(db)
            ]
        except StorageError:
            return []
        return [CompletionItem(table) for table in tables if table.startswith(incomplete)]


def warehouse_of(context: click.Context) -> str:
    """The warehouse: the option after the command, before it, the environment, or the default."""
    own: str | None = context.params.get("warehouse")
    return own or context.find_root().params.get("warehouse") or DEFAULT_WAREHOUSE


def warehouse_option(*, is_root: bool) -> click.Option:
    """`--warehouse`, allowed before and after the command."""
    return HowOption(
        ["--warehouse"],
        metavar="URI",
        envvar=WAREHOUSE_VARIABLE if is_root else None,
        help=f"Path or URI of the warehouse (default: ${WAREHOUSE_VARIABLE}, "
        f"else {DEFAULT_WAREHOUSE}).",
    )


def _form_option(file_forms: Sequence[str]) -> click.Option:
    """`--format`."""
    files = f"; {', '.join(file_forms)} only for a file" if file_forms else ""
    return HowOption(
        ["--format", "form"],
        type=click.Choice(["table", "json", "csv", *file_forms]),
        default="table",
        help=f"A table for people (the default), or JSON or CSV for programs{files}.",
    )


def dry_run_option() -> click.Option:
    """`--dry-run`."""
    return HowOption(["--dry-run"], is_flag=True, help="Print what would be done; write nothing.")


def plan_options() -> list[click.Option]:
    """`--dry-run`, `--save-plan`, `--plan`."""
    return [
        dry_run_option(),
        HowOption(
            ["--save-plan"],
            metavar="FILE",
            type=click.Path(allow_dash=True),
            help="Write the plan to a file (- for standard output) and do nothing else.",
        ),
        HowOption(
            ["--plan"],
            metavar="FILE",
            type=click.Path(allow_dash=True),
            help="Carry out a saved plan (- for standard input).",
        ),
    ]


def command(
    name: str,
    *,
    examples: str,
    notes: str = "",
    of_table: bool = True,
    of_form: bool = True,
    file_forms: Sequence[str] = (),
    plans: bool = False,
) -> Callable[[Runner], Described]:
    """Turn a function into a command; its docstring is the help, its decorators are options.

    The function gets a `Call` and the values of its own options; its answer is printed.
    """

    def build(run: Runner) -> Described:
        own: list[click.Parameter] = list(reversed(getattr(run, "__click_params__", [])))
        params: list[click.Parameter] = [warehouse_option(is_root=False)]
        if of_form:
            params.insert(0, _form_option(file_forms))
        if plans:
            params[:0] = plan_options()
        if of_table:
            own.insert(0, click.Argument(["table_name"], metavar="TABLE", type=TableName()))

        def callback(**given: Any) -> int:
            context = click.get_current_context()
            given["warehouse"] = warehouse_of(context)
            told = {each: given.pop(each) for each in Call.__slots__ if each in given}
            call = Call(command=_words(context), **told)
            answer = run(call, **given)
            return 0 if answer is None else answer.print(call.form)

        return Described(
            name,
            params=[*own, *params],
            callback=callback,
            help=run.__doc__,
            notes=notes,
            examples=examples,
            context_settings={"max_content_width": MOST_COLUMNS},
        )

    return build


def group(
    name: str, summary: str, commands: Sequence[Described], *, notes: str = ""
) -> DescribedGroup:
    """A command whose verbs are commands."""
    return DescribedGroup(
        name,
        commands=commands,
        subcommand_metavar="COMMAND TABLE …",
        help=summary,
        notes=notes,
        examples="\n".join(each.examples.strip().splitlines()[0] for each in commands),
        context_settings={"max_content_width": MOST_COLUMNS},
    )


def _words(context: click.Context) -> str:
    return context.command_path.split(" ", 1)[-1]
