"""`python -m benchmarks.deciding FOLDER`: what it takes to decide on a table.

Tables of ten files in each of 1 and 100 partitions, whose every verb is decided: `cold` opens the
table, reads its metadata and decides, `kept` decides again from the survey of the last look.
Medians of CPU time in milliseconds; imports and the first time are left out.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pyarrow as pa

from lakewright.platform.decide.clock import Clock
from lakewright.platform.decide.decide import decide
from lakewright.platform.decide.kept_tables import KeptTable, KeptTables
from lakewright.platform.decide.upkeep_state import UpkeepState, read_state
from lakewright.platform.ledger.known_work import Past
from lakewright.platform.policies.policy_watch import PolicyFiles
from lakewright.storage import Catalog

_COMMITS, _TIMES = 10, 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True)
    (folder / "policy.yaml").write_text("warehouse: {}\n")
    catalog = Catalog.open(str(folder / "warehouse"))
    files = PolicyFiles([folder / "policy.yaml"])
    for partitions in (1, 100):
        name = f"db.t{partitions}"
        table = catalog.create_table(
            name, {"day": "STRING", "id": "BIGINT"}, partition_keys=["day"]
        )
        days = [f"d{each:03}" for each in range(partitions)]
        for each in range(_COMMITS):
            table.write(pa.table({"day": days, "id": [each] * partitions}))
        kept = KeptTables(files=files, adopted=("*",)).table(name)
        print(json.dumps({"partitions": partitions, **_measured(catalog, kept)}))


def _measured(catalog: Catalog, kept: KeptTable) -> dict[str, float]:
    now_ms = catalog.env.now_ms()
    clock, past, policy = Clock.at(now_ms), Past(), kept.policy

    def read() -> UpkeepState:
        return read_state(catalog, kept.name, now_ms=now_ms, sort=policy.sort, respec=policy.respec)

    state = read()
    return {
        "cold": _milliseconds(lambda: decide(read(), policy, past, clock)),
        "kept": _milliseconds(lambda: decide(state, policy, past, clock)),
    }


def _milliseconds(work: Callable[[], object]) -> float:
    work()
    taken = []
    for _ in range(_TIMES):
        began = time.process_time_ns()
        work()
        taken.append(time.process_time_ns() - began)
    return round(median(taken) / 1e6, 3)


if __name__ == "__main__":
    main()
