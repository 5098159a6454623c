"""The rooms: which may import which, and why a folder named platform does no harm."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT

LINKED_ROOMS = ("storage", "connectors", "session", "platform", "assets", "jobs")
LOCKS = sorted([*ROOT.glob("*.lock"), *ROOT.glob("tests/oracles/*.lock")])


def run_python(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )


# `make check` asks the same of the project itself.
def test_the_room_without_an_init_is_held_to_the_contracts_too(tmp_path: Path) -> None:
    for room in ("assets", "platform"):
        (tmp_path / room).mkdir()
    (tmp_path / "assets" / "__init__.py").touch()
    (tmp_path / "platform" / "upward.py").write_text("import lakewright.assets\n")
    front_door = tmp_path / "src" / "lakewright"
    front_door.mkdir(parents=True)
    (front_door / "__init__.py").touch()
    for room in ("assets", "platform"):
        (front_door / room).symlink_to(Path("../..") / room)
    (tmp_path / "pyproject.toml").write_text(
        '[tool.importlinter]\nroot_packages = ["lakewright"]\n'
        '[[tool.importlinter.contracts]]\nname = "rooms"\ntype = "layers"\n'
        'layers = ["lakewright.assets", "lakewright.platform"]\n'
    )
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "lint_imports.py", tmp_path / "tools")

    result = run_python("tools/lint_imports.py", cwd=tmp_path)

    assert result.returncode == 1, result.stdout + result.stderr
    assert "lakewright.platform.upward -> lakewright.assets (l.1)" in result.stdout
    assert not (tmp_path / "platform" / "__init__.py").exists()


@pytest.mark.parametrize("room", LINKED_ROOMS)
def test_rooms_are_relative_links(room: str) -> None:
    link = ROOT / "src" / "lakewright" / room
    assert link.is_symlink()
    assert link.readlink() == Path("../..") / room


def test_the_platform_room_never_becomes_a_package() -> None:
    assert not (ROOT / "platform" / "__init__.py").exists()


def test_no_module_lies_at_the_root() -> None:
    assert not list(ROOT.glob("*.py"))


def test_import_platform_is_the_standard_librarys() -> None:
    code = (
        "import platform, sysconfig; print(platform.__file__); print(sysconfig.get_path('stdlib'))"
    )
    for arguments in (("-c", code), ("-m", "timeit", "-n1", "-r1", "-s", code, "pass")):
        result = run_python(*arguments)
        file, stdlib = result.stdout.splitlines()[:2]
        assert Path(file).parent.samefile(stdlib), result.stderr


def test_running_a_module_from_the_root_finds_the_standard_platform() -> None:
    result = run_python("-m", "platform")
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_locks_pin_every_package_and_name_no_place(lock: Path) -> None:
    lines = lock.read_text(encoding="utf-8").splitlines()
    pins = [index for index, line in enumerate(lines) if line and line[0] not in " #"]
    assert pins
    assert not [line for line in lines if "://" in line or " @ " in line or line.startswith("-")]
    assert not [lines[index] for index in pins if "==" not in lines[index]]
    assert not [
        lines[index] for index in pins if not lines[index + 1].strip().startswith("--hash=sha256:")
    ]
