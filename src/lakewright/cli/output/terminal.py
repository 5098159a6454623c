"""What a stream is: a terminal, which has a width and may have colours, or a file or pipe."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any, TextIO

import click

if TYPE_CHECKING:
    from rich.console import Console


def is_terminal(stream: TextIO) -> bool:
    """Whether the stream is a terminal."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def has_colours(stream: TextIO) -> bool:
    """Whether the stream may be coloured; a set NO_COLOR forbids colours."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def styled(text: str, stream: TextIO, *, fg: str | None = None, bold: bool = False) -> str:
    """The text in a colour, if the stream has colours."""
    return click.style(text, fg=fg, bold=bold) if has_colours(stream) else text


def width_of_terminal(stream: TextIO) -> int | None:
    """The number of characters in a line of the stream; None if lines have no limit."""
    return shutil.get_terminal_size().columns if is_terminal(stream) else None


def console_of(stream: TextIO, **settings: Any) -> Console:
    """The Rich console of a stream."""
    from rich.console import Console

    return Console(
        file=stream,
        highlight=False,
        markup=False,
        emoji=False,
        no_color=not has_colours(stream),
        **settings,
    )
