"""Fetches Flink's libraries into a folder: `install.py FOLDER`."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

_LIBRARIES = "apache-flink-libraries==2.0.1"
_FORMATS = (
    "org.apache.flink:flink-sql-avro:2.0.0",
    "org.apache.flink:flink-sql-avro-confluent-registry:2.0.0",
    "org.apache.flink:flink-sql-connector-kafka:4.0.1-2.0",
)
_OF_JOBS = ("org.apache.paimon:paimon-flink-2.0:1.4.2", "commons-logging:commons-logging:1.3.0")


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if not list(folder.rglob("flink-json-*.jar")):
        pip = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--dest",
            str(folder),
        ]
        subprocess.run([*pip, _LIBRARIES], check=True)
        archive = next(folder.glob("apache_flink_libraries-*.tar.gz"))
        with tarfile.open(archive) as held:
            held.extractall(folder, filter="data")
        archive.unlink()
    for each in _FORMATS:
        _copy(each, folder)
    for each in _OF_JOBS:
        _copy(each, folder / "more")


def _copy(artifact: str, folder: Path) -> None:
    _, name, version = artifact.split(":")
    if not (folder / f"{name}-{version}.jar").exists():
        copied = ["dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
        subprocess.run(["mvn", "--batch-mode", "--quiet", *copied], check=True)


if __name__ == "__main__":
    main()
