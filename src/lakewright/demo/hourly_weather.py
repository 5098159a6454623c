"""The demo's table that goes from days to days and hours, and back: the weather of December.

Its files hold whole days, so each is split by hour first. Then all are restated where they lie,
under both keys and under the former one again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.demo import nycflights
from lakewright.demo.partition_keys import FORMER_KEYS, all_rows, check_rows, keys_to_give
from lakewright.demo.shell import Shell
from lakewright.storage import Catalog

HOURLY_WEATHER = "nyc.december_weather"
KEYS = ("dt", "hour")
# The facts of the change, and the first of the partitions with what they became.
_MOST_LINES = 10


def hours_to_give(catalog: Catalog) -> tuple[tuple[str, ...], ...]:
    """The partition keys that the demo has still to give this table, in order."""
    if not catalog.table_exists(HOURLY_WEATHER):
        return (KEYS, FORMER_KEYS)
    return keys_to_give(catalog.table(HOURLY_WEATHER), KEYS)


def give_hours(catalog: Catalog, line: Callable[[str], object]) -> None:
    """Make the table by day if it is not there, and change its keys by the command line."""
    wanted = hours_to_give(catalog)
    if not catalog.table_exists(HOURLY_WEATHER):
        december = december_weather()
        catalog.create_table(HOURLY_WEATHER, december.schema, partition_keys=FORMER_KEYS)
        catalog.table(HOURLY_WEATHER).write(december)
    before = all_rows(catalog.table(HOURLY_WEATHER))
    shell = Shell(Path.cwd(), catalog.root, line)
    for keys in wanted:
        respec = f"respec {HOURLY_WEATHER} --keys {','.join(keys)}"
        if keys == KEYS:
            shell.run(f"{respec} --split-only")
        shell.run(respec, most_lines=_MOST_LINES)
        table = catalog.table(HOURLY_WEATHER)
        check_rows(HOURLY_WEATHER, before, all_rows(table))
        count = f"{len(table.at().partitions()):,} {'hours' if keys == KEYS else 'days'}"
        line(f"    {count}; all {before.num_rows:,} rows as before")


def december_weather() -> pa.Table:
    """The observations of December with their hours."""
    rows = nycflights.weather_by_hour()
    return rows.filter(pc.greater_equal(rows.column("dt"), "2013-12-01"))
