"""Expectations: evaluates Great Expectations on rows, and returns plain values.

Rows are evaluated after they are staged and before they are committed, so the result decides
whether they are published. Few rows are evaluated in Arrow-backed pandas, many rows in Spark; the
result has one form.

Great Expectations is imported inside the function that needs it. The import takes seconds and
hundreds of megabytes, and planning and listing do not need it.
"""

from __future__ import annotations

import math
import os
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from lakewright.platform.documents.expectation_catalog import EXPECTATION_KINDS
from lakewright.platform.ingest.deferred_imports import deferred
from lakewright.platform.tables.declarations import ExpectationDeclaration, ExpectationSeverity
from lakewright.platform.upkeep.words import counted
from lakewright.storage import StorageError, Table
from lakewright.storage.env import Env, SystemEnv
from lakewright.storage.extras import needed_for
from lakewright.storage.spec.partition_words import describe_partition
from lakewright.storage.sql import BATCH, COUNT_COLUMN, parse_row_query

SAMPLE_ROWS = 10
_CHECK = "lakewright_check"
# The names of views begin with it while queries run.
_BATCH = "__lakewright_batch"
# Arguments that values of the columns are compared with, the bounds for some expectations.
_OF_VALUES = frozenset({"value_set", "value_pairs_set", "sum_total"})
_BOUNDS = {"min_value": "strict_min", "max_value": "strict_max"}
_BOUNDS_ARE_VALUES = frozenset(
    {
        "expect_column_values_to_be_between",
        "expect_column_min_to_be_between",
        "expect_column_max_to_be_between",
        "expect_column_sum_to_be_between",
        "expect_column_mean_to_be_between",
        "expect_column_median_to_be_between",
    }
)
# The view of the batch that Great Expectations leaves behind.
_THEIR_VIEW = "tmp_view"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectationOutcome:
    """The result of one expectation.

    `unexpected_by_partition` and `sample` show rows that do not meet it, and `positions` where they
    are among rows in memory. `error` is set if it could not be evaluated, which counts as not met.
    """

    check_name: str
    expectation: str
    severity: ExpectationSeverity
    met: bool
    checked_count: int | None = None
    unexpected_count: int | None = None
    observed: str | None = None
    unexpected_by_partition: Mapping[str, int]
    sample: tuple[Mapping[str, object], ...] = ()
    positions: tuple[int, ...] = ()
    error: str | None = None

    @property
    def blocks(self) -> bool:
        """Whether this result forbids the publication."""
        return not self.met and self.severity is ExpectationSeverity.CRITICAL

    @property
    def summary(self) -> str:
        """One line with the numbers."""
        if self.error is not None:
            return f"{self.expectation} could not be evaluated: {self.error}"
        if self.unexpected_count is not None and self.checked_count is None:
            return f"{self.expectation}: the query finds {counted(self.unexpected_count, 'row')}"
        if self.unexpected_count is not None:
            if self.unexpected_count == 0:
                return f"{self.expectation}: all {self.checked_count:,} rows meet it"
            share = f"{self.unexpected_count:,} of {self.checked_count:,} rows"
            return f"{self.expectation}: {share} fail{'s' if self.unexpected_count == 1 else ''}"
        seen = "" if self.observed is None else f", observed {self.observed}"
        return f"{self.expectation}: {'met' if self.met else 'not met'}{seen}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationReport:
    """The results of all expectations of a table, for one set of rows."""

    outcomes: tuple[ExpectationOutcome, ...]
    row_count: int
    engine: str
    duration_ms: int

    @property
    def blocking(self) -> tuple[ExpectationOutcome, ...]:
        """Results that forbid the publication."""
        return tuple(outcome for outcome in self.outcomes if outcome.blocks)


def columns_needed(expectations: Sequence[ExpectationDeclaration]) -> tuple[str, ...] | None:
    """The columns that must be read to evaluate expectations; None means all of them."""
    found: dict[str, None] = {}
    for expectation in expectations:
        kind = EXPECTATION_KINDS[expectation.kind]
        if kind.looks_at_all_columns or "row_condition" in expectation.arguments:
            return None
        found |= dict.fromkeys(expectation.columns)
    return tuple(found)


