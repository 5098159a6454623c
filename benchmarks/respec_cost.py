"""What it costs to restate live files: `python -m benchmarks.respec_cost 1000 10000 100000`.

The partition keys of a table of so many files go, which restates each entry twice. A line of JSON
for each count: seconds, CPU seconds, growth of memory and bytes of metadata written.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.manifest_tables import make_table


def measure(files: int) -> dict[str, float]:
    """The cost for one table, in this process."""
    with tempfile.TemporaryDirectory() as folder:
        table = make_table(files, Path(folder))
        plan = table.upkeep.plan_respec([], most_files=files)
        paths = table.table_files.paths
        before = {each.path for each in table.table_files.fs.list_dir(paths.manifest_dir)}
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began, cpu = time.perf_counter(), time.process_time()
        result = table.upkeep.run(plan)
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        written = [
            each.size
            for each in table.table_files.fs.list_dir(paths.manifest_dir)
            if each.path not in before
        ]
        assert result.files_restated == files
        return {
            "files": files,
            "seconds": round(seconds, 2),
            "cpu_seconds": round(cpu, 2),
            "growth_bytes": 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory),
            "metadata_bytes": sum(written),
        }


def main() -> None:
    """Measure each count in a process of its own."""
    counts = sys.argv[1:]
    if len(counts) == 1:
        sys.stdout.write(json.dumps(measure(int(counts[0]))) + "\n")
        return
    for each in counts:
        subprocess.run([sys.executable, "-m", "benchmarks.respec_cost", each], check=True)


if __name__ == "__main__":
    main()
