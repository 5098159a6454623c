"""Install the Paimon clients that the interop tests compare with, one environment for each.

Usage: python tests/oracles/install.py TARGET_DIR [NAME ...]
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import time
import venv
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
STAMP = "installed.sha256"

# Locks of one environment are installed in order: what a later one needs to build comes first.
LOCKS: dict[str, tuple[str, ...]] = {
    "pypaimon": ("pypaimon.lock",),
    "java": ("java-build.lock", "java.lock"),
    "rust": ("rust.lock",),
    "java_latest": ("java-latest.lock",),
    # No client of Paimon: a reader of Iceberg metadata.
    "duckdb_iceberg": ("duckdb-iceberg.lock",),
    # Jars alone, which this process itself runs.
    "flink": (),
}


@dataclass(frozen=True, slots=True)
class Jar:
    """A file of Maven Central, which no Python package carries."""

    artifact: str
    sha256: str


# What goes into `jars/` of an environment. Only Maven brings it: where that is missing the
# environment is left out, and the tests that want it are skipped.
JARS: dict[str, tuple[Jar, ...]] = {
    "java_latest": (
        Jar(
            artifact="org.apache.paimon:paimon-bundle:1.4.2",
            sha256="85a1587409e6c044b46eb20370a46ecd288576b8bc7aadf6b0432a4f2370f5d1",
        ),
        # What its JDBC catalog speaks to a database with.
        Jar(
            artifact="org.xerial:sqlite-jdbc:3.46.1.3",
            sha256="4a4832720a65eaf7f4d6fd7ede52087b994dc5633c076f9e994dc0c8b4b0b4fa",
        ),
    ),
    # Flink's parser, and what it is made of.
    "flink": (
        Jar(
            artifact="org.apache.flink:flink-sql-parser:2.3.0",
            sha256="2210424a83fff71a3653179b8447914cec6a118919cf9b61d3ed2e994b05b5ae",
        ),
        Jar(
            artifact="org.apache.calcite:calcite-core:1.36.0",
            sha256="1322396c24f0c80c03fc4ac8ed4f35e61d97d6717b74a6da866502c8e59827b7",
        ),
        Jar(
            artifact="org.apache.calcite:calcite-linq4j:1.36.0",
            sha256="8e5a76cbfb997157a4abe9de52a6d92515a6e611f13c8b46312982d46ea6ff3f",
        ),
        Jar(
            artifact="org.apache.calcite.avatica:avatica-core:1.23.0",
            sha256="9e138b51f28da396fec4e29574f05d60c8ea56551c2a6213fdb90f269e63ed7f",
        ),
        Jar(
            artifact="com.google.guava:guava:32.1.3-jre",
            sha256="6d4e2b5a118aab62e6e5e29d185a0224eed82c85c40ac3d33cf04a270c3b3744",
        ),
        Jar(
            artifact="com.google.guava:failureaccess:1.0.1",
            sha256="a171ee4c734dd2da837e4b16be9df4661afab72a41adaf31eb84dfdaf936ca26",
        ),
        Jar(
            artifact="org.slf4j:slf4j-api:1.7.36",
            sha256="d3ef575e3e4979678dc01bf1dcce51021493b4d11fb7f1be8ad982877c16a1c0",
        ),
    ),
}


def fingerprint(name: str) -> str:
    """Digest of everything that decides what the environment `name` holds."""
    digest = hashlib.sha256(f"{sys.version_info[:3]}".encode())
    for lock in LOCKS[name]:
        digest.update((HERE / lock).read_bytes())
    if name in JARS:
        digest.update(repr(JARS[name]).encode())
    return digest.hexdigest()


def install(target: Path, name: str) -> None:
    """Make `target/name` match its locks, touching nothing when it already does."""
    home = target / name
    stamp = home / STAMP
    wanted = fingerprint(name)
    if stamp.is_file() and stamp.read_text() == wanted:
        print(f"{name}: up to date in {home}", flush=True)
        return
    if name in JARS and shutil.which("mvn") is None:
        print(f"{name}: left out, as mvn is not here; tests that want it are skipped", flush=True)
        return
    print(f"{name}: creating {home}", flush=True)
    started = time.monotonic()
    if LOCKS[name]:
        venv.create(home, clear=True, with_pip=True, symlinks=os.name != "nt")
    else:
        home.mkdir(parents=True, exist_ok=True)
    for lock in LOCKS[name]:
        print(f"{name}: installing {lock}", flush=True)
        subprocess.run(
            [
                str(home / "bin" / "python"),
                *("-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
                *("--require-hashes", "--no-deps", "--no-build-isolation", "--use-pep517"),
                *("--requirement", str(HERE / lock)),
            ],
            check=True,
        )
    if name in JARS:
        for jar in JARS[name]:
            fetch(jar, home / "jars")
    stamp.write_text(wanted)
    print(f"{name}: installed in {time.monotonic() - started:.0f} s", flush=True)


def fetch(jar: Jar, folder: Path) -> None:
    """Copy `jar` into `folder`, and keep it there only when it is the one expected."""
    print(f"fetching {jar.artifact}", flush=True)
    subprocess.run(
        [
            *("mvn", "--batch-mode", "--quiet", "dependency:copy"),
            *(f"-Dartifact={jar.artifact}", f"-DoutputDirectory={folder}"),
        ],
        # No project of Maven's lies above it.
        cwd=folder.parent,
        check=True,
    )
    copied = folder / "{1}-{2}.jar".format(*jar.artifact.split(":"))
    found = hashlib.sha256(copied.read_bytes()).hexdigest()
    if found != jar.sha256:
        copied.unlink()
        sys.exit(f"{jar.artifact}: sha256 is {found}, not {jar.sha256}; nothing was installed")


def main() -> None:
    parser = argparse.ArgumentParser(description="install the oracles of the interop tests")
    parser.add_argument("target", type=Path, help="directory that holds one environment per oracle")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"any of {', '.join(LOCKS)}; all by default"
    )
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in LOCKS]
    if unknown:
        parser.error(f"unknown oracles {', '.join(unknown)}; choose from {', '.join(LOCKS)}")
    target = arguments.target.resolve()
    target.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or LOCKS:
        install(target, name)


if __name__ == "__main__":
    main()
