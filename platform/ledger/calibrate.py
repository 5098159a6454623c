"""Predictions that learn from past runs: time, compression, and how much of a plan is carried out.

A figure of the past is compared with what the predictor's model says of the same run, and the
median of these ratios corrects the next prediction. Runs of the same table decide, else those of
the same verb on other tables, else the model alone. The model's time has a part for each run and a
part for its files and bytes; how large the one is beside the other is learned for each verb, since
runs of small tables are overhead alone. Files and bytes of a plan stay as they were
planned: a corrected figure would be corrected again by the next run. Runs that only name files
anew say nothing about runs that rewrite rows, and are learned apart.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import log
from statistics import median

from lakewright.platform.ledger.action import Action, Verdict
from lakewright.platform.ledger.kept_verbs import COMPACT, EXPIRE_SNAPSHOTS, RESPEC
from lakewright.platform.upkeep.measures import Benefit, Cost, Measures

# The model, measured on one core of a small server with a local disk.
_MS_PER_RUN = 50.0
_MS_PER_FILE = 2.0
# Of a file that an expiry deletes, no row is read; a change of partition keys writes a file for
# each value of the new keys (`benchmarks/respec_cost`), and names other files anew.
_MS_PER_FILE_OF = {EXPIRE_SNAPSHOTS: 1.0, RESPEC: 12.0}
_MS_PER_NAMED_FILE = 0.4
_MS_PER_MIB = 40.0
_MIB = 1 << 20
# Fewer runs than this say too little, and older ones than the last so many are out of date.
FEWEST_RUNS, _MOST = 3, 50
# A fixed part is separated from a slope by this many runs, among these multiples of the model's.
_FEWEST_TO_FIT, _CLOSER = 8, 0.95
_FIXED = tuple(2.0**power for power in sorted(range(-6, 9), key=abs))
_ONLY_NAMES = " of names alone"
# Below a second, a prediction is of overhead, and its error is of no use for planning.
WORTH_AN_ERROR_MS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratios:
    """What past runs say, each as a median; `runs` is their number.

    `time` is that of actual and modelled time, of a model whose part for each run counts `fixed`
    times, `share` of files that were worked on and planned
    ones, `compression` of bytes written and read, `read` of all bytes read and planned.
    `milliseconds` is the actual time itself.
    """

    time: float = 1.0
    fixed: float = 1.0
    milliseconds: float = 0.0
    share: float = 1.0
    compression: float = 1.0
    runs: int = 0
    read: float = 1.0

    def milliseconds_of(self, cost: Cost, verb: str) -> float:
        """The time of files and bytes, as these runs took it."""
        return modelled_ms(cost, verb, fixed=self.fixed) * self.time


@dataclass(frozen=True, slots=True)
class Calibration:
    """The ratios of verbs, and of verbs on single tables; without any, the model alone."""

    ratios: Mapping[tuple[str, str | None], Ratios] = field(default_factory=dict)

    @classmethod
    def of(cls, actions: Iterable[Action]) -> Calibration:
        """Learn from actions that were done, in any order."""
        return Learning().add(actions)

    def ratios_of(self, verb: str, table: str) -> Ratios:
        """Those of the table, else of the verb, else none."""
        for key in ((verb, table), (verb, None)):
            if key in self.ratios:
                return self.ratios[key]
        return Ratios()

    def measures(self, verb: str, table: str, planned: Measures) -> Measures:
        """What a plan will take and gain, by what came of earlier ones."""
        kind = kind_of(verb, planned.cost)
        known, cost, benefit = self.ratios_of(kind, table), planned.cost, planned.benefit
        read = round(cost.bytes * known.share)
        written = round(read * self._written(verb, table, cost))
        taken = replace(cost, files=round(cost.files * known.share), bytes=read)
        milliseconds = known.milliseconds_of(taken, verb)
        if known.runs and not (cost.files or cost.bytes or cost.files_named):
            # Nothing is known of the size of the work.
            milliseconds = known.milliseconds
        return replace(
            planned,
            cost=replace(cost, milliseconds=round(milliseconds), bytes_written=written),
            benefit=replace(
                benefit,
                files_fewer=round(benefit.files_fewer * known.share),
                runs_fewer=round(benefit.runs_fewer * known.share),
                metadata_bytes_fewer=round(benefit.metadata_bytes_fewer * known.share),
                bytes_freed=round(benefit.bytes_freed * known.share),
                rows_shown=round(benefit.rows_shown * known.share),
                bytes_fewer=read - written
                if cost.bytes_written
                else round(benefit.bytes_fewer * known.share),
            ),
        )

    def _written(self, verb: str, table: str, cost: Cost) -> float:
        """Bytes written for each byte read.

        Past runs of the table know best, then its metadata, then past runs on other tables.
        """
        if not cost.bytes or not cost.bytes_written:
            return 0.0
        if (verb, table) in self.ratios or cost.bytes_written == cost.bytes:
            return self.ratios_of(verb, table).compression
        return cost.bytes_written / cost.bytes

    def milliseconds(self, verb: str, table: str, cost: Cost) -> int:
        """The time that a verb will take."""
        return self.measures(verb, table, Measures(cost=cost)).cost.milliseconds


@dataclass(slots=True)
class Learning:
    """Learns from actions as they come; it keeps the newest of each verb and table."""

    _runs: dict[tuple[str, str | None], deque[_Run]] = field(default_factory=dict)
    _ratios: dict[tuple[str, str | None], Ratios] = field(default_factory=dict)

    def add(self, actions: Iterable[Action]) -> Calibration:
        """Learn from actions that were done, in any order, but none of them twice."""
        changed = set()
        for action in sorted(actions, key=lambda each: (each.started_ms, each.id)):
            if action.verdict is not Verdict.DONE or action.cost.milliseconds <= 0:
                continue
            kind = kind_of(action.verb, action.cost)
            for key in ((kind, action.table), (kind, None)):
                known = self._runs.setdefault(key, deque(maxlen=_MOST))
                known.append(_Run(action.cost, action.predicted_cost))
                changed.add(key)
        fixed = {
            kind: _fixed_of(self._runs[kind, None], _verb_of(kind))
            for kind in {kind for kind, _ in changed}
        }
        for key in changed:
            kind, _ = key
            if len(self._runs[key]) >= FEWEST_RUNS:
                self._ratios[key] = _ratios(self._runs[key], _verb_of(kind), fixed[kind])
        return Calibration(dict(self._ratios))


@dataclass(frozen=True, slots=True)
class _Run:
    cost: Cost
    predicted: Cost | None


def kind_of(verb: str, cost: Cost) -> str:
    """The runs to learn from: those of the verb that rewrote rows, or only named files anew."""
    return f"{verb}{_ONLY_NAMES}" if cost.files_named and not cost.bytes else verb


def _verb_of(kind: str) -> str:
    return kind.removesuffix(_ONLY_NAMES)


def modelled_ms(cost: Cost, verb: str = COMPACT, *, fixed: float = 1.0) -> float:
    """The time of a verb for files and bytes; its part for each run counts `fixed` times."""
    of_files = _MS_PER_FILE_OF.get(verb, _MS_PER_FILE) * cost.files
    return (
        _MS_PER_RUN * fixed
        + of_files
        + _MS_PER_NAMED_FILE * cost.files_named
        + _MS_PER_MIB * cost.bytes / _MIB
    )


def _fixed_of(runs: Collection[_Run], verb: str) -> float:
    """How often the part for each run counts in the model that is closest to these runs.

    Closest in the mean of the logarithms of its errors, with the time that the runs themselves
    give it: a disturbed run weighs as much as any other, and a long one as a short one.
    """
    if len(runs) < _FEWEST_TO_FIT:
        return 1.0

    def miss(fixed: float) -> float:
        logs = [
            log(run.cost.milliseconds / modelled_ms(run.cost, verb, fixed=fixed)) for run in runs
        ]
        middle = median(logs)
        return sum(abs(each - middle) for each in logs)

    best = min(_FIXED, key=miss)
    # Else runs of about one size would move the model to and fro.
    return best if miss(best) < _CLOSER * miss(1.0) else 1.0


def _ratios(runs: Collection[_Run], verb: str, fixed: float) -> Ratios:
    shares = [
        run.cost.files / run.predicted.files
        for run in runs
        if run.predicted is not None and run.predicted.files
    ]
    compressions = [
        run.cost.bytes_written / run.cost.bytes
        for run in runs
        if run.cost.bytes and run.cost.bytes_written
    ]
    # Of their sums, since a table that grows is read by ever smaller shares.
    planned = sum(run.predicted.bytes for run in runs if run.predicted)
    read = sum(run.cost.bytes for run in runs if run.predicted)
    return Ratios(
        read=read / planned if planned else 1.0,
        time=median(
            run.cost.milliseconds / modelled_ms(run.cost, verb, fixed=fixed) for run in runs
        ),
        fixed=fixed,
        milliseconds=median(run.cost.milliseconds for run in runs),
        share=median(shares) if shares else 1.0,
        compression=median(compressions) if compressions else 1.0,
        runs=len(runs),
    )


# --- how good predictions are --------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionError:
    """How far predictions were from what came, as a share of it: half of the runs were closer.

    None where no run had both.
    """

    runs: int = 0
    milliseconds: float | None = None
    bytes_written: float | None = None
    files_fewer: float | None = None
    bytes_freed: float | None = None


def prediction_error(actions: Iterable[Action]) -> PredictionError:
    """The error over actions that were done and predicted."""
    done = [
        action for action in actions if action.verdict is Verdict.DONE and action.predicted_cost
    ]
    pairs: dict[str, list[float]] = defaultdict(list)
    for each in done:
        was, came = each.predicted_cost, each.cost
        assert was is not None
        benefit, gained = each.predicted_benefit or Benefit(), each.benefit
        # A caller that predicted no time said nothing about it.
        if was.milliseconds and max(was.milliseconds, came.milliseconds) >= WORTH_AN_ERROR_MS:
            pairs["milliseconds"].append(_error(was.milliseconds, came.milliseconds))
        for name, predicted, actual in (
            ("bytes_written", was.bytes_written, came.bytes_written),
            ("files_fewer", benefit.files_fewer, gained.files_fewer),
            ("bytes_freed", benefit.bytes_freed, gained.bytes_freed),
        ):
            if predicted or actual:
                pairs[name].append(_error(predicted, actual))
    return PredictionError(
        runs=len(done), **{name: median(errors) for name, errors in pairs.items()}
    )


def _error(predicted: int, actual: int) -> float:
    return abs(predicted - actual) / max(1, abs(actual))
