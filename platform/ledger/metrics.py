"""Actions as metrics in the text format of Prometheus, version 0.0.4.

They are counters over the actions that the ledger holds, for each table and verb; as old months are
dropped from the ledger, they start again, as counters may.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

from lakewright.platform.ledger.action import Action, Verdict

Labels = tuple[tuple[str, str], ...]
Value = int | float

_SUMS: dict[str, tuple[str, Callable[[Action], Value]]] = {
    "lakewright_upkeep_seconds_total": (
        "Time that upkeep took.",
        lambda action: action.cost.milliseconds / 1000,
    ),
    "lakewright_upkeep_predicted_seconds_total": (
        "Time that upkeep was predicted to take.",
        lambda action: action.predicted_cost.milliseconds / 1000 if action.predicted_cost else 0,
    ),
    "lakewright_upkeep_read_bytes_total": (
        "Bytes of data files that upkeep read.",
        lambda action: action.cost.bytes,
    ),
    "lakewright_upkeep_written_bytes_total": (
        "Bytes of data files that upkeep wrote.",
        lambda action: action.cost.bytes_written,
    ),
    "lakewright_upkeep_freed_bytes_total": (
        "Bytes of storage that upkeep freed.",
        lambda action: action.benefit.bytes_freed,
    ),
    "lakewright_upkeep_expired_snapshots_total": (
        "Snapshots that upkeep expired.",
        lambda action: action.benefit.snapshots_fewer,
    ),
}
# A sorting or a rescale may leave more files or bytes than before, so these are no counters.
_NETS: dict[str, tuple[str, Callable[[Action], Value]]] = {
    "lakewright_upkeep_files_fewer": (
        "Files that readers no longer open.",
        lambda action: action.benefit.files_fewer,
    ),
    "lakewright_upkeep_bytes_fewer": (
        "Bytes that readers no longer read.",
        lambda action: action.benefit.bytes_fewer,
    ),
}


def metrics_text(actions: Iterable[Action]) -> str:
    """The metrics of actions; shadows, which did nothing, are only counted."""
    runs: dict[Labels, Value] = defaultdict(int)
    sums: dict[str, dict[Labels, Value]] = {name: defaultdict(int) for name in (*_SUMS, *_NETS)}
    last: dict[Labels, Value] = defaultdict(int)
    for action in actions:
        of: Labels = (("table", action.table), ("verb", action.verb))
        ended: Labels = (*of, ("verdict", action.verdict.value))
        runs[ended] += 1
        last[ended] = max(last[ended], action.ended_ms / 1000)
        if action.verdict is not Verdict.SHADOW:
            for name, (_, value) in (_SUMS | _NETS).items():
                sums[name][of] += value(action)
    lines = [
        *_family("lakewright_upkeep_runs_total", "counter", "Actions of upkeep.", runs),
        *_family(
            "lakewright_upkeep_last_run_timestamp_seconds",
            "gauge",
            "When the last action ended.",
            last,
        ),
    ]
    for kind, families in (("counter", _SUMS), ("gauge", _NETS)):
        for name, (text, _) in families.items():
            lines += _family(name, kind, text, sums[name])
    return "".join(f"{line}\n" for line in lines)


def _family(name: str, kind: str, text: str, values: Mapping[Labels, Value]) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"
    for labels, value in sorted(values.items()):
        inner = ",".join(f'{label}="{_escaped(each)}"' for label, each in labels)
        yield f"{name}{{{inner}}} {value!r}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