def validate_arrow(
    rows: pa.Table,
    expectations: Sequence[ExpectationDeclaration],
    *,
    partition_keys: Sequence[str] = (),
    row_count: int | None = None,
    env: Env | None = None,
) -> ValidationReport:
    """Evaluate expectations on rows in memory; offending rows are reported by partition.

    `row_count` is the number of rows if `rows` has no column that shows it.
    """
    env = env or SystemEnv()
    started = env.now_ms()
    with needed_for("an expectation"):
        import pandas as pd  # noqa: PLC0415  # costs half a second that planning never pays

    frame = rows.to_pandas(types_mapper=pd.ArrowDtype)
    decimals = {each.name for each in rows.schema if pa.types.is_decimal(each.type)}
    asked = [_Asked.of(each, decimals) for each in expectations]
    results = _evaluate(asked, "pandas", frame, {"result_format": "COMPLETE"})
    outcomes = [
        _outcome(expectation, results.get(expectation.check_name), rows, partition_keys)
        for expectation in expectations
    ]
    return ValidationReport(
        outcomes=tuple(outcomes),
        row_count=rows.num_rows if row_count is None else row_count,
        engine="pandas",
        duration_ms=env.now_ms() - started,
    )


def validate_dataframe(
    rows: Any,
    expectations: Sequence[ExpectationDeclaration],
    *,
    row_count: int,
    env: Env | None = None,
) -> ValidationReport:
    """Evaluate expectations on a Spark DataFrame; offending rows are counted, some values shown."""
    env = env or SystemEnv()
    started = env.now_ms()
    form = {"result_format": "SUMMARY", "partial_unexpected_count": SAMPLE_ROWS}
    # Every expectation is its own query, so the rows are read once and cached.
    cached = rows.persist()
    try:
        with _local_times_as_they_are(rows.sparkSession):
            kinds = dict(rows.dtypes)
            decimals = {name for name in kinds if kinds[name].startswith("decimal")}
            asked = [_Asked.of(each, decimals) for each in expectations]
            results = _evaluate(asked, "spark", cached, form)
    finally:
        cached.unpersist()
    outcomes = [
        _outcome(expectation, results.get(expectation.check_name), None, ())
        for expectation in expectations
    ]
    return ValidationReport(
        outcomes=tuple(outcomes),
        row_count=row_count,
        engine="spark",
        duration_ms=env.now_ms() - started,
    )


def validate_queries(
    rows: Any,
    expectations: Sequence[ExpectationDeclaration],
    *,
    find_table: Callable[[str], Table],
    partition_keys: Sequence[str] = (),
) -> tuple[ExpectationOutcome, ...]:
    """Run the queries of expectations on a Spark DataFrame, the batch, and on other tables.

    `find_table` finds a table that a query names. The rows that a query returns do not meet it.
    """
    spark = rows.sparkSession
    asked: list[_Asked] = []
    results: dict[str, Any] = {}
    views: dict[str, str] = {}
    cached = rows.persist()
    try:
        for expectation in expectations:
            assert expectation.sql is not None
            query = parse_row_query(expectation.sql)
            try:
                for name in query.tables:
                    if name not in views:
                        view = f"{_BATCH}{len(views)}"
                        find_table(name).to_spark(spark).createOrReplaceTempView(view)
                        views[name] = view
            except StorageError as err:
                results[expectation.check_name] = err.message
                continue
            # Great Expectations puts its own view of the batch into the text, as `str.format`.
            text = query.over({BATCH: _BATCH, **views}).replace("{", "{{").replace("}", "}}")
            arguments = {"unexpected_rows_query": text.replace(f"`{_BATCH}`", "{batch}")}
            asked.append(
                _Asked(
                    expectation.check_name,
                    "UnexpectedRowsExpectation",
                    arguments,
                    expectation.severity,
                )
            )
        with _local_times_as_they_are(spark):
            results |= _evaluate(asked, "spark", cached, {"result_format": "COMPLETE"})
    finally:
        cached.unpersist()
        for view in (*views.values(), _THEIR_VIEW):
            spark.catalog.dropTempView(view)
    return tuple(
        _query_outcome(expectation, results.get(expectation.check_name), partition_keys)
        for expectation in expectations
    )


