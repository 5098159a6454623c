"""The wheel, and an environment that holds it and what the base asks for."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import dataclass
from email.parser import Parser
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
_EACH = """
import contextlib, io, json, sys
from lakewright.cli import main

ended = []
for words in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    ended.append((code, out.getvalue(), err.getvalue()))
print(json.dumps(ended))
"""


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Base:
    """An environment of its own, and an empty folder to work in."""

    python: Path
    folder: Path

    def lakewright(self, *arguments: str) -> Ended:
        return self.run("-m", "lakewright.cli", *arguments)

    def each_of(self, *commands: list[str]) -> list[Ended]:
        """Several commands, one after the other in one process."""
        ran = self.run("-c", _EACH, json.dumps(commands))
        assert ran.code == 0, ran.err
        return [Ended(*each) for each in json.loads(ran.out)]

    def run(self, *arguments: str) -> Ended:
        # Of the environment of this process nothing may say where modules lie.
        own = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        ran = subprocess.run(
            [str(self.python), *arguments],
            cwd=self.folder,
            env=own,
            capture_output=True,
            text=True,
            check=False,
        )
        return Ended(ran.returncode, ran.stdout, ran.stderr)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree, built beside it."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    # The rooms are links, whose files belong to the package.
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", source / "src", ignore=ignored)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source)
    build = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
    command = [sys.executable, "-W", "ignore", "-c", build, str(built)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (found,) = built.iterdir()
    return found


@pytest.fixture(scope="session")
def base(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Base:
    """The wheel unpacked, and links to what it asks for without extras, as installed here."""
    folder = tmp_path_factory.mktemp("base")
    command = [sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")]
    subprocess.run(command, check=True)
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site_of(folder / "venv"))
    link_requirements(wheel, folder / "venv")
    (folder / "work").mkdir()
    return Base(folder / "venv" / "bin" / "python", folder / "work")


def site_of(venv: Path) -> Path:
    """Where packages of an environment lie."""
    variables = {"base": str(venv), "platbase": str(venv)}
    return Path(sysconfig.get_path("purelib", "venv", variables))


def link_requirements(wheel: Path, venv: Path) -> None:
    """Link what the wheel asks for without extras into an environment, as installed here."""
    site = site_of(venv)
    with zipfile.ZipFile(wheel) as packed:
        (metadata,) = (each for each in packed.namelist() if each.endswith("dist-info/METADATA"))
        asked = Parser().parsestr(packed.read(metadata).decode()).get_all("Requires-Dist", [])
    for needed in _closure(asked).values():
        for top in {file.parts[0] for file in needed.files or () if ".." not in file.parts}:
            place = Path(str(needed.locate_file(top)))
            if top != "__pycache__" and not (site / top).exists():
                (site / top).symlink_to(place)


def _closure(
    asked: list[str], found: dict[str, Distribution] | None = None
) -> dict[str, Distribution]:
    """The installed distributions that requirements ask for without extras, all the way down."""
    found = {} if found is None else found
    for each in map(Requirement, asked):
        wanted = each.marker is None or each.marker.evaluate({"extra": ""})
        if wanted and each.name not in found:
            found[each.name] = distribution(each.name)
            _closure(list(found[each.name].requires or ()), found)
    return found
