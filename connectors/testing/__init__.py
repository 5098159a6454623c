"""Suites of tests that the author of a connector inherits.

class TestWeather(SourceSuite):
    factory = Weather()
    columns = {"day": "DATE", "degrees": "DOUBLE"}
    options = {"station": "10637"}
    rows = [{"day": date(2024, 1, 1), "degrees": 3.5}, …]

Pytest finds the tests of the class. `SparkSourceSuite` and `SparkSinkSuite` also run in Spark's
tasks; a sink with a primary key inherits `KeyedSinkSuite`.
"""

from lakewright.connectors.testing.sink_suite import KeyedSinkSuite, SinkSuite, SparkSinkSuite
from lakewright.connectors.testing.source_suite import SourceSuite, SparkSourceSuite

__all__ = ["KeyedSinkSuite", "SinkSuite", "SourceSuite", "SparkSinkSuite", "SparkSourceSuite"]
