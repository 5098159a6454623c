"""What documents say of the code is true of the tree."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tools.check_words import PHRASES, faults_of_text, texts_of_code
from tools.write_reference import pages

ROOT = Path(__file__).resolve().parents[2]
# A path from the root of the project, in a document.
_PATH = re.compile(r"`((?:storage|platform|assets|jobs|tests|tools|docs|benchmarks|src)/[\w./-]+)`")
# Written by a command that a document describes, and not kept.
_MADE = {"benchmarks/results.jsonl"}
LONGEST_CELL = 200
ROOMS = ("assets", "connectors", "jobs", "platform", "session", "storage")
_MODULE = re.compile(rf"\blakewright\.(?:{'|'.join(ROOMS)})(?:\.\w+)+")
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/README.md"))
    if path.name != "CHANGELOG.md"
)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_paths_in_documents_exist(document: str) -> None:
    named = set(_PATH.findall((ROOT / document).read_text())) - _MADE
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


@pytest.mark.mission("RS18")
def test_the_glossary_explains_the_words_of_dynamic_tables() -> None:
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| `([^`]+)` \|$", _glossary(), re.MULTILINE)
    terms = {term: meaning for term, meaning, _ in rows}
    assert {"dynamic table", "bounded read", "unbounded read", "changelog", "connector"} <= set(
        terms
    )
    assert len(rows) == len(terms), "a term has one meaning"


def _glossary() -> str:
    return (ROOT / "docs" / "reference" / "glossary.md").read_text()


@pytest.mark.mission("PT61")
def test_the_page_of_streams_gives_the_reasons_for_a_sink_of_our_own() -> None:
    page = (ROOT / "docs" / "how-to" / "streaming.md").read_text()
    reasons = page.partition("## Why a sink of our own")[2].split("\n* ")[1:]
    given = [" ".join(each.split()) for each in reasons]
    for words in (
        "A bucket of a table is a hash of its keys",
        "a partition is a value of columns",
        "three writers",
        "the same for batches and streams",
        "one committer",
        "cut them after a crash",
    ):
        assert any(words in each for each in given), words


@pytest.mark.mission("RS7")
def test_the_page_of_streams_tells_of_earlier_work_on_partitioned_sources() -> None:
    page = (ROOT / "docs" / "how-to" / "streaming.md").read_text()
    told = " ".join(page.partition("### Background: earlier work")[2].split())
    for words in ("FLINK-5859, FLINK-12805 and FLINK-13115", "`PartitionableTableSource`"):
        assert words in told, words


def test_what_the_reference_says_of_the_code_is_current() -> None:
    stale = [page.name for page, text in pages().items() if page.read_text("utf-8") != text]
    assert stale == [], "run make reference"


# Its cells are written by tools/check_mission.py, for developers.
@pytest.mark.parametrize("document", sorted(set(DOCUMENTS) - {"docs/mission.md"}))
def test_cells_of_tables_are_short(document: str) -> None:
    if not document.startswith(("docs/", "README")):
        return
    lines = (ROOT / document).read_text().splitlines()
    cells = [cell.strip() for line in lines if line[:1] == "|" for cell in line.split(" | ")]
    assert [cell for cell in cells if len(cell) > LONGEST_CELL] == [], "a list reads better"


# `make check` searches all documents and messages.
@pytest.mark.parametrize(
    "text",
    [
        "42 files, 50.5 KiB condemned",
        "the run came\n  to nothing",
        "`compact` takes back what can be taken back",
        "2 of 4 rows do not meet it",
        "partitions of which nothing is told",
        "upkeep keeps a table amid a change",
    ],
)
def test_a_riddle_is_found_with_what_to_write_instead(text: str) -> None:
    (fault, *_) = faults_of_text(text)
    assert any(instead in fault[1] for instead in PHRASES.values())


@pytest.mark.parametrize(
    "text",
    [
        "for every table, see `lakewright condemned --help`",
        "lakewright condemned put-back TABLE ID",
        "`bin/amid.py`",
        "12 sorted runs, 3 deferred",
    ],
)
def test_names_and_plain_words_pass(text: str) -> None:
    assert list(faults_of_text(text)) == []


def test_strings_are_searched_and_docstrings_of_public_names_alone() -> None:
    source = 'def shown():\n    "a doc"\n    return f"left {1} alone"\ndef _own():\n    "no doc"\n'
    assert [text for _, text in texts_of_code(source, docstrings=True)] == ["a doc", "left … alone"]
    assert [text for _, text in texts_of_code(source, docstrings=False)] == ["left … alone"]


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 130


@pytest.mark.parametrize("document", DOCUMENTS)
def test_modules_in_documents_exist(document: str) -> None:
    named = set(_MODULE.findall((ROOT / document).read_text()))
    # The last word may be a name in its module.
    assert [
        each for each in sorted(named) if not {each, each.rpartition(".")[0]} & _modules()
    ] == []


@cache
def _modules() -> frozenset[str]:
    files = {path.relative_to(ROOT) for room in ROOMS for path in (ROOT / room).rglob("*.py")}
    return frozenset(f"lakewright.{'.'.join(file.with_suffix('').parts)}" for file in files) | {
        f"lakewright.{'.'.join(file.parent.parts)}" for file in files
    }


def test_links_between_documents_lead_to_files() -> None:
    dead = [
        (document, target)
        for document in DOCUMENTS
        for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", (ROOT / document).read_text())
        if not (ROOT / document).parent.joinpath(target).exists()
    ]
    assert dead == []
