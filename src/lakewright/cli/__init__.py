"""The command line: what is in a warehouse, what upkeep would do, and doing it.

A subcommand imports its own module when it runs, so that listing tables starts
neither Spark nor Dagster, and asking for help imports nothing at all.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

from lakewright.cli.arguments import parse_arguments

BROKEN_PIPE = 141
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; the exit code, whose meanings `lakewright --help` lists."""
    try:
        parsed = parse_arguments(arguments)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 2
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets its code instead of a failure.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _run(parsed)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has gone, as in `… | head`; the interpreter must not mind either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _run(parsed: argparse.Namespace) -> int:
    from lakewright.cli.exit_codes import exit_code_of
    from lakewright.storage.errors import StorageError

    try:
        match parsed.command:
            case "ls" | "show" | "snapshots" | "files" | "partitions":
                from lakewright.cli.listings import run_listing

                return run_listing(parsed)
            case "read":
                from lakewright.cli.reading import run_read

                return run_read(parsed)
            case "lookup":
                from lakewright.cli.lookups import run_lookup

                return run_lookup(parsed)
            case "inspect":
                from lakewright.cli.inspecting import run_inspect

                return run_inspect(parsed)
            case "analyze":
                from lakewright.cli.analyzing import run_analyze

                return run_analyze(parsed)
            case "plan" | "run":
                from lakewright.cli.upkeep import run_upkeep

                return run_upkeep(parsed)
            case "tag" | "branch" | "rollback" | "consumer" | "changelog":
                from lakewright.cli.references import run_references

                return run_references(parsed)
            case "pending":
                from lakewright.cli.pending import run_pending

                return run_pending(parsed)
            case "lease":
                from lakewright.cli.leases import run_lease

                return run_lease(parsed)
            case "remove-orphans":
                from lakewright.cli.orphans import run_remove_orphans

                return run_remove_orphans(parsed)
            case "quarantine":
                from lakewright.cli.quarantine import run_quarantine

                return run_quarantine(parsed)
            case "demo":
                from lakewright.demo import run_demo

                return run_demo(parsed) or 0
            case _:
                from lakewright.demo import run_up

                return run_up(parsed) or 0
    except StorageError as error:
        sys.stderr.write(f"lakewright: error: {error.message}\n")
        return exit_code_of(error)
