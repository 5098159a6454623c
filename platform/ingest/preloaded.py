"""Imported ahead of runs: Great Expectations is then in memory before a run needs it."""

from lakewright.platform.ingest.expectations import load_great_expectations

load_great_expectations()
