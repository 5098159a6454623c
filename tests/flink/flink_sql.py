"""Flink's SQL in a process of its own: statements that end, and jobs that run beside a test."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

_SOURCE = Path(__file__).parent / "FlinkStatements.java"
_OPENED = ("util", "lang", "lang.invoke", "util.concurrent", "nio")
_SECONDS = 120


@dataclass(frozen=True)
class FlinkSql:
    """Flink over one warehouse, its catalog `p`; `folder` has the jars."""

    folder: Path
    warehouse: str
    work: Path
    memory: str = "1g"

    @contextmanager
    def job(
        self, statements: str, settings: Mapping[str, str] | None = None, *, name: str = "job"
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Statements in streaming mode with checkpoints each second, killed in the end."""
        asked = {
            "execution.runtime-mode": "streaming",
            "execution.checkpointing.interval": "1 s",
            **(settings or {}),
        }
        process = self._started(statements, asked, name)
        try:
            yield process
        finally:
            process.kill()
            process.wait(timeout=60)

    def ended(self, process: subprocess.Popen[bytes], *, name: str = "job") -> str:
        """What a job printed, when it has ended well."""
        code = process.wait(timeout=_SECONDS)
        said = self.said(name)
        assert code == 0, said[-4000:]
        return said

    def said(self, name: str = "job") -> str:
        return (self.work / f"{name}.out").read_text()

    def rows(self, statements: str, *, mode: str = "batch") -> list[tuple[str, ...]]:
        """The rows that a query gives, as texts; after all changes, in streaming mode."""
        process = self._started(f"{statements};", {"execution.runtime-mode": mode}, "query")
        rows: Counter[tuple[str, ...]] = Counter()
        for line in self.ended(process, name="query").splitlines():
            if line.startswith("row\t"):
                _, kind, *values = line.split("\t")
                rows[tuple(values)] += -1 if kind in ("-D", "-U") else 1
        assert min(rows.values(), default=0) >= 0
        return sorted(rows.elements())

    def _started(
        self, statements: str, settings: Mapping[str, str], name: str
    ) -> subprocess.Popen[bytes]:
        command, environment = self.command(statements, settings, name)
        with (self.work / f"{name}.out").open("wb") as out:
            return subprocess.Popen(command, env=environment, stdout=out, stderr=subprocess.STDOUT)

    def command(
        self, statements: str, settings: Mapping[str, str], name: str
    ) -> tuple[list[str], dict[str, str]]:
        """What runs statements, and the variables that it wants."""
        text = f"""
            CREATE CATALOG p WITH ('type' = 'paimon', 'warehouse' = 'file://{self.warehouse}');
            USE CATALOG p;
            {statements}
        """
        file = self.work / f"{name}.sql"
        file.write_text(text)
        configuration = self.work / "conf"
        configuration.mkdir(exist_ok=True)
        (configuration / "config.yaml").write_text(
            "rest:\n  address: 127.0.0.1\n  bind-address: 127.0.0.1\n"
        )
        spark = Path(pyspark.__file__).parent / "jars"
        hadoop = [
            *spark.glob("hadoop-client-api-*.jar"),
            *spark.glob("hadoop-client-runtime-*.jar"),
        ]
        jars = [*self.folder.rglob("*.jar"), *hadoop]
        opened = [f"--add-opens=java.base/java.{each}=ALL-UNNAMED" for each in _OPENED]
        given = {"parallelism.default": "2", **settings}
        command = [
            "java",
            f"-Xmx{self.memory}",
            "-Djava.net.preferIPv4Stack=true",
            *opened,
            "-cp",
            os.pathsep.join(map(str, jars)),
            str(_SOURCE),
            str(file),
            *(f"{key}={value}" for key, value in given.items()),
        ]
        return command, {**os.environ, "FLINK_CONF_DIR": str(configuration)}
