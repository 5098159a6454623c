"""The demo's table that goes from days to days and hours: the weather of December.

Its files hold whole days, so each is split by hour first. Then all are restated where they lie.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.demo import nycflights
from lakewright.demo.partition_keys import all_rows, check_rows
from lakewright.demo.shell import Shell
from lakewright.storage import Catalog

HOURLY_WEATHER = "nyc.december_weather"
KEYS = ("dt", "hour")
# The facts of the change, and the first of the partitions with what they became.
_MOST_LINES = 10


def is_by_hour(catalog: Catalog) -> bool:
    """Whether the demo has changed the keys of this table before."""
    return (
        catalog.table_exists(HOURLY_WEATHER)
        and catalog.table(HOURLY_WEATHER).schema.partition_keys == KEYS
    )


def give_hours(catalog: Catalog, line: Callable[[str], object]) -> None:
    """Make the table by day if it is not there, and change its keys by the command line."""
    if not catalog.table_exists(HOURLY_WEATHER):
        december = december_weather()
        catalog.create_table(HOURLY_WEATHER, december.schema, partition_keys=KEYS[:1])
        catalog.table(HOURLY_WEATHER).write(december)
    before = all_rows(catalog.table(HOURLY_WEATHER))
    shell = Shell(Path.cwd(), catalog.root, line)
    respec = f"respec {HOURLY_WEATHER} --keys {','.join(KEYS)}"
    shell.run(f"{respec} --split-only")
    shell.run(respec, most_lines=_MOST_LINES)
    table = catalog.table(HOURLY_WEATHER)
    check_rows(HOURLY_WEATHER, before, all_rows(table))
    line(f"    {len(table.at().partitions()):,} hours; all {before.num_rows:,} rows as before")


def december_weather() -> pa.Table:
    """The observations of December with their hours."""
    rows = nycflights.weather_by_hour()
    return rows.filter(pc.greater_equal(rows.column("dt"), "2013-12-01"))
