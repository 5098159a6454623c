"""The tables of `benchmarks/results/neglected.md`: what upkeep cost and saved, by verb and kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from benchmarks.neglected.build import Made
from benchmarks.neglected.upkeep import Proof, Size
from lakewright.platform.ledger.action import Verdict
from lakewright.platform.ledger.savings import By, Saving, savings, total
from lakewright.platform.upkeep.words import size_text


def report(proof: Proof, made: Sequence[Made]) -> Iterator[str]:
    """Lines of Markdown."""
    yield from _table(
        ("step", "seconds"), [(name, f"{took:,}") for name, took in proof.seconds.items()]
    )
    yield ""
    acted = [each for each in proof.actions if each.verdict is not Verdict.SHADOW]
    kept = {each.table: each.kind.name for each in made}
    yield from _of_verbs([*savings(acted, By.VERB), total(acted)])
    yield ""
    grouped = {
        kind: [each for each in acted if kept.get(each.table) == kind]
        for kind in dict.fromkeys(kept.values())
    }
    summed = [total(found, kind) for kind, found in grouped.items()]
    yield from _of_kinds(summed, proof, kept)
    yield ""
    yield f"- looks of the sensor: {len(proof.ticks)}, the longest {max(proof.ticks, default=0)} s"
    runs = [took for found in proof.runs.values() for took in found]
    itself = sum(each.cost.milliseconds for each in acted) / 1000
    yield f"- runs: {len(runs)}, {sum(runs):,.0f} s, of which {itself:,.0f} s are upkeep itself"
    yield f"- peak memory of the process with Dagster in it: {proof.peak_mib:,} MiB"
    for verdict in Verdict:
        count = sum(each.verdict is verdict for each in proof.actions)
        yield f"- actions that were {verdict.value}: {count:,}"
    yield from (
        f"- a client cannot read, before as after: {name}: {why}"
        for name, why in sorted(proof.unread.items())
    )
    yield from (
        f"- still to be said of {name}: {why}" for name, why in sorted(proof.unhealthy.items())
    )
    yield from (f"- FAULT: {each}" for each in proof.faults)


def _of_verbs(found: Sequence[Saving]) -> Iterator[str]:
    header = (
        "verb",
        "actions",
        "seconds",
        "predicted",
        "error",
        "read",
        "written",
        "predicted",
        "error",
        "files removed",
        "predicted",
        "error",
        "snapshots removed",
        "predicted",
        "freed",
        "predicted",
        "error",
    )
    yield from _table(
        header,
        [
            (
                each.key.replace("_", " "),
                f"{each.done:,} of {each.runs:,}",
                _seconds(each.cost.milliseconds),
                _seconds(each.predicted_cost.milliseconds),
                _error(each.error.milliseconds),
                size_text(each.cost.bytes),
                size_text(each.cost.bytes_written),
                size_text(each.predicted_cost.bytes_written),
                _error(each.error.bytes_written),
                f"{each.benefit.files_fewer:,}",
                f"{each.predicted_benefit.files_fewer:,}",
                _error(each.error.files_fewer),
                f"{each.benefit.snapshots_fewer:,}",
                f"{each.predicted_benefit.snapshots_fewer:,}",
                size_text(each.benefit.bytes_freed),
                size_text(each.predicted_benefit.bytes_freed),
                _error(each.error.bytes_freed),
            )
            for each in found
        ],
    )


def _of_kinds(found: Sequence[Saving], proof: Proof, kept: Mapping[str, str]) -> Iterator[str]:
    def was(kind: str, sizes: Mapping[str, Size], of: Callable[[Size], int]) -> int:
        return sum(of(size) for table, size in sizes.items() if kept[table] == kind)

    def both(kind: str, of: Callable[[Size], int], text: Callable[[int], str]) -> str:
        return f"{text(was(kind, proof.before, of))} → {text(was(kind, proof.after, of))}"

    def number(count: int) -> str:
        return f"{count:,}"

    header = (
        "kind",
        "tables",
        "data files",
        "snapshots",
        "files on disk",
        "bytes on disk",
        "seconds",
        "predicted",
        "error",
        "files removed, predicted",
        "error",
    )
    yield from _table(
        header,
        [
            (
                each.key.replace("_", " "),
                str(sum(kind == each.key for kind in kept.values())),
                both(each.key, lambda size: size.data_files, number),
                both(each.key, lambda size: size.snapshots, number),
                both(each.key, lambda size: size.files_on_disk, number),
                both(each.key, lambda size: size.bytes_on_disk, size_text),
                _seconds(each.cost.milliseconds),
                _seconds(each.predicted_cost.milliseconds),
                _error(each.error.milliseconds),
                f"{each.benefit.files_fewer:,}, {each.predicted_benefit.files_fewer:,}",
                _error(each.error.files_fewer),
            )
            for each in found
        ],
    )


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:,.1f}"


def _error(error: float | None) -> str:
    return "" if error is None else f"{error:.0%}"