def _query_outcome(
    expectation: ExpectationDeclaration, result: Any, partition_keys: Sequence[str]
) -> ExpectationOutcome:
    failed = _outcome(expectation, result, None, ())
    if failed.error is not None:
        return failed
    assert expectation.sql is not None
    rows: Sequence[Mapping[str, Any]] = result.result["details"]["unexpected_rows"]
    count = int(result.result["observed_value"])
    if rows and parse_row_query(expectation.sql).is_count:
        count, rows = int(rows[0][COUNT_COLUMN]), ()
    # Of more rows than these, the partitions are not known.
    by_partition: Counter[str] = Counter()
    if len(rows) == count and all(set(partition_keys) <= set(row) for row in rows):
        by_partition.update(
            describe_partition({name: row[name] for name in partition_keys}) for row in rows
        )
    return replace(
        failed,
        observed=None,
        unexpected_count=count,
        unexpected_by_partition=dict(sorted(by_partition.items())) if partition_keys else {},
        sample=tuple(rows[: expectation.show]),
    )


@contextmanager
def _local_times_as_they_are(spark: Any) -> Iterator[None]:
    """Make Spark compare times without a zone as local times, not in the zone of this machine."""
    name = "spark.sql.timestampType"
    before = spark.conf.get(name)
    spark.conf.set(name, "TIMESTAMP_NTZ")
    try:
        yield
    finally:
        spark.conf.set(name, before)


def load_great_expectations() -> tuple[Any, Any]:
    """The library, and its setting for no progress bars; without what few expectations need."""
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Only one expectation needs plots and distributions.
        with needed_for("an expectation"), deferred("altair", "scipy.stats"):
            import great_expectations as gx
            from great_expectations.data_context.types.base import ProgressBarsConfig
    return gx, ProgressBarsConfig(globally=False, metric_calculations=False)


@dataclass(frozen=True, slots=True)
class _Asked:
    """An expectation as Great Expectations takes it."""

    check_name: str
    class_name: str
    arguments: Mapping[str, Any]
    severity: ExpectationSeverity

    @classmethod
    def of(cls, expectation: ExpectationDeclaration, decimals: Collection[str]) -> _Asked:
        """An expectation of the catalogue; `decimals` are the columns of decimals."""
        class_name = EXPECTATION_KINDS[expectation.kind].class_name
        arguments = expectation.arguments
        if expectation.columns and {*expectation.columns} <= {*decimals}:
            arguments = _of_decimals(arguments, expectation.kind)
        return cls(expectation.check_name, class_name, arguments, expectation.severity)


