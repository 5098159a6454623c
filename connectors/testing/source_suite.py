"""What a source must do, whatever it reads."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from lakewright.connectors.factories import Context
from lakewright.connectors.lookups import looked_up
from lakewright.connectors.planning.plan_source import PlannedScan, ScanRequest, plan_of, source_of
from lakewright.connectors.runtime import Scan
from lakewright.connectors.sources import LookupTableSource, ScanTableSource
from lakewright.connectors.testing.tables import comparable, context_of
from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.errors import InvalidOption
from lakewright.storage.spec.predicate import Leaf, Operator, matches
from lakewright.storage.spec.rows import ROW_KIND_COLUMN
from lakewright.storage.spec.values import from_python


class SourceSuite:
    """Tests of a source; an author gives the factory, a table of it, and its rows.

    `rows` are all rows of the source when a test begins, changes carried out. `endless` says that
    the source has no end: the suite then reads until it has as many rows.
    """

    factory: ClassVar[Any]
    columns: ClassVar[Mapping[str, str]]
    options: ClassVar[Mapping[str, str]] = {}
    primary_key: ClassVar[Sequence[str]] = ()
    rows: ClassVar[Sequence[Mapping[str, Any]]]

    def context(self) -> Context:
        """What the factory is called with; a suite whose options are known late overrides it."""
        return context_of(
            self.factory, self.columns, self.given_options(), primary_key=self.primary_key
        )

    def given_options(self) -> Mapping[str, str]:
        """The options of the table; a suite with a server or a folder overrides it."""
        return self.options

    def planned(self, request: ScanRequest | None = None) -> PlannedScan:
        """A plan of its own."""
        context = self.context()
        source = source_of(context)
        assert isinstance(source, ScanTableSource)
        return plan_of(source.copy(), context.table, request or ScanRequest())

    # --- options ----------------------------------------------------------------------------------

    def test_every_option_is_described(self) -> None:
        for each in (*self.factory.required_options, *self.factory.optional_options):
            assert each.description, f"option {each.name} has no description"

    def test_an_unknown_option_is_refused(self) -> None:
        with pytest.raises(InvalidOption):
            context_of(self.factory, self.columns, {**self.given_options(), "no-such": "1"})

    def test_a_required_option_that_is_missing_is_named(self) -> None:
        for required_option in self.factory.required_options:
            lacking = {
                name: text
                for name, text in self.given_options().items()
                if name not in (required_option.name, *required_option.aliases)
            }
            with pytest.raises(InvalidOption, match=required_option.name):
                context_of(self.factory, self.columns, lacking)

    # --- rows -------------------------------------------------------------------------------------

    def test_all_rows_are_given_once(self) -> None:
        assert comparable(self._read()) == comparable(self.rows)

    def test_a_second_plan_gives_the_same_rows(self) -> None:
        self._read()
        assert comparable(self._read()) == comparable(self.rows)

    def test_each_projection_gives_its_columns(self) -> None:
        for name in self.columns:
            found = self._read(ScanRequest(columns=(name,)))
            assert comparable(found) == comparable([{name: row[name]} for row in self.rows])

    def test_filters_take_the_rows_that_they_are_true_for(self) -> None:
        fields = {each.name: each for each in self.context().table.fields}
        for name, field in fields.items():
            stored = [
                None if row[name] is None else from_python(row[name], field.type)
                for row in self.rows
            ]
            for value in {repr(each): each for each in stored[:20]}.values():
                leaf = (
                    Leaf(name, Operator.IS_NULL)
                    if value is None
                    else Leaf(name, Operator.EQ, (value,))
                )
                expected = [
                    row
                    for row, each in zip(self.rows, stored, strict=True)
                    if matches(leaf, {name: each})
                ]
                found = self._read(ScanRequest(where=leaf))
                assert comparable(found) == comparable(expected), f"{name} = {value!r}"

    def test_a_limit_gives_no_more_rows_and_none_too_few(self) -> None:
        for limit in {1, len(self.rows), len(self.rows) + 1}:
            assert self._read(ScanRequest(limit=limit)).num_rows == min(limit, len(self.rows))

    def test_rows_have_kinds_of_the_changelog_mode_alone(self) -> None:
        planned = self.planned()
        kinds = {kind.short for kind in planned.mode.kinds}
        for rows in self._changes(planned):
            if planned.given.changes:
                assert {*rows.column(ROW_KIND_COLUMN).to_pylist()} <= kinds
            else:
                assert ROW_KIND_COLUMN not in rows.column_names

    def test_a_lookup_finds_the_rows_that_have_its_keys(self) -> None:
        context = self.context()
        source = source_of(context)
        if not isinstance(source, LookupTableSource):
            return
        fields = {field.name: field for field in context.table.fields}
        for name in source.lookup_keys(tuple(fields)):
            values = {row[name] for row in self.rows if row[name] is not None}
            keys = pa.table({name: pa.array(values, to_arrow_type(fields[name].type))})
            found = looked_up(source.lookup((name,)), keys).to_pylist()
            expected = [row for row in self.rows if row[name] is not None]
            # It may find rows that another system holds to have such a key.
            assert comparable([row for row in found if row[name] in values]) == comparable(expected)

    # --- running ----------------------------------------------------------------------------------

    def test_the_scan_and_its_splits_pickle(self) -> None:
        scan = self.planned().runtime
        begin = scan.earliest()
        splits = scan.plan(begin, scan.latest(begin))
        again: Scan = pickle.loads(pickle.dumps(scan))  # noqa: S301 - its own
        for split in pickle.loads(pickle.dumps(list(splits))):  # noqa: S301
            for batch in again.read(split):
                assert isinstance(batch, pa.RecordBatch)

    def test_offsets_are_json_that_means_the_same(self) -> None:
        import json  # noqa: PLC0415

        scan = self.planned().runtime
        begin = scan.earliest()
        for offset in (begin, scan.latest(begin)):
            assert json.loads(json.dumps(offset)) == offset

    def test_a_source_that_is_stopped_after_any_batch_goes_on_there(self) -> None:
        """Batches as small as the source can, each read by a scan of its own."""
        first = self.planned()
        offset = first.runtime.earliest()
        found: list[pa.Table] = []
        for _ in range(10 * len(self.rows) + 10):
            planned = self.planned()
            scan = planned.runtime
            end = scan.latest(offset, 1)
            if end == offset:
                break
            for split in scan.plan(offset, end):
                found += [planned.given.of_source(batch) for batch in scan.read(split)]
            scan.acknowledge(end)
            offset = end
        if not first.given.changes:
            assert comparable(pa.concat_tables(found)) == comparable(self.rows)

    # --- reading ----------------------------------------------------------------------------------

    def _read(self, request: ScanRequest | None = None) -> pa.Table:
        planned = self.planned(request)
        return pa.concat_tables([planned.schema.empty_table(), *planned.rows()])

    def _changes(self, planned: PlannedScan) -> list[pa.Table]:
        return list(planned.changes())


class SparkSourceSuite(SourceSuite):
    """The same, and what a source must do in Spark's tasks."""

    def test_rows_on_spark_are_the_same(self) -> None:
        from lakewright.connectors.on_spark import read_frame  # noqa: PLC0415
        from lakewright.storage.spark import build_session

        frame = read_frame(build_session("suite"), self.planned())
        assert comparable(frame.toArrow()) == comparable(self.rows)
