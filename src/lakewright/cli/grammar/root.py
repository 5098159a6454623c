"""All commands by purpose: a new command is a module of `commands` and a line here."""

from __future__ import annotations

from importlib import import_module

import click
from click.shell_completion import CompletionItem

from lakewright import __version__
from lakewright.cli.grammar.command import MOST_COLUMNS, DescribedGroup, warehouse_option
from lakewright.cli.grammar.guesses import ALIASES, hint

# Help describes commands by these words, so it imports no command.
COMMANDS: dict[str, dict[str, str]] = {
    "Look": {
        "ls": "the tables of the warehouse",
        "adopt": "the health of every table, and a policy file",
        "sync": "list in a catalog's database what lies in the warehouse",
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
    "Upkeep": {
        "top": "watch a warehouse: what is due, and what was done",
        "upkeep": "carry out what is due in the whole warehouse",
        "alter": "change the schema: columns, types, options",
        "evolve-schema": "change the schema of a table to its declaration",
        "diff": "what a declaration or contract would change and break",
        "export-contract": "a table as a data contract (ODCS)",
        "validate-schema": "read samples of old rows under the current schema",
        "compact": "merge small files into fewer, larger ones",
        "sort-compact": "sort rows, so that filters skip files",
        "rescale": "change the number of buckets",
        "respec": "change the partition keys of a live table",
        "postpone-compact": "assign postponed rows to buckets",
        "rewrite-manifests": "merge manifests, so that plans of reads open fewer",
        "expire-snapshots": "delete old snapshots, and the files that only they need",
        "retention": "what other retention times would free and lose",
        "remove-orphans": "set aside files that no reference keeps",
        "quarantine": "the files that were set aside: list, restore, purge",
        "analyze": "compute and publish statistics of columns",
        "restore": "take back all that a run did",
        "undo": "the same as restore",
    },
    "Record": {
        "history": "the actions of upkeep, with what each took and gained",
        "ledger": "the same as history",
        "trend": "the health of tables over time",
        "reads": "how often tables are read, as query logs tell",
        "savings": "what upkeep cost and saved, predicted and actual",
        "report": "one HTML page: state, debt, cost, savings, each table",
        "replay": "what another policy would have cost and gained",
        "metrics": "the same for Prometheus",
    },
    "Partitions": {
        "backfill": "write many partitions from the source, in one run",
        "add-partitions": "take over folders of files of other systems",
        "repair-partitions": "compare with the folders that were taken over",
        "drop-partitions": "drop whole partitions",
        "expire-partitions": "drop the partitions that are past their time",
        "rename-partition": "give the rows of a partition other values of its keys",
        "exchange-partition": "move partitions of another table to this one",
        "mark-done": "mark partitions as done, by a success file",
    },
    "References": {
        "tag": "names of snapshots, which then outlive expiry",
        "branch": "further histories that share a table's files",
        "rollback": "return to an earlier snapshot; later ones are deleted",
        "revert": "take back what snapshots did; later ones stay",
        "consumer": "the positions of readers of changes",
        "changelog": "the changes that outlive their snapshots",
    },
    "Plain files": {
        "format-table": "folders of plain files, such as CSV, as tables",
    },
    "Work under way": {
        "stream": "rows that arrive, written batch by batch, each once",
        "pending": "batches that wait to be committed",
        "lease": "the processes that work on a table",
    },
    "Workspace": {
        "check": "what is wrong in files of declarations and policies",
        "yaml-schema": "the JSON Schema of these files, for editors",
        "demo": "a tour with a year of real flights",
        "up": "the Dagster UI",
        "mcp": "answers for agents, over the Model Context Protocol",
        "completion": "shell completion of commands and tables",
    },
}
# Commands with a second name: the module is that of the other one.
SAME = {"history": "ledger", "restore": "undo"}
_NOTES = """
Commands that change a table take --dry-run, which prints what would be done; --save-plan FILE,
which saves it as a plan; and --plan FILE, which carries out a saved plan.

Exit codes:
  0    done
  1    `alter --dry-run` and `diff`: allowed with warnings; `validate-schema`: rows do not fit
  2    the request is wrong: an option, a name, a filter, an invalid plan, or a function of yours
       that failed
  3    no such warehouse, database, table, snapshot, tag, branch, consumer or file
  4    the table or store needs a feature that is not implemented; nothing was changed
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
        name = SAME.get(cmd_name, cmd_name).replace("-", "_")
        found: click.Command = getattr(import_module(f"lakewright.cli.commands.{name}"), name)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
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
