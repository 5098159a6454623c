"""Compare the table of docs/mission.md with the tests' `@pytest.mark.mission("<id>")` marks.

    python tools/check_mission.py             prints the differences, and fails
    python tools/check_mission.py --update    rewrites the proof column, then checks

States are set by people; `--update` changes one kind only: a row that was `not yet` and has
gained a test becomes `partly`.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# How many rows each family of the mission has; ids count from one.
FAMILIES = {
    "SE": 43,
    "PT": 68,
    "BK": 37,
    "CN": 56,
    "MT": 19,
    "LG": 11,
    "FS": 21,
    "CT": 11,
    "SQ": 24,
    "RS": 27,
}
IDS = tuple(f"{family}{n}" for family, count in FAMILIES.items() for n in range(1, count + 1))

STATES = ("done", "partly", "not yet")
HEADER = "| id | state | proof | note |"
ROW = re.compile(r"^\|([^|]*)\|([^|]*)\|([^|]*)\|([^|]*)\|$")
_NESTING = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# A proof cell names this many tests, and counts the others.
NAMED_TESTS = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the table, and the line it stands on."""

    id: str
    state: str
    proof: str
    note: str
    line: int

    def __str__(self) -> str:
        return f"| {self.id} | {self.state} | {self.proof} | {self.note} |"


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """One id that one test claims."""

    id: str
    test: str
    line: int


class MalformedError(Exception):
    """The table or a mark cannot be read."""


def read_rows(table: Path) -> list[Row]:
    """Every row of the table, in the order of the file."""
    lines = table.read_text(encoding="utf-8").splitlines()
    if HEADER not in lines:
        raise MalformedError(f"{table.name} has no table headed {HEADER!r}")
    rows = []
    for number, line in enumerate(lines[lines.index(HEADER) + 2 :], lines.index(HEADER) + 3):
        if not line.startswith("|"):
            break
        cells = ROW.match(line)
        if cells is None:
            raise MalformedError(f"{table.name}:{number}: not a row of four cells: {line}")
        id_, state, proof, note = (cell.strip() for cell in cells.groups())
        rows.append(Row(id=id_, state=state, proof=proof, note=note, line=number))
    return rows


def marked_files(root: Path) -> list[tuple[str, ast.Module]]:
    """The files under `root`/tests that say `mission`, parsed and not imported."""
    texts = {path: path.read_text(encoding="utf-8") for path in (root / "tests").rglob("*.py")}
    named = {p.relative_to(root).as_posix(): text for p, text in texts.items() if "mission" in text}
    return [(name, ast.parse(text, filename=name)) for name, text in sorted(named.items())]


def read_marks(files: Iterable[tuple[str, ast.Module]]) -> list[Mark]:
    """Every mission mark on a test in these files."""
    return sorted(mark for name, tree in files for mark in marks_of(tree, name))


def idle_marks(files: Iterable[tuple[str, ast.Module]], marks: Iterable[Mark]) -> list[str]:
    """Marks on no test, which prove nothing."""
    counted = {(mark.test.partition("::")[0], mark.line) for mark in marks}
    found = []
    for name, tree in files:
        lines = {line for _, line in _ids(tree, name)}
        found += [
            f"{name}:{line}: a mission mark that is on no test"
            for line in sorted(lines)
            if (name, line) not in counted
        ]
    return found


def marks_of(tree: ast.Module, name: str) -> Iterator[Mark]:
    """The marks of one file: on tests, on their classes, and on the whole file."""
    yield from _marks_in(tree.body, name, prefix=name, inherited=_pytestmark(tree.body))


def _marks_in(
    body: Iterable[ast.stmt], name: str, *, prefix: str, inherited: tuple[ast.expr, ...]
) -> Iterator[Mark]:
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if node.name.startswith("test"):
                for expression in (*inherited, *node.decorator_list):
                    for id_, line in _ids(expression, name):
                        yield Mark(id_, f"{prefix}::{node.name}", line)
            case ast.ClassDef() if node.name.startswith("Test"):
                own = (*inherited, *node.decorator_list, *_pytestmark(node.body))
                place = f"{prefix}::{node.name}"
                yield from _marks_in(node.body, name, prefix=place, inherited=own)
                if not any(isinstance(each, _NESTING) for each in node.body):
                    # Its tests are those of its base classes.
                    for expression in own:
                        for id_, line in _ids(expression, name):
                            yield Mark(id_, place, line)


