"""`lakewright completion`: what a shell needs to complete commands, options and tables."""

from __future__ import annotations

import os
import sys
from pathlib import PurePath

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command

_SHELLS = ("bash", "zsh", "fish")


@command(
    "completion",
    of_table=False,
    of_form=False,
    notes="Tables are completed too, from --warehouse or $LAKEWRIGHT_WAREHOUSE.",
    examples="""
eval "$(lakewright completion bash)"      # in ~/.bashrc
eval "$(lakewright completion zsh)"       # in ~/.zshrc
lakewright completion fish | source       # in ~/.config/fish/config.fish
""",
)
@click.argument("shell", metavar="[SHELL]", required=False, type=click.Choice(_SHELLS))
def completion(_: Call, *, shell: str | None) -> None:
    """Print the completion script of bash, zsh or fish (default: the shell of $SHELL)."""
    from click.shell_completion import get_completion_class

    from lakewright.cli import COMPLETION_VARIABLE
    from lakewright.cli.grammar.root import ROOT

    name = shell or PurePath(os.environ.get("SHELL", "")).name
    if name not in _SHELLS:
        raise click.UsageError(f"name a shell: {', '.join(_SHELLS)}", click.get_current_context())
    kind = get_completion_class(name)
    assert kind is not None
    sys.stdout.write(kind(ROOT, {}, "lakewright", COMPLETION_VARIABLE).source() + "\n")
