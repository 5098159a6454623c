"""All commands by purpose: a new command is a module of `commands` and a line here."""

from __future__ import annotations

from importlib import import_module

import click
from click.shell_completion import CompletionItem

from lakewright.cli.grammar.command import MOST_COLUMNS, DescribedGroup, warehouse_option

# Help describes commands by these words, so it imports no command.
COMMANDS: dict[str, dict[str, str]] = {
    "Look": {
        "ls": "the tables of the warehouse",
        "show": "a table: schema, keys, options, contents, health",
        "read": "rows, filtered, as a table, JSON or CSV",
        "lookup": "the rows of single keys",
        "inspect": "system tables, and what changed between two states",
        "snapshots": "the states of a table",
        "files": "its data files, or those that a filter opens",
        "partitions": "its partitions",
    },
    "Upkeep": {
        "compact": "small files into fewer, larger ones",
        "sort-compact": "rows in an order that lets filters skip files",
        "rescale": "another number of buckets",
        "postpone-compact": "postponed rows into buckets",
        "expire-snapshots": "old snapshots go, and files they alone need",
        "remove-orphans": "set aside files that nothing refers to",
        "quarantine": "what was set aside: list, restore, purge",
        "analyze": "compute and publish statistics of columns",
    },
    "References": {
        "tag": "names of states, which outlive expiry",
        "branch": "second histories that share a table's files",
        "rollback": "a table as it was; what came later goes",
        "consumer": "how far readers of changes have come",
        "changelog": "changes that outlived their snapshots",
    },
    "Work under way": {
        "pending": "batches that wait to be committed",
        "lease": "which process works on a table",
    },
    "Workspace": {
        "demo": "real flights through the whole of it",
        "up": "the Dagster UI",
        "completion": "completion of commands and tables in a shell",
    },
}
_NOTES = """
Commands that change a table take --dry-run, which says what would be done; --save-plan FILE,
which keeps that as a plan; and --plan FILE, which carries it out.

Exit codes:
  0    done
  1    unexpected: please report it
  2    the request is wrong: an option, a name, a filter, an invalid plan
  3    no such warehouse, database, table, snapshot, tag, branch, consumer or file
  4    the table or store needs a feature that is not implemented; nothing was touched
  5    another commit came first, or the plan is stale: plan again
  6    files contradict the format or each other: have a person look
  7    the store did not answer, or another process works on that part of the table; or the
       store did not say whether the commit was made
  8    the store wants other credentials
  130  interrupted
  141  the reader of the output went away
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
        name = cmd_name.replace("-", "_")
        found: click.Command = getattr(import_module(f"lakewright.cli.commands.{name}"), name)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
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


ROOT = Root(
    "lakewright",
    params=[warehouse_option(is_root=True)],
    help="Look at Apache Paimon tables, and keep them healthy.",
    notes=_NOTES,
    examples=_EXAMPLES,
    no_args_is_help=True,
    subcommand_metavar="COMMAND [TABLE] …",
    context_settings={"max_content_width": MOST_COLUMNS},
)
