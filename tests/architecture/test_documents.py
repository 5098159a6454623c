"""What documents say of the code is true of the tree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.write_policy_keys import PAGE, with_keys

ROOT = Path(__file__).resolve().parents[2]
# A path from the root of the project, in a document.
_PATH = re.compile(r"`((?:storage|platform|assets|jobs|tests|tools|docs|benchmarks|src)/[\w./-]+)`")
# Written by a command that a document describes, and not kept.
_MADE = {"benchmarks/results.jsonl"}
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("tests/README.md"))
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
    return (ROOT / "docs" / "glossary.md").read_text()


@pytest.mark.mission("PT61")
def test_the_page_of_streams_gives_the_reasons_for_a_sink_of_our_own() -> None:
    page = (ROOT / "docs" / "streaming.md").read_text()
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
    page = (ROOT / "docs" / "streaming.md").read_text()
    told = " ".join(page.partition("### Background: earlier work")[2].split())
    for words in ("FLINK-5859, FLINK-12805 and FLINK-13115", "`PartitionableTableSource`"):
        assert words in told, words


def test_the_page_of_policies_has_every_key_with_its_default() -> None:
    page = PAGE.read_text("utf-8")
    assert with_keys(page) == page, "run tools/write_policy_keys.py"