def _of_decimals(arguments: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Arguments that decimals are compared with, as they were written: no binary float is 0.1.

    The library takes bounds as floats. So each is the next float on the side on which the bound
    itself is met, or is not if it is strict.
    """
    converted = dict(arguments)
    for name in _OF_VALUES & converted.keys():
        converted[name] = _exact(converted[name])
    for name, strict in _BOUNDS.items() if kind in _BOUNDS_ARE_VALUES else ():
        bound = converted.get(name)
        if isinstance(bound, float) and math.isfinite(bound):
            converted[name] = _beside(
                bound, upwards=(name == "max_value") != bool(converted.get(strict))
            )
    return converted


def _exact(value: Any) -> Any:
    match value:
        case float() if math.isfinite(value):
            return Decimal(repr(value))
        case int() if not isinstance(value, bool):
            return Decimal(value)
        case list() | tuple():
            return [_exact(each) for each in value]
        case _:
            return value


def _beside(bound: float, *, upwards: bool) -> float:
    """The float next to a number as it was written, or the number if a float is equal to it."""
    written, held = Decimal(repr(bound)), Decimal(bound)
    if (held < written) if upwards else (held > written):
        return math.nextafter(bound, math.inf if upwards else -math.inf)
    return bound


def _evaluate(
    expectations: Sequence[_Asked], kind: str, frame: Any, form: dict[str, object]
) -> dict[str, Any]:
    """Results by check name; an expectation that cannot be built gives an error text instead."""
    with warnings.catch_warnings():
        # Users cannot act on the warnings of its dependencies.
        warnings.simplefilter("ignore")
        gx, no_bars = load_great_expectations()
        context = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = no_bars
        results: dict[str, Any] = {}
        built = []
        for expectation in expectations:
            factory = getattr(gx.expectations, expectation.class_name)
            try:
                built.append(
                    factory(
                        **expectation.arguments,
                        severity=expectation.severity.value,
                        meta={_CHECK: expectation.check_name},
                    )
                )
            except (ValueError, TypeError) as err:
                results[expectation.check_name] = _first_line(err)
        add_source = getattr(context.data_sources, f"add_{kind}")
        asset = add_source("staged").add_dataframe_asset("rows")
        whole = asset.add_batch_definition_whole_dataframe("whole")
        batch = whole.get_batch({"dataframe": frame})
        suite = gx.ExpectationSuite(name="expectations", expectations=built)
        for result in batch.validate(suite, result_format=form).results if built else ():
            results[result.expectation_config.meta[_CHECK]] = result
    return results


def _outcome(
    expectation: ExpectationDeclaration,
    result: Any,
    rows: pa.Table | None,
    partition_keys: Sequence[str],
) -> ExpectationOutcome:
    error = result if isinstance(result, str) else _raised(result)
    if error is not None:
        return ExpectationOutcome(
            check_name=expectation.check_name,
            expectation=expectation.text,
            severity=expectation.severity,
            met=False,
            unexpected_by_partition={},
            error=error,
        )
    details: Mapping[str, Any] = result.result
    observed = details.get("observed_value")
    positions = details.get("unexpected_index_list") or details.get(
        "partial_unexpected_index_list", ()
    )
    offending = None if rows is None or not positions else rows.take(pa.array(positions))
    sample: Sequence[Mapping[str, object]] = ()
    if offending is not None:
        sample = offending.slice(0, SAMPLE_ROWS).to_pylist()
    elif details.get("partial_unexpected_list"):
        name = "/".join(expectation.columns) or "value"
        sample = [{name: value} for value in details["partial_unexpected_list"][:SAMPLE_ROWS]]
    return ExpectationOutcome(
        check_name=expectation.check_name,
        expectation=expectation.text,
        severity=expectation.severity,
        met=bool(result.success),
        checked_count=details.get("element_count"),
        unexpected_count=details.get("unexpected_count"),
        observed=None if observed is None else str(observed),
        unexpected_by_partition=_by_partition(offending, partition_keys),
        sample=tuple(sample),
        positions=() if rows is None else tuple(details.get("unexpected_index_list") or ()),
    )


def _raised(result: Any) -> str | None:
    if result is None:
        return "no result came back"
    info = result.exception_info or {}
    # The result of an expectation has one report, or one for each metric that it needs.
    reports = [info] if "raised_exception" in info else list(info.values())
    for report in reports:
        if report.get("raised_exception"):
            return _first_line(report.get("exception_message"))
    return None


def _first_line(message: object) -> str:
    lines = str(message).strip().splitlines()
    return lines[0] if lines else "no reason was given"


def _by_partition(rows: pa.Table | None, partition_keys: Sequence[str]) -> dict[str, int]:
    if rows is None or not partition_keys:
        return {}
    counted = Counter(
        describe_partition(spec) for spec in rows.select(list(partition_keys)).to_pylist()
    )
    return dict(sorted(counted.items()))
