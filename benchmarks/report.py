"""The markdown of `benchmarks/results/peers.md` from raw results: aims, growth, measurements."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.results import Result, Run, Status
from benchmarks.suite import CLIENTS, CONTESTANTS, OPERATIONS
from benchmarks.workload import CASES

_MIB = 2**20
_NOTHING = "–"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """All repeats of one measurement."""

    contestant: str
    results: tuple[Result, ...]

    @property
    def good(self) -> tuple[Result, ...]:
        return tuple(each for each in self.results if each.status is Status.OK)

    @property
    def trouble(self) -> Result | None:
        """The reason for a missing number, if it is missing."""
        return None if self.good else self.results[-1]

    @property
    def seconds(self) -> tuple[float, ...]:
        return tuple(each.seconds for each in self.good)

    @property
    def micros_per_row(self) -> float:
        """The median per input row, which compares cells of different sizes."""
        return statistics.median(self.seconds) / self.good[0].input_rows * 1e6

    @property
    def first_seconds(self) -> float | None:
        """The median of first times in fresh processes."""
        found = [each.first_seconds for each in self.good if each.first_seconds is not None]
        return statistics.median(found) if found else None

    @property
    def cpu_micros_per_row(self) -> float:
        """The same in CPU time, which is never zero."""
        return max(self.cpu_seconds, 0.01) / self.good[0].input_rows * 1e6

    @property
    def cpu_seconds(self) -> float:
        return statistics.median(each.cpu_seconds for each in self.good)

    @property
    def peak_bytes(self) -> int:
        return max(each.peak_bytes for each in self.good)

    @property
    def before_bytes(self) -> int:
        return max(self.good, key=lambda each: each.peak_bytes).before_bytes


class Figures:
    """Results by case, size, operation and contestant."""

    def __init__(self, results: Iterable[Result]) -> None:
        grouped: dict[tuple[str, int, str, str], list[Result]] = {}
        for each in results:
            what = each.measurement
            key = (what.case, what.rows, what.operation, what.contestant)
            grouped.setdefault(key, []).append(each)
        self._cells = {
            key: Cell(contestant=key[3], results=tuple(group)) for key, group in grouped.items()
        }

    def sizes(self) -> list[tuple[str, int]]:
        """Measured cases and row counts, in the order of the suite."""
        found = {(case, rows) for case, rows, _, _ in self._cells}
        order = list(CASES)
        return sorted(found, key=lambda each: (each[1], order.index(each[0])))

    def cell(self, case: str, rows: int, operation: str, contestant: str) -> Cell | None:
        return self._cells.get((case, rows, operation, contestant))

    def cells(self, case: str, rows: int, operation: str) -> list[Cell]:
        """In the order of the operation's contestants."""
        found = (
            self.cell(case, rows, operation, name) for name in OPERATIONS[operation].contestants
        )
        return [cell for cell in found if cell is not None]

    def ratio(self, case: str, rows: int, operation: str, over: str, under: str) -> float | None:
        """The time of `over` for a row divided by that of `under`; None without both figures."""
        top, bottom = (self.cell(case, rows, operation, name) for name in (over, under))
        if top is None or bottom is None or top.trouble or bottom.trouble:
            return None
        return top.micros_per_row / bottom.micros_per_row

    def best_client(self, case: str, rows: int, operation: str) -> str | None:
        """The client that takes the least time for a row."""
        found = [
            cell
            for cell in self.cells(case, rows, operation)
            if cell.contestant in CLIENTS and not cell.trouble
        ]
        return min(found, key=lambda cell: cell.micros_per_row).contestant if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """A ratio in one run, with its upper or lower limit."""

    title: str
    operation: str
    over: str
    under: str
    at_most: float | None = None
    at_least: float | None = None

    @property
    def target(self) -> str:
        if self.at_most is not None:
            return f"≤ {self.at_most:g}"
        return f"≥ {self.at_least:g}"

    def is_met(self, ratio: float) -> bool:
        if self.at_most is not None:
            return ratio <= self.at_most
        assert self.at_least is not None
        return ratio >= self.at_least


BEST = "best client"


