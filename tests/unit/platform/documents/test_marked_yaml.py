"""YAML that people give: its text has a limit, and what aliases and merge keys make of it, too."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from lakewright.platform.documents.marked_yaml import MalformedYamlError, read_marked, read_typed
from lakewright.platform.documents.yaml_files import Problem, documents_in


def levels(template: str, first: str, times: int = 10, deep: int = 9) -> str:
    """A text of a few lines, each of which names the line before many times."""
    lines = [f"x0: &x0 {first}"]
    for at in range(1, deep):
        named = ", ".join([f"*x{at - 1}"] * times)
        lines.append(f"x{at}: &x{at} " + template.replace("NAMED", named))
    return "\n".join(lines)


BOMBS = {
    "merge keys": levels("{<<: [NAMED]}", "{a: 1}"),
    "lists": levels("[NAMED]", "[a, b]"),
    # All anchors stand in what the outermost mapping merges, so they are merged at once.
    "merge keys of the outermost mapping": "<<: [&x0 {a: 1}, "
    + ", ".join(f"&x{at} {{<<: [" + ", ".join([f"*x{at - 1}"] * 100) + "]}" for at in range(1, 6))
    + ", *x5]\n",
}


@pytest.mark.parametrize("read", [read_marked, read_typed], ids=["as typed", "typed"])
@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS.keys())
@pytest.mark.sampled(2)
def test_a_few_lines_that_expand_to_billions_are_refused(
    text: str, read: Callable[[str], Iterable[object]]
) -> None:
    with pytest.raises(MalformedYamlError, match=r"aliases or merge keys make more than 200,000"):
        list(read(text))


@pytest.mark.parametrize("read", [read_marked, read_typed], ids=["as typed", "typed"])
def test_a_document_that_contains_itself_is_refused(
    read: Callable[[str], Iterable[object]],
) -> None:
    with pytest.raises(MalformedYamlError, match="contain itself"):
        list(read("a: &a [*a]"))


def test_typed_documents_have_the_types_of_yaml_and_merge_keys_in_their_place() -> None:
    text = "---\nbase: &base {on: 2024-01-02}\nuses: {<<: *base, n: 0x10}\n---\n---\n- yes\n"
    day = dt.date(2024, 1, 2)
    base = {True: day}
    assert list(read_typed(text)) == [{"base": base, "uses": {**base, "n": 16}}, [True]]


@pytest.mark.parametrize("read", [read_marked, read_typed], ids=["as typed", "typed"])
def test_a_text_that_would_take_minutes_is_refused_with_the_limit(
    read: Callable[[str], Iterable[object]],
) -> None:
    text = "".join(f"t{number}: {{a: 1}}\n" for number in range(80_000))
    with pytest.raises(MalformedYamlError, match=r"has 1,\d+,\d+ characters, and 1,000,000"):
        list(read(text))


def test_a_file_of_many_bytes_is_refused_unread(tmp_path: Path) -> None:
    file = tmp_path / "large.yaml"
    with file.open("wb") as made:
        made.truncate(1 << 23)
    problems: list[Problem] = []
    assert documents_in(file, problems) == []
    assert "8,388,608 bytes, and 1,000,000 characters are the most" in str(problems)


def test_a_message_does_not_repeat_a_long_value(tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text("a: 1\n")
    (written,) = documents_in(file, [])
    assert len(written.problem(("a",), "9" * 100_000).message) <= 1_001
