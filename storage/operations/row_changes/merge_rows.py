"""MERGE: rows of a source change the rows of a table that they match, in one snapshot.

1. Refuse clauses that the merge engine does not carry out as they are said.
2. Plan: leave out files whose bounds hold no key of the source, and join the others with it.
3. A row of the table that two rows of the source would change is an error.
4. Stage the new values of matched rows, and rows of the source without a match; take the rows of
   before out of the files of append tables.
5. Commit all in one snapshot, unless another commit changed rows since; then begin again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.codec.arrow_values import value_of
from lakewright.storage.codec.conform import conform
from lakewright.storage.errors import InvalidRequestError, InvalidRows, StorageError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.merge import POSITION
from lakewright.storage.operations.read.file_rows import FileRows
from lakewright.storage.operations.read.read import SplitReader
from lakewright.storage.operations.read.scan import DataSplit, plan_scan
from lakewright.storage.operations.row_changes.accepted import (
    check_changes_rows,
    check_deletes,
    check_updates,
)
from lakewright.storage.operations.row_changes.expressions import (
    Assignments,
    Others,
    Side,
    check_expression,
    check_names,
    query_rows,
    quoted,
    sql_over,
    with_values,
)
from lakewright.storage.operations.row_changes.matches import Match, singles
from lakewright.storage.operations.row_changes.remove_rows import Removal, remove_rows
from lakewright.storage.operations.row_changes.statement import (
    RowChangePlan,
    RowChangeResult,
    carried_out,
    check_same_statement,
    job_on,
    planned_buckets,
    publish,
    swept_on_failure,
    with_kind,
)
from lakewright.storage.operations.row_changes.update_rows import replaced_rows
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.state.latest import read_latest
from lakewright.storage.operations.state.rewrite_schema import check_rewritable
from lakewright.storage.operations.write.default_values import with_defaults, with_left_out_columns
from lakewright.storage.operations.write.write import StagingWriter
from lakewright.storage.spec.data_types import AtomicType, TypeRoot
from lakewright.storage.spec.merge_spec import MergeEngine
from lakewright.storage.spec.predicate import Leaf, Operator, Predicate, conjunction
from lakewright.storage.spec.row_tracking import holds_row_ids
from lakewright.storage.spec.rows import RowKind
from lakewright.storage.spec.snapshot import Snapshot

# The number of a row among those that are joined.
_ROW = "__lakewright_row"
# The joined rows: the numbers of both, and that of the clause.
_PAIRS, _OF_TARGET, _OF_SOURCE, _CLAUSE = (
    f"__lakewright_{name}" for name in ("pairs", "target", "source", "clause")
)
# A source with more keys is compared by their least and greatest alone.
_MOST_KEYS = 1000


@dataclass(frozen=True, slots=True)
class Clause:
    """What happens to rows for which the condition is true: new values, or none for a deletion."""

    values: Assignments | None
    condition: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """The clauses of a merge; of each kind, the first whose condition is true counts.

    Subqueries of conditions read the tables `others`.

    `on` pairs columns of the table with columns of the source; a condition `and_on` may hold of the
    rows besides. Expressions call the table `target` and the source `source`,
    which has the rows of a query if it is `of_query`.
    """

    on: tuple[tuple[str, str], ...]
    matched: tuple[Clause, ...] = ()
    not_matched: tuple[Clause, ...] = ()
    not_matched_by_source: tuple[Clause, ...] = ()
    target: str = "t"
    source: str = "s"
    and_on: str | None = None
    others: Others = ()
    of_query: bool = False


@dataclass(frozen=True, slots=True)
class MergeStatement:
    """A merge, and the rows of its source."""

    merge: Merge
    source: pa.Table


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRowsPlan(RowChangePlan["RowChangeResult"]):
    """What a merge would change; `rows` are deleted, updated and inserted ones together.

    The statement is held in memory alone: a plan that was read from JSON has none.
    """

    deleted: int = 0
    updated: int = 0
    inserted: int = 0
    statement: MergeStatement | None = field(default=None, compare=False, repr=False)

    def to_json(self) -> str:
        """The plan as JSON, without the statement."""
        return RowChangePlan.to_json(replace(self, statement=None))


def plan_merge_rows(
    files: TableFiles, statement: MergeStatement, *, counts: bool = True
) -> MergeRowsPlan:
    """Plan a merge; reads the files whose bounds may hold keys of the source, to count rows.

    Without `counts` nothing is read or checked, for a plan that is carried out at once.

    Raises:
        InvalidRequestError: an expression cannot be computed, or a key would change.
        InvalidRows: two rows of the source would change one row of the table.
        UnsupportedError: the merge engine does not carry out a clause.
    """
    if not counts:
        return MergeRowsPlan(
            table=files.name,
            snapshot_id=files.snapshots.latest_id(),
            files_opened=0,
            bytes_opened=0,
            rows=0,
            buckets=(),
            statement=statement,
        )
    merge, source = statement.merge, statement.source
    _check(files, merge, source)
    snapshot, splits = read_latest(files, partial(_candidates, files, merge, source))
    merging = _Merging(files, merge, source)
    found: list[Match] = []
    for split in splits:
        changed = 0
        for rows in _rows_of(files, snapshot, split):
            outcome = merging.over(rows)
            changed += len(outcome.positions)
        if changed:
            whole = Match(split, 0, whole=True).all_rows
            is_whole = not files.schema.is_keyed and changed == whole
            found.append(Match(split, changed, whole=is_whole))
    for _ in merging.inserts():
        pass
    found_rows = merging.counts
    return MergeRowsPlan(
        table=files.name,
        snapshot_id=None if snapshot is None else snapshot.id,
        files_opened=sum(len(each.files) for each in splits),
        bytes_opened=sum(file.file_size for each in splits for file in each.files),
        rows=sum(found_rows.values()),
        buckets=planned_buckets(files, found),
        deleted=found_rows["deleted"],
        updated=found_rows["updated"],
        inserted=found_rows["inserted"],
        statement=statement,
    )


def run_merge_rows(files: TableFiles, plan: MergeRowsPlan, engine: Engine) -> RowChangeResult:
    """Carry out the statement of a plan on the latest snapshot.

    Raises:
        InvalidRequestError: the plan was read from JSON, and has no rows of the source.
        InvalidRows: a value does not fit, or two rows of the source would change one row.
        CommitConflictError: others changed rows again and again; nothing is written.
        VerificationFailed: rows written differ from rows that stay; nothing is written.
    """
    if plan.statement is None:
        raise InvalidRequestError(
            f"the plan to merge rows into {files.name} was saved without the rows of its source; "
            "call the merge with the rows again"
        )
    merge, source = plan.statement.merge, plan.statement.source
    _check(files, merge, source)
    check_same_statement(files, plan)

    def attempt(files: TableFiles) -> RowChangeResult:
        snapshot, splits = read_latest(files, partial(_candidates, files, merge, source))
        merging = _Merging(files, merge, source)
        job = job_on(files, snapshot)
        with swept_on_failure(job):
            writer = StagingWriter(job)
            inserts = StagingWriter(replace(job, files=files.without_row_ids()))
            removals: list[Removal] = []
            try:
                for split in splits:
                    gone = [np.empty(0, np.int64)]
                    for rows in _rows_of(files, snapshot, split):
                        outcome = merging.over(rows)
                        gone.append(outcome.positions)
                        for new in outcome.written:
                            writer.write(new)
                    positions = np.concatenate(gone)
                    if len(positions) and not files.schema.is_keyed:
                        all_rows = Match(split, 0, whole=True).all_rows
                        whole = len(positions) == all_rows
                        removals.append(Removal(split, whole=whole, positions=positions))
                of_inserts = inserts if holds_row_ids(files.schema) else writer
                for new in merging.inserts():
                    of_inserts.write(new)
                staged = (*writer.close(), *inserts.close())
            except BaseException:
                writer.abandon()
                inserts.abandon()
                raise
            removed = remove_rows(files, snapshot, removals, engine, job.write_id)
        # What no row matched may be matched by rows that came since.
        reads_base = files.schema.is_keyed or bool(merge.not_matched)
        result = publish(job, staged, removed, engine, reads_base=reads_base)
        return replace(
            result,
            deleted=merging.counts["deleted"],
            updated=merging.counts["updated"],
            inserted=merging.counts["inserted"],
        )

    return carried_out(files, engine, attempt)


def _check(files: TableFiles, merge: Merge, source: pa.Table) -> None:
    check_changes_rows(files)
    for clause in (*merge.matched, *merge.not_matched_by_source):
        if clause.values is None:
            check_deletes(files)
        else:
            check_updates(files, clause.values.columns)
    for target, of_source in merge.on:
        files.schema.field(target)
        if of_source not in source.column_names:
            raise InvalidRows(
                f"the source of the merge into {files.name} has no column {of_source}; it has "
                f"{', '.join(source.column_names)}",
                column=of_source,
            )
    check_names(files.schema.field_names, files.name)
    check_names(source.column_names, "the source")
    clauses = (*merge.matched, *merge.not_matched, *merge.not_matched_by_source)
    for text in (*(each.condition for each in clauses), merge.and_on):
        if text is not None:
            check_expression(text, "a condition", merge.others)
    for clause in clauses:
        if clause.values is not None:
            for name, text in clause.values.of_columns:
                check_expression(text, f"the new value of {name}", clause.values.others)
    # All clauses are computed over no rows, so that a wrong one is found before a file is opened.
    empty = _Merging(files, merge, source.slice(0, 0))
    empty.over(_empty(files))
    list(empty.inserts())


def _empty(files: TableFiles) -> pa.Table:
    return SplitReader(files, columns=None, predicate=None).arrow_schema.empty_table()


# --- which files -----------------------------------------------------------------------------


def _candidates(
    files: TableFiles, merge: Merge, source: pa.Table, snapshot: Snapshot | None
) -> list[DataSplit]:
    """The splits that may hold rows that the merge changes."""
    bounds = None if merge.not_matched_by_source else _bounds(files, merge, source)
    splits = plan_scan(files, snapshot, bounds).splits
    whole = [replace(split, files=tuple(split.files)) for split in splits]
    check_rewritable(files, (file for each in whole for file in each.files))
    if files.schema.is_keyed:
        return whole
    return [single for each in whole for single in singles(each)]


def _bounds(files: TableFiles, merge: Merge, source: pa.Table) -> Predicate | None:
    parts: list[Predicate] = []
    for target, of_source in merge.on:
        to = files.schema.field(target)
        if isinstance(to.type, AtomicType) and to.type.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
            # To DuckDB NaN equals NaN, and bounds leave it out.
            continue
        # A column of another type is compared by DuckDB alone.
        with suppress(StorageError, pa.ArrowException):
            keys = conform(
                source.select([of_source]).rename_columns([target]),
                [replace(to, default_value=None)],
                table=files.name,
            ).column(target)
            keys = keys.unique().drop_null()
            if len(keys) > _MOST_KEYS:
                low, high = (pc.min_max(keys)[side] for side in ("min", "max"))
                parts.append(Leaf(target, Operator.GE, (value_of(low, to.type),)))
                parts.append(Leaf(target, Operator.LE, (value_of(high, to.type),)))
            else:
                values = tuple(value_of(key, to.type) for key in keys)
                parts.append(Leaf(target, Operator.IN, values))
    return conjunction(tuple(parts))


def _rows_of(files: TableFiles, snapshot: Snapshot | None, split: DataSplit) -> Iterator[pa.Table]:
    """The rows of a split, those of append tables with their positions in the file."""
    if files.schema.is_keyed:
        snapshot_id = None if snapshot is None else snapshot.id
        reader = SplitReader(files, columns=None, predicate=None, snapshot_id=snapshot_id)
        yield from reader.read(split)
        return
    source = FileRows(files, files.schema.fields, shown=True)
    (file,) = split.files
    batch_rows = source.batch_rows(split, file)
    yield from source.key_value_rows(split, file, batch_rows=batch_rows, placed=True, system=())


# --- which rows ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The positions of rows that go, and the rows to write."""

    positions: np.ndarray
    written: tuple[pa.Table, ...]


