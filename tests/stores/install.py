"""Install the stores' servers that are no Python packages: `python tests/stores/install.py FOLDER`.

Azurite comes from npm, Hadoop's small cluster, Hive's metastores, Kafka and Paimon's plugin for S3
by Maven, fake-gcs-server and MinIO by the Go toolchain, which takes minutes to compile them. What
has no tool here is left out, and the tests that want it say so and are skipped; what could not be
brought here is an error, to be tried again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

AZURITE = "azurite@3.35.0"
MINIO = "github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c"
FAKE_GCS = "github.com/fsouza/fake-gcs-server@v1.56.1"
# Of the version that the oracle `java_latest` is.
PAIMON_S3 = "org.apache.paimon:paimon-s3:1.4.2"
HERE = Path(__file__).parent
POMS = {
    "hadoop": HERE / "hdfs" / "pom.xml",
    "hive3": HERE / "hive" / "pom-3.xml",
    "hive4": HERE / "hive" / "pom-4.xml",
    "kafka": HERE / "kafka" / "pom.xml",
    "debezium": HERE / "debezium" / "pom.xml",
}


def install(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {
        "azurite": ["npm", "install", "--no-audit", "--no-fund", "--prefix", "azurite", AZURITE],
        "bin": ["go", "install", FAKE_GCS],
        "minio": ["go", "install", "-trimpath", "-ldflags=-s -w", MINIO],
        "paimon-s3": [
            *("mvn", "--batch-mode", "--quiet", "dependency:copy"),
            *(f"-Dartifact={PAIMON_S3}", f"-DoutputDirectory={folder / 'paimon-s3'}"),
        ],
        **{name: _copied(pom, folder / name) for name, pom in POMS.items()},
    }
    failed = []
    for name, command in wanted.items():
        # What was installed as it is wanted now; another version takes its place.
        mark = folder / f"{name}.installed"
        wish = "\n".join([*command, POMS[name].read_text() if name in POMS else ""])
        if mark.exists() and mark.read_text() == wish:
            continue
        if shutil.which(command[0]) is None:
            sys.stdout.write(f"{command[0]} is not here: tests that want {name} will be skipped\n")
            continue
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir()
        environment = {**os.environ, "GOBIN": str(folder / name), "CGO_ENABLED": "0"}
        if subprocess.run(command, cwd=folder, env=environment, check=False).returncode:
            shutil.rmtree(folder / name, ignore_errors=True)
            failed.append(name)
        else:
            mark.write_text(wish)
    if failed:
        sys.exit(f"not installed, try again: {', '.join(failed)}")


def _copied(pom: Path, into: Path) -> list[str]:
    """What copies the jars that a project needs to run."""
    return [
        "mvn",
        "--batch-mode",
        "--quiet",
        f"--file={pom}",
        "dependency:copy-dependencies",
        f"-DoutputDirectory={into}",
    ]


if __name__ == "__main__":
    install(Path(sys.argv[1]).resolve())
