"""All commands by purpose: a new command is a module of `commands` and a line here.

The commands of verbs stand in an index of the verbs, since help imports no command.
"""

from __future__ import annotations

from importlib import import_module

import click
from click.shell_completion import CompletionItem

from lakewright import __version__
from lakewright.cli.grammar.command import MOST_COLUMNS, DescribedGroup, warehouse_option
from lakewright.cli.grammar.guesses import ALIASES, hint
from lakewright.cli.grammar.verb_index import VERB_INDEX, IndexedVerb

_OWN: dict[str, dict[str, str]] = {
    "Look": {
        "ls": "the tables of the warehouse",
        "adopt": "the health of every table, and a policy file",
        "sync": "register the warehouse's tables in a catalog's database",
        "show": "a table: schema, keys, options, contents, health",
        "read": "rows, with an optional filter, as a table, JSON or CSV",
        "sql": "statements: INSERT, ALTER TABLE, SHOW PARTITIONS, …",
        "lookup": "the rows of single keys",
        "inspect": "system tables, and what changed between two states",
        "snapshots": "the snapshots of a table",
        "files": "the data files of a table, or those that a filter reads",
        "partitions": "the partitions of a table",
        "explain": "the upkeep policy of a table, and the lines that decided",
    },
    "Rows": {
        "replay-rejects": "bad rows that were kept, tried again",
    },
    "Upkeep": {
        "top": "watch a warehouse: what is due, and what was done",
        "upkeep": "carry out what is due in the whole warehouse",
        "alter": "change the schema: columns, types, options",
        "evolve-schema": "change the schema of a table to its declaration",
        "diff": "what a declaration or contract would change and break",
        "export-contract": "a table as a data contract (ODCS)",
        "retention": "what other retention times would free and lose",
        "condemned": "files marked for deletion: list, put back, collect",
        "undo": "take back everything that a run did",
    },
    "Record": {
        "ledger": "the actions of upkeep, with what each took and gained",
        "trend": "the health of tables over time",
        "reads": "how often tables are read, from query logs",
        "savings": "what upkeep cost and saved, predicted and actual",
        "report": "one HTML page: state, debt, cost, savings, each table",
        "metrics": "what upkeep did and saved, for Prometheus",
    },
    "Partitions": {
        "backfill": "write many partitions from the source, in one run",
    },
    "References": {
        "tag": "names of snapshots, which then outlive expiry",
        "branch": "further histories that share a table's files",
        "consumer": "the positions of readers of changes",
        "changelog": "the changes that outlive their snapshots",
        "backup": "copies of a table: their files, checks, restoring",
    },
    "External data": {
        "format-table": "folders of plain files, such as CSV, as tables",
        "connectors": "connectors of external tables, and their options",
        "formats": "formats of external tables, and their options",
    },
    "In progress": {
        "stream": "rows that arrive, written batch by batch, each once",
        "relay": "what was committed, published in the table's log",
        "pending": "batches that wait to be committed",
        "lease": "the processes that work on a table",
    },
    "Workspace": {
        "init": "a project with an example table, ready to run",
        "declare": "a declaration proposed from a file or a query",
        "check": "what is wrong in files of declarations and policies",
        "yaml-schema": "the JSON Schema of these files, for editors",
        "demo": "a tour with a year of real flights",
        "up": "the Dagster UI",
        "mcp": "answers for agents, over the Model Context Protocol",
        "completion": "shell completion of commands and tables",
    },
}
# Commands that do something come before those of verbs, as in `upkeep`, and look after them.
COMMANDS = {
    purpose: {
        **own,
        **{word: each.summary for word, each in VERB_INDEX.items() if each.purpose == purpose},
    }
    for purpose, own in _OWN.items()
}
_NOTES = """
Commands that change a table take --dry-run, which prints what would be done; --save-plan FILE,
which saves it as a plan; and --plan FILE, which carries out a saved plan.

Exit codes:
  0    done
  1    `alter --dry-run` and `diff`: allowed with warnings; `validate-schema`: rows do not fit;
       `evolve-schema`: changes wait for a person, or for `respec`
  2    the request is wrong: an option, a name, a filter, an invalid plan, or a function of yours
       that failed
  3    no such warehouse, database, table, snapshot, tag, branch, consumer or file
  4    the table or store needs a feature that is not implemented, or the command a package that
       is not installed; nothing was changed
  5    another commit came first, or the plan is stale: plan again
  6    files contradict the format or each other: a person must look
  7    the store did not answer, or another process works on that part of the table; or it
       is unknown whether the commit was made
  8    the store refuses the credentials
  70   unexpected: please report it
  130  interrupted
  141  the reader of the output closed it
  143  terminated by SIGTERM; as after an interruption, what was begun is cleaned up
In `alter --dry-run` and `diff`, 2 is also a change that is denied, in `check` a file that is wrong.
"""
_EXAMPLES = """
lakewright --warehouse ./warehouse show nyc.flights
lakewright compact nyc.flights --full --dry-run
"""


class Root(DescribedGroup):
    """The group of all commands; each is loaded at its first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for commands in COMMANDS.values() for name in commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        if cmd_name in VERB_INDEX:
            return _verb_command(VERB_INDEX[cmd_name])
        name = cmd_name.replace("-", "_")
        found: click.Command = getattr(import_module(f"lakewright.cli.commands.{name}"), name)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] == "help":
            if not args[1:]:
                click.echo(ctx.get_help())
                ctx.exit()
            args = [*args[1:], "--help"]
        # Messages and records then name the command itself.
        asked = [ALIASES.get(args[0], args[0]), *args[1:]]
        try:
            return super().resolve_command(ctx, asked)
        except click.exceptions.NoSuchCommand as error:
            told = hint(args[0])
            if told is not None:
                raise click.UsageError(told, ctx) from None
            # Click would look for similar names only among the loaded commands.
            raise click.exceptions.NoSuchCommand(
                error.command_name, possibilities=self.list_commands(ctx), ctx=ctx
            ) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, self.list_commands(ctx)))
        for purpose, commands in COMMANDS.items():
            with formatter.section(purpose):
                formatter.write_dl([(name.ljust(widest), says) for name, says in commands.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = [
            CompletionItem(name, help=says)
            for commands in COMMANDS.values()
            for name, says in commands.items()
            if name.startswith(incomplete)
        ]
        # The completion of a group would load every command.
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]


def _verb_command(indexed: IndexedVerb) -> click.Command:
    from lakewright.cli.upkeep.verbs import verb_command

    return verb_command(getattr(import_module(indexed.module), indexed.constant))


def _say_version(ctx: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if is_asked and not ctx.resilient_parsing:
        click.echo(f"lakewright {__version__}")
        ctx.exit()


_VERSION = click.Option(
    ["--version"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_say_version,
    help="Print name and version.",
)
ROOT = Root(
    "lakewright",
    params=[warehouse_option(is_root=True), _VERSION],
    help="Inspect and maintain Apache Paimon tables.",
    notes=_NOTES,
    examples=_EXAMPLES,
    no_args_is_help=True,
    subcommand_metavar="COMMAND [TABLE] …",
    context_settings={"max_content_width": MOST_COLUMNS},
)
