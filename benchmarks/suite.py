"""What is measured, by whom, and on which table: the plan of a run, before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """Somebody who is measured.

    `stays` keeps its process, warm, for all measurements of a case: JVMs. The others get a
    fresh process each time. `--peer-cap` bounds the time of peers, `--peer-rows` the rows of
    slow ones.
    """

    name: str
    title: str
    is_peer: bool = False
    is_slow: bool = False
    stays: bool = False
    process: str = ""

    @property
    def process_name(self) -> str:
        """Contestants of one process name share the process."""
        return self.process or self.name


CONTESTANTS = {
    each.name: each
    for each in (
        Contestant(name="lakewright", title="Lakewright"),
        Contestant(name="lakewright-batches", title="Lakewright, batches", process="lakewright"),
        Contestant(name="pyarrow", title="pyarrow floor"),
        Contestant(name="pyarrow-keys", title="pyarrow floor, key columns too", process="pyarrow"),
        Contestant(name="pypaimon", title="pypaimon 2.1.0", is_peer=True, is_slow=True),
        Contestant(
            name="pypaimon-native", title="pypaimon 2.1.0 with pypaimon-rust 0.4.0", is_peer=True
        ),
        Contestant(name="rust", title="pypaimon-rust 0.4.0", is_peer=True),
        Contestant(name="java", title="Java Paimon 0.9.0", is_peer=True, stays=True),
        Contestant(
            name="lakewright-spark", title="Lakewright on Spark", stays=True, process="spark"
        ),
        Contestant(name="spark-scan", title="Spark, plain scan", stays=True, process="spark"),
        Contestant(name="spark-window", title="Spark, window by hand", stays=True, process="spark"),
    )
}
CLIENTS = ("pypaimon", "pypaimon-native", "rust", "java")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Something that contestants do to a table; `asks` is the word they know it by."""

    name: str
    title: str
    asks: str
    table: str
    contestants: tuple[str, ...]
    changes_table: bool = False
    # The table that holds what the work has to come to.
    result: str = ""


_READERS = ("lakewright", "lakewright-batches", "pyarrow", "pyarrow-keys", *CLIENTS)
_ON_SPARK = ("lakewright-spark", "spark-scan", "spark-window")


def _read(runs: str, title: str) -> Operation:
    return Operation(
        name=f"read-{runs}",
        title=f"read, {title}",
        asks="read",
        table="compacted" if runs == "compacted" else f"runs_{runs}",
        contestants=_READERS,
    )


def _on_spark(asks: str, runs: str, title: str) -> Operation:
    # Where nothing is left to merge, the window has nothing to do.
    contestants = _ON_SPARK[:2] if runs == "compacted" else _ON_SPARK
    return Operation(
        name=f"spark-{asks}-{runs}",
        title=f"Spark {asks}, {title}",
        asks=asks,
        table="compacted" if runs == "compacted" else f"runs_{runs}",
        contestants=contestants,
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
        _read("1", "merging 1 commit over the base"),
        _read("5", "merging 5 commits over the base"),
        _read("20", "merging 20 commits over the base"),
        _read("compacted", "after full compaction"),
        Operation(
            name="compact",
            title="full compaction of base and 5 commits",
            asks="compact",
            table="runs_5",
            contestants=("lakewright", "pyarrow", "java"),
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
        ),
        _on_spark("read", "5", "merging 5 commits over the base"),
        _on_spark("read", "20", "merging 20 commits over the base"),
        _on_spark("read", "compacted", "after full compaction"),
        _on_spark("aggregate", "5", "merging 5 commits over the base"),
        _on_spark("aggregate", "20", "merging 20 commits over the base"),
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


def planned(
    cases: Sequence[str],
    row_counts: Sequence[int],
    operations: Sequence[str],
    contestants: Sequence[str],
    repeats: int,
) -> Iterator[Measurement]:
    """Measurements in the order they run: contestants take turns within every repeat.

    Who goes first changes from repeat to repeat, and all that stays in one JVM comes last.
    """
    for rows in row_counts:
        for case in cases:
            for on_spark in (False, True):
                for repeat in range(repeats):
                    for name in operations:
                        operation = OPERATIONS[name]
                        if name.startswith("spark-") is not on_spark:
                            continue
                        taking_part = [c for c in operation.contestants if c in contestants]
                        for at in range(len(taking_part)):
                            yield Measurement(
                                case=case,
                                rows=rows,
                                operation=name,
                                contestant=taking_part[(at + repeat) % len(taking_part)],
                                repeat=repeat,
                            )
