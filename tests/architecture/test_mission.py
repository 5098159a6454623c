"""docs/mission.md and the marks on the tests agree, and the tool that says so can tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import check_mission
from tools.check_mission import FAMILIES, HEADER, IDS, Row, main, read_rows

TEST_FILE = "tests/unit/test_columns.py"


class Project:
    """A throw-away project with a mission table and one file of tests."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.table = root / "docs" / "mission.md"
        self.table.parent.mkdir()
        rows = [f"| {id_} | not yet |  | what it means |" for id_ in IDS]
        self.table.write_text("\n".join(["# Mission", "", HEADER, "|---|---|---|---|", *rows, ""]))
        (root / TEST_FILE).parent.mkdir(parents=True)

    def write_tests(self, source: str) -> None:
        (self.root / TEST_FILE).write_text(f"import pytest\n\n{source}")

    def set_row(self, id_: str, state: str, proof: str = "") -> None:
        text = self.table.read_text()
        before = next(line for line in text.splitlines() if line.startswith(f"| {id_} |"))
        self.table.write_text(text.replace(before, f"| {id_} | {state} | {proof} | note |"))

    def row(self, id_: str) -> Row:
        return next(row for row in read_rows(self.table) if row.id == id_)

    def check(self, *arguments: str) -> int:
        return main(["--root", str(self.root), *arguments])


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_the_mission_has_a_row_for_every_promise() -> None:
    assert [row.id for row in read_rows(check_mission.ROOT / "docs" / "mission.md")] == list(IDS)
    assert sum(FAMILIES.values()) == len(IDS) == 317


def test_a_mark_moves_its_row_to_partly_and_names_the_test(project: Project) -> None:
    project.write_tests('@pytest.mark.mission("SE2", "PT3")\ndef test_add(): ...\n')
    assert project.check("--update") == 0
    assert project.row("SE2").state == project.row("PT3").state == "partly"
    assert project.row("SE2").proof == f"`{TEST_FILE}::test_add`"
    assert project.row("SE3").state == "not yet"
    assert project.row("SE2").note == "what it means"


def test_marks_count_on_classes_files_and_parameters(project: Project) -> None:
    project.write_tests(
        'pytestmark = [pytest.mark.mission("SE1")]\n\n'
        '@pytest.mark.mission("SE2")\n'
        "class TestColumns:\n"
        '    @pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.mission("SE3"))])\n'
        "    def test_it(self, x): ...\n"
    )
    assert project.check("--update") == 0
    for id_ in ("SE1", "SE2", "SE3"):
        assert project.row(id_).proof == f"`{TEST_FILE}::TestColumns::test_it`"


def test_a_class_that_has_its_tests_from_another_is_named_itself(project: Project) -> None:
    project.write_tests(
        '@pytest.mark.mission("SE1")\nclass TestMachine(Machine.TestCase):\n    settings = 1\n'
    )
    assert project.check("--update") == 0
    assert project.row("SE1").proof == f"`{TEST_FILE}::TestMachine`"


def test_a_mark_that_is_on_no_test_is_told(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write_tests('pytestmark = pytest.mark.mission("SE1")\nTestIt = Machine.TestCase\n')
    assert project.check() == 1
    assert f"{TEST_FILE}:3: a mission mark that is on no test" in capsys.readouterr().err


def test_a_state_people_set_stays(project: Project) -> None:
    project.write_tests('@pytest.mark.mission("SE2")\ndef test_add(): ...\n')
    project.set_row("SE2", "done")
    assert project.check("--update") == 0
    assert project.row("SE2").state == "done"


def test_many_tests_are_counted_rather_than_listed(project: Project) -> None:
    tests = "".join(
        f'@pytest.mark.mission("SE2")\ndef test_{number}(): ...\n' for number in range(5)
    )
    project.write_tests(tests)
    assert project.check("--update") == 0
    assert project.row("SE2").proof.endswith("::test_0` +4")


@pytest.mark.parametrize(
    ("source", "state", "fault"),
    [
        ('@pytest.mark.mission("SE99")\ndef test_x(): ...\n', "not yet", "no row of the mission"),
        ("def test_x(): ...\n", "done", "no test proves it"),
        ('@pytest.mark.mission("SE2")\ndef test_x(): ...\n', "not yet", "run make mission"),
        ('@pytest.mark.mission("SE2")\ndef test_x(): ...\n', "done", "other than those marked"),
        ("def test_x(): ...\n", "nearly", "use one of done, partly, not yet"),
        ("@pytest.mark.mission(ID)\ndef test_x(): ...\n", "not yet", "plain strings"),
        ('@pytest.mark.mission("SE2")\ndef helper(): ...\n', "done", "no test proves it"),
    ],
    ids=["unknown", "unproven", "unclaimed", "stale", "state", "computed", "no-test"],
)
def test_disagreement_is_told(
    project: Project, capsys: pytest.CaptureFixture[str], source: str, state: str, fault: str
) -> None:
    project.write_tests(source)
    project.set_row("SE2", state)
    assert project.check() == 1
    assert fault in capsys.readouterr().err


def test_a_lost_row_is_told(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    lines = project.table.read_text().splitlines()
    project.table.write_text("\n".join(line for line in lines if not line.startswith("| LG7 |")))
    assert project.check() == 1
    assert "lacks the row LG7" in capsys.readouterr().err
