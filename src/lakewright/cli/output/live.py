"""A view of the terminal that is drawn again and again, until a person ends it with q or Ctrl-C."""

from __future__ import annotations

import select
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from lakewright.cli.output.tables import Block, block_lines
from lakewright.cli.output.terminal import console_of
from lakewright.storage.env import Env
from lakewright.storage.errors import StorageError

# Drawing takes at most this share of a core: a slow look waits longer for the next one.
_MOST_BUSY = 0.05


def show_live(frame: Callable[[], Sequence[Block]], env: Env, *, every_ms: int) -> None:
    """Draw frames on the whole screen, one each so many milliseconds at most, until q or Ctrl-C.

    A frame that a store does not allow leaves the last one, below the reason.

    Raises:
        StorageError: the first frame cannot be made.
    """
    from rich.live import Live
    from rich.text import Text

    console = console_of(sys.stdout)
    with (
        suppress(KeyboardInterrupt),
        _keys(env) as wait_for_key,
        Live(console=console, screen=True, auto_refresh=False) as live,
    ):
        blocks: Sequence[Block] = []
        while True:
            begun_ms = env.now_ms()
            troubles: list[Block] = []
            try:
                blocks = frame()
            except StorageError as error:
                if not blocks:
                    raise
                troubles = [f"not looked: {error}", ""]
            lines = [line for block in (*troubles, *blocks) for line in block_lines(block)]
            text = "\n".join(lines[: max(console.height - 1, 1)])
            live.update(Text(text, no_wrap=True, overflow="ellipsis"), refresh=True)
            took_ms = env.now_ms() - begun_ms
            if wait_for_key(max(every_ms, took_ms / _MOST_BUSY)) in ("q", "Q", "\x03"):
                return


@contextmanager
def _keys(env: Env) -> Iterator[Callable[[float], str]]:
    """A function that waits for a key, so many milliseconds at most; "" means none came."""

    def sleep(duration_ms: float) -> str:
        env.sleep_ms(duration_ms)
        return ""

    if not sys.stdin.isatty():
        yield sleep
        return
    try:
        import termios
        import tty
    except ImportError:
        # Windows has no such terminals; Ctrl-C ends the view there.
        yield sleep
        return
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)

    def wait(duration_ms: float) -> str:
        ready, _, _ = select.select([sys.stdin], [], [], duration_ms / 1000)
        return sys.stdin.read(1) if ready else ""

    try:
        tty.setcbreak(fd)
        yield wait
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
