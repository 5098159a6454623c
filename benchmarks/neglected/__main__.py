"""`python -m benchmarks.neglected FOLDER [--tables 200] [--commits 40] [--long 1000]`."""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import asdict
from pathlib import Path

from benchmarks.neglected.build import Made, build
from benchmarks.neglected.kinds import KINDS
from benchmarks.neglected.report import report
from benchmarks.neglected.upkeep import Proof, prove


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path, help="a warehouse that lies there is used again")
    arguments.add_argument("--tables", type=int, default=200)
    arguments.add_argument("--commits", type=int, default=40, help="of a usual table")
    arguments.add_argument("--long", type=int, default=1000, help="of a table with a long history")
    arguments.add_argument("--oracles", type=Path, default=Path(".oracles"))
    arguments.add_argument("--only-make", action="store_true", help="make the warehouse alone")
    arguments.add_argument(
        "--served", action="store_true", help="a `dagster dev` does it, not this process"
    )
    given = arguments.parse_args()
    folder, oracles = given.folder.absolute(), given.oracles.absolute()
    neglected, told, proof = folder / "neglected", folder / "neglected.json", Proof()
    if not told.exists():
        with proof.step("the warehouse is made by its clients"):
            made = build(
                neglected, oracles, tables=given.tables, commits=given.commits, long=given.long
            )
        told.write_text(json.dumps([_record(each) for each in made]))
    if given.only_make:
        return
    made = [_made(each) for each in json.loads(told.read_text())]
    work = folder / "run"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(neglected, work / "warehouse")
    prove(work, oracles, made, proof, served=given.served)
    text = "\n".join(report(proof, made))
    print(text)
    (folder / "report.md").write_text(text + "\n")
    figures = {
        "seconds": proof.seconds,
        "ticks": proof.ticks,
        "runs": proof.runs,
        "before": {name: asdict(each) for name, each in proof.before.items()},
        "after": {name: asdict(each) for name, each in proof.after.items()},
        "faults": proof.faults,
    }
    (folder / "figures.json").write_text(json.dumps(figures, indent=1))


def _record(made: Made) -> dict[str, object]:
    return {
        "kind": made.kind.name,
        "table": made.table,
        "commits": made.commits,
        "expected": made.expected,
    }


def _made(record: dict[str, object]) -> Made:
    kinds = {each.name: each for each in KINDS}
    return Made(**(record | {"kind": kinds[str(record["kind"])]}))  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
