"""`lakewright sync`: a catalog's database or metastore in step with the tables in the warehouse."""

from __future__ import annotations

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import HowOption, command
from lakewright.cli.output.answers import Answer, said


@command(
    "sync",
    of_table=False,
    notes="""
A catalog in a database or a Hive metastore (LAKEWRIGHT_CATALOG_METASTORE=jdbc or hive, with
LAKEWRIGHT_CATALOG_URI) lists its tables apart from their files, so the two may differ: after a
death between them, or after work without it. A table that changed within --age is left, since a
client may be about to list it. A catalog of folders never differs.
""",
    examples="lakewright sync --dry-run\nlakewright sync nyc --mode sync",
)
@click.argument("database", metavar="[DB]", required=False)
@click.option(
    "--mode",
    type=click.Choice(["add", "drop", "sync"]),
    default="add",
    show_default=True,
    help="List tables that lie there, take those off the list that are gone, or both.",
)
@click.option(
    "--age",
    "age_s",
    type=click.IntRange(min=0),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="Leave tables that changed since then.",
)
@click.option("--dry-run", "only_shows", is_flag=True, cls=HowOption, help="Print the drift alone.")
def sync(call: Call, *, database: str | None, mode: str, age_s: int, only_shows: bool) -> Answer:
    """Compare the catalog's database with the warehouse, and list what is missing there."""
    catalog = call.catalog()
    if only_shows:
        drift = catalog.plan_sync_tables(database, age_ms=age_s * 1000)
    else:
        drift = catalog.sync_tables(database, mode=mode, age_ms=age_s * 1000)
    adds = not only_shows and mode in ("add", "sync")
    drops = not only_shows and mode in ("drop", "sync")
    found, old = ("listed now", "renewed") if adds else ("not listed", "options or keys outdated")
    lines = [
        *(f"database, {found}: {name}" for name in drift.databases),
        *(f"{found}: {name}" for name in drift.unlisted),
        *(f"{'taken off the list' if drops else 'gone'}: {name}" for name in drift.gone),
        *(f"{old}: {name}" for name in drift.outdated),
        *(f"left: {name}: {reason}" for name, reason in drift.left),
    ]
    differ = bool(drift.gone) and not drops
    differ |= bool(drift.databases or drift.unlisted or drift.outdated) and not adds
    done = f"the catalog is synced: {mode}"
    if only_shows:
        done = "dry run: nothing was written"
    elif differ or drift.left:
        left = "the catalog and the warehouse still differ"
        done = f"{left}; `--mode sync` lists and takes off the list" if differ else left
    return said(
        *(lines or ["the catalog and the warehouse agree"]),
        done,
        databases=list(drift.databases),
        unlisted=list(drift.unlisted),
        gone=list(drift.gone),
        outdated=list(drift.outdated),
        left=[{"table": name, "reason": reason} for name, reason in drift.left],
    )
