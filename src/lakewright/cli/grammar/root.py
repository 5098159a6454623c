"""All commands by what they are for: a new one is a module of `commands` and its name here."""

from __future__ import annotations

from importlib import import_module

import click

from lakewright.cli.grammar.command import MOST_COLUMNS, DescribedGroup, warehouse_option

COMMANDS: dict[str, tuple[str, ...]] = {
    "Look": ("ls", "show", "read", "lookup", "inspect", "snapshots", "files", "partitions"),
    "Upkeep": (
        *("compact", "sort-compact", "rescale", "postpone-compact", "expire-snapshots"),
        *("remove-orphans", "quarantine", "analyze"),
    ),
    "References": ("tag", "branch", "rollback", "consumer", "changelog"),
    "Work under way": ("pending", "lease"),
    "Workspace": ("demo", "up", "completion"),
}
_NOTES = """
Commands that change a table take --dry-run, which says what would be done; --save-plan FILE,
which keeps that as a plan; and --plan FILE, which carries it out.

Exit codes:
  0    done
  1    unexpected: please report it
  2    the request is wrong: an option, a name, a filter, a plan that is none
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
    """The group of all commands, each of which is loaded when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for names in COMMANDS.values() for name in names]

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
            # Click looks for similar names among commands that were loaded.
            raise click.exceptions.NoSuchCommand(
                error.command_name, possibilities=self.list_commands(ctx), ctx=ctx
            ) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, self.list_commands(ctx)))
        for purpose, names in COMMANDS.items():
            rows = []
            for name in names:
                found = self.get_command(ctx, name)
                assert found is not None
                rows.append((name.ljust(widest), found.get_short_help_str(limit=MOST_COLUMNS)))
            with formatter.section(purpose):
                formatter.write_dl(rows)


ROOT = Root(
    "lakewright",
    params=[warehouse_option(is_root=True)],
    help="Look at Apache Paimon tables, and keep them healthy.",
    notes=_NOTES,
    examples=_EXAMPLES,
    no_args_is_help=False,
    subcommand_metavar="COMMAND [TABLE] …",
    context_settings={"max_content_width": MOST_COLUMNS},
)
