"""Find phrases that read as riddles where the field has a term: in documents, help and messages.

What users read is searched: README and docs, the strings of the code (messages, help,
descriptions), and docstrings of commands and of public names. A phrase has what to
write instead.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("src/lakewright", "platform", "assets", "jobs", "session", "connectors", "storage")
# Their docstrings are read as documentation: commands have their help there.
PUBLIC = (
    *("src/lakewright/cli/commands/*.py", "src/lakewright/*.py", "storage/*.py"),
    "connectors/__init__.py",
)
_SPACE = r"\s+"
PHRASES = {
    r"for ever\b": "never removed, always",
    r"for good": "permanently",
    r"what can be taken back": "what it can (reverts)",
    r"outside of tables": "external data",
    r"under way": "in progress",
    r"only watches": "shadow mode",
    r"condemned": "marked for deletion",
    r"left alone": "skipped",
    r"comes? (?:to lie|into it)|came to lie": "arrive, is in",
    r"files? (?:went|fewer)\b": "removed … files, files removed",
    r"(?:rows|snapshots|read) (?:fewer|less)\b": "… removed, bytes saved",
    r"they stay$": "unchanged",
    r"to what came": "to the actual value",
    r"(?:undone|taken back|read) no more": "no longer",
    r"cut to what is left": "runs in part",
    r"not met by|not meet it": "failing rows",
    r"changes? away": "… schema differences",
    r"(?:came|comes?) to nothing": "had no effect",
    r"(?:gone|goes|go) on (?:with|by)": "resumed by",
    r"commits beat|was beaten|were beaten": "lost commit races",
    r"of which nothing": "untracked",
    r"amid": "during",
    r"the least of those": "the shortest of",
    r"whatever|whoever|nobody|somebody": "name what or who it is",
    r"(?:is|are|was|were|be) told\b": "reported, shown, printed",
    r"stands? twice": "is duplicated, is given twice",
    r"is home|keeps? out|nothing is lost by": "the term of the field",
}
# A phrase may go over the end of a line.
_RIDDLE = re.compile(
    "|".join(rf"(?P<p{at}>\b{each.replace(' ', _SPACE)})" for at, each in enumerate(PHRASES)),
    re.IGNORECASE,
)
# Names in a text: code within a line, and the command `condemned` with its folder.
_NAMES = re.compile(
    r"`[^`\n]+`|(?:lakewright|###) condemned\b|\bcondemned (?:list|put-back|collect)\b"
    r"|^ *condemned {2,}|/condemned\b",
    re.MULTILINE,
)
_INSTEAD = tuple(PHRASES.values())


def faults_of_text(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a text with a phrase, each with the phrase and what to write instead."""
    text = _NAMES.sub("…", text)
    for found in _RIDDLE.finditer(text):
        at = int(str(found.lastgroup)[1:])
        line = text.count("\n", 0, found.start()) + 1
        yield line, f"{found.group()!r}: write {_INSTEAD[at]!r} or the like"


def texts_of_code(source: str, *, docstrings: bool) -> Iterator[tuple[int, str]]:
    """The strings of a module that have words, by line; docstrings only of public names."""
    tree = ast.parse(source)
    documented = dict(_docstrings(tree))
    parts: set[int] = set()
    for node in ast.walk(tree):
        match node:
            case ast.JoinedStr(values=values):
                parts.update(map(id, values))
                shown = (e.value if isinstance(e, ast.Constant) else "…" for e in values)
                yield node.lineno, "".join(map(str, shown))
            case ast.Constant(value=str(text)) if id(node) not in parts and " " in text:
                if id(node) not in documented or (docstrings and documented[id(node)]):
                    yield node.lineno, text


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, bool]]:
    """The docstrings of a module, and whether each is of a public name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            match node.body[:1]:
                case [ast.Expr(value=ast.Constant(value=str()) as text)]:
                    yield id(text), not getattr(node, "name", "").startswith("_")


def faults(root: Path) -> Iterator[str]:
    """All phrases that users would read, one line each."""
    for page in (root / "README.md", *sorted(root.glob("docs/**/*.md"))):
        name, text = page.relative_to(root), page.read_text("utf-8")
        # The promises of the mission are quoted as they were made.
        found = () if page.name == "mission.md" else faults_of_text(text)
        yield from (f"{name}:{at}: {told}" for at, told in found)
    public = {each for pattern in PUBLIC for each in root.glob(pattern)}
    for file in _modules(root):
        found = texts_of_code(file.read_text("utf-8"), docstrings=file in public)
        for line, text in found:
            for at, told in faults_of_text(text):
                yield f"{file.relative_to(root)}:{line + at - 1}: {told}"


def _modules(root: Path) -> Iterable[Path]:
    for room in ROOMS:
        yield from (
            each for each in sorted((root / room).rglob("*.py")) if "__pycache__" not in each.parts
        )


def main() -> int:
    """Print the phrases; 0 when there are none."""
    found = list(faults(ROOT))
    if found:
        sys.stderr.write("\n".join(found) + "\n")
        return 1
    sys.stdout.write("words: no riddle in documents, help or messages\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
