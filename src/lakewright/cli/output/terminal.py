"""What a stream is: a terminal, with a width and perhaps colours, or a file or pipe."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any, TextIO

import click

if TYPE_CHECKING:
    from rich.console import Console


def is_terminal(stream: TextIO) -> bool:
    """Whether a person looks at the stream."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def has_colours(stream: TextIO) -> bool:
    """Whether the stream may be coloured; NO_COLOR, when it is set, says that it may not."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def styled(text: str, stream: TextIO, *, fg: str | None = None, bold: bool = False) -> str:
    """The text in a colour, where the stream has colours."""
    return click.style(text, fg=fg, bold=bold) if has_colours(stream) else text


def width_of_terminal(stream: TextIO) -> int | None:
    """How many characters a line of the stream holds, None where lines have no end."""
    return shutil.get_terminal_size().columns if is_terminal(stream) else None


def console_of(stream: TextIO, **settings: Any) -> Console:
    """Rich's view of a terminal."""
    from rich.console import Console

    return Console(
        file=stream,
        highlight=False,
        markup=False,
        emoji=False,
        no_color=not has_colours(stream),
        **settings,
    )
