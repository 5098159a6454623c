"""`lakewright init`: a project that runs."""

from __future__ import annotations

from pathlib import Path

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command
from lakewright.cli.upkeep.project_paths import PATHS


@command(
    "init",
    of_table=False,
    of_form=False,
    examples="lakewright init\nlakewright init my-lake",
)
@click.argument("folder", metavar="[DIR]", type=PATHS, default=".")
def init(_: Call, *, folder: Path) -> None:
    """Make a project with an example table, its data, a policy and the settings of Dagster."""
    from lakewright.project.new import make_project

    try:
        written = list(make_project(folder))
    except OSError as error:
        told = f"no project can be made in {folder}: {error.strerror}; name another folder"
        raise click.UsageError(told, click.get_current_context()) from None
    for file in written:
        click.echo(f"wrote {file}")
    here = "" if folder == Path() else f"cd {folder} && "
    click.echo(f"\nNext:\n  {here}lakewright up\n  {here}lakewright check tables policy.yaml")
