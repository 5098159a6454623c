"""Words that are typed first: aliases, hints, and the version."""

from __future__ import annotations

import shlex
import tomllib

import click
import pytest

import lakewright as package
from lakewright.cli.grammar.guesses import ALIASES, HINTS
from lakewright.cli.grammar.root import ROOT
from lakewright.storage import Catalog
from lakewright.storage.sql import parse_statements
from tests.architecture.sources import ROOT as CHECKOUT
from tests.support.tables.builders import EVENTS, new_table
from tests.unit.cli.conftest import Lakewright

CALLS = sorted({call for calls in HINTS.values() for call in calls})


def test_the_version_is_that_of_the_package(lakewright: Lakewright) -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    assert project["version"] == package.__version__
    ended = lakewright(None, "--version")
    assert ended.out == f"lakewright {package.__version__}\n"


def test_aliases_and_hints_are_no_commands_and_lead_to_commands() -> None:
    commands = set(ROOT.list_commands(click.Context(ROOT)))
    assert not commands & (set(ALIASES) | set(HINTS))
    assert not set(ALIASES) & set(HINTS)
    assert set(ALIASES.values()) <= commands


@pytest.mark.parametrize("call", CALLS)
def test_every_call_of_a_hint_parses(call: str) -> None:
    words = ["db.name" if each == "TABLE" else each for each in shlex.split(call)]
    root = click.Context(ROOT, info_name="lakewright")
    if words[0].startswith("--"):
        assert words[0] in {name for each in ROOT.get_params(root) for name in each.opts}
        return
    _, command, rest = ROOT.resolve_command(root, words)
    assert command is not None
    if "--help" not in rest:
        command.make_context(words[0], rest, parent=root)
    if words[0] == "sql":
        assert len(parse_statements(words[1])) == 1


@pytest.mark.parametrize("word", HINTS)
def test_a_word_with_a_hint_is_a_usage_error_that_names_its_commands(
    lakewright: Lakewright, word: str
) -> None:
    ended = lakewright(None, word, "db.name", code=2)
    assert not ended.out
    for call in HINTS[word]:
        assert f"`lakewright {call}`" in ended.err


def test_an_alias_answers_as_its_command_does(lakewright: Lakewright, catalog: Catalog) -> None:
    new_table(catalog, EVENTS)
    for alias, name in ALIASES.items():
        table = () if name == "ls" else ("db.t",)
        asked, meant = lakewright(catalog, alias, *table), lakewright(catalog, name, *table)
        assert meant.code == 0
        assert asked == meant


def test_help_lists_neither_aliases_nor_hints(lakewright: Lakewright) -> None:
    listed = {line.split()[0] for line in lakewright(None, "--help").lines if line.strip()}
    assert not listed & (set(ALIASES) | set(HINTS))


@pytest.mark.parametrize("words", [[], ["read"], ["tag", "list"], ["describe"]], ids=" ".join)
def test_help_is_a_word_too(lakewright: Lakewright, words: list[str]) -> None:
    asked = lakewright(None, "help", *words)
    assert asked == lakewright(None, *words, "--help")


def test_an_unknown_word_keeps_the_suggestion_of_similar_commands(lakewright: Lakewright) -> None:
    ended = lakewright(None, "compct", code=2)
    assert "Did you mean one of: 'compact'" in ended.err
