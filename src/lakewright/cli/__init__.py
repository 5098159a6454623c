"""The command line: `lakewright VERB TABLE [options]`, over tables in a warehouse."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import click
from click.exceptions import NoArgsIsHelpError

if TYPE_CHECKING:
    from lakewright.storage.errors import StorageError

# Not 1, the code of Python for an uncaught error: in `diff` that is a change with warnings.
UNEXPECTED = 70
BROKEN_PIPE = 141
INTERRUPTED = 130
TERMINATED = 143
COMPLETION_VARIABLE = "_LAKEWRIGHT_COMPLETE"
_WITHOUT_PANDAS = frozenset(
    ("ls", "show", "read", "lookup", "inspect", "snapshots", "files", "partitions", "history")
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code, which `lakewright --help` explains."""
    from lakewright.cli.grammar.root import ROOT

    asked = os.environ.get(COMPLETION_VARIABLE)
    if asked:
        from click.shell_completion import shell_complete

        return shell_complete(ROOT, {}, "lakewright", COMPLETION_VARIABLE, asked)
    for stream in (sys.stdout, sys.stderr):
        # On a terminal that cannot show a character, its code is printed instead of a failure.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    given = sys.argv[1:] if arguments is None else list(arguments)
    # A program that calls this function may need pandas afterwards.
    if arguments is None and _needs_no_pandas(given):
        sys.meta_path.insert(0, _NoPandas())
    try:
        with _cleaning_up_when_terminated():
            code = _run(ROOT, given)
            sys.stdout.flush()
    except BrokenPipeError:
        # The process that read the output has ended, as `head` does; the interpreter would flush
        # too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


class _NoPandas:
    """As if pandas were not installed."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname, name=fullname)


def _needs_no_pandas(given: Sequence[str]) -> bool:
    """Whether the command gets no object of pandas, which Arrow imports to recognise one."""
    if given[:1] == ["--warehouse"]:
        given = given[2:]
    if given[:1] == ["sql"]:
        # Spark needs it; a file may ask for Spark.
        return not any("spark" in each.lower() or "-f" in each for each in given)
    return bool(given) and given[0] in _WITHOUT_PANDAS


@contextmanager
def _cleaning_up_when_terminated() -> Iterator[None]:
    """Let SIGTERM end the command as an interruption does: files are removed, and leases released.

    What called the command may have said otherwise, and only the main thread gets signals.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _terminate(_: int, __: FrameType | None) -> None:
    # A second signal would end the cleaning up after the first one.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(TERMINATED)


def _run(root: click.Group, arguments: list[str]) -> int:
    context: click.Context | None = None
    try:
        with root.make_context("lakewright", arguments) as context:
            code = root.invoke(context)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.ClickException as error:
        return _refuse(error)
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - any error has a code of its own
        # Help and usage errors need no storage, so its errors are looked up last.
        from lakewright.cli.exit_codes import exit_code_of
        from lakewright.storage.errors import StorageError
        from lakewright.storage.extras import extra_missing
        from lakewright.storage.secret_texts import without_secrets

        if isinstance(error, ImportError) and context is not None:
            error = extra_missing(f"`lakewright {context.invoked_subcommand}`", error) or error
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            _say_error(f"{str(error.filename)[:100]}… is longer than a path may be")
            return click.UsageError.exit_code
        if not isinstance(error, StorageError):
            sys.stderr.write(without_secrets(traceback.format_exc()))
            return UNEXPECTED
        _say_error(error.message)
        _say_excerpt(error)
        return exit_code_of(error)
    return code if isinstance(code, int) else 0


def _refuse(error: click.ClickException) -> int:
    """Print what is wrong with the arguments, and how to get help."""
    if isinstance(error, NoArgsIsHelpError):
        sys.stderr.write(error.format_message() + "\n\n")
        _say_error("name a command")
        return error.exit_code
    message = error.format_message().rstrip(".")
    if isinstance(error, click.UsageError) and error.ctx is not None:
        message += f"; see {error.ctx.command_path} --help"
    _say_error(message)
    return error.exit_code


def _say_excerpt(error: StorageError) -> None:
    """Show the word of a statement that is wrong."""
    for line in str(error.details.get("excerpt", "")).splitlines():
        sys.stderr.write(f"  {line}\n")


def _say_error(message: str) -> None:
    from lakewright.cli.output.terminal import styled

    label = styled("error:", sys.stderr, bold=True, fg="red")
    sys.stderr.write(f"lakewright: {label} {message}\n")
