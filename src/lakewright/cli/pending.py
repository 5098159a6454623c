"""`lakewright pending`: batches that were staged and are kept until somebody commits them."""

from __future__ import annotations

import argparse

from lakewright.cli.layout import Cell, TextColumn, counted, size_text
from lakewright.cli.output import print_json, print_lines, print_table
from lakewright.cli.warehouse import open_table
from lakewright.storage import StagedWrite, Table
from lakewright.storage.errors import NotFoundError


def run_pending(parsed: argparse.Namespace) -> int:
    """Carry out a verb of `pending`."""
    table = open_table(parsed)
    match parsed.verb:
        case "list":
            _list(parsed, table)
        case "commit":
            _commit(parsed, table)
        case _:
            _abort(parsed, table)
    return 0


def _list(parsed: argparse.Namespace, table: Table) -> None:
    batches = table.pending_batches()
    if parsed.json:
        print_json([_batch_json(each) for each in batches])
        return
    columns = [
        TextColumn("user"),
        TextColumn("batch", right=True),
        TextColumn("mode"),
        TextColumn("rows", right=True),
        TextColumn("files", right=True),
        TextColumn("size", right=True),
    ]
    rows: list[list[Cell]] = [
        [
            each.commit_user,
            each.commit_identifier,
            each.mode.value,
            each.row_count,
            each.file_count,
            size_text(each.size_bytes),
        ]
        for each in batches
    ]
    print_table(columns, rows, empty=f"no batch of {table.name} waits to be committed")


def _batch_json(batch: StagedWrite) -> dict[str, object]:
    return {
        "user": batch.commit_user,
        "batch": batch.commit_identifier,
        "mode": batch.mode.value,
        "rows": batch.row_count,
        "files": batch.file_count,
        "bytes": batch.size_bytes,
        "partitions": [each.spec for each in batch.partitions],
    }


def _commit(parsed: argparse.Namespace, table: Table) -> None:
    results = table.commit_pending(parsed.user, up_to=parsed.up_to)
    if not results:
        print_lines([f"no batch of {parsed.user} waits to be committed to {table.name}"])
    for result in results:
        if result.snapshot is None:
            print_lines(["a batch without rows: nothing to commit"])
            continue
        batch = result.snapshot.commit_identifier
        verb = "was committed already as" if result.already_committed else "is committed as"
        print_lines([f"batch {batch} of {parsed.user} {verb} snapshot {result.snapshot.id}"])


def _abort(parsed: argparse.Namespace, table: Table) -> None:
    batches = table.pending_batches(parsed.user)
    chosen = [each for each in batches if each.commit_identifier == parsed.batch]
    if not chosen:
        there = ", ".join(str(each.commit_identifier) for each in batches) or "none"
        raise NotFoundError(
            f"no batch {parsed.batch} of {parsed.user} waits to be committed to {table.name}; "
            f"of that user there are {there}"
        )
    deleted = table.abort(chosen[0])
    print_lines(
        [f"batch {parsed.batch} of {parsed.user} aborted: {counted(deleted, 'file')} deleted"]
    )
