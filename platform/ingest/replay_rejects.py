"""Replay: bad rows that were kept are read again by the present declaration; what fits is appended.

1. Lease the rejects, so that one replay runs at a time, and the table as a write does: a run that
   overwrites marks the rejects that it replaces under its own lease. Take up what a replay that
   died had begun.
2. Read the open rows as the files that they come from, and judge them by the expectations that
   judge each row by itself.
3. Mark the rows that fit as `replaying`, by the user of the commit that is to come. That user is
   made of the rows and the state of the rejects, so that two replays of one state are one commit.
4. Append them, and mark them as `replayed`. After a crash in between, the next replay looks for the
   user's commit, and makes it if it is not there.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from lakewright.platform.ingest.inferred_columns import with_columns_of_source
from lakewright.platform.ingest.publish import LAST_COMMIT
from lakewright.platform.ingest.rejects import OPEN, REPLAYED, REPLAYING, Rejects
from lakewright.platform.ingest.row_expectations import row_expectations, unmet
from lakewright.platform.ingest.source_files import file_form
from lakewright.platform.tables.declarations import TableDeclaration, WriteKind
from lakewright.platform.tables.open_declared import check_rows_fit, open_declared
from lakewright.platform.tables.schema_drift import Writing
from lakewright.platform.tables.source_declarations import SourceDeclaration
from lakewright.platform.tables.workspace import read_right
from lakewright.platform.upkeep.leases import maintaining, writing
from lakewright.platform.upkeep.words import counted
from lakewright.storage import Catalog, LeaseKind, Table
from lakewright.storage.errors import InvalidRequestError, InvalidRows
from lakewright.storage.file_reader.bad_rows import BadRows, RowForm, reason_of
from lakewright.storage.file_reader.location import FoundFile
from lakewright.storage.file_reader.reader import FileReader, fields_with_kinds
from lakewright.storage.files.file_systems import open_file_system
from lakewright.storage.operations.leases.leases import whole_table
from lakewright.storage.spec.schema import new_schema
from lakewright.storage.spec.values import from_python

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What came of a replay: how many rows were appended, and why others stay, by their ids.

    `run` is the user of its commits, by which undo takes it back; empty if there was none.
    """

    table: str
    rejects: str
    appended: int
    left: Mapping[str, str]
    run: str = ""

    @property
    def summary(self) -> str:
        """What was done, in one line."""
        return (
            f"{counted(self.appended, 'row')} of {self.rejects} appended to {self.table}, "
            f"{len(self.left):,} left"
        )


def replay_rejects(
    catalog: Catalog,
    table: str | TableDeclaration,
    *,
    tables: Sequence[str | Path] = (),
    dry_run: bool = False,
) -> Replayed:
    """Append the kept bad rows of a table that fit its present declaration.

    The declaration is in the files and folders `tables`, if it is not given itself. A `dry_run`
    only tells how many rows would be appended.

    Raises:
        NotFoundError: the table is not declared there.
        InvalidRequestError: no rows were rejected; or it is unknown whether a replay that died has
            appended its rows.
        LeaseHeld: another replay runs, or a run that writes the table.
    """
    declaration = table if isinstance(table, TableDeclaration) else _declared(table, tables)
    rejects = Rejects(catalog=catalog, table=declaration.table)
    kept = rejects.found()
    if kept is None:
        raise InvalidRequestError(
            f"{declaration.table} has no rejects: no run with `on_bad_row: quarantine` found a bad "
            "row"
        )
    target, drift = open_declared(catalog, declaration, Writing(kind=WriteKind.APPEND))
    check_rows_fit(drift)
    replay = _Replay(target, declaration.with_undeclared(target.schema), rejects)
    run = f"replay-{catalog.env.new_id()[:8]}"
    with ExitStack() as leases:
        if not dry_run:
            whole = whole_table(kept.table_files)
            leases.enter_context(maintaining(kept, LeaseKind.RESCALE, whole, run=run))
            append = WriteKind.APPEND
            leases.enter_context(writing(target, append, None, commit_user=run, required=True))
            replay.take_up()
        state = kept.history.latest_snapshot()
        replay.read(rejects.rows(OPEN))
        if not dry_run and state is not None:
            replay.append(state.id)
    return Replayed(
        table=target.name,
        rejects=rejects.name,
        appended=replay.appended + (len(replay.fitting) if dry_run else 0),
        left=replay.left,
        run=replay.run,
    )


def _declared(table: str, tables: Sequence[str | Path]) -> TableDeclaration:
    return read_right(tables, infer=with_columns_of_source).declared(table, tables)


