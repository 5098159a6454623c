"""The plan of a run: operations, contestants and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """A contestant.

    With `stays`, it keeps its process, a JVM, for all measurements of a case, and contestants of
    one `process` share it; other contestants have a process for each operation. With `is_peer`,
    `--peer-cap` bounds its time; with `is_slow`, `--slow-repeats` bounds its repeats. `--peer-rows`
    bounds the rows with `gets_few_rows`, and the rows of the warm-up with `warmed_by_few_rows`.
    """

    name: str
    title: str
    process: str
    stays: bool = False
    is_peer: bool = False
    is_slow: bool = False
    gets_few_rows: bool = False
    warmed_by_few_rows: bool = False

    @property
    def process_key(self) -> str:
        """The key of its process; only a JVM is shared, since memory figures would be too."""
        return self.process if self.stays else self.name


CONTESTANTS = {
    each.name: each
    for each in (
        Contestant(name="lakewright", title="Lakewright", process="lakewright"),
        Contestant(name="lakewright-batches", title="Lakewright, batches", process="lakewright"),
        Contestant(
            name="lakewright-counts", title="Lakewright, rows only counted", process="lakewright"
        ),
        Contestant(
            name="lakewright-full", title="Lakewright, files read back", process="lakewright"
        ),
        Contestant(name="pyarrow", title="pyarrow floor", process="pyarrow"),
        Contestant(name="fastavro", title="fastavro, records only", process="pyarrow"),
        Contestant(name="pyarrow-keys", title="pyarrow floor, key columns too", process="pyarrow"),
        Contestant(
            name="pypaimon",
            title="pypaimon 2.1.0",
            process="pypaimon",
            is_peer=True,
            is_slow=True,
            gets_few_rows=True,
        ),
        Contestant(
            name="pypaimon-native",
            title="pypaimon 2.1.0 with pypaimon-rust 0.4.0",
            process="pypaimon-native",
            is_peer=True,
        ),
        Contestant(name="rust", title="pypaimon-rust 0.4.0", process="rust", is_peer=True),
        Contestant(name="delta", title="delta-rs 1.6.6", process="delta", is_peer=True),
        Contestant(name="iceberg", title="pyiceberg 0.12.0", process="iceberg", is_peer=True),
        Contestant(
            name="java",
            title="Java Paimon 0.9.0",
            process="java",
            stays=True,
            is_peer=True,
            is_slow=True,
            warmed_by_few_rows=True,
        ),
        Contestant(
            name="lakewright-spark", title="Lakewright on Spark", process="spark", stays=True
        ),
        Contestant(name="spark-scan", title="Spark, plain scan", process="spark", stays=True),
        Contestant(name="spark-window", title="Spark, window by hand", process="spark", stays=True),
    )
}
CLIENTS = ("pypaimon", "pypaimon-native", "rust", "java")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An operation on a table; `asks` is its name in requests."""

    name: str
    title: str
    asks: str
    table: str
    contestants: tuple[str, ...]
    changes_table: bool = False
    # The table with the expected result.
    result: str = ""
    # The cases in which it is measured; empty for all.
    cases: tuple[str, ...] = ()


_READERS = ("lakewright", "lakewright-batches", "pyarrow", "pyarrow-keys", *CLIENTS)
# Operations for which `composite` adds nothing to `string`.
_PLAIN_CASES = ("bigint", "string", "lineitem")
_ON_SPARK = ("lakewright-spark", "spark-scan", "spark-window")


def _read(runs: str, title: str, cases: tuple[str, ...] = ()) -> Operation:
    return Operation(
        name=f"read-{runs}",
        title=f"read, {title}",
        asks="read",
        table="compacted" if runs == "compacted" else f"runs_{runs}",
        contestants=_READERS,
        cases=cases,
    )


def _on_spark(asks: str, runs: str, title: str, cases: tuple[str, ...] = ()) -> Operation:
    # Without overlapping runs, the window function has no work.
    contestants = _ON_SPARK[:2] if runs == "compacted" else _ON_SPARK
    return Operation(
        name=f"spark-{asks}-{runs}",
        title=f"Spark {asks}, {title}",
        asks=asks,
        table="compacted" if runs == "compacted" else f"runs_{runs}",
        contestants=contestants,
        cases=cases,
    )


OPERATIONS = {
    each.name: each
    for each in (
        Operation(
            name="upsert",
            title="upsert of all rows, one commit",
            asks="upsert",
            table="empty",
            contestants=("lakewright", "pyarrow", *CLIENTS),
            changes_table=True,
            result="base",
        ),
        _read("1", "merging 1 commit over the base", ("bigint",)),
        _read("5", "merging 5 commits over the base"),
        _read("20", "merging 20 commits over the base"),
        _read("compacted", "after full compaction", _PLAIN_CASES),
        Operation(
            name="compact",
            title="full compaction of base and 5 commits",
            asks="compact",
            table="runs_5",
            contestants=("lakewright", "lakewright-counts", "lakewright-full", "pyarrow", "java"),
            changes_table=True,
            result="compacted",
        ),
        Operation(
            name="small-compact",
            title="small compaction, 5 files of 100 KB",
            asks="compact",
            table="small",
            contestants=("lakewright", "java"),
            changes_table=True,
            cases=_PLAIN_CASES,
        ),
        _on_spark("read", "5", "merging 5 commits over the base"),
        _on_spark("read", "20", "merging 20 commits over the base", _PLAIN_CASES),
        _on_spark("read", "compacted", "after full compaction", _PLAIN_CASES),
        _on_spark("aggregate", "5", "merging 5 commits over the base", _PLAIN_CASES),
        Operation(
            name="spark-compact",
            title="full compaction of base and 5 commits, on Spark",
            asks="compact",
            table="runs_5",
            contestants=("lakewright-spark", "spark-window"),
            changes_table=True,
            result="compacted",
        ),
        Operation(
            name="spark-small-compact",
            title="small compaction, 5 files of 100 KB, on Spark",
            asks="compact",
            table="small",
            contestants=("lakewright-spark", "spark-window"),
            changes_table=True,
            cases=_PLAIN_CASES,
        ),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One cell, one repeat."""

    case: str
    rows: int
    operation: str
    contestant: str
    repeat: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The extent of the measurements at one size."""

    rows: int
    cases: tuple[str, ...]
    repeats: int
    slow_repeats: int


def planned(
    scopes: Sequence[Scope], operations: Sequence[str], contestants: Sequence[str]
) -> Iterator[Measurement]:
    """Measurements in the order they run.

    Contestants alternate within every repeat of an operation, and the first one changes from repeat
    to repeat. Operations on Spark come last, after the other processes have ended.
    """
    for scope in scopes:
        for case in scope.cases:
            for operation in OPERATIONS.values():
                if operation.name not in operations or case not in (operation.cases or (case,)):
                    continue
                names = [name for name in operation.contestants if name in contestants]
                for repeat in range(scope.repeats):
                    for at in range(len(names)):
                        name = names[(at + repeat) % len(names)]
                        if repeat < scope.slow_repeats or not CONTESTANTS[name].is_slow:
                            yield Measurement(
                                case=case,
                                rows=scope.rows,
                                operation=operation.name,
                                contestant=name,
                                repeat=repeat,
                            )
