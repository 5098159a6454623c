"""`lakewright merge`: rows of a file change the rows of a table that they match."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command
from lakewright.cli.output.answers import Answer
from lakewright.platform.upkeep.words import counted, size_text


@command(
    "merge",
    notes="""
Without another word, matched rows are updated by the columns of the file, and rows without a match
are inserted. All of it is one snapshot. A row of the table that matches several rows of the file is
an error, and nothing is written. The file is read as a source is: values get the types of their
columns, an empty value of a CSV is null, and columns that the table has not are left out. It is
held in memory; SQL has MERGE INTO for more.
""",
    examples="""
lakewright merge shop.orders --from changes.parquet --on id --dry-run
lakewright merge shop.orders --from all.csv --on day,id --missing delete
""",
)
@click.option(
    "--from",
    "file",
    metavar="FILE",
    required=True,
    type=click.Path(path_type=Path),
    help="A file of CSV, JSON, Parquet, ORC or Avro, which its name tells.",
)
@click.option("--on", metavar="A,B", required=True, help="Columns of both by which rows match.")
@click.option(
    "--matched",
    type=click.Choice(["update", "delete", "keep"]),
    default="update",
    show_default=True,
    help="What happens to matched rows.",
)
@click.option(
    "--new",
    type=click.Choice(["insert", "ignore"]),
    default="insert",
    show_default=True,
    help="What happens to rows of the file without a match.",
)
@click.option(
    "--missing",
    type=click.Choice(["keep", "delete"]),
    default="keep",
    show_default=True,
    help="What happens to rows of the table without a match.",
)
@click.option("--dry-run", is_flag=True, help="Print what would change; write nothing.")
def merge(call: Call, *, file: Path, on: str, matched: str, new: str, missing: str) -> Answer:
    """Change rows by those of a file that match."""
    # Help is printed without Arrow.
    from lakewright.platform.ingest.given_file import rows_of_file

    table = call.table()
    asked: dict[str, Any] = {
        "on": [each.strip() for each in on.split(",")],
        "when_matched": None if matched == "keep" else matched,
        "when_not_matched": "insert" if new == "insert" else None,
        "when_not_matched_by_source": "delete" if missing == "delete" else None,
        "dry_run": call.dry_run,
    }
    done: Any = table.merge(rows_of_file(file, table.schema), **asked)
    facts = {what: getattr(done, what) for what in ("updated", "inserted", "deleted")}
    counts = (f"{counted(count, 'row')} {what}" for what, count in facts.items())
    told = f"{', '.join(counts)} in {table.name}"
    if call.dry_run:
        work = ("files_opened", "files_rewritten", "bytes_rewritten")
        facts |= {name: getattr(done, name) for name in work}
        again = f"{counted(done.files_rewritten, 'file')} ({size_text(done.bytes_rewritten)})"
        told = f"dry run: {told}; {again} to write again"
    else:
        facts["snapshot"] = done.snapshot and done.snapshot.id
        told += f", snapshot {facts['snapshot']}" if done.snapshot else ", nothing changed"
    return Answer(text=lambda: [told], value=lambda: {"table": table.name, **facts})