@dataclass
class _Merging:
    """A merge in progress: knows which rows of the source found a match."""

    files: TableFiles
    merge: Merge
    source: pa.Table
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._found = np.zeros(self.source.num_rows, dtype=bool)
        self._numbered = _numbered(self.source)

    def over(self, rows: pa.Table) -> _Outcome:
        """What becomes of some rows of the table."""
        names = list(self.files.schema.field_names)
        numbered = _numbered(rows.select(names))
        pairs = self._pairs(numbered)
        of_target = pairs.column(_OF_TARGET).to_numpy()
        self._found[pairs.column(_OF_SOURCE).to_numpy()] = True
        acted = pairs.filter(pc.greater_equal(pairs.column(_CLAUSE), 0))
        self._check_once(acted, rows)
        gone: list[np.ndarray] = []
        written: list[pa.Table] = []
        for number, clause in enumerate(self.merge.matched):
            chosen = acted.filter(pc.equal(acted.column(_CLAUSE), number))
            self._change(rows.select(names), numbered, chosen, clause, gone, written)
        lonely = np.ones(rows.num_rows, dtype=bool)
        lonely[of_target] = False
        if self.merge.not_matched_by_source:
            left = self._unmatched(numbered.filter(pa.array(lonely)))
            for number, clause in enumerate(self.merge.not_matched_by_source):
                chosen = left.filter(pc.equal(left.column(_CLAUSE), number))
                self._change(rows.select(names), numbered, chosen, clause, gone, written)
        at = np.concatenate([np.empty(0, np.int64), *gone])
        if POSITION in rows.column_names:
            at = rows.column(POSITION).to_numpy()[at]
        return _Outcome(at, tuple(written))

    def inserts(self) -> Iterator[pa.Table]:
        """The rows of the source that matched none, as rows of the table."""
        if not self.merge.not_matched:
            return
        # They get their ids when they are committed.
        files = self.files.without_row_ids()
        left = self._numbered.filter(pa.array(~self._found))
        cases = _cases(self.merge.not_matched)
        name = self.merge.source
        with sql_over(self.merge.others, {name: left}) as connection:
            query = (
                f"SELECT {quoted(_ROW)} AS {_OF_SOURCE}, {cases} AS {_CLAUSE} FROM {quoted(name)} "  # noqa: S608
                f"ORDER BY {_OF_SOURCE}"
            )
            chosen = query_rows(connection, query, files.name)
        rows: list[pa.Table] = []
        for number, clause in enumerate(self.merge.not_matched):
            of_clause = chosen.filter(pc.equal(chosen.column(_CLAUSE), number))
            assert clause.values is not None
            query = (
                f"SELECT {{}} FROM {_PAIRS} JOIN {quoted(name)} ON "  # noqa: S608
                f"{quoted(name)}.{quoted(_ROW)} = {_OF_SOURCE} ORDER BY {_OF_SOURCE}"
            )
            at = of_clause.column(_OF_SOURCE).combine_chunks()
            sides = {name: Side(self._numbered, at, is_query=self.merge.of_query)}
            new = clause.values.computed(files, query, sides, {_PAIRS: of_clause})
            self.counts["inserted"] += new.num_rows
            if new.num_rows:
                new = with_left_out_columns(new, files)
                self._check_columns(new)
                new = clause.values.conformed(files, new)
                rows.append(with_defaults(new, files))
        self._check_keys(rows)
        yield from rows

    def _check_columns(self, new: pa.Table) -> None:
        names = self.files.without_row_ids().schema.field_names
        lacking = [name for name in names if name not in new.column_names]
        if lacking:
            raise InvalidRows(
                f"{new.num_rows} rows of the source match none of {self.files.name}, and to insert "
                f"them column {', '.join(lacking)} needs a value; give it, or insert none",
                column=lacking[0],
            )

    def _check_keys(self, inserted: Sequence[pa.Table]) -> None:
        """Check that the merge engine keeps each of the rows."""
        spec, names = self.files.merge_spec, list(self.files.schema.primary_keys)
        if not (inserted and names) or spec.engine is not MergeEngine.DEDUPLICATE:
            return
        keys = pa.concat_tables([each.select(names) for each in inserted])
        counts = keys.group_by(names).aggregate([([], "count_all")])
        twice = counts.filter(pc.greater(counts.column("count_all"), 1)).select(names)
        if twice.num_rows and not spec.sequence_fields:
            raise InvalidRows(
                f"{twice.num_rows} primary keys stand more than once among the rows to insert into "
                f"{self.files.name}, first {twice.slice(0, 1).to_pylist()[0]}; give each key once"
            )

    def _pairs(self, rows: pa.Table) -> pa.Table:
        """Rows of both sides that match, with the number of the clause for them, or -1."""
        target, source = quoted(self.merge.target), quoted(self.merge.source)
        equal = [
            f"{target}.{quoted(left)} = {source}.{quoted(right)}" for left, right in self.merge.on
        ]
        on = " AND ".join([*equal, *([f"({self.merge.and_on}\n)"] if self.merge.and_on else [])])
        what = (
            f"{target}.{quoted(_ROW)} AS {_OF_TARGET}, {source}.{quoted(_ROW)} AS {_OF_SOURCE}, "
            f"{_cases(self.merge.matched)} AS {_CLAUSE}"
        )
        query = f"SELECT {what} FROM {target} JOIN {source} ON {on} ORDER BY ALL"  # noqa: S608
        tables = {self.merge.target: rows, self.merge.source: self._numbered}
        with sql_over(self.merge.others, tables) as connection:
            return query_rows(connection, query, self.files.name)

    def _unmatched(self, rows: pa.Table) -> pa.Table:
        target = quoted(self.merge.target)
        cases = _cases(self.merge.not_matched_by_source)
        what = f"{quoted(_ROW)} AS {_OF_TARGET}, {cases} AS {_CLAUSE}"
        query = f"SELECT {what} FROM {target} ORDER BY ALL"  # noqa: S608
        with sql_over(self.merge.others, {self.merge.target: rows}) as connection:
            return query_rows(connection, query, self.files.name)

    def _check_once(self, acted: pa.Table, rows: pa.Table) -> None:
        targets = acted.column(_OF_TARGET).to_numpy()
        twice = np.flatnonzero(np.diff(targets) == 0)
        if len(twice):
            keys = rows.select([left for left, _ in self.merge.on])
            first = keys.slice(int(targets[twice[0]]), 1).to_pylist()[0]
            raise InvalidRows(
                f"{len(set(targets[twice].tolist()))} rows of {self.files.name} match several "
                f"rows of the source, first {first}; give each row at most one match, or a "
                "condition that holds for one"
            )

    def _change(
        self,
        rows: pa.Table,
        numbered: pa.Table,
        chosen: pa.Table,
        clause: Clause,
        gone: list[np.ndarray],
        written: list[pa.Table],
    ) -> None:
        at = chosen.column(_OF_TARGET).to_numpy()
        gone.append(at)
        before = rows.take(pa.array(at))
        if clause.values is None:
            self.counts["deleted"] += len(at)
            if len(at) and self.files.schema.is_keyed:
                written.append(with_kind(before, RowKind.DELETE))
            return
        target, source = self.merge.target, self.merge.source
        joined = f"{_PAIRS} JOIN {quoted(target)} ON {quoted(target)}.{quoted(_ROW)} = {_OF_TARGET}"
        sides = {target: Side(numbered, pa.array(at))}
        if _OF_SOURCE in chosen.column_names:
            joined += f" JOIN {quoted(source)} ON {quoted(source)}.{quoted(_ROW)} = {_OF_SOURCE}"
            of_source = chosen.column(_OF_SOURCE).combine_chunks()
            sides[source] = Side(self._numbered, of_source, is_query=self.merge.of_query)
        query = f"SELECT {{}} FROM {joined} ORDER BY {_OF_TARGET}"  # noqa: S608
        values = clause.values.computed(self.files, query, sides, {_PAIRS: chosen})
        self.counts["updated"] += len(at)
        if len(at):
            stored = {*self.files.schema.field_names} - {*values.column_names}
            after = clause.values.conformed(self.files, with_values(before, values), stored)
            written.append(replaced_rows(self.files, before, after))


def _numbered(rows: pa.Table) -> pa.Table:
    return rows.append_column(_ROW, pa.array(np.arange(rows.num_rows, dtype=np.int64)))


def _cases(clauses: Sequence[Clause]) -> str:
    """The number of the first clause whose condition is true, or -1."""
    whens = [
        # A comment may end the condition.
        f"WHEN ({clause.condition or 'TRUE'}\n) THEN {number}"
        for number, clause in enumerate(clauses)
    ]
    return f"CASE {' '.join(whens)} ELSE -1 END" if whens else "-1"
