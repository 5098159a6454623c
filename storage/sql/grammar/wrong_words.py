"""Where a text is wrong, and what was expected there: the errors of sqlglot, said for users."""

from __future__ import annotations

import re

from sqlglot.errors import ParseError

# Comments, and what stands in quotes, up to its end or to that of the text. A backslash escapes in
# texts, and a doubled quote is one.
_PARTS = re.compile(
    r"""--[^\n]*|/\*(?:.*?\*/|(?P<comment>.*))"""
    r"""|'(?:(?:[^'\\]|\\.|'')*'|(?P<single>.*))"""
    r"""|"(?:(?:[^"\\]|\\.|"")*"|(?P<double>.*))"""
    r"""|`(?:(?:[^`]|``)*`|(?P<backtick>.*))""",
    re.DOTALL,
)
_KINDS = {
    "comment": "a comment",
    "single": "a text in single quotes",
    "double": "a text in double quotes",
    "backtick": "a name in backticks",
}
_HEX = re.compile(r"\b[xX]'(?![0-9a-fA-F]*')")


def what_does_not_end(text: str) -> tuple[int, str]:
    """Where what cannot be split into words begins, and why not."""
    for found in _PARTS.finditer(text):
        kind = next((kind for kind in _KINDS if found[kind] is not None), None)
        if kind is not None:
            return found.start(), f"{_KINDS[kind]} begins here and does not end"
    found_hex = _HEX.search(text)
    if found_hex is not None:
        return found_hex.start(), "X'…' holds hexadecimal digits alone"
    return 0, "a quote, a backtick or a comment does not end"


def what_is_wrong(text: str, error: ParseError) -> tuple[int, str]:
    """Where a query is wrong, and what is expected there."""
    found = error.errors[0] if error.errors else {}
    said, _, token = str(found.get("description") or error).partition(" but got ")
    word = str(found.get("highlight") or "")
    begin = _begin(text, found.get("line"), found.get("col"), word)
    if said.startswith("Required keyword"):
        return begin, f"something is missing after {word!r}"
    if said.startswith("Invalid expression"):
        return begin, f"{word!r} is not expected here"
    expected = re.match(r"Expect(?:ing|ed) (.+)", said)
    if expected is None:
        return begin, said
    if "SENTINEL" in token:
        return len(text.rstrip()), f"expected {expected[1]}, found the end of the statement"
    # Of the last word, sqlglot does not say whether it was expected.
    return begin, f"expected {expected[1]}, near {word!r}"


def _begin(text: str, line: object, column: object, word: str) -> int:
    """Where the word begins whose end sqlglot says."""
    if not isinstance(line, int) or not isinstance(column, int):
        return 0
    start = 0
    for _ in range(line - 1):
        start = text.find("\n", start) + 1
    return max(0, start + column - len(word or "x"))
