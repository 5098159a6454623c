"""The check for what must not stand in the tree finds it, and finds nothing here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.check_tree import faults_of_line, faults_of_shape


def test_the_top_level_that_the_owner_asked_for_stands() -> None:
    root = Path(__file__).parents[2]
    asked = ("pyproject.toml", "workspace.yaml", "platform", "assets", "jobs", "storage")
    assert [each for each in (*asked, "dagster_home", "tests") if not (root / each).exists()] == []


@pytest.mark.parametrize(
    "words",
    [
        ("see ", "/ho", "me/someone/data"),
        ('"', "/ro", "ot/.cache"),
        ("pip install --index", "-url x"),
        ("https:", "//example.org/sim", "ple"),
        ("<<<<", "<<< theirs"),
    ],
    ids=["home", "root", "option", "address", "merge"],
)
def test_a_line_that_must_not_stand_is_found(words: tuple[str, ...]) -> None:
    assert list(faults_of_line("".join(words)))


@pytest.mark.parametrize(
    "line",
    [
        "file:///data/warehouse",
        "see docs/home/page.md",
        "https://example.org/home/x",
        "a ======= b",
    ],
)
def test_a_harmless_line_passes(line: str) -> None:
    assert not list(faults_of_line(line))


def test_misplaced_modules_are_found() -> None:
    assert len(list(faults_of_shape(["platform/__init__.py", "setup.py", "storage/env.py"]))) == 2
