"""Find forbidden text in the tree: one machine's paths, package registries, leftovers."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern that no line may match, and the remedy."""

    pattern: re.Pattern[str]
    advice: str


RULES = (
    Rule(
        re.compile(r"(?:^|[\s\"'`(=:,])/(?:home|root|work|Users)/[\w.]"),
        "a path of one machine: write it relative to the repository, or take it as an argument",
    ),
    Rule(
        re.compile(r"--(?:extra-)?index(?:-url)?[ =]|https?://\S+/simple\b|files\.pythonhosted\."),
        "a package registry: which one to use is the installer's setting",
    ),
    Rule(re.compile(r"^(?:<{7}|={7}|>{7})(?: |$)"), "an unfinished merge"),
)


def tree_files(root: Path) -> list[str]:
    """Files of the repository relative to `root`, with new files and without ignored ones."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    names = sorted(set(listing.stdout.split("\0")) - {""})
    return [name for name in names if (root / name).is_file() and not (root / name).is_symlink()]


def faults_of_line(line: str) -> Iterator[str]:
    """The faults of one line."""
    return (rule.advice for rule in RULES if rule.pattern.search(line))


def faults_of_shape(files: list[str]) -> Iterator[str]:
    """The faults in the places of files."""
    for name in files:
        if name == "platform/__init__.py":
            yield f"{name}: shadows the standard library's platform module: remove it"
        if name.endswith(".py") and "/" not in name:
            yield f"{name}: a module at the root can shadow another: move it into a folder"


def faults(root: Path) -> Iterator[str]:
    """All faults of the tree, one sentence each."""
    files = tree_files(root)
    yield from faults_of_shape(files)
    for name in files:
        try:
            text = (root / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            for fault in faults_of_line(line):
                yield f"{name}:{number}: {fault}: {line.strip()[:120]}"


def main(arguments: list[str]) -> int:
    """Print the faults; 0 when there are none."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    try:
        found = list(faults(options.root))
    except (OSError, subprocess.CalledProcessError):
        sys.stdout.write("tree: not a git checkout, so there is nothing to compare\n")
        return 0
    if found:
        sys.stderr.write("\n".join(found) + "\n")
        return 1
    sys.stdout.write("tree: no machine paths, registries or leftovers\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
