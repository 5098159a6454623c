"""Install servers that are no Python packages: `python tests/stores/install.py FOLDER [NAME…]`.

Azurite comes from npm, Hadoop's small cluster and its client of S3, Hive's metastores, Kafka,
Debezium, Paimon's plugin for S3 and the server of its REST catalog by Maven, fake-gcs-server and
MinIO by the Go toolchain, which takes minutes to compile them. PostgreSQL and MariaDB come from
Debian's archive and are unpacked into the folder, unless they are on this machine. What has no tool
here is left out, and the tests that want it say so and are skipped; what could not be brought here
is an error, to be tried again. Of the servers that are asked for by name it is no error: their
tests are skipped, too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

AZURITE = "azurite@3.35.0"
MINIO = "github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c"
FAKE_GCS = "github.com/fsouza/fake-gcs-server@v1.56.1"
# Of the version that the oracle `java_latest` is.
PAIMON_S3 = "org.apache.paimon:paimon-s3:1.4.2"
HERE = Path(__file__).parent
POMS = {
    "hadoop": HERE / "hdfs" / "pom.xml",
    "hadoop-aws": HERE / "hadoop-aws" / "pom.xml",
    "hive3": HERE / "hive" / "pom-3.xml",
    "hive4": HERE / "hive" / "pom-4.xml",
    "kafka": HERE / "kafka" / "pom.xml",
    "debezium": HERE / "debezium" / "pom.xml",
    "rest": HERE / "rest" / "pom.xml",
}


# The package of each, and a program of it.
DEBIAN = {"postgres": ("postgresql", "postgres"), "mariadb": ("mariadb-server", "mariadbd")}
# What `make test-servers` wants.
SERVERS = ("kafka", "debezium", *DEBIAN)


def install(folder: Path, names: Sequence[str] = ()) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    commands = {
        "azurite": ["npm", "install", "--no-audit", "--no-fund", "--prefix", "azurite", AZURITE],
        "bin": ["go", "install", FAKE_GCS],
        "minio": ["go", "install", "-trimpath", "-ldflags=-s -w", MINIO],
        "paimon-s3": [
            *("mvn", "--batch-mode", "--quiet", "dependency:copy"),
            *(f"-Dartifact={PAIMON_S3}", f"-DoutputDirectory={folder / 'paimon-s3'}"),
        ],
        **{name: _copied(pom, folder / name) for name, pom in POMS.items()},
        **{
            name: [sys.executable, __file__, "--unpack", package]
            for name, (package, program) in DEBIAN.items()
            if not found_on_system(program)
        },
    }
    wanted = names or [name for name in commands if name not in SERVERS]
    failed = []
    for name in wanted:
        if name not in commands:
            continue
        command = commands[name]
        # What was installed as it is wanted now; another version takes its place.
        mark = folder / f"{name}.installed"
        wish = "\n".join([*command, POMS[name].read_text() if name in POMS else ""])
        if mark.exists() and mark.read_text() == wish:
            continue
        tool = "apt-get" if name in DEBIAN else command[0]
        if shutil.which(tool) is None:
            sys.stdout.write(f"{tool} is not here: tests that want {name} will be skipped\n")
            continue
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir()
        environment = {**os.environ, "GOBIN": str(folder / name), "CGO_ENABLED": "0"}
        place = folder / name if name in DEBIAN else folder
        if subprocess.run(command, cwd=place, env=environment, check=False).returncode:
            shutil.rmtree(folder / name, ignore_errors=True)
            failed.append(name)
        else:
            mark.write_text(wish)
    if failed and names:
        sys.stdout.write(f"could not be had, so their tests are skipped: {', '.join(failed)}\n")
    elif failed:
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


def found_on_system(program: str) -> str | None:
    """Where a server of a database is; Debian puts some where no PATH leads."""
    places = ["/usr/sbin", *map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin")))]
    return shutil.which(program) or shutil.which(program, path=os.pathsep.join(places))


def _unpack(package: str) -> None:
    """Unpack a package and what it needs into this folder; the system stays as it is."""
    asked = ["apt-get", "install", "--print-uris", "-qq", "-y", "--no-install-recommends", package]
    lines = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.splitlines()
    names = [each.split()[1].partition("_")[0] for each in lines if each.startswith("'")]
    subprocess.run(["apt-get", "download", "-qq", *names], check=True)
    for archive in Path.cwd().glob("*.deb"):
        subprocess.run(["dpkg", "-x", archive, "."], check=True)
        archive.unlink()


if __name__ == "__main__":
    if sys.argv[1] == "--unpack":
        _unpack(sys.argv[2])
    else:
        install(Path(sys.argv[1]).resolve(), sys.argv[2:])
