"""The page of kinds of tables says what the verbs do."""

from __future__ import annotations

from pathlib import Path

from tests.support.tables.kinds_page import PAGE, page


def test_the_page_of_kinds_says_what_the_verbs_do(tmp_path: Path) -> None:
    held = PAGE.read_text(encoding="utf-8")
    assert held == page(tmp_path), "run python -m tests.support.tables.kinds_page"
