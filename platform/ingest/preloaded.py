"""Imported ahead of runs: Great Expectations is then in memory before a run needs it."""

from contextlib import suppress

from lakewright.platform.ingest.expectations import load_great_expectations
from lakewright.storage.errors import UnsupportedError

# Without it, runs ask no expectation.
with suppress(UnsupportedError):
    load_great_expectations()
