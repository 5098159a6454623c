"""The case `memory`: compacts and reads a bucket ten times larger than a task's memory budget.

The budget of a task is `TASK_MEMORY_BYTES`: resident memory beyond that of the process after its
imports. One bucket holds ten times the budget in rows, by their size in Arrow. Child processes
compact it and read it batch by batch. The growth of their high-water marks is compared with the
budget, and a limit of the address space stops a process that holds the bucket several times.
Another budget changes the bucket and the limit, but not storage's own budget.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.measure import measured
from benchmarks.prepare import DATABASE, clone_folder
from benchmarks.processes import ROOT
from benchmarks.results import MemoryResult, ResultFile, Status
from lakewright.storage import Catalog, SchemaSpec, Table, columns_from_arrow
from lakewright.storage.operations.running.task_memory import TASK_MEMORY_BYTES

DEFAULT_BUDGET_MIB = TASK_MEMORY_BYTES // 2**20
TIMES_LARGER = 10
COMMITS = 5
COMMIT_SHARE = 10
WORKS = ("compact", "read_batches")
_MIB = 2**20
_PAYLOAD_BYTES = 200
# Key, payload, its offset.
_ROW_BYTES = 8 + _PAYLOAD_BYTES + 4
_BATCH_ROWS = 250_000
_SPARE_ADDRESSES_BYTES = 4 * 2**30
_BUCKET = "bucket"


def run_memory(
    work_dir: Path, file: ResultFile, run: str, say: Callable[[str], None], *, budget_mib: int
) -> None:
    """Make the measurements that the file lacks."""
    done = {
        (each.work, each.budget_bytes)
        for each in file.memory_results()
        if each.status is not Status.FAILED
    }
    due = [work for work in WORKS if (work, budget_mib * _MIB) not in done]
    if not due:
        return
    folder = work_dir / "data" / f"memory-{budget_mib}"
    shutil.rmtree(folder, ignore_errors=True)
    say(f"preparing a bucket of {budget_mib * TIMES_LARGER:,} MiB")
    try:
        bucket = _child("write", folder, budget_mib, limit_bytes=None)
        if "error" in bucket:
            say(f"memory is left out: {bucket['error']}")
            return
        for work in due:
            limit = bucket["bucket_bytes"] + _SPARE_ADDRESSES_BYTES
            answer = _child(work, folder, budget_mib, limit_bytes=limit)
            result = _result(work, run, budget_mib, bucket, answer)
            file.append(result)
            say(_sentence(result))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def memory_section(file: ResultFile) -> str:
    """The figures as markdown, empty without any."""
    results = file.memory_results()
    if not results:
        return ""
    lines = [
        "\n## Memory\n",
        "A base and five commits over all of it in one bucket; peaks exclude memory held before.\n",
        "| work | rows | bucket in Arrow | in files | budget | peak | had before | seconds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for each in results:
        sizes = (each.bucket_bytes, each.file_bytes, each.budget_bytes)
        shown = " | ".join(f"{size / _MIB:,.0f} MiB" for size in sizes)
        if each.status is Status.OK:
            peak = f"{_taken_bytes(each) / _MIB:,.0f} MiB"
            peak = peak if _taken_bytes(each) <= each.budget_bytes else f"**{peak}**"
            came = f"{peak} | {each.before_bytes / _MIB:,.0f} MiB | {each.seconds:.1f}"
        else:
            came = f"**{each.status.value}**: {each.note} | – | –"
        lines.append(f"| {each.work.replace('_', ' ')} | {each.rows:,} | {shown} | {came} |")
    return "\n".join(lines) + "\n"


def _result(
    work: str, run: str, budget_mib: int, bucket: dict[str, Any], answer: dict[str, Any]
) -> MemoryResult:
    note = answer.get("error", "")
    if not note and answer["rows"] != bucket["keys"]:
        note = f"came to {answer['rows']} rows where {bucket['keys']} were due"
    return MemoryResult(
        run=run,
        work=work,
        status=Status.FAILED if note else Status.OK,
        budget_bytes=budget_mib * _MIB,
        bucket_bytes=bucket["bucket_bytes"],
        file_bytes=bucket["file_bytes"],
        rows=bucket["rows"],
        note=note,
        **{
            name: answer[name]
            for name in ("seconds", "cpu_seconds", "before_bytes", "peak_bytes")
            if name in answer
        },
    )


def _sentence(result: MemoryResult) -> str:
    if result.status is not Status.OK:
        return f"memory: {result.work}: {result.status.value}, {result.note}"
    return (
        f"memory: {result.work} of {result.bucket_bytes / _MIB:,.0f} MiB: peak "
        f"{_taken_bytes(result) / _MIB:,.0f} MiB, budget {result.budget_bytes / _MIB:,.0f} MiB, "
        f"{result.seconds:.1f} s"
    )


def _taken_bytes(result: MemoryResult) -> int:
    return result.peak_bytes - result.before_bytes


def _child(work: str, folder: Path, budget_mib: int, *, limit_bytes: int | None) -> dict[str, Any]:
    arguments = [sys.executable, "-m", "benchmarks.memory", work, str(folder), str(budget_mib)]
    if limit_bytes is not None:
        arguments += ["--limit-bytes", str(limit_bytes)]
    made = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=False)
    if made.returncode:
        last = made.stderr.strip().rpartition("\n")[2]
        return {"error": last or f"ended with {made.returncode}"}
    answer: dict[str, Any] = json.loads(made.stdout.strip().rpartition("\n")[2])
    return answer


# --- in the child ---------------------------------------------------------------------------------


def write(folder: Path, budget_mib: int) -> dict[str, Any]:
    """Make the bucket: a base in the order of its keys, then commits over all of it."""
    bucket_rows = math.ceil(budget_mib * _MIB * TIMES_LARGER / _ROW_BYTES)
    base_rows = math.ceil(bucket_rows / (1 + COMMITS / COMMIT_SHARE))
    generator = np.random.default_rng(11)
    schema = _rows(np.arange(1), generator).schema
    table = Catalog.open(str(folder / "warehouse")).create_table(
        f"{DATABASE}.{_BUCKET}",
        SchemaSpec(
            columns=columns_from_arrow(schema), primary_keys=("id",), options={"bucket": "1"}
        ),
    )
    table.write(_batches(np.arange(base_rows), generator))
    for _ in range(COMMITS):
        keys = generator.choice(base_rows, size=base_rows // COMMIT_SHARE, replace=False)
        table.write(_batches(keys, generator))
    files = [entry.file for entry in table.at().files()]
    rows = sum(file.row_count for file in files)
    return {
        "rows": rows,
        "keys": base_rows,
        "bucket_bytes": rows * _ROW_BYTES,
        "file_bytes": sum(file.file_size for file in files),
    }


def compact(folder: Path) -> dict[str, Any]:
    """Compact a copy of the bucket fully."""
    root = folder / "warehouse" / f"{DATABASE}.db"
    clone_folder(root / _BUCKET, root / "copy")
    table = _table(folder, "copy")
    result, taken = measured(lambda: table.upkeep.run(table.upkeep.plan_compact(full=True)))
    return {**taken, "rows": result.rows_after}


def read_batches(folder: Path) -> dict[str, Any]:
    """Read the bucket batch by batch."""
    table = _table(folder, _BUCKET)
    rows, taken = measured(lambda: sum(part.num_rows for part in table.scan().batches()))
    return {**taken, "rows": rows}


def _table(folder: Path, name: str) -> Table:
    return Catalog.open(str(folder / "warehouse")).table(f"{DATABASE}.{name}")


def _batches(keys: np.ndarray, generator: np.random.Generator) -> Iterator[pa.Table]:
    for start in range(0, len(keys), _BATCH_ROWS):
        yield _rows(keys[start : start + _BATCH_ROWS], generator)


def _rows(keys: np.ndarray, generator: np.random.Generator) -> pa.Table:
    """Rows with distinct payloads, cut from one text."""
    text = np.frombuffer(np.random.default_rng(5).bytes(1 << 20), dtype=np.uint8) % 26 + 97
    starts = generator.integers(0, len(text) - _PAYLOAD_BYTES, len(keys))
    letters = text[(starts[:, None] + np.arange(_PAYLOAD_BYTES)).ravel()].astype(np.uint8)
    offsets = np.arange(len(keys) + 1, dtype=np.int32) * _PAYLOAD_BYTES
    payload = pa.StringArray.from_buffers(len(keys), pa.py_buffer(offsets), pa.py_buffer(letters))
    return pa.table({"id": pa.array(keys), "payload": payload})


def main() -> None:
    """Do one piece of work and print its figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("work", choices=["write", *WORKS])
    parser.add_argument("folder", type=Path)
    parser.add_argument("budget_mib", type=int)
    parser.add_argument("--limit-bytes", type=int)
    parsed = parser.parse_args()
    if parsed.limit_bytes is not None:
        resource.setrlimit(resource.RLIMIT_AS, (parsed.limit_bytes, parsed.limit_bytes))
    if parsed.work == "write":
        answer = write(parsed.folder, parsed.budget_mib)
    else:
        answer = {"compact": compact, "read_batches": read_batches}[parsed.work](parsed.folder)
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
