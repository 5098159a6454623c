"""The peer: pypaimon, run by the interpreter of its own environment; prints its seconds as JSON."""

from __future__ import annotations

import json
import sys
import tempfile
import time

import pypaimon
from workload import SCHEMA, batches


def run(row_count: int, repeats: int) -> dict[str, list[float]]:
    """Seconds of every repeat, by step."""
    seconds: dict[str, list[float]] = {"upsert": [], "read, merging": []}
    loads = list(batches(row_count))
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as warehouse:
            catalog = pypaimon.CatalogFactory.create({"warehouse": warehouse})
            catalog.create_database("b", True)
            schema = pypaimon.Schema.from_pyarrow_schema(
                SCHEMA, primary_keys=["id"], options={"bucket": "2", "file.format": "parquet"}
            )
            catalog.create_table("b.t", schema, False)
            table = catalog.get_table("b.t")
            began = time.perf_counter()
            for rows in loads:
                builder = table.new_batch_write_builder()
                write, commit = builder.new_write(), builder.new_commit()
                write.write_arrow(rows)
                commit.commit(write.prepare_commit())
                write.close()
                commit.close()
            seconds["upsert"].append(time.perf_counter() - began)
            builder = catalog.get_table("b.t").new_read_builder()
            began = time.perf_counter()
            found = builder.new_read().to_arrow(builder.new_scan().plan().splits())
            seconds["read, merging"].append(time.perf_counter() - began)
            assert found.num_rows == row_count
    return seconds


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(int(sys.argv[1]), int(sys.argv[2]))))