def _pytestmark(body: Iterable[ast.stmt]) -> tuple[ast.expr, ...]:
    return tuple(
        node.value
        for node in body
        if isinstance(node, ast.Assign)
        and any(
            isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets
        )
    )


def _ids(expression: ast.AST, name: str) -> Iterator[tuple[str, int]]:
    """Ids of the mission marks anywhere in `expression`, `pytest.param(…, marks=…)` included."""
    for call in ast.walk(expression):
        if not (isinstance(call, ast.Call) and ast.unparse(call.func).endswith("mark.mission")):
            continue
        for argument in call.args:
            if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                raise MalformedError(
                    f"{name}:{argument.lineno}: a mission mark takes ids as plain strings, "
                    f"not {ast.unparse(argument)}"
                )
            yield argument.value, argument.lineno


def tests_by_id(marks: Iterable[Mark]) -> dict[str, list[str]]:
    """The tests that claim each id, sorted and distinct."""
    tests: defaultdict[str, set[str]] = defaultdict(set)
    for mark in marks:
        tests[mark.id].add(mark.test)
    return {id_: sorted(claimed) for id_, claimed in tests.items()}


def proof_of(tests: list[str]) -> str:
    """The proof cell for these tests."""
    named = ", ".join(f"`{test}`" for test in tests[:NAMED_TESTS])
    more = len(tests) - NAMED_TESTS
    return f"{named} +{more}" if more > 0 else named


def update_row(row: Row, tests: Mapping[str, list[str]]) -> Row:
    """The row with a new proof; `not yet` with a test becomes `partly`."""
    claimed = tests.get(row.id, [])
    state = "partly" if claimed and row.state == "not yet" else row.state
    return replace(row, state=state, proof=proof_of(claimed))


def check(rows: list[Row], marks: list[Mark], *, table: str) -> list[str]:
    """All faults, one sentence each."""
    tests = tests_by_id(marks)
    faults = [
        f"{mark.test} (line {mark.line}) claims {mark.id}, which is no row of the mission"
        for mark in marks
        if mark.id not in IDS
    ]
    counts = Counter(row.id for row in rows)
    faults += [f"{table} lacks the row {id_}" for id_ in IDS if id_ not in counts]
    for row in rows:
        place = f"{table}:{row.line}: {row.id}"
        claimed = tests.get(row.id, [])
        if row.id not in IDS:
            faults.append(f"{place} is no row of the mission")
        elif counts[row.id] > 1:
            faults.append(f"{place} stands in the table {counts[row.id]} times")
        elif row.state not in STATES:
            faults.append(f"{place} has the state {row.state!r}: use one of {', '.join(STATES)}")
        elif row.state == "not yet" and claimed:
            faults.append(f"{place} is 'not yet', yet {claimed[0]} claims it: run make mission")
        elif row.state != "not yet" and not claimed:
            faults.append(
                f"{place} is {row.state!r}, and no test proves it: mark one with "
                f"@pytest.mark.mission(\"{row.id}\"), or set it to 'not yet'"
            )
        elif row.proof != proof_of(claimed):
            faults.append(f"{place} names tests other than those marked: run make mission")
    return faults


def main(arguments: list[str]) -> int:
    """Check, or update and check; 0 when table and tests agree."""
    parser = argparse.ArgumentParser(description="Hold docs/mission.md against the tests.")
    parser.add_argument("--update", action="store_true", help="rewrite the proof column first")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    table: Path = options.root / "docs" / "mission.md"
    try:
        rows = read_rows(table)
        files = marked_files(options.root)
        marks = read_marks(files)
    except MalformedError as err:
        sys.stderr.write(f"{err}\n")
        return 1
    if options.update:
        tests = tests_by_id(marks)
        rows = [update_row(row, tests) for row in rows]
        lines = table.read_text(encoding="utf-8").splitlines()
        for row in rows:
            lines[row.line - 1] = str(row)
        table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    faults = check(rows, marks, table="docs/mission.md") + idle_marks(files, marks)
    if faults:
        sys.stderr.write("\n".join(faults) + "\n")
        return 1
    states = Counter(row.state for row in rows)
    summary = ", ".join(f"{states[state]} {state}" for state in STATES)
    sys.stdout.write(f"mission: {len(rows)} rows: {summary}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
