"""The tests' side of the oracles: real Paimon clients as objects with typed methods.

An oracle starts its process with the first call and keeps it, so make one per test session.
Values in rows are canonical JSON values, as `canonical` spells them.
"""

from __future__ import annotations

import importlib.util
import json
import os
import queue
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal, Self

HERE = Path(__file__).resolve().parent
STDERR_TAIL_BYTES = 4000
TIMEOUT_SECONDS = 900.0

Row = dict[str, Any]
DataType = str | Mapping[str, Any]
Fields = Mapping[str, DataType]
RowKind = Literal["+I", "-U", "+U", "-D"]
# A column, an operator (= != < <= > >=) and a canonical value,
# or a column and "is null" or "is not null".
Condition = tuple[str, str, Any] | tuple[str, str]
Overwrite = Literal["dynamic", "table"] | Mapping[str, str]


class OracleError(Exception):
    """A client refused a request, or its process died.

    `kind` is the client's own name of the error, or "died" or "timeout".
    """

    def __init__(self, oracle: str, command: str, kind: str, message: str) -> None:
        super().__init__(f"{oracle} cannot {command}: {kind}: {message}")
        self.oracle = oracle
        self.command = command
        self.kind = kind
        self.message = message


@dataclass(frozen=True, slots=True)
class BinaryRow:
    """What Java makes of one row: arity-prefixed bytes in hex, and `BinaryRow.hashCode()`."""

    hex: str
    hash: int


@dataclass(frozen=True, slots=True)
class Change:
    """One row of a changelog, and the snapshot that carries it."""

    snapshot: int
    kind: RowKind
    row: Row


class Oracle:
    """A client that can read tables."""

    def __init__(
        self, name: str, command: Sequence[str], timeout_seconds: float = TIMEOUT_SECONDS
    ) -> None:
        self.name = name
        self._command = tuple(command)
        self._timeout_seconds = timeout_seconds
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._stderr: IO[bytes] | None = None

    def read(
        self,
        warehouse: str | Path,
        table: str,
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        where: Sequence[Condition] = (),
        options: Mapping[str, str] | None = None,
    ) -> list[Row]:
        """Rows merged by primary key, in no promised order.

        `where` keeps the rows that meet every condition: the client prunes by them too.
        `options` are dynamic table options. System tables are read as "database.table$files".
        """
        return list(
            self._call(
                "read",
                warehouse,
                table,
                snapshot=snapshot,
                tag=tag,
                where=[list(condition) for condition in where],
                options=dict(options or {}),
            )
        )

    def open(self, warehouse: str | Path, table: str) -> None:
        """Open a table for `read_opened`, as a process that runs for long; a client has one."""
        self._call("open", warehouse, table)

    def read_opened(self, *, where: Sequence[Condition] = ()) -> list[Row]:
        """Rows of the latest snapshot, by the schema that the table had when it was opened."""
        return list(self._request("read_opened", where=[list(each) for each in where]))

    def planned_files(
        self, warehouse: str | Path, table: str, *, where: Sequence[Condition] = ()
    ) -> dict[str, int]:
        """The data files that a read with this filter would open, and their bytes."""
        conditions = [list(condition) for condition in where]
        return dict(self._call("planned_files", warehouse, table, where=conditions))

    def started_by(self, *command: str) -> Self:
        """The same client in a process of its own, which this command starts, such as a tracer."""
        made = copy(self)
        made._command = (*command, *self._command)
        made._process = None
        return made

    def close(self) -> None:
        """End the process. A later call starts a new one."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        try:
            process.stdin.close()
            process.wait(timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            process.kill()
            process.wait()
        if self._stderr is not None:
            self._stderr.close()

    def kill(self) -> None:
        """End the process as a crash would: what it has begun stays behind."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()
        if self._stderr is not None:
            self._stderr.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _call(self, command: str, warehouse: str | Path, table: str, **arguments: Any) -> Any:
        return self._request(command, warehouse=str(warehouse), table=table, **arguments)

    def _request(self, command: str, **arguments: Any) -> Any:
        process = self._process or self._start()
        assert process.stdin is not None
        try:
            process.stdin.write(
                json.dumps({"command": command, **arguments}, allow_nan=False) + "\n"
            )
            process.stdin.flush()
            line = self._answers.get(timeout=self._timeout_seconds)
        except queue.Empty:
            raise self._dead(
                command, "timeout", f"no answer in {self._timeout_seconds:.0f} s"
            ) from None
        except BrokenPipeError:
            line = None
        if line is None:
            raise self._dead(command, "died", "the process ended") from None
        answer = json.loads(line)
        if "error" in answer:
            raise OracleError(self.name, command, answer["error"], answer["message"])
        return answer["result"]

    def _start(self) -> subprocess.Popen[str]:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._answers = queue.SimpleQueue()
        process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
            encoding="utf-8",
            # The drivers are modules of this package, imported from the directory above it.
            cwd=HERE.parent,
            env={
                name: value for name, value in os.environ.items() if not name.startswith("PYTHON")
            },
        )
        self._process = process
        threading.Thread(target=pump, args=(process, self._answers), daemon=True).start()
        return process

    def _dead(self, command: str, kind: str, message: str) -> OracleError:
        """The error for a process that is lost, which is ended here."""
        process, stderr = self._process, self._stderr
        self._process = None
        assert process is not None
        assert process.stdin is not None
        assert stderr is not None
        if kind == "timeout":
            process.kill()
        with suppress(OSError):
            process.stdin.close()
        try:
            code = process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        stderr.seek(max(0, stderr.seek(0, os.SEEK_END) - STDERR_TAIL_BYTES))
        tail = stderr.read().decode(errors="replace").strip()
        stderr.close()
        return OracleError(
            self.name, command, kind, f"{message}, exit code {code}; its last words:\n{tail}"
        )


