"""The history of a warehouse that a replay starts from: states of tables, and actions of upkeep.

1. Take the states that were recorded (`surveys.py`), and read the state of now. The last state
   before the span is that of its beginning.
2. Before the first of them, read the states at snapshots that the table still keeps, some of them
   if they are many.
3. Take the actions of the ledger: those of the span, and those of the month before it, from which
   predictions learn.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakewright.platform.decide.surveys import HOLDS_MS, Surveys
from lakewright.platform.decide.table_state import UpkeepState, health_of, read_state
from lakewright.platform.decide.take_survey import survey_snapshot
from lakewright.platform.ledger.action import Action
from lakewright.platform.ledger.intents import WhyNot
from lakewright.platform.ledger.ledger import Ledger
from lakewright.platform.tables.upkeep_policies import RespecPolicy
from lakewright.storage import Catalog
from lakewright.storage.errors import StorageError

_LEARNS_FROM_MS = 30 * 86_400_000
_MOST_SNAPSHOTS = 100
# Of all tables, and of each table at least so many.
_MOST_STATES, _LEAST_STATES = 100_000, 50
_MOST_PARTITIONS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedHistory:
    """What is known of a span: by table its states, oldest first, and the actions of upkeep.

    `actions` begin before the span. `rebuilt` counts by table the states that were read from
    snapshots, since none was recorded.
    """

    begins_ms: int
    ends_ms: int
    states: Mapping[str, tuple[UpkeepState, ...]]
    actions: tuple[Action, ...] = ()
    rebuilt: Mapping[str, int] = field(default_factory=dict)

    def done_in_span(self) -> Iterator[Action]:
        """The actions that began in the span."""
        return (each for each in self.actions if self.begins_ms <= each.started_ms <= self.ends_ms)


def read_history(
    catalog: Catalog,
    names: Sequence[str],
    *,
    since_ms: int,
    most_snapshots: int = _MOST_SNAPSHOTS,
    looked: Callable[[], object] = lambda: None,
    respec_of: Callable[[str], RespecPolicy | None] = lambda _: None,
) -> RecordedHistory:
    """Read the history of tables since a moment; writes nothing.

    Of tables that were dropped and created again, only the history of the present one counts. It
    also says for all of its past whether it can have the partition keys of `respec_of`.

    Raises:
        StorageError: the ledger or the recorded surveys cannot be read.
    """
    now_ms = catalog.env.now_ms()
    recorded: dict[str, list[UpkeepState]] = defaultdict(list)
    most = max(_LEAST_STATES, _MOST_STATES // max(len(names), 1))
    surveys = Surveys(catalog)
    for each in surveys.states(since_ms=max(since_ms - 2 * HOLDS_MS, 0), most=most):
        recorded[each.survey.table].append(each)
    states: dict[str, tuple[UpkeepState, ...]] = {}
    rebuilt: dict[str, int] = {}
    for name in names:
        latest = read_state(catalog, name, now_ms=now_ms, respec=respec_of(name))
        change = latest.keys_change
        if change is not None and change.why_not is WhyNot.BLOCKED:
            # That passes; it says nothing of other times.
            change = None
        own = [each for each in recorded[name] if each.survey.uuid == latest.survey.uuid]
        own = _from(own, since_ms)
        until_ms = own[0].survey.taken_ms if own else now_ms
        before = _of_snapshots(catalog, latest, since_ms, until_ms, most_snapshots)
        states[name] = tuple(replace(each, keys_change=change) for each in (*before, *own, latest))
        rebuilt[name] = len(before)
        looked()
    actions = Ledger(catalog).actions(since_ms=max(since_ms - _LEARNS_FROM_MS, 0))
    return RecordedHistory(
        begins_ms=since_ms, ends_ms=now_ms, states=states, actions=actions, rebuilt=rebuilt
    )


def _of_snapshots(
    catalog: Catalog, latest: UpkeepState, since_ms: int, until_ms: int, most: int
) -> list[UpkeepState]:
    """The states at snapshots of a span that are kept, at even distances if they are many."""
    if latest.survey.problem is not None or latest.survey.history.latest_snapshot is None:
        return []
    found: list[UpkeepState] = []
    try:
        table = catalog.table(latest.survey.table)
        snapshots = table.table_files.snapshots
        ids = snapshots.ids()

        def time_of(snapshot_id: int) -> int:
            return snapshots.read(snapshot_id).time_millis

        first, last = (bisect_left(ids, each, key=time_of) for each in (since_ms, until_ms))
        within = ids[max(first - 1, 0) : last]
        step = max(len(within) / most, 1.0)
        for at in range(min(len(within), most)):
            snapshot = snapshots.read(within[int(at * step)])
            survey = survey_snapshot(table, snapshot, worst=_MOST_PARTITIONS)
            found.append(
                replace(
                    latest,
                    survey=survey,
                    health=health_of(survey),
                    collect_due_ms=None,
                    tags_made_ms={},
                )
            )
    except StorageError:
        # Snapshots expire while they are read; what was read before is as good as it was.
        return _from(found, since_ms)
    return _from(found, since_ms)


def _from(states: Sequence[UpkeepState], since_ms: int) -> list[UpkeepState]:
    """The states of a span; the last one before it held when it began."""
    before = [each for each in states if each.survey.taken_ms < since_ms]
    begin = [replace(each, survey=replace(each.survey, taken_ms=since_ms)) for each in before[-1:]]
    return [*begin, *(each for each in states if each.survey.taken_ms >= since_ms)]
