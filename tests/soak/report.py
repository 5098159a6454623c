"""The figures of a soak as Markdown and as a chart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_FIGURES = {
    "live": "live files",
    "runs": "sorted runs of a bucket",
    "snapshots": "snapshots",
    "manifests": "manifest files",
    "disk": "files on disk",
    "condemned": "KB marked for deletion",
}
_BOUNDS = {
    "live": "`small_files: 5` for each bucket",
    "snapshots": "`time_retained: 2min`, each minute",
    "manifests": "`manifests: {min_count: 30}`, and expiry",
    "disk": "expiry, `grace: 1min`, orphans of an hour",
    "debt": "a look each 10 s",
}
_MEMORY = ("daemon", "code server", "web server", "fork server", "run")
_UPKEEP = ("daemon", "code server", "fork server", "runs of upkeep")
_ENDED = ("SUCCESS", "FAILURE", "CANCELED")
MB = 1 << 20
# Twice what the policy calls due.
_LATE_RUNS = 10
_COLOURS = (
    *("#3d8b7d", "#1d5c52", "#e07a5f", "#a8452c", "#5b7bb4", "#2f4a7d", "#8a6fb0", "#5e4a80"),
    *("#c9a227", "#8a6d0f", "#6b8e23", "#3f5a10", "#b05c8a", "#7d2f5a", "#4a9fb0", "#7a7a7a"),
)


def markdown(found: Mapping[str, Any]) -> Iterator[str]:
    """The summary, then tables, memory, CPU, and everything that failed."""
    yield from summary(found)
    yield ""
    yield f"- files swept after the end: {_counts(found['swept'])}"
    yield f"- CPU seconds: {_counts(found['cpu_seconds'])}"
    slowest = {name: max(each, default=0) for name, each in found["slowest"].items()}
    yield f"- slowest batch, s: {_counts({name: each for name, each in slowest.items() if each})}"
    yield ""
    yield "Most in the second, third and last quarter of the time:"
    yield ""
    late = f"seconds above {_LATE_RUNS} runs, longest"
    yield f"| table | commits | {' | '.join(_FIGURES.values())} | {late} |"
    yield f"|{'---|' * (3 + len(_FIGURES))}"
    looks = _while_writing(found)
    for name in sorted({name for look in looks for name in look["tables"]}):
        cells = [" / ".join(_quarters(looks, name, what)) for what in _FIGURES]
        commits = sum(found["commits"].get(name.removeprefix("soak."), ()))
        yield f"| {name} | {commits:,} | {' | '.join(cells)} | {_longest_late(looks, name):.0f} |"
    yield ""
    yield "| memory of, MB | largest process | all |"
    yield "|---|---|---|"
    for role in sorted({role for look in looks for role in look["most_bytes"]}):
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
        if each["status"] != "SUCCESS" and (each["status"] in _ENDED or not found["is_over"])
    )
    yield from (f"- {count} × {what}" for what, count in failed.most_common())
    for kind, lines in found["failed_writes"].items():
        yield from (
            f"- failed write into {kind}, {n} ×: {line}"
            for line, n in Counter(lines).most_common(6)
        )
    for what in ("faults", "flaws", "refused", "ended", "left"):
        yield from (f"- {what.upper()}: {each}" for each in found[what])


def summary(found: Mapping[str, Any]) -> Iterator[str]:
    """One table with what the soak is for."""
    looks = _while_writing(found)
    rows, commits = sum(found["rows"].values()), sum(map(sum, found["commits"].values()))
    kills = Counter(each["role"] for each in found["kills"])
    ended = "" if found["is_over"] else f", so far {found['seconds'] / 60:.0f}"
    yield f"| figure | {found['minutes']:g} minutes{ended} |"
    yield "|---|---|"
    yield f"| rows, commits | {rows:,}, {commits:,} into {len(found['kinds']) + 1} tables |"
    yield f"| rows or files that were wrong | {len(found['faults'])} |"
    yield f"| reads compared | {_counts(found['reads'])}; {len(found['refused'])} failed |"
    yield f"| kills | {kills.total()}: {_counts(kills)} |"
    away = {f"{name} away": len(times) for name, times in found["away"].items()}
    yield f"| outages | {_counts({'disk full': len(found['fulls']), **away})} |"
    runs = Counter(_outcome(each) for each in found["runs"] if each["status"] in _ENDED)
    yield f"| runs | {_counts(dict(runs.most_common()))} |"
    if looks:
        yield from _over_time(looks)
        yield from _memory(looks)
    lags = [each["lag"] for each in found["lags"]]
    if lags:
        middle = sorted(lags)[len(lags) // 2]
        yield f"| lag of streams | {middle:.0f} s in the middle, {max(lags):.0f} s at most |"
    yield f"| upkeep at rest after the writers | {_rest(found)} |"
    cpu = found["cpu_seconds"]
    share = sum(cpu.get(each, 0) for each in _UPKEEP) / (sum(cpu.values()) or 1)
    yield f"| CPU of upkeep | {share:.0%} |"


def _rest(found: Mapping[str, Any]) -> str:
    return "no" if found["rested"] is None else f"after {found['rested']} s"


def _over_time(looks: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """All tables of the soak together: at the start, in the middle, at the end, and at most."""
    names = {**_FIGURES, "debt": "debt, files"}
    for what, bound in _BOUNDS.items():
        sums = [
            sum(each.get(what, 0) for name, each in look["tables"].items() if "soak." in name)
            for look in looks
        ]
        one = max(each.get(what, 0) for look in looks for each in look["tables"].values())
        told = " / ".join(f"{each:,}" for each in _three(sums))
        yield f"| {names[what]} | {told}, at most {max(sums):,}, of a table {one:,}; {bound} |"


def _memory(looks: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for role in _MEMORY:
        sizes = [each["most_bytes"].get(role, 0) // MB for each in looks if each["most_bytes"]]
        told = " / ".join(str(each) for each in _three(sizes))
        yield f"| memory of a {role}, MB | {told}, at most {max(sizes, default=0)} |"


def _three(values: Sequence[int]) -> list[int]:
    """The most at the start, in the middle and at the end, in a tenth of the time each."""
    tenth = max(1, len(values) // 10)
    middle = len(values) // 2
    parts = (values[:tenth], values[middle : middle + tenth], values[-tenth:])
    return [max(each, default=0) for each in parts]


def _outcome(run: Mapping[str, Any]) -> str:
    if run["status"] != "FAILURE":
        return "ended well" if run["status"] == "SUCCESS" else str(run["status"]).lower()
    why = str(run["why"])
    cause = why.partition(":")[0]
    if why == "killed" or cause == "disk full" or cause.endswith(" away"):
        return f"failed, {cause}"
    return "failed otherwise"


def svg(looks: Sequence[Mapping[str, Any]]) -> str:
    """Lines over time, one for each table: live files, snapshots and files on disk."""
    width, height, gap, columns = 760, 150, 40, 4
    end = max(each["seconds"] for each in looks) or 1
    names = sorted({name for look in looks for name in look["tables"] if "soak." in name})
    parts = []
    for row, (what, title) in enumerate(
        (("live", "live data files"), ("snapshots", "snapshots"), ("disk", "files on disk"))
    ):
        top = gap + row * (height + gap)
        lines = {
            name: [
                (look["seconds"], look["tables"][name].get(what, 0))
                for look in looks
                if name in look["tables"]
            ]
            for name in names
        }
        most = max((value for line in lines.values() for _, value in line), default=0) or 1
        parts.append(f'<text x="10" y="{top - 8}">{title}, at most {most:,}</text>')
        parts.append(f'<rect x="10" y="{top}" width="{width}" height="{height}" fill="#f6f6f4"/>')
        for at, line in enumerate(lines.values()):
            points = " ".join(
                f"{10 + seconds / end * width:.1f},{top + height - value / most * height:.1f}"
                for seconds, value in line
            )
            colour = _COLOURS[at % len(_COLOURS)]
            parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}"/>')
    below = gap + 3 * (height + gap)
    for at, name in enumerate(names):
        x, y = 10 + at % columns * 190, below + at // columns * 18
        parts.append(f'<text x="{x}" y="{y}" fill="{_COLOURS[at % len(_COLOURS)]}">{name}</text>')
    size = f'width="{width + 20}" height="{below + 22 + 18 * (len(names) // columns)}"'
    style = 'font-family="sans-serif" font-size="13"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{"".join(parts)}</svg>\n'


def _while_writing(found: Mapping[str, Any]) -> list[Any]:
    return [look for look in found["looks"] if look["seconds"] <= 60 * found["minutes"]]


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
