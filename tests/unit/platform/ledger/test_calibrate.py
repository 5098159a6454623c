"""Calibration: predictions follow what past runs took, and their error is known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.platform.ledger.action import Action, Verdict
from lakewright.platform.ledger.calibrate import (
    Calibration,
    PredictionError,
    modelled_ms,
    prediction_error,
)
from lakewright.platform.upkeep.measures import Benefit, Cost, Measures

_MIB = 1 << 20
PLANS = st.tuples(st.integers(1, 5000), st.integers(_MIB, 2_000 * _MIB))


def run(
    at: int,
    planned: Cost,
    *,
    slowness: float = 1.0,
    share: float = 1.0,
    compression: float = 1.0,
    predicted: Measures | None = None,
    **given: object,
) -> Action:
    """A run on a machine of a slowness, which works on a share of the planned files."""
    read = Cost(files=round(planned.files * share), bytes=round(planned.bytes * share))
    cost = replace(
        read,
        milliseconds=max(1, round(modelled_ms(read) * slowness)),
        bytes_written=round(read.bytes * compression),
    )
    made = Action(
        id=f"{at:05}",
        run="r",
        table="db.t",
        table_uuid="t",
        verb="compact",
        started_ms=at,
        ended_ms=at + 1,
        verdict=Verdict.DONE,
        predicted_cost=planned if predicted is None else predicted.cost,
        predicted_benefit=None if predicted is None else predicted.benefit,
        cost=cost,
        benefit=Benefit(files_fewer=read.files - 1, bytes_fewer=read.bytes - cost.bytes_written),
    )
    return replace(made, **given)  # type: ignore[arg-type]


def plan(files: int, size: int) -> Measures:
    return Measures(
        cost=Cost(files=files, bytes=size, bytes_written=size),
        benefit=Benefit(files_fewer=files - 1),
    )


@given(
    slowness=st.floats(0.05, 50),
    share=st.floats(0.2, 1),
    compression=st.floats(0.05, 2),
    plans=st.lists(PLANS, min_size=7, max_size=30),
)
def test_predictions_come_to_what_a_machine_and_a_table_are_like(
    slowness: float, share: float, compression: float, plans: list[tuple[int, int]]
) -> None:
    """Each prediction is recorded and learned from, and one run of three is disturbed."""
    history: list[Action] = []
    nature = {"slowness": slowness, "share": share, "compression": compression}
    for at, (files, size) in enumerate(plans):
        foreseen = Calibration.of(history).measures("compact", "db.t", plan(files + 100, size))
        came = run(at, foreseen.cost, predicted=foreseen, **nature)  # type: ignore[arg-type]
        if at % 3 == 1:
            slow = replace(came.cost, milliseconds=came.cost.milliseconds * 40)
            came = replace(came, cost=slow)
        history.append(came)

    last = plan(1000, 500 * _MIB)
    foreseen = Calibration.of(history).measures("compact", "db.t", last)
    came = run(99, last.cost, **nature)  # type: ignore[arg-type]

    assert foreseen.cost.milliseconds == pytest.approx(came.cost.milliseconds, rel=0.1, abs=3)
    assert foreseen.cost.bytes_written == pytest.approx(came.cost.bytes_written, rel=0.02)
    assert foreseen.benefit.files_fewer == pytest.approx(came.benefit.files_fewer, rel=0.05)
    assert foreseen.benefit.bytes_fewer == pytest.approx(
        came.benefit.bytes_fewer, abs=0.05 * came.cost.bytes
    )
    # What was planned is told as it was planned.
    assert (foreseen.cost.files, foreseen.cost.bytes) == (last.cost.files, last.cost.bytes)


@pytest.mark.parametrize("overhead_ms", [10, 400, 3000])
@pytest.mark.parametrize("slowness", [0.3, 1.0, 5.0])
def test_runs_of_small_tables_are_overhead_and_predict_large_ones(
    overhead_ms: int, slowness: float
) -> None:
    """The fixed part of a run and its slope are separated, though one run of four is disturbed."""

    def took(cost: Cost, disturbed: float = 1.0) -> Cost:
        work = modelled_ms(cost) - modelled_ms(Cost())
        return replace(cost, milliseconds=round((overhead_ms + slowness * work) * disturbed))

    history = []
    for at in range(24):
        cost = Cost(files=5 + 3 * (at % 8), bytes=(1 + at % 8) << 18)
        # Of tables of a warehouse, few are large.
        cost = Cost(files=900, bytes=30 * _MIB) if at % 12 == 5 else cost
        history.append(replace(run(at, cost), cost=took(cost, 3.0 if at % 4 == 3 else 1.0)))

    known = Calibration.of(history)

    for large in (Cost(files=900, bytes=30 * _MIB), Cost(files=4000, bytes=200 * _MIB)):
        actual = took(large).milliseconds
        assert known.milliseconds("compact", "db.new", large) == pytest.approx(actual, rel=0.3)
    small = Cost(files=8, bytes=_MIB)
    assert known.milliseconds("compact", "db.new", small) == pytest.approx(
        took(small).milliseconds, rel=0.4, abs=20
    )


def test_a_table_of_few_runs_is_predicted_by_those_of_its_verb_elsewhere() -> None:
    cost = Cost(files=10, bytes=_MIB)
    own = [run(at, cost, slowness=3.0) for at in range(2)]
    others = [run(at, cost, slowness=9.0, table="db.other") for at in range(10, 20)]
    known = Calibration.of([*own, *others])

    assert known.ratios_of("compact", "db.t").time == pytest.approx(9, rel=0.01)
    assert known.ratios_of("compact", "db.t").runs == 12
    own.append(run(2, cost, slowness=3.0))
    known = Calibration.of([*own, *others])
    assert known.ratios_of("compact", "db.t").time == pytest.approx(3, rel=0.01)
    assert known.ratios_of("expire_snapshots", "db.t").runs == 0


def test_only_what_was_done_is_learned_from_and_only_the_newest_of_it() -> None:
    cost = Cost(files=10, bytes=_MIB)
    old = [run(at, cost, slowness=100.0) for at in range(60)]
    failed = [run(at, cost, slowness=0.01, verdict=Verdict.FAILED) for at in range(200, 300)]
    new = [run(at, cost, slowness=2.0) for at in range(100, 150)]

    known = Calibration.of([*new, *failed, *old])

    assert known.ratios_of("compact", "db.t").time == pytest.approx(2, rel=0.01)


def test_without_history_the_model_predicts() -> None:
    cost = Cost(files=100, bytes=500 * _MIB)

    assert Calibration().milliseconds("compact", "db.t", cost) == round(modelled_ms(cost))
    deleting = Measures(cost=Cost(files=7), benefit=Benefit(bytes_freed=5, snapshots_fewer=2))
    foreseen = Calibration().measures("expire_snapshots", "db.t", deleting)
    assert foreseen.benefit == deleting.benefit
    assert foreseen.cost.bytes_written == 0
    # No row is read of what an expiry deletes.
    assert foreseen.cost.milliseconds == 57


def test_the_error_of_predictions_is_the_median_share_of_what_came() -> None:
    def pair(predicted_ms: int, ms: int, fewer: int) -> Action:
        foreseen = Measures(
            cost=Cost(files=1, milliseconds=predicted_ms), benefit=Benefit(files_fewer=fewer)
        )
        came = run(0, Cost(files=5), predicted=foreseen)
        return replace(came, cost=Cost(files=5, milliseconds=ms), benefit=Benefit(files_fewer=4))

    runs = [pair(1100, 1000, 4), pair(500, 1000, 2), pair(900, 1000, 4)]
    # Of runs below a second, the time is overhead, and its error is not shown.
    short = [pair(50, 900, 4), pair(900, 50, 4)]

    assert prediction_error([*runs, *short]) == PredictionError(
        runs=5, milliseconds=0.1, files_fewer=0.0
    )
    assert prediction_error(short) == PredictionError(runs=2, files_fewer=0.0)
    assert prediction_error([]) == PredictionError()