class WritingOracle(Oracle):
    """A client that can create, alter and write tables as well.

    Type strings are those of a schema file ("BIGINT NOT NULL"); nested types are the objects found
    there, where the ids of row fields may be left out.
    """

    @contextmanager
    def using_catalog(self, options: Mapping[str, str]) -> Iterator[None]:
        """Catalogs are opened with these options during the context; Java 0.9 has no such way."""
        self._request("use_catalog", options=dict(options))
        try:
            yield
        finally:
            self._request("use_catalog", options={})

    def create(
        self,
        warehouse: str | Path,
        table: str,
        fields: Fields,
        *,
        partition_keys: Sequence[str] = (),
        primary_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> None:
        """Create `table`, given as "database.table", and its database if need be."""
        self._call(
            "create",
            warehouse,
            table,
            fields=[{"name": name, "type": data_type} for name, data_type in fields.items()],
            partition_keys=list(partition_keys),
            primary_keys=list(primary_keys),
            options=dict(options or {}),
        )

    def alter(self, warehouse: str | Path, table: str, *changes: Mapping[str, Any]) -> None:
        """Apply schema changes in one commit.

        A change is {"add_column": name, "type": t}, {"drop_column": name},
        {"rename_column": name, "to": new}, {"update_type": name, "type": t}, {"move_first": name},
        {"set_option": key, "value": v} or {"remove_option": key}. The newest Java takes a
        list of names where a column of a nested row is meant.
        """
        self._call("alter", warehouse, table, changes=list(changes))

    def write(
        self,
        warehouse: str | Path,
        table: str,
        rows: Sequence[Mapping[str, Any]],
        *,
        kinds: Sequence[RowKind] | None = None,
        overwrite: Overwrite | None = None,
        options: Mapping[str, str] | None = None,
        commit_user: str | None = None,
        commit_identifier: int | None = None,
    ) -> int | None:
        """Write `rows` in one commit; the id of the latest snapshot after it.

        `overwrite` replaces the partitions met in `rows` ("dynamic"), the whole table ("table")
        or one static partition. Columns that a row lacks are null. A commit user or identifier
        makes it a streaming commit.
        """
        written = self._call(
            "write",
            warehouse,
            table,
            rows=list(rows),
            kinds=None if kinds is None else list(kinds),
            overwrite=overwrite,
            options=dict(options or {}),
            commit_user=commit_user,
            commit_identifier=commit_identifier,
        )
        return None if written is None else int(written)

    def begin_write(
        self,
        warehouse: str | Path,
        table: str,
        rows: Sequence[Mapping[str, Any]],
        *,
        prepare: bool = False,
        overwrite: Mapping[str, str] | None = None,
    ) -> None:
        """Open `table` and write `rows` without a commit; the client has one such write.

        With `prepare` the files are finished, as by a writer that dies before its commit. The
        commit replaces the partition `overwrite`, if one is given.
        """
        spec = {} if overwrite is None else {"overwrite": dict(overwrite)}
        self._call("begin_write", warehouse, table, rows=list(rows), prepare=prepare, **spec)

    def finish_write(
        self, warehouse: str | Path, table: str, rows: Sequence[Mapping[str, Any]]
    ) -> int | None:
        """Write more rows with the writer of `begin_write`, and commit all of them."""
        written = self._call("finish_write", warehouse, table, rows=list(rows))
        return None if written is None else int(written)

    def snapshots(self, warehouse: str | Path, table: str) -> list[dict[str, Any]]:
        """The snapshots as the client parsed them, oldest first, by the names of the format."""
        return list(self._call("snapshots", warehouse, table))

    def create_tag(
        self, warehouse: str | Path, table: str, tag: str, *, snapshot: int | None = None
    ) -> None:
        self._call("create_tag", warehouse, table, tag=tag, snapshot=snapshot)

    def delete_tag(self, warehouse: str | Path, table: str, tag: str) -> None:
        self._call("delete_tag", warehouse, table, tag=tag)

    def rollback_to(self, warehouse: str | Path, table: str, target: int | str) -> None:
        """Roll back to a snapshot id, or to a tag by its name."""
        self._call("rollback_to", warehouse, table, target=target)

    def create_branch(
        self, warehouse: str | Path, table: str, branch: str, *, tag: str | None = None
    ) -> None:
        """Branch off from `tag`, or an empty branch. Its table is "database.table$branch_NAME"."""
        self._call("create_branch", warehouse, table, branch=branch, tag=tag)

    def delete_branch(self, warehouse: str | Path, table: str, branch: str) -> None:
        self._call("delete_branch", warehouse, table, branch=branch)

    def fast_forward(self, warehouse: str | Path, table: str, branch: str) -> None:
        self._call("fast_forward", warehouse, table, branch=branch)


class PypaimonOracle(WritingOracle):
    """pypaimon, which can also update single columns of a table with data evolution."""

    def update_columns(
        self,
        warehouse: str | Path,
        table: str,
        columns: Sequence[str],
        rows: Sequence[Mapping[str, Any]],
    ) -> None:
        """Give rows, by their `_ROW_ID`, new values of some columns."""
        self._call("update_columns", warehouse, table, columns=list(columns), rows=list(rows))


class JavaOracle(WritingOracle):
    """Java Paimon, which can also maintain tables."""

    def compact(
        self,
        warehouse: str | Path,
        table: str,
        *,
        partition: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
        full: bool = True,
        bucket: int | None = None,
    ) -> int | None:
        """Compact every bucket, of one partition or number if given; the latest snapshot's id.

        Without `full` its own policy picks what is worth merging.
        """
        latest = self._call(
            "compact",
            warehouse,
            table,
            partition=None if partition is None else dict(partition),
            options=dict(options or {}),
            full=full,
            bucket=bucket,
        )
        return None if latest is None else int(latest)

    def begin_compact(self, warehouse: str | Path, table: str) -> None:
        """Rewrite every bucket fully without a commit; the client has one such compaction."""
        self._call("begin_compact", warehouse, table)

    def finish_compact(self, warehouse: str | Path, table: str) -> int | None:
        """Commit what `begin_compact` wrote; the latest snapshot's id."""
        latest = self._call("finish_compact", warehouse, table)
        return None if latest is None else int(latest)

    def changes(
        self,
        warehouse: str | Path,
        table: str,
        first: int,
        last: int,
        *,
        options: Mapping[str, str] | None = None,
    ) -> list[Change]:
        """What a streaming reader gets of the snapshots `first` to `last`, in that order."""
        found = self._call(
            "changes", warehouse, table, first=first, last=last, options=dict(options or {})
        )
        return [Change(*change) for change in found]

    def lookup(
        self, warehouse: str | Path, table: str, keys: Sequence[Mapping[str, Any]]
    ) -> list[Row | None]:
        """The row of each primary key, found without a scan; None where there is none."""
        return list(self._call("lookup", warehouse, table, keys=list(keys)))

    def statistics(self, warehouse: str | Path, table: str) -> dict[str, Any] | None:
        """The table's statistics as its optimizers get them."""
        found: dict[str, Any] | None = self._call("statistics", warehouse, table)
        return found

    def analyze(
        self,
        warehouse: str | Path,
        table: str,
        *,
        merged_record_count: int,
        merged_record_size: int,
        columns: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> int | None:
        """Commit these statistics of the latest snapshot; the id of the snapshot that has them.

        Those of `columns` are given by the names that their file has, such as "distinctCount".
        """
        latest = self._call(
            "analyze",
            warehouse,
            table,
            merged_record_count=merged_record_count,
            merged_record_size=merged_record_size,
            columns=columns,
        )
        return None if latest is None else int(latest)

    def expire_snapshots(
        self,
        warehouse: str | Path,
        table: str,
        *,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than_ms: int | None = None,
        changelog_retain_min: int | None = None,
    ) -> int:
        """Expire snapshots older than a wall-clock time (now, if absent); how many went.

        The time is kept to some milliseconds only, as Java takes an age and adds its own clock.
        Left out, `retain_max` is unlimited and `retain_min` is 10, as in Paimon. With
        `changelog_retain_min` changelogs outlive their snapshots.
        """
        return int(
            self._call(
                "expire_snapshots",
                warehouse,
                table,
                retain_max=retain_max,
                retain_min=retain_min,
                older_than_ms=older_than_ms,
                changelog_retain_min=changelog_retain_min,
            )
        )

    def expire_changelogs(self, warehouse: str | Path, table: str, *, retain_min: int) -> int:
        """Expire long-lived changelogs beyond a number of commits; how many went."""
        return int(self._call("expire_changelogs", warehouse, table, retain_min=retain_min))

    def expire_partitions(self, warehouse: str | Path, table: str) -> list[dict[str, str]]:
        """Expire the partitions that the table's options say are past their time; which."""
        return list(self._call("expire_partitions", warehouse, table))

    def create_timed_tag(
        self, warehouse: str | Path, table: str, tag: str, *, time_retained_ms: int
    ) -> None:
        """Tag the latest snapshot for some time."""
        self._call("create_tag", warehouse, table, tag=tag, time_retained_ms=time_retained_ms)

    def maintain_tags(
        self, warehouse: str | Path, table: str, *, options: Mapping[str, str] | None = None
    ) -> None:
        """Make the automatic tags that are due, and delete those whose time is over."""
        self._call("maintain_tags", warehouse, table, options=dict(options or {}))

    def remove_orphan_files(
        self, warehouse: str | Path, table: str, *, older_than: str
    ) -> list[str]:
        """Delete unreferenced files older than a UTC time like "2024-01-01 00:00:00"; which."""
        return list(self._call("remove_orphan_files", warehouse, table, older_than=older_than))

    def binary_row(self, types: Sequence[DataType], values: Sequence[Any]) -> BinaryRow:
        """Encode one row, for golden vectors of keys, partitions and bucket hashes."""
        encoded = self._request("binary_row", types=list(types), values=list(values))
        return BinaryRow(hex=encoded["hex"], hash=encoded["hash"])


@dataclass(frozen=True, slots=True)
class DeclaredOption:
    """An option that Paimon declares: its names, and the class whose constant it is."""

    key: str
    fallbacks: tuple[str, ...]
    declared_by: str
    default: str | None


class LatestJavaOracle(JavaOracle):
    """The newest Java Paimon, which also alters nested columns and lists its options."""

    def declared_options(self) -> tuple[DeclaredOption, ...]:
        """Every option that Paimon's classes declare, by reflection."""
        return tuple(
            DeclaredOption(
                key=each["key"],
                fallbacks=tuple(each["fallbacks"]),
                declared_by=each["class"],
                default=each["default"],
            )
            for each in self._request("declared_options")
        )

    def tables(self, warehouse: str | Path, database: str) -> list[str]:
        return list(self._call("tables", warehouse, database))

    def drop(self, warehouse: str | Path, table: str) -> None:
        self._call("drop", warehouse, table)

    def rename(self, warehouse: str | Path, table: str, to: str) -> None:
        self._call("rename", warehouse, table, to=to)


def start_pypaimon(
    venv_dir: Path, *, read_java_0_9: bool = False, timeout_seconds: float = TIMEOUT_SECONDS
) -> PypaimonOracle:
    """pypaimon from the environment at `venv_dir`.

    As released it cannot read a manifest that Java 0.9 wrote or merged. `read_java_0_9` mends that
    one line, so that pypaimon can still judge tables which the Java oracle maintained.
    """
    flags = ("--read-java-0.9",) if read_java_0_9 else ()
    return PypaimonOracle(
        "pypaimon", (*driver(venv_dir, "pypaimon_driver"), *flags), timeout_seconds
    )


def start_rust(venv_dir: Path, *, timeout_seconds: float = TIMEOUT_SECONDS) -> Oracle:
    """pypaimon-rust from the environment at `venv_dir`, as a reader."""
    return Oracle("rust", driver(venv_dir, "rust_driver"), timeout_seconds)


def start_java(
    venv_dir: Path, *, hadoop_jars: Path | None = None, timeout_seconds: float = TIMEOUT_SECONDS
) -> JavaOracle:
    """Java Paimon from the environment at `venv_dir`, with the Hadoop client of pyspark."""
    jars = hadoop_jars or pyspark_jars()
    return JavaOracle("java", (*driver(venv_dir, "java_driver"), str(jars)), timeout_seconds)


def start_java_latest(
    venv_dir: Path,
    *,
    hadoop_jars: Path | None = None,
    plugins: Path | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> LatestJavaOracle:
    """The newest Java Paimon from the environment at `venv_dir`, with pyspark's Hadoop client.

    `plugins` is a folder of jars that teach Paimon other stores.
    """
    jars = hadoop_jars or pyspark_jars()
    command = (
        *driver(venv_dir, "java_latest_driver"),
        str(jars),
        *([str(plugins)] if plugins else []),
    )
    return LatestJavaOracle("java_latest", command, timeout_seconds)


def driver(venv_dir: Path, module: str) -> tuple[str, ...]:
    # Not resolved: a virtual environment is found by the path of its own interpreter link.
    python = venv_dir.absolute() / "bin" / "python"
    if not python.exists():
        raise FileNotFoundError(
            f"no environment at {venv_dir}; run tests/oracles/install.py {venv_dir.parent}"
        )
    return (str(python), "-m", f"{HERE.name}.{module}")


def pyspark_jars() -> Path:
    """The jars folder of the pyspark that these tests run with."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(
            "pyspark is not installed: the Java oracle takes its Hadoop jars from there"
        )
    return Path(spec.submodule_search_locations[0]) / "jars"


def pump(process: subprocess.Popen[str], answers: queue.SimpleQueue[str | None]) -> None:
    """Move answers out of the pipe; None says that it ended."""
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            answers.put(line)
    answers.put(None)
