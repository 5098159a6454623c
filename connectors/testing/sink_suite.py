"""What a sink must do, wherever it writes."""

from __future__ import annotations

import pickle
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from lakewright.connectors.factories import Context
from lakewright.connectors.model.changelog_mode import ChangelogMode
from lakewright.connectors.planning.plan_sink import PlannedSink, WriteRequest, plan_write
from lakewright.connectors.testing.tables import comparable, context_of
from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.errors import StorageError, UnsupportedError
from lakewright.storage.spec.rows import ROW_KIND_COLUMN


class SinkSuite:
    """Tests of a sink; an author gives the factory, a table of it, and reads what was written.

    `rows` are three or more different rows that fit the columns; with a primary key, their keys
    differ. Each test begins with an empty external table.
    """

    factory: ClassVar[Any]
    columns: ClassVar[Mapping[str, str]]
    options: ClassVar[Mapping[str, str]] = {}
    primary_key: ClassVar[Sequence[str]] = ()
    rows: ClassVar[Sequence[Mapping[str, Any]]]

    @abstractmethod
    def written(self) -> Sequence[Mapping[str, Any]]:
        """The rows that are in the external system now."""

    def given_options(self) -> Mapping[str, str]:
        """The options of the table; a suite with a server or a folder overrides it."""
        return self.options

    def context(self) -> Context:
        return context_of(
            self.factory, self.columns, self.given_options(), primary_key=self.primary_key
        )

    def planned(self, mode: ChangelogMode | None = None) -> PlannedSink:
        """A plan of its own."""
        return plan_write(self.context(), WriteRequest(mode=mode or ChangelogMode.insert_only()))

    def table(self, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
        schema = to_arrow_schema(self.context().table.fields)
        return pa.Table.from_pylist([dict(row) for row in rows], schema=schema)

    def test_rows_are_there_after_the_commit(self) -> None:
        assert self.planned().write([self.table(self.rows)]) == len(self.rows)
        assert comparable(self.written()) == comparable(self.rows)

    def test_rows_of_several_batches_are_there(self) -> None:
        self.planned().write([self.table([row]) for row in self.rows])
        assert comparable(self.written()) == comparable(self.rows)

    def test_no_rows_are_a_write(self) -> None:
        assert self.planned().write([self.table([])]) == 0
        assert comparable(self.written()) == []

    def test_a_write_that_fails_leaves_no_row(self) -> None:
        def failing() -> Any:
            yield self.table(self.rows[:2])
            raise StorageError("the query failed")

        with pytest.raises(StorageError, match="the query failed"):
            self.planned().write(failing())
        assert comparable(self.written()) == []

    def test_writes_of_several_tasks_are_committed_together(self) -> None:
        sink = self.planned()
        runtime = sink.runtime
        messages = [
            pickle.loads(pickle.dumps(runtime)).write(iter(self.table([row]).to_batches()))  # noqa: S301
            for row in self.rows
        ]
        runtime.commit(pickle.loads(pickle.dumps(messages)))  # noqa: S301
        assert comparable(self.written()) == comparable(self.rows)

    def test_changes_are_carried_out_or_refused(self) -> None:
        """With a key, the last change of each row counts; a sink without one refuses changes."""
        try:
            sink = self.planned(ChangelogMode.upsert())
        except UnsupportedError:
            return
        first, second, third = self.rows[:3]
        changes = self.table([first, second, third, first])
        kinds = pa.array(["+I", "+I", "+I", "-D"])
        sink.write([changes.append_column(ROW_KIND_COLUMN, kinds)])
        assert comparable(self.written()) == comparable([second, third])


class KeyedSinkSuite(SinkSuite):
    """The same, of a table with a primary key."""

    def test_a_row_that_is_written_again_by_its_key_is_there_once(self) -> None:
        for _ in range(2):
            self.planned().write([self.table(self.rows)])
        assert comparable(self.written()) == comparable(self.rows)


class SparkSinkSuite(SinkSuite):
    """The same, and what a sink must do in Spark's tasks."""

    def test_rows_of_spark_are_the_same(self) -> None:
        from lakewright.connectors.on_spark import write_frame  # noqa: PLC0415
        from lakewright.storage.spark import build_session, dataframe_of

        frame = dataframe_of(build_session("suite"), self.table(self.rows))
        write_frame(frame, self.planned())
        assert comparable(self.written()) == comparable(self.rows)
