"""A crash or failure at every single IO call of every verb; see `trials.py` and `verbs.py`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from types import FunctionType, MethodType
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from lakewright.storage import Catalog, Table
from lakewright.storage.history import History
from lakewright.storage.inspection import Inspection
from lakewright.storage.scan import ChangeScan, Scan
from lakewright.storage.table_at import TableAt
from lakewright.storage.upkeep import Upkeep
from tests.faults.trials import FAULTS, TRIES, Trial, made_ready, opened
from tests.faults.verbs import CASES, READERS, Case, Place
from tests.support.stores.watched_files import Call, Fault, WatchedFiles, looked_at
from tests.support.tables.builders import events, rows
from tests.support.tables.fixtures import empty_memory
from tests.support.tally import tally

FACES = (Catalog, Table, TableAt, Scan, ChangeScan, Upkeep, History, Inspection)
# What a verb may do to a data file that lies there.
_TAKES_AWAY = ("delete", "delete_tree", "move_if_absent")


@pytest.fixture(autouse=True)
def _empty_memory() -> Iterator[None]:
    yield
    empty_memory()


@cache
def trial_of(case: Case, kind: str) -> Trial:
    return Trial(case, kind)


def _on_every_kind() -> Iterator[tuple[Case, str, bool]]:
    """Every case on every kind of table, and whether `make test` tries it there."""
    for case in CASES:
        for number, kind in enumerate(dict.fromkeys(case.on)):
            yield case, kind, case.quick and not number


def _parametrized(tried: Iterable[tuple[Case, str, bool]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("case", "kind"),
        [
            pytest.param(
                case, kind, id=f"{case.name}, {kind}", marks=[] if is_quick else [pytest.mark.deep]
            )
            for case, kind, is_quick in tried
        ],
    )


cases = _parametrized(_on_every_kind())
# Those whose tables can be copied to another store.
cases_that_move = _parametrized(each for each in _on_every_kind() if not each[0].names_places)


# Of deaths one in `make test`: what the others leave is much like what failures leave.
QUICK_FAULTS = (Fault.FAILS_BEFORE, Fault.FAILS_AFTER, Fault.FAILS_HALFWAY, Fault.DIES_AFTER)
# So many calls in `make test`, besides those that make or delete a snapshot; all where it is deep.
SOME = 2


def _ways_to_fail() -> Iterator[Any]:
    for case, kind, is_quick in _on_every_kind():
        for fault in FAULTS:
            name = f"{case.name}, {kind}, {fault.value}"
            if is_quick and fault in QUICK_FAULTS:
                yield pytest.param(case, kind, fault, SOME, id=f"{name}, some")
            yield pytest.param(case, kind, fault, None, id=name, marks=pytest.mark.deep)


@pytest.mark.sampled(72)
@pytest.mark.parametrize(("case", "kind", "fault", "most"), list(_ways_to_fail()))
@pytest.mark.mission("FS9", "FS10", "FS11", "FS19", "BK37", "PT50")
@pytest.mark.sampled(12)
def test_a_verb_that_failed_at_any_call_is_tried_again_without_loss_or_doubling(
    case: Case, kind: str, fault: Fault, most: int | None
) -> None:
    trial = trial_of(case, kind)
    count = 0
    for point in trial.points(fault, most):
        count += 1
        try:
            trial.check(point)
        except Exception as error:
            error.add_note(f"{case.name}: {point}")
            raise
    tally("points of failure tried", count)
    tally(f"points of failure tried: {case.name}", count)


@pytest.mark.sampled(24)
@cases
@pytest.mark.mission("FS10", "PT52", "RS8")
def test_a_reader_sees_the_table_before_or_after_at_every_moment_of_a_verb(
    case: Case, kind: str
) -> None:
    tally("moments a reader looked at", trial_of(case, kind).look_at_every_moment())


@cases
@pytest.mark.mission("RS8")
@pytest.mark.sampled(30)
def test_no_verb_changes_a_data_file_that_lies_there(case: Case, kind: str) -> None:
    tally("data files compared while verbs ran", _data_files_that_stay(trial_of(case, kind), case))


@pytest.mark.parametrize("how", ["truncates", "appends", "writes the same"])
def test_a_verb_that_touches_a_data_file_is_found_out(how: str) -> None:
    def touch(at: Place) -> None:
        files = at.table.table_files
        paths = [each.path for each in files.fs.list_tree(files.paths.root)]
        path = next(path for path in paths if _holds_data(path))
        before = files.fs.read_bytes(path)
        after = {"truncates": b"", "appends": before + b"x", "writes the same": before}[how]
        files.fs.write_bytes(path, after)

    trial = trial_of(next(case for case in CASES if case.name == "compact"), "append")
    with pytest.raises(AssertionError, match="data-"):
        _data_files_that_stay(trial, Case("touch", touch))


def _data_files_that_stay(trial: Trial, case: Case) -> int:
    """Compare each data file after each call of a verb with what it was; how many there are."""
    trial.start.restore()
    before = {
        path: file.getvalue() for path, file in trial.start.files.items() if _holds_data(path)
    }
    catalog = opened(TRIES)

    def look(call: Call) -> None:
        assert call.name in _TAKES_AWAY or "/" + call.path.strip("/") not in before, (
            f"{call}: that file lies there"
        )
        for path, data in before.items():
            file = MemoryFileSystem.store.get(path)
            assert file is None or file.getvalue() == data, f"{call} changes {path}"

    case.verb(
        Place(replace(catalog, fs=WatchedFiles(catalog.fs, after=looked_at(look))), trial.ready)
    )
    return len(before)


def _holds_data(path: str) -> bool:
    return "/bucket-" in path and "/.lakewright/" not in path


def _write_without_identifier(at: Place) -> object:
    table = at.table
    return table.write(rows(table, events(2, 6)))


def _move_a_tag(at: Place) -> object:
    table = at.table
    table.history.run(table.history.plan_delete_tags("first", grace_ms=0))
    return table.history.create_tag("first")


@pytest.mark.parametrize(
    "careless",
    [
        Case("write without an identifier", _write_without_identifier),
        Case(
            "move a tag in two steps",
            _move_a_tag,
            ready=lambda table: table.history.create_tag("first", snapshot=1),
        ),
    ],
    ids=lambda case: case.name,
)
def test_a_careless_verb_is_found_out(careless: Case) -> None:
    trial = Trial(careless, "append")
    found = 0
    for fault in (Fault.FAILS_AFTER, Fault.DIES_AFTER):
        for point in trial.points(fault):
            try:
                trial.check(point)
            except AssertionError:
                found += 1
    assert found


def test_every_verb_there_is_is_tried() -> None:
    """A method of a façade is in `CASES`, or shown to change nothing by `READERS`."""
    called: set[str] = set()
    for case in CASES:
        ready = made_ready(case, case.on[0])
        case.verb(Heard(opened(TRIES), ready, called))
    trial = trial_of(next(case for case in CASES if case.name == "commit"), "keyed")
    trial.start.restore()
    for read in READERS.values():
        read(Heard(opened(TRIES), trial.ready, called))
    untried = sorted(_public_methods() - called)
    assert not untried, f"add a line for {', '.join(untried)} to tests/faults/verbs.py"


def test_what_only_reads_changes_nothing() -> None:
    trial = trial_of(next(case for case in CASES if case.name == "commit"), "keyed")
    for name, read in READERS.items():
        trial.start.restore()
        catalog = opened(TRIES)
        fs = WatchedFiles(catalog.fs)
        read(Place(replace(catalog, fs=fs), trial.ready))
        assert not fs.changes, name


def _public_methods() -> set[str]:
    return {
        f"{facade.__name__}.{name}"
        for facade in FACES
        for name, member in vars(facade).items()
        if not name.startswith("_") and isinstance(member, FunctionType)
        # A read in Spark plans like every read, which is tried, and needs a session; so do
        # streams, whose commits `test_batches.py` tries.
        if name not in ("to_spark", "read_stream", "write_stream")
        # One call that plans and runs is made of both, which are tried.
        if not hasattr(facade, f"plan_{name}")
    }


class Heard(Place):
    """A place that hears which methods are called there."""

    def __init__(self, catalog: Catalog, ready: Any, called: set[str]) -> None:
        super().__init__(catalog, ready)
        object.__setattr__(self, "catalog", _Listening(catalog, called))


class _Listening:
    """Passes everything on to a façade, and notes the names."""

    def __init__(self, facade: object, called: set[str]) -> None:
        self._facade = facade
        self._called = called

    def __getattr__(self, name: str) -> Any:
        self._called.add(f"{type(self._facade).__name__}.{name}")
        found = getattr(self._facade, name)
        if not isinstance(found, MethodType):
            return self._heard(found)

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._heard(found(*args, **kwargs))

        return call

    def _heard(self, value: object) -> object:
        return _Listening(value, self._called) if isinstance(value, FACES) else value
