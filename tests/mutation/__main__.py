"""Try mutants and say which of them the tests notice: `python -m tests.mutation LIST [FILE ...]`.

LIST is what `mutants.py` printed. Survivors that `equivalent.toml` lists are told apart: they
differ in nothing that anybody could see.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from tests.mutation.mutant import Mutant, drawn, read_mutants
from tests.mutation.trying import Trials, Verdict

HERE = Path(__file__).parent
TESTS = ("tests/unit/storage", "tests/stateful", "tests/faults", "tests/races")


def main() -> int:
    """Print a line for each mutant, then the survivors, then how many there were of each file."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("list", type=Path)
    parser.add_argument("files", nargs="*", help="parts of paths; all when none is named")
    parser.add_argument("--sample", type=int, default=10**9, help="so many of each file at most")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--tests", nargs="+", default=list(TESTS))
    parser.add_argument("--seconds", type=float, default=120, help="of tests, for each mutant")
    parser.add_argument("--at-once", action="store_true", help="all tests, with no run before")
    arguments, of_pytest = parser.parse_known_args()
    wanted = [
        mutant
        for mutant in read_mutants(arguments.list)
        if not arguments.files or any(part in mutant.file for part in arguments.files)
    ]
    verdicts: list[Verdict] = []

    def heard(verdict: Verdict) -> None:
        verdicts.append(verdict)
        sys.stdout.write(f"{line_of(verdict)}\n")
        sys.stdout.flush()

    trials = Trials(
        drawn(wanted, arguments.sample, arguments.seed), arguments.seconds, arguments.at_once, heard
    )
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = f"{folder}/hypothesis"
        options = ["-q", "-s", "-p", "no:cacheprovider", "-m", "not deep and not stores"]
        status = pytest.main(
            [*options, f"--basetemp={folder}/tests", *of_pytest, *arguments.tests], plugins=[trials]
        )
    sys.stdout.write(f"\n{summary(verdicts)}\n")
    return int(status)


def line_of(verdict: Verdict) -> str:
    """What became of a mutant, in a line."""
    mutant = verdict.mutant
    old, new = mutant.change
    fate = "survived" if verdict.killer is None else "killed"
    by = f"{verdict.tests} tests" if verdict.killer is None else verdict.killer
    where = f"{mutant.file}:{mutant.line}"
    return f"{fate} {where} {mutant.fault}: {old} -> {new} [{verdict.seconds:.1f} s, {by}]"


def summary(verdicts: list[Verdict]) -> str:
    """A table of the files, and the mutants that no test noticed."""
    same = equivalents()
    survivors = [each.mutant for each in verdicts if each.killer is None]
    unnoticed = [each for each in survivors if (each.file, *each.change) not in same]
    tried = Counter(verdict.mutant.file for verdict in verdicts)
    killed = Counter(each.mutant.file for each in verdicts if each.killer is not None)
    left = Counter(mutant.file for mutant in unnoticed)
    lines = [f"{'':45} tried  killed  equivalent  survived"]
    for file in [*tried, "all"]:
        counts = [each.total() if file == "all" else each[file] for each in (tried, killed, left)]
        alike = counts[0] - counts[1] - counts[2]
        share = counts[1] / max(1, counts[0] - alike)
        lines.append(
            f"{file:45} {counts[0]:5} {counts[1]:7} {alike:11} {counts[2]:9}  {share:.1%} killed"
        )
    lines += [f"survived: {describe(mutant)}" for mutant in unnoticed]
    return "\n".join(lines)


def describe(mutant: Mutant) -> str:
    old, new = mutant.change
    return f"{mutant.file}:{mutant.line} ({mutant.fault})\n  - {old}\n  + {new}"


def equivalents() -> set[tuple[str, str, str]]:
    """Mutants that somebody has looked at: the file, the line as it is and as it becomes."""
    listed = tomllib.loads((HERE / "equivalent.toml").read_text(encoding="utf-8"))
    return {(each["file"], each["line"], each["becomes"]) for each in listed.get("mutant", [])}


if __name__ == "__main__":
    sys.exit(main())
