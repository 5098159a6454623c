"""All that is wrong with a declaration of a wrong shape: its keys, its values, and its parts.

A misspelt key is read as the one that is meant, and a part that cannot be read is left out. So one
round tells what is wrong with names, with values, and with what the parts say of each other.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from lakewright.platform.declare.declarations import TableDeclaration
from lakewright.platform.declare.marked_yaml import Place
from lakewright.platform.declare.model_errors import explain, known_keys
from lakewright.platform.declare.wrong_places import Finding

# A key that is read as another one may have wrong values, and these may hold misspelt keys.
_MOST_ROUNDS = 9
_UNKNOWN, _MISSING = "extra_forbidden", "missing"
# No other part of a declaration is judged by these.
_LOOSE = frozenset(
    ("maintenance", "expectations", "schema", "owners", "kinds", "tags", "comment", "description")
)
# These are judged by the columns alone.
_OF_COLUMNS = frozenset(
    ("table", "group", "columns", "partition_keys", "primary_key", "schema", "expectations")
)


def findings_of(
    value: object, check: Callable[[TableDeclaration], Iterable[Finding]]
) -> list[Finding]:
    """What is wrong with a value that is no declaration; `check` judges what can be read of it."""
    reading = _Reading(value)
    declaration = reading.declaration()
    if declaration is not None:
        for place, message in check(declaration):
            if reading.is_certain(place):
                reading.tell(place, message)
    return reading.findings


@dataclass
class _Reading:
    value: object
    findings: list[Finding] = field(default_factory=list)
    # The key that is written, by the place at which it is read.
    _written: dict[Place, str] = field(default_factory=dict)
    _gone: set[Place] = field(default_factory=set)

    def declaration(self) -> TableDeclaration | None:
        """What the value means; None if a part is wrong without which the others say nothing."""
        for _ in range(_MOST_ROUNDS):
            try:
                return TableDeclaration.model_validate(self.value)
            except ValidationError as error:
                details = error.errors()
            # A key that is misspelt is not missing, too.
            meant = {self._meant(each["loc"]) for each in details if each["type"] == _UNKNOWN}
            details = [
                each for each in details if each["type"] != _MISSING or each["loc"] not in meant
            ]
            for detail in details:
                place, message = explain(detail, TableDeclaration)
                if not any(_overlap(place, each) for each in self._gone):
                    self.tell(place, message)
            # Each is cured, as the next round tells more of each.
            cured = [self._cure(detail) for detail in details]
            if not all(cured):
                return None
        return None

    def tell(self, place: Place, message: str) -> None:
        """Keep a finding, under the names as they are written."""
        read = [place[: length + 1] for length in range(len(place))]
        written = tuple(self._written.get(each, each[-1]) for each in read)
        if (written, message) not in self.findings:
            self.findings.append((written, message))

    def is_certain(self, place: Place) -> bool:
        """Whether a finding would stand if nothing had been left out."""
        if any(_overlap(place, each) for each in self._gone):
            return False
        if all(each[0] in _LOOSE for each in self._gone):
            return True
        return place[0] in _OF_COLUMNS and "from" not in place and place != ("expectations",)

    def _cure(self, detail: ErrorDetails) -> bool:
        place: Place = tuple(detail["loc"])
        if detail["type"] == _UNKNOWN:
            return self._rename(place)
        wrong = place[:-1] if detail["type"] == _MISSING else place
        # The places of the others in a list would move.
        in_list = [at for at, part in enumerate(wrong) if isinstance(part, int)]
        return self._leave_out(wrong[: in_list[0]] if in_list else wrong)

    def _meant(self, place: Place) -> Place | None:
        """The place of the key that a misspelt one stands for; None if none is like it, or free."""
        known = known_keys(TableDeclaration, place[:-1])
        near = difflib.get_close_matches(str(place[-1]), known, n=1, cutoff=0.6)
        there = _at(self.value, place[:-1])
        is_free = isinstance(there, dict) and bool(near) and near[0] not in there
        return (*place[:-1], near[0]) if is_free else None

    def _rename(self, place: Place) -> bool:
        meant, there = self._meant(place), _at(self.value, place[:-1])
        if not isinstance(there, dict):
            return False
        new = None if meant is None else meant[-1]
        renamed = {new if key == place[-1] else key: each for key, each in there.items()}
        renamed.pop(None, None)
        self.value = _with(self.value, place[:-1], renamed)
        if meant is not None:
            self._written[meant] = str(place[-1])
        return True

    def _leave_out(self, place: Place) -> bool:
        while place and not isinstance(_at(self.value, place[:-1]), dict):
            place = place[:-1]
        if not place or place[0] in ("table", "columns"):
            return False
        there = _at(self.value, place[:-1])
        assert isinstance(there, dict)
        rest = {key: each for key, each in there.items() if key != place[-1]}
        if len(rest) == len(there) and place not in self._gone:
            return False
        self._gone.add(place)
        self.value = _with(self.value, place[:-1], rest)
        return True


def _overlap(place: Place, gone: Place) -> bool:
    shorter = min(len(place), len(gone))
    return place[:shorter] == gone[:shorter]


def _at(value: object, place: Place) -> object:
    for part in place:
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            return None
    return value


def _with(value: object, place: Place, part: object) -> object:
    """A copy of the value with another part at a place."""
    if not place:
        return part
    below = place[1:]
    if isinstance(value, list):
        return [_with(one, below, part) if at == place[0] else one for at, one in enumerate(value)]
    assert isinstance(value, dict)
    return {key: _with(one, below, part) if key == place[0] else one for key, one in value.items()}
