"""The figures of a soak as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

_FIGURES = {
    "live": "live files",
    "runs": "sorted runs of a bucket",
    "snapshots": "snapshots",
    "manifests": "manifest files",
    "disk": "files on disk",
    "condemned": "KB marked for deletion",
}
_UPKEEP = ("daemon", "code server", "fork server", "runs of upkeep")
MB = 1 << 20
# Twice what the policy calls due.
_LATE_RUNS = 10


def markdown(found: Mapping[str, Any]) -> Iterator[str]:
    """Totals, tables, memory, CPU, and everything that failed."""
    rows, kills = sum(found["rows"].values()), Counter(each["role"] for each in found["kills"])
    full, commits = len(found["fulls"]), sum(map(sum, found["commits"].values()))
    faults = len(found["faults"])
    minutes = f"{found['minutes']:g} minutes"
    yield f"{minutes}, {kills.total()} kills ({_counts(kills)}), disk full {full}×"
    yield f"- {rows:,} rows in {commits:,} commits; faults: {faults}"
    yield f"- reads compared: {_counts(found['reads'])}; refused: {len(found['refused'])}"
    runs = Counter(f"{each['verb'] or 'ingest'} {each['status'].lower()}" for each in found["runs"])
    yield f"- runs: {_counts(dict(sorted(runs.items())))}"
    yield f"- upkeep was at rest {found['rested']} s after the writers"
    yield f"- files swept after the end: {_counts(found['swept'])}"
    cpu = found["cpu_seconds"]
    share = sum(cpu.get(each, 0) for each in _UPKEEP) / (sum(cpu.values()) or 1)
    yield f"- CPU seconds: {_counts(cpu)}; share of upkeep {share:.0%}"
    yield ""
    yield "Most in the second, third and last quarter of the time:"
    yield ""
    late = f"seconds above {_LATE_RUNS} runs, longest"
    yield f"| table | commits | {' | '.join(_FIGURES.values())} | {late} |"
    yield f"|{'---|' * (3 + len(_FIGURES))}"
    looks = [look for look in found["looks"] if look["seconds"] <= 60 * found["minutes"]]
    names = sorted({name for look in looks for name in look["tables"]})
    for name in names:
        cells = [" / ".join(_quarters(looks, name, what)) for what in _FIGURES]
        commits = sum(found["commits"].get(name.removeprefix("soak."), ()))
        yield f"| {name} | {commits:,} | {' | '.join(cells)} | {_longest_late(looks, name):.0f} |"
    yield ""
    yield "| memory of, MB | largest process | all |"
    yield "|---|---|---|"
    roles = sorted({role for look in looks for role in look["most_bytes"]})
    for role in roles:
        cells = [
            " / ".join(
                str(max((each[what].get(role, 0) for each in part), default=0) // MB)
                for part in _parts(looks)
            )
            for what in ("most_bytes", "sum_bytes")
        ]
        yield f"| {role} | {' | '.join(cells)} |"
    home = " / ".join(
        str(max((each["home_bytes"] for each in part), default=0) // MB) for part in _parts(looks)
    )
    yield f"| files of Dagster's home | | {home} |"
    yield ""
    failed = Counter(
        f"run of {each['verb'] or 'ingest'} {each['status'].lower()}: {each['why']}"[:300]
        for each in found["runs"]
        if each["status"] != "SUCCESS"
    )
    yield from (f"- {count} × {what}" for what, count in failed.most_common())
    for kind, lines in found["failed_writes"].items():
        yield from (
            f"- failed write into {kind}, {n} ×: {line}"
            for line, n in Counter(lines).most_common(6)
        )
    for what in ("faults", "refused", "ended", "left"):
        yield from (f"- {what.upper()}: {each}" for each in found[what])


def _parts(looks: list[Any]) -> list[list[Any]]:
    quarter = max(1, len(looks) // 4)
    return [looks[quarter : 2 * quarter], looks[2 * quarter : 3 * quarter], looks[3 * quarter :]]


def _longest_late(looks: list[Any], name: str) -> float:
    """How long a bucket of a table had more runs than upkeep leaves it, at the longest."""
    longest, since = 0.0, None
    for look in looks:
        if look["tables"].get(name, {}).get("runs", 0) <= _LATE_RUNS:
            since = None
            continue
        since = look["seconds"] if since is None else since
        longest = max(longest, look["seconds"] - since)
    return longest


def _quarters(looks: list[Any], name: str, what: str) -> Iterator[str]:
    unit = 1024 if what == "condemned" else 1
    for part in _parts(looks):
        most = max((each["tables"].get(name, {}).get(what, 0) for each in part), default=0)
        yield f"{most // unit:,}"


def _counts(counted: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counted.items()) or "none"
