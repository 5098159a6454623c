"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from lakewright.cli.grammar.values import names, number_from, partition, time_ms

ROW_NOTES = """
table  aligned for people; long values are cut, nested values are JSON
json   one object a line, complete: decimals as text, dates, times and timestamps in ISO
       (moments in UTC, with Z), bytes in hexadecimal, NaN and infinities as text; a map is
       an object if its keys are text, otherwise a list of [key, value] pairs
csv    the same values under a header; null is empty, empty text is ""
"""

FROM_0 = number_from(0)
FROM_1 = number_from(1)

where_option = click.option("--where", metavar="EXPR", help="Only what matches this filter.")
columns_option = click.option(
    "--columns", metavar="A,B", type=names, help="These columns, in this order (default: all)."
)
limit_option = click.option("--limit", metavar="N", type=FROM_0, help="At most this many rows.")
snapshot_option = click.option(
    "--snapshot", metavar="N", type=FROM_1, help="As of this snapshot (default: the latest)."
)
tag_option = click.option("--tag", metavar="TAG", help="As of the snapshot with this tag.")
as_of_option = click.option(
    "--as-of",
    metavar="TIME",
    type=time_ms,
    help="As of the last snapshot not after an ISO time, such as 2024-01-31T13:45:00 (in UTC "
    "without an offset).",
)


def partitions_option(said: str) -> Callable[[Any], Any]:
    """The option `--partition`, which may be repeated."""
    return click.option(
        "--partition", "partitions", metavar="K=V,…", type=partition, multiple=True, help=said
    )
