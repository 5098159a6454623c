"""Where the rows of the demo's tables come from; their declarations name these functions."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.demo import nycflights
from lakewright.platform.ingest.sources import SourceRequest


def flights(request: SourceRequest) -> Any:
    """Flights of the days asked for, as a DataFrame where Spark writes them."""
    return _flights(nycflights.flights(), request)


def earlier_flights(request: SourceRequest) -> Any:
    """Flights of the days asked for, in the columns of their first declaration."""
    return _flights(nycflights.earlier_flights(), request)


def _flights(all_days: pa.Table, request: SourceRequest) -> Any:
    rows = _of_days(all_days, request)
    return request.spark.createDataFrame(rows) if request.wants_spark else rows


def weather(request: SourceRequest) -> pa.Table:
    """Observations of the days asked for."""
    return _of_days(nycflights.weather(), request)


def planes(request: SourceRequest) -> pa.Table:
    """All planes."""
    del request
    return nycflights.planes()


def airports(request: SourceRequest) -> pa.Table:
    """All airports."""
    del request
    return nycflights.airports()


def airlines(request: SourceRequest) -> pa.Table:
    """All airlines."""
    del request
    return nycflights.airlines()


def delays_by_carrier(request: SourceRequest) -> Any:
    """Counts and delays by day and airline, computed in Spark from the flights table."""
    return request.spark.sql(
        """
        SELECT dt,
               carrier,
               count(*) AS flights,
               count_if(dep_time IS NULL) AS cancelled,
               avg(dep_delay) AS mean_dep_delay,
               avg(arr_delay) AS mean_arr_delay,
               max(arr_delay) AS worst_arr_delay
        FROM {flights}
        GROUP BY dt, carrier
        """,
        flights=request.upstream_dataframe("nyc.flights"),
    )


def _of_days(rows: pa.Table, request: SourceRequest) -> pa.Table:
    if request.partitions is None:
        return rows
    return rows.filter(pc.is_in(rows.column("dt"), pa.array(request.values("dt"), pa.string())))
