"""A change of partition keys on S3: `python -m benchmarks.respec_on_s3 goes,comes 1000 10000`.

The cases are `goes` and `comes` of `respec_cost`, whose data files are named in manifests only; a
table is made on a disk and uploaded. The server runs on this machine: MinIO where
`make test-stores` has installed it, and moto otherwise. A line of JSON for each: seconds on the
clock and CPU seconds of this process, of the plan and of the run, the time for which writers wait,
and the requests of both by their kind.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.respec_cost import CASES, NAME, window_seconds
from lakewright.storage import Catalog, Table
from lakewright.storage.files.s3_files import S3Files
from tests.support.stores.servers import KEY, SECRET, has_minio, minio_server, s3_server

_BUCKET = "respec"
_Result = TypeVar("_Result")


def measure(case: str, files: int) -> dict[str, object]:
    """The cost for one table, on the server that the environment names."""
    make, keys = CASES[case]
    place = f"{_BUCKET}/{case}-{files}"
    with tempfile.TemporaryDirectory() as folder:
        make(files, Path(folder))
        S3Files().fs.put(f"{folder}/", f"{place}/", recursive=True)
    table = Catalog.open(f"s3://{place}").table(NAME)
    requests = _counted(table)
    planning, plan = _timed(
        requests,
        lambda: table.upkeep.plan_respec(
            keys, most_files=4 * files + 10_000, most_partitions=4 * files + 10_000
        ),
    )
    running, result = _timed(requests, lambda: table.upkeep.run(plan))
    return {
        "server": "MinIO" if has_minio() else "moto",
        "case": case,
        "files": files,
        "plan": planning,
        "run": running,
        "snapshots": len(result.snapshot_ids),
        "window_seconds": window_seconds(table, result.snapshot_ids),
    }


def _counted(table: Table) -> Counter[str]:
    """Counts the requests of a table's client from now on."""
    files = table.table_files.fs
    assert isinstance(files, S3Files)
    requests: Counter[str] = Counter()

    def count(model: Any, **_: Any) -> None:
        requests[model.name] += 1

    files.fs.s3.meta.events.register("before-call.s3", count)
    return requests


def _timed(
    requests: Counter[str], work: Callable[[], _Result]
) -> tuple[dict[str, object], _Result]:
    requests.clear()
    began, cpu = time.perf_counter(), time.process_time()
    result = work()
    found = {
        "seconds": round(time.perf_counter() - began, 2),
        "cpu_seconds": round(time.process_time() - cpu, 2),
        "requests": dict(requests.most_common()),
    }
    return found, result


def main() -> None:
    """Measure each case and count."""
    with minio_server() if has_minio() else s3_server() as address:
        os.environ |= {
            "AWS_ENDPOINT_URL": address,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        S3Files().fs.call_s3("create_bucket", Bucket=_BUCKET)
        for case in sys.argv[1].split(","):
            for count in map(int, sys.argv[2:]):
                sys.stdout.write(json.dumps(measure(case, count)) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