def _aims() -> Iterator[Aim]:
    for runs in ("5", "20"):
        for asks in ("read", "aggregate") if runs == "5" else ("read",):
            name = f"spark-{asks}-{runs}"
            told = f"Spark {asks}, {runs} commits"
            yield Aim(
                title=f"{told}: ours / plain scan",
                operation=name,
                over="lakewright-spark",
                under="spark-scan",
                at_most=1.25,
            )
            yield Aim(
                title=f"{told}: window / ours",
                operation=name,
                over="spark-window",
                under="lakewright-spark",
                at_least=3.5,
            )
        name, told = f"read-{runs}", f"Arrow read, {runs} commits"
        yield Aim(
            title=f"{told}: ours / floor",
            operation=name,
            over="lakewright",
            under="pyarrow",
            at_most=1.5,
        )
        yield Aim(
            title=f"{told}: {BEST} / ours",
            operation=name,
            over=BEST,
            under="lakewright",
            at_least=2.0,
        )
    yield Aim(
        title="full compaction: Spark's window and write / ours on Spark",
        operation="spark-compact",
        over="spark-window",
        under="lakewright-spark",
        at_least=4.0,
    )
    yield Aim(
        title="full compaction: Java / ours",
        operation="compact",
        over="java",
        under="lakewright",
        at_least=2.0,
    )
    yield Aim(
        title="full compaction: ours / floor",
        operation="compact",
        over="lakewright",
        under="pyarrow",
        at_most=1.5,
    )
    yield Aim(
        title="full compaction: proved by checksums / rows only counted",
        operation="compact",
        over="lakewright",
        under="lakewright-counts",
        at_most=1.05,
    )
    yield Aim(
        title=f"upsert: {BEST} / ours",
        operation="upsert",
        over=BEST,
        under="lakewright",
        at_least=1.5,
    )


AIMS = tuple(_aims())
_SMALL_COMPACTIONS = (
    ("small-compact", "lakewright", "small compaction, seconds"),
    ("spark-small-compact", "lakewright-spark", "small compaction on Spark, seconds"),
)
_SMALL_SECONDS = 1.0


def render(results: Sequence[Result], runs: Sequence[Run]) -> str:
    """Everything as markdown."""
    if not results:
        return ""
    figures = Figures(results)
    parts = [_about(results, runs), _aims_table(figures), _growth(figures)]
    parts += [_measurements(figures, case, rows) for case, rows in figures.sizes()]
    return "\n\n".join(part for part in parts if part) + "\n"


def _about(results: Sequence[Result], runs: Sequence[Run]) -> str:
    used = {each.run for each in results}
    lines = []
    for run in runs:
        if run.run in used:
            versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
            memory = run.memory_bytes / 2**30
            lines.append(
                f"{run.started}, commit {run.commit}: {run.processors} processors, "
                f"{memory:.0f} GiB, Python {run.python}, {versions}."
            )
    if len(lines) > 1:
        lines.insert(
            0, "Made in several invocations; contestants of one repeat ran in one of them."
        )
    return "  \n".join(lines)


def _aims_table(figures: Figures) -> str:
    sizes = figures.sizes()
    rows = [["aim", "", *(f"{case}, {_count(rows)}" for case, rows in sizes)]]
    for aim in AIMS:
        cells = [_aim_cell(figures, aim, case, count) for case, count in sizes]
        if any(cell != _NOTHING for cell in cells):
            rows.append([aim.title, aim.target, *cells])
    for operation, contestant, title in _SMALL_COMPACTIONS:
        cells = []
        for case, count in sizes:
            cell = figures.cell(case, count, operation, contestant)
            if cell is None or cell.trouble:
                cells.append(_NOTHING)
            else:
                median = statistics.median(cell.seconds)
                cells.append(_marked(f"{median:.2f}", is_met=median < _SMALL_SECONDS))
        if any(cell != _NOTHING for cell in cells):
            rows.append([title, f"< {_SMALL_SECONDS:g}", *cells])
    text = (
        "## Aims\n\nRatios of medians, for a row where sizes differ. **Bold** misses its aim.\n\n"
    )
    return text + _table(rows)


def _aim_cell(figures: Figures, aim: Aim, case: str, rows: int) -> str:
    best = figures.best_client(case, rows, aim.operation)
    over = best if aim.over == BEST else aim.over
    ratio = figures.ratio(case, rows, aim.operation, over, aim.under) if over else None
    if ratio is None:
        return _NOTHING
    text = _marked(f"{ratio:.2f}", is_met=aim.is_met(ratio))
    return f"{text} ({over})" if aim.over == BEST else text


def _marked(text: str, *, is_met: bool) -> str:
    return text if is_met else f"**{text}**"


_GROWING = (
    ("upsert", "lakewright"),
    ("read-5", "lakewright"),
    ("read-5", "lakewright-batches"),
    ("read-5", "pyarrow"),
    ("compact", "lakewright"),
    ("compact", "pyarrow"),
    ("spark-read-5", "lakewright-spark"),
    ("spark-read-5", "spark-scan"),
    ("spark-read-5", "spark-window"),
)
_BY_RUNS = ("lakewright", "lakewright-batches", "pyarrow", "rust", "java")
_RUNS = ("1", "5", "20")


def _growth(figures: Figures) -> str:
    return "\n\n".join(
        part for part in (_growth_in_rows(figures), _growth_in_runs(figures)) if part
    )


