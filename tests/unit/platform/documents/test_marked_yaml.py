"""YAML that people give: what aliases and merge keys make of a document has a limit."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable

import pytest

from lakewright.platform.documents.marked_yaml import MalformedYamlError, read_marked, read_typed


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