@dataclass
class _Replay:
    """The rows of one replay: those that fit, as rejects and as rows, and why others do not."""

    table: Table
    declaration: TableDeclaration
    rejects: Rejects
    fitting: list[Row] = field(default_factory=list)
    tables: list[pa.Table] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)
    appended: int = 0
    run: str = ""

    def take_up(self) -> None:
        """Settle what replays that died had begun, by what the table holds."""
        begun: dict[str, list[Row]] = {}
        for row in self.rejects.rows(REPLAYING):
            begun.setdefault(row["settled_by"], []).append(row)
        for user, rows in begun.items():
            if self.table.find_committed(user, LAST_COMMIT) is not None:
                self.rejects.settle(rows, REPLAYED, user)
                self.appended += len(rows)
                continue
            self._check_history(user, rows)
            # The same commit, if the process that began it is alive after all.
            again = _Replay(self.table, self.declaration, self.rejects)
            again.read(rows)
            if again.left:
                self.rejects.settle(rows, OPEN, None)
            else:
                again.commit(user)
                self.appended += len(rows)

    def _check_history(self, user: str, rows: Sequence[Row]) -> None:
        """Check that the commit of a replay would be found.

        Raises:
            InvalidRequestError: snapshots since the replay began have expired.
        """
        snapshots = self.table.table_files.snapshots
        oldest = next((snapshots.read(each) for each in snapshots.ids()[:1]), None)
        began = min(row["settled_at"] for row in rows)
        if oldest is None or oldest.id == 1 or oldest.time_millis <= began:
            return
        raise InvalidRequestError(
            f"whether replay {user} has appended its {len(rows)} rows to {self.table.name} is not "
            f"known: snapshots since then have expired, and the oldest is {oldest.id}; look for "
            f"the rows of {self.rejects.name} in state {REPLAYING}, and upsert them there as "
            f"{OPEN} or {REPLAYED}"
        )

    def read(self, rows: Sequence[Row]) -> None:
        """Read rows by the present declaration."""
        groups: dict[str, list[Row]] = {}
        for row in rows:
            groups.setdefault(row["reading"], []).append(row)
        for reading, group in groups.items():
            self._read_group(json.loads(reading), group)

    def _read_group(self, reading: Mapping[str, Any], rows: Sequence[Row]) -> None:
        """Read rows that have one form as one file."""
        bad = BadRows(len(rows), keeps=True)
        with TemporaryDirectory() as folder:
            path = str(Path(folder, "rejects"))
            file, begins = self._file(reading, rows, path)
            try:
                parts = list(file.read(None, bad))
            except InvalidRows as error:
                # The columns of a row are those of the whole file, unless it is alone.
                if len(rows) == 1:
                    self._leave(rows[0], reason_of(error), path)
                    return
                half = len(rows) // 2
                self._read_group(reading, rows[:half])
                self._read_group(reading, rows[half:])
                return
        failed = {begins[row.line or 0]: row.reason for row in bad.rows}
        for at, why in failed.items():
            self._leave(rows[at], why, path)
        fitting = [each for at, each in enumerate(rows) if at not in failed]
        if not fitting:
            return
        made = pa.concat_tables(parts)
        unfit = unmet(made, row_expectations(self.declaration.expectations))
        for at, found in unfit.items():
            self._leave(fitting[at], found.reason, path)
        self.fitting += [each for at, each in enumerate(fitting) if at not in unfit]
        self.tables.append(made.filter(pa.array([at not in unfit for at in range(len(fitting))])))

    def _leave(self, row: Row, why: str, path: str) -> None:
        why = why.removeprefix(f"{path}: ").replace(path, self.rejects.name)
        # The number is that of the row among the rejects.
        why = re.sub(r"\brow \d+\b", "the row", why)
        self.left[row["id"]] = why if row["line"] is None else f"line {row['line']}: {why}"

    def _file(
        self, reading: Mapping[str, Any], rows: Sequence[Row], path: str
    ) -> tuple[FileReader, dict[int, int]]:
        """Rows as a file, and by the line where each begins its position."""
        source, form = self.declaration.source, RowForm(reading["form"])
        if source is None or form is not RowForm.ORIGINAL:
            source = SourceDeclaration(json="rejects")
        elif reading["header"] is not None and source.csv is None:
            source = SourceDeclaration(csv="rejects")
        elif reading["header"] is None and source.json_files is None:
            source = SourceDeclaration(json="rejects")
        source = source.model_copy(update={"encoding": "utf-8", "header": True})
        lines = [_header(reading["header"], source)] if reading["header"] else []
        begins, line = {}, 1 + len(lines)
        for at, row in enumerate(rows):
            begins[line] = at
            text = row["text"] if reading["header"] else row["text"].replace("\n", " ")
            lines.append(text)
            line += sum(1 for _ in io.StringIO(text, newline="")) or 1
        data = "".join(f"{each}\n" for each in lines).encode()
        Path(path).write_bytes(data)
        fs, place = open_file_system(path)
        fields = fields_with_kinds(new_schema(self.declaration.schema_spec, time_millis=0))
        types = {each.name: each.type for each in fields}
        told = {name: from_python(value, types[name]) for name, value in reading["told"].items()}
        file = FileReader(
            file=FoundFile(fs=fs, path=place, size_bytes=len(data), values=(*told.items(),)),
            form=file_form(source),
            fields=fields,
            partition_keys=self.declaration.partition_keys,
            units={} if form is RowForm.TYPED else self.declaration.units,
        )
        return file, begins

    def append(self, state: int) -> None:
        """Append the rows that fit, once; `state` is the snapshot of the rejects they are of.

        A replay of the same rows at a later state is another one: the first may have been undone.
        """
        if not self.fitting:
            return
        ids = "\n".join([str(state), *sorted(row["id"] for row in self.fitting)])
        user = f"replay-{blake2b(ids.encode(), digest_size=16).hexdigest()}"
        self.rejects.settle(self.fitting, REPLAYING, user)
        self.commit(user)
        self.run = user
        self.appended += len(self.fitting)

    def commit(self, user: str) -> None:
        """Append the rows that fit, unless the table has the commit, and settle them."""
        self.table.write(
            pa.concat_tables(self.tables), commit_user=user, commit_identifier=LAST_COMMIT
        )
        self.rejects.settle(self.fitting, REPLAYED, user)


def _header(names: Sequence[str], source: SourceDeclaration) -> str:
    if not source.quote:
        return source.delimiter.join(names)
    text = io.StringIO()
    csv.writer(
        text,
        delimiter=source.delimiter,
        quotechar=source.quote,
        quoting=csv.QUOTE_ALL,
        lineterminator="",
    ).writerow(names)
    return text.getvalue()
