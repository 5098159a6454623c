"""A soak under kills: tables of every kind are written, kept and read while processes die.

1. Make a table of each kind, and serve some more that Dagster fills: by partitions, from a database
   that it captures, and from a topic.
2. Start writers (this library, `lakewright sql`, pypaimon, Java, a job of Flink, a stream of
   Spark), a daemon and a web server of Dagster with a policy that keeps all tables, and readers
   that compare with a model each minute.
3. Kill a random process of ours at intervals, and start it again; twice, fill the disk for a while;
   stop the database and the broker for a minute each.
4. Stop the writers, let upkeep come to rest, and compare all rows and files.

`python -m tests.soak FOLDER [--minutes 60]` writes `soak.json`, `soak.md` and `soak.svg` there,
each minute. What this machine lacks is left out, and named. Filling a disk needs root, as the
warehouse is then a disk in memory. It ends with 1 if rows or files were wrong, with 2 if only the
program was.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.soak import model
from tests.soak.course import ROOT, Given, Soak
from tests.soak.model import Kind
from tests.soak.outside import why_not
from tests.soak.services import say


def taking_part(names: Sequence[str], oracles: Path, flink: Path) -> Iterator[Kind]:
    """The tables whose writers this machine has; says why the others are left out."""
    for kind in model.KINDS:
        if kind.name not in names:
            continue
        lacks = {each: why_not(each, oracles, flink) for each in kind.writers}
        told = [f"{client}: {why}" for client, why in lacks.items() if why]
        say(f"{'left out' if told else 'takes part'}: {kind.table} of {', '.join(kind.writers)}")
        for each in told:
            say(f"    {each}")
        if not told:
            yield kind


def main() -> None:
    # Ends all processes, as an interrupt does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--minutes", type=float, default=60)
    arguments.add_argument("--kill-seconds", type=float, default=90)
    arguments.add_argument("--pause", type=float, default=2, help="seconds between two batches")
    arguments.add_argument("--tables", nargs="*", default=[kind.name for kind in model.KINDS])
    arguments.add_argument("--oracles", type=Path, default=ROOT / ".oracles")
    arguments.add_argument(
        "--flink", type=Path, default=Path(os.environ.get("FLINK", ROOT / ".flink"))
    )
    arguments.add_argument("--no-full-disk", action="store_true")
    given = arguments.parse_args()
    oracles, flink = given.oracles.absolute(), given.flink.absolute()
    kinds = tuple(taking_part(given.tables, oracles, flink))
    fills = not given.no_full_disk and os.geteuid() == 0
    if not fills:
        say("left out: the full disk")
    asked = Given(
        folder=given.folder.absolute(),
        oracles=oracles,
        flink=flink,
        minutes=given.minutes,
        kill_seconds=given.kill_seconds,
        pause_seconds=given.pause,
        kinds=kinds,
        fills=fills,
    )
    soak = Soak(asked)
    soak.run()
    say((asked.folder / "soak.md").read_text())
    sys.exit(1 if soak.faults else 2 if soak.flaws else 0)


if __name__ == "__main__":
    main()
