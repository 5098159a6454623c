"""Formats whose events hold a row before and after a change, and the name of the operation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.connectors.formats.change_json import (
    Change,
    ChangeJson,
    Changes,
    Event,
    Row,
    row_of,
)
from lakewright.connectors.formats.json_values import JsonForm
from lakewright.connectors.formats.messages import Numbered, cut
from lakewright.storage.codec.arrow_json import arrow_columns
from lakewright.storage.spec.data_types import STRING, DataField, RowType
from lakewright.storage.spec.rows import RowKind

BEFORE, AFTER = "before", "after"


@dataclass(frozen=True, slots=True)
class Operations:
    """The member of an event that names its operation, and the names."""

    member: str
    creates: tuple[str, ...]
    update: str
    deletion: str


class BeforeAfterJson(ChangeJson):
    """A format of such events."""

    operations: ClassVar[Operations]
    # What else helps if an update has no former row.
    without_before: ClassVar[str] = ""

    @property
    @abstractmethod
    def is_upsert(self) -> bool:
        """Whether updates give the row after alone."""

    def changes(self, event: Event, fields: Sequence[DataField]) -> Iterable[Change]:
        known = self.operations
        kind = event.get(known.member)
        what = f"of {known.member} {kind}"
        if kind in known.creates:
            yield RowKind.INSERT, row_of(event, AFTER, what=what)
        elif kind == known.update:
            if not self.is_upsert:
                yield RowKind.UPDATE_BEFORE, self._before(event, what, self.without_before)
            yield RowKind.UPDATE_AFTER, row_of(event, AFTER, what=what)
        elif kind == known.deletion:
            yield RowKind.DELETE, self._before(event, what, "")
        else:
            names = ", ".join((*known.creates, known.update))
            raise ValueError(
                f"{known.member} is {cut(repr(kind))}; the format has {names} and {known.deletion}"
            )

    def _before(self, event: Event, what: str, else_: str) -> Row:
        if event.get(BEFORE) is None:
            raise ValueError(
                f"the event is {what}, and {BEFORE} is null: the database logs no former rows; in "
                f"PostgreSQL, set REPLICA IDENTITY FULL for the table{else_}"
            )
        return row_of(event, BEFORE, what=what)

    def event(self, *, is_removed: bool) -> tuple[str, str]:
        known = self.operations
        if is_removed:
            return f'{{"{BEFORE}":', f',"{AFTER}":null,"{known.member}":"{known.deletion}"}}'
        return f'{{"{BEFORE}":null,"{AFTER}":', f',"{known.member}":"{known.creates[0]}"}}'

    def quick_changes(
        self, messages: Sequence[Numbered], fields: Sequence[DataField], form: JsonForm
    ) -> Changes | None:
        row = RowType(tuple(fields))
        known = self.operations
        members = ((BEFORE, row), (AFTER, row), (known.member, STRING))
        wanted = [DataField(-1, name, kind) for name, kind in members]
        found = arrow_columns([message for _, message in messages], wanted)
        if found is None:
            return None
        before, after, names = found
        creates, updates, deletes = (
            pc.is_in(names, pa.array(each)).to_numpy(zero_copy_only=False)
            for each in (known.creates, (known.update,), (known.deletion,))
        )
        has_after = creates | updates
        has_before = deletes if self.is_upsert else deletes | updates
        is_whole = (
            (has_after | deletes).all()
            and not (has_before & before.is_null().to_numpy(zero_copy_only=False)).any()
            and not (has_after & after.is_null().to_numpy(zero_copy_only=False)).any()
        )
        if not is_whole:
            # The slow way says which event lacks what.
            return None
        count = len(messages)
        # Two places for each event: where its former row is, and where its new one.
        present = np.column_stack((has_before, has_after)).ravel()
        places = np.column_stack((np.arange(count), np.arange(count, 2 * count))).ravel()[present]
        kinds = np.column_stack(
            (
                np.where(updates, RowKind.UPDATE_BEFORE, RowKind.DELETE),
                np.where(updates, RowKind.UPDATE_AFTER, RowKind.INSERT),
            )
        ).ravel()[present]
        rows = pa.concat_arrays([before, after]).take(pa.array(places))
        numbers = np.array([number for number, _ in messages])[places % count]
        return Changes(rows.flatten(), kinds, numbers)
