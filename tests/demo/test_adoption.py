"""A newcomer's way, as the README has it: adopt, policy, shadow, live, undo."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lakewright.cli import main
from lakewright.platform.ledger.action import Verdict
from lakewright.platform.ledger.ledger import Ledger
from lakewright.storage import Catalog
from tests.support.tables.builders import content
from tests.support.tables.invariants import (
    assert_nothing_missing,
    assert_readable_history,
    unreachable_files,
)

README = Path(__file__).resolve().parents[2] / "README.md"


def lines() -> list[str]:
    (block,) = re.findall(r"```console\n(.*?)```", README.read_text(), re.DOTALL)
    return re.findall(r"^\$ (.*)$", block, re.MULTILINE)


def samples(line: str) -> list[str]:
    """What the README shows of what a command prints."""
    (block,) = re.findall(r"```console\n(.*?)```", README.read_text(), re.DOTALL)
    return block.partition(f"$ {line}\n")[2].partition("$ ")[0].splitlines()


def shape(printed: str) -> str:
    """A printed line without its figures, and without what the README leaves out at its end."""
    words = printed.rpartition("…")[0] or printed
    without = re.sub(r"\b[0-9a-f]{8}\b|[\d.,]+", "0", words.strip().rstrip(";"))
    return re.sub(r"0 (?:B|KiB|MiB|ms|s)\b", "0", " ".join(without.split()))


def test_the_lines_of_the_readme_work_in_an_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAKEWRIGHT_WAREHOUSE", raising=False)
    assert len(lines()) == 7
    run, told = "", {}
    for line in lines():
        program, *arguments = shlex.split(line.replace("RUN", run))
        if program != "lakewright":
            subprocess.run([program, *arguments], check=True)
            continue
        assert main(arguments) == 0, line
        told[line] = capsys.readouterr().out
        printed = list(map(shape, told[line].splitlines()))
        for sample in samples(line):
            assert any(each.startswith(shape(sample)) for each in printed), (sample, told[line])
        found = re.search(r"undo (\w+) reverts", told[line])
        run = found[1] if found else run
        if line == lines()[0]:
            catalog = Catalog.open("warehouse")
            before = {
                name: content(catalog.table(name))
                for name in told[line].partition("\n\n")[0].split()
            }
    for name, rows in before.items():
        table = catalog.table(name)
        assert content(table) == rows
        assert_readable_history(table)
        assert_nothing_missing(table)
        # The undo has brought back the files of dead writers, too.
        brought_back = 4 if name == "logs.clicks" else 0
        assert len(unreachable_files(table)) == brought_back
    files = {name: len(catalog.table(name).at().files()) for name in before}
    # What was undone has its small files again.
    assert files["shop.orders"] == files["logs.visits"] == 2
    assert files["logs.clicks"] == 30
    actions = Ledger(catalog).actions()
    assert {each.verdict for each in actions} <= {
        Verdict.SHADOW,
        Verdict.DONE,
        Verdict.NOTHING_TO_DO,
    }


def test_the_python_of_the_readme_keeps_a_neglected_warehouse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for line in lines()[:2]:
        assert main(shlex.split(line)[1:]) == 0
    policy = tmp_path / "policy.yaml"
    policy.write_text(policy.read_text().replace("mode: shadow", "mode: live"))
    (block,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    found: dict[str, Any] = {}
    exec(block, found)
    assert found["done"].actions
    assert found["done"].failed == ()
    # The compacted files, and the row that was updated.
    assert len(found["catalog"].table("logs.clicks").at().files()) == 3
