"""The Dockerfile of docs/how-to/deploying.md, line by line as a shell script, without Docker."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pip
import pytest

from tests.packaging.conftest import ROOT, Base, link_requirements, site_of


def dockerfile() -> list[tuple[str, str]]:
    page = (ROOT / "docs" / "how-to" / "deploying.md").read_text()
    (block,) = re.findall(r"^```dockerfile\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    return [(line.split()[0], line.partition(" ")[2]) for line in block.splitlines()]


def script(root: Path) -> Iterator[str]:
    """What Docker does for each line, with paths of the container below `root`."""
    yield "set -eu"
    for instruction, words in dockerfile():
        match instruction:
            case "WORKDIR":
                yield f"mkdir -p {root}{words} && cd {root}{words}"
            case "COPY":
                source, _, target = words.partition(" ")
                yield f"cp {root}/context/{source} {target}"
            case "ENV":
                name, _, value = words.partition("=")
                yield f"export {name}={root}{value}"
            case "RUN":
                yield words
            case "CMD":
                yield shlex.join(json.loads(words))
            case _:
                assert instruction in {"FROM", "USER"}


@pytest.fixture
def venv(wheel: Path, tmp_path: Path) -> Path:
    """An environment with pip and what the wheel asks for, so that installing needs no network."""
    made = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(made)], check=True)
    link_requirements(wheel, made)
    # A link to the one that is here: to unpack another takes as long as all that follows.
    (site_of(made) / "pip").symlink_to(Path(pip.__file__).parent)
    command = made / "bin" / "pip"
    command.write_text(f"#!{made}/bin/python\nimport pip\nraise SystemExit(pip.main())\n")
    command.chmod(0o755)
    return made


def test_the_container_keeps_a_warehouse(
    base: Base, wheel: Path, venv: Path, tmp_path: Path
) -> None:
    context = tmp_path / "context"
    context.mkdir()
    shutil.copy(wheel, context)
    warehouse = str(tmp_path / "warehouse")
    assert base.lakewright("--warehouse", warehouse, "demo", "--neglected").code == 0
    policy = "warehouse: {mode: live, compaction: {small_files: 5}}\n"
    (context / "policy.yaml").write_text(policy)
    before = base.lakewright("--warehouse", warehouse, "files", "logs.clicks", "--format", "csv")

    ran = subprocess.run(
        ["sh", "-c", "\n".join(script(tmp_path))],
        env={"PATH": f"{venv}/bin:/usr/bin:/bin", "PIP_NO_INDEX": "1", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "files became" in ran.stdout
    after = base.lakewright("--warehouse", warehouse, "files", "logs.clicks", "--format", "csv")
    assert len(after.out.splitlines()) < len(before.out.splitlines())
