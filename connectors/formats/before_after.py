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
from lakewright.connectors.formats.json_columns import JsonForm
from lakewright.connectors.formats.messages import LostChangeError, Numbered, cut
from lakewright.storage.codec.arrow_json import arrow_columns
from lakewright.storage.spec.data_types import STRING, AtomicType, DataField, RowType
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
    # Whether the row after an update may lack columns that it left as they were.
    omits_unchanged: ClassVar[bool] = False
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
            after = row_of(event, AFTER, what=what)
            if not self.is_upsert:
                before = self._before(event, what, self.without_before)
                self._check_whole(before, after, fields)
                yield RowKind.UPDATE_BEFORE, before
            elif (gone := self._of_another_key(event.get(BEFORE), after, fields)) is not None:
                yield RowKind.DELETE, gone
            yield RowKind.UPDATE_AFTER, after
        elif kind == known.deletion:
            yield RowKind.DELETE, self._before(event, what, "")
        else:
            names = ", ".join((*known.creates, known.update))
            raise ValueError(
                f"{known.member} is {cut(repr(kind))}; the format has {names} and {known.deletion}"
            )

    def _check_whole(self, before: Row, after: Row, fields: Sequence[DataField]) -> None:
        """Refuse an update that does not say what became of a column.

        Raises:
            LostChangeError: names it.
        """
        lacking = [
            field.name
            for field in fields
            if field.name not in after and before.get(field.name) is not None
        ]
        if self.omits_unchanged and lacking:
            raise LostChangeError(
                f"{AFTER} lacks {', '.join(lacking)}, which {BEFORE} has: the event has the "
                "columns alone that changed; have GoldenGate write all of them "
                "(NOCOMPRESSUPDATES, and ADD TRANDATA … ALLCOLS)"
            )

    @property
    def key(self) -> Sequence[str]:
        """The primary key of the table, as far as it is known."""
        return ()

    def _of_another_key(
        self, before: object, after: Row, fields: Sequence[DataField]
    ) -> Row | None:
        """The row that an update gave another key, None if it kept its key.

        Raises:
            LostChangeError: it is not known which columns are the key.
        """
        if not isinstance(before, dict):
            return None
        names = self.key or [field.name for field in fields]
        # A database that logs keys alone leaves the others null.
        changed = [
            name
            for name in names
            if before.get(name) is not None and before[name] != after.get(name)
        ]
        if changed and not self.key:
            raise LostChangeError(
                f"the event changes {', '.join(changed)}, and the table does not say whether that "
                "is a part of its key, whose old row would stay; declare PRIMARY KEY (…) NOT "
                "ENFORCED"
            )
        return before if changed else None

    def _before(self, event: Event, what: str, else_: str) -> Row:
        if event.get(BEFORE) is None:
            # One that lacks the member is broken.
            kind = LostChangeError if BEFORE in event else ValueError
            raise kind(
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
        moved = self._moved(before, after, updates, fields) if self.is_upsert else updates
        if moved is None or (self.omits_unchanged and _may_lack(before, after, updates)):
            return None
        has_before = deletes | moved
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
                np.where(
                    updates,
                    RowKind.DELETE if self.is_upsert else RowKind.UPDATE_BEFORE,
                    RowKind.DELETE,
                ),
                np.where(updates, RowKind.UPDATE_AFTER, RowKind.INSERT),
            )
        ).ravel()[present]
        rows = pa.concat_arrays([before, after]).take(pa.array(places))
        numbers = np.array([number for number, _ in messages])[places % count]
        return Changes(rows.flatten(), kinds, numbers)

    def _moved(
        self, before: pa.Array, after: pa.Array, updates: np.ndarray, fields: Sequence[DataField]
    ) -> np.ndarray | None:
        """Which updates give a row another key; None if the slow way has to say."""
        if not (updates & before.is_valid().to_numpy(zero_copy_only=False)).any():
            return np.zeros(len(updates), bool)
        names = [field.name for field in fields]
        if not self.key or not {*self.key} <= {*names}:
            return None
        former, now = before.flatten(), after.flatten()
        moved = np.zeros(len(updates), bool)
        for at in map(names.index, self.key):
            if not isinstance(fields[at].type, AtomicType):
                return None
            # An unknown value is no other one; the key of a row that is there is not null.
            differs = pc.fill_null(pc.not_equal(former[at], now[at]), False)
            moved |= differs.to_numpy(zero_copy_only=False)
        moved &= updates
        return moved


def _may_lack(before: pa.Array, after: pa.Array, updates: np.ndarray) -> bool:
    """Whether a column is null after an update and was not before, or is missing there."""
    gone = (
        pc.and_(now.is_null(), former.is_valid()).to_numpy(zero_copy_only=False)
        for former, now in zip(before.flatten(), after.flatten(), strict=True)
    )
    return any((each & updates).any() for each in gone)