def _growth_in_rows(figures: Figures) -> str:
    """Cost of a row at the smallest and the largest size."""
    sizes: dict[str, list[int]] = {}
    for case, count in figures.sizes():
        sizes.setdefault(case, []).append(count)
    rows = []
    for case, counts in sizes.items():
        small, large = min(counts), max(counts)
        if small == large:
            continue
        for operation, contestant in _GROWING:
            first, last = (
                figures.cell(case, count, operation, contestant) for count in (small, large)
            )
            if first is None or last is None or first.trouble or last.trouble:
                continue
            rows.append(
                [
                    case,
                    f"{OPERATIONS[operation].title}, {CONTESTANTS[contestant].title}",
                    f"{first.micros_per_row:.3f} at {_count(small)}",
                    f"{last.micros_per_row:.3f} at {_count(large)}",
                    f"{last.micros_per_row / first.micros_per_row:.2f}",
                    f"{first.peak_bytes / _MIB:,.0f}",
                    f"{last.peak_bytes / _MIB:,.0f}",
                ]
            )
    if not rows:
        return ""
    head = ["case", "work", "µs a row", "µs a row", "ratio", "peak MiB", "peak MiB"]
    return "## From few rows to many\n\n" + _table([head, *rows])


def _growth_in_runs(figures: Figures) -> str:
    """Cost of an input row by the number of overlapping runs."""
    rows = []
    for case, count in figures.sizes():
        for contestant in _BY_RUNS:
            cells = [figures.cell(case, count, f"read-{runs}", contestant) for runs in _RUNS]
            if any(cell is None or cell.trouble for cell in cells):
                continue
            costs = [f"{cell.micros_per_row:.3f}" for cell in cells if cell is not None]
            rows.append([f"{case}, {_count(count)}", CONTESTANTS[contestant].title, *costs])
    if not rows:
        return ""
    head = ["case", "reading", *(f"µs a row, {runs} over the base" for runs in _RUNS)]
    return "## From one run to twenty\n\n" + _table([head, *rows])


def _measurements(figures: Figures, case: str, rows: int) -> str:
    head = ["work", "who", "seconds", "ratio", "first", "CPU s", "CPU ratio", "peak MiB (before)"]
    lines = []
    notes: list[str] = []
    for name, operation in OPERATIONS.items():
        cells = figures.cells(case, rows, name)
        ours = next((cell for cell in cells if cell.contestant.startswith("lakewright")), None)
        for position, cell in enumerate(cells):
            title = operation.title if position == 0 else ""
            lines.append([title, *_cell_columns(cell, ours, rows, notes)])
    text = f"## {CASES[case].title[0].upper()}{CASES[case].title[1:]}: {rows:,} rows\n\n"
    text += _table([head, *lines])
    return text + "".join(f"\n\n{number}) {note}" for number, note in enumerate(notes, 1))


def _cell_columns(cell: Cell, ours: Cell | None, rows: int, notes: list[str]) -> list[str]:
    title = CONTESTANTS[cell.contestant].title
    trouble = cell.trouble
    if trouble is not None:
        if trouble.status is Status.CAPPED:
            return [
                title,
                f"more: {trouble.note}, {_count(trouble.data_rows)} rows",
                *[_NOTHING] * 3,
            ]
        note = f"{title}: {trouble.note}"
        if note not in notes:
            notes.append(note)
        return [title, f"{trouble.status.value} {notes.index(note) + 1})", *[_NOTHING] * 5]
    data_rows = cell.good[0].data_rows
    size = "" if data_rows == rows else f" at {_count(data_rows)} rows"
    ratio, cpu_ratio = _NOTHING, _NOTHING
    if ours is not None and not ours.trouble:
        ratio = f"{cell.micros_per_row / ours.micros_per_row:.2f}"
        cpu_ratio = f"{cell.cpu_micros_per_row / ours.cpu_micros_per_row:.2f}"
    return [
        title,
        f"{shown_seconds(cell.seconds)}{size}",
        ratio,
        _NOTHING if cell.first_seconds is None else f"{cell.first_seconds:.2f}",
        f"{cell.cpu_seconds:.2f}",
        cpu_ratio,
        f"{cell.peak_bytes / _MIB:,.0f} ({cell.before_bytes / _MIB:,.0f})",
    ]


def shown_seconds(seconds: Sequence[float]) -> str:
    """The median, followed by the spread."""
    median = f"{statistics.median(seconds):.2f}"
    return median if len(seconds) == 1 else f"{median} ({min(seconds):.2f}–{max(seconds):.2f})"


def _count(rows: int) -> str:
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if rows >= size:
            return f"{rows / size:g} {unit}"
    return str(rows)


def _table(rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines)
