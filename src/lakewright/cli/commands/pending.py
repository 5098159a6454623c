"""`lakewright pending`: batches that were staged and are kept until they are committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command, group
from lakewright.cli.grammar.options import FROM_0
from lakewright.cli.output.answers import Answer, listed, said
from lakewright.cli.output.partitions import plain_spec
from lakewright.cli.output.tables import TextColumn
from lakewright.cli.output.text import Cell
from lakewright.platform.upkeep.words import counted, size_text

if TYPE_CHECKING:
    from lakewright.storage import StagedWrite
    from lakewright.storage.spec.commit import CommitResult


@command("list", examples="lakewright pending list nyc.flights")
def _list(call: Call) -> Answer:
    """List batches that wait."""
    table = call.table()
    return listed(
        table.pending_batches(),
        [
            TextColumn("user"),
            TextColumn("batch", right=True),
            TextColumn("mode"),
            TextColumn("rows", right=True),
            TextColumn("files", right=True),
            TextColumn("size", right=True),
        ],
        cells=_cells,
        record=_record,
        empty=f"no batch of {table.name} waits to be committed",
    )


def _cells(batch: StagedWrite) -> list[Cell]:
    return [
        batch.commit_user,
        batch.commit_identifier,
        batch.mode.value,
        batch.row_count,
        batch.file_count,
        size_text(batch.size_bytes),
    ]


def _record(batch: StagedWrite) -> dict[str, object]:
    return {
        "user": batch.commit_user,
        "batch": batch.commit_identifier,
        "mode": batch.mode.value,
        "rows": batch.row_count,
        "files": batch.file_count,
        "bytes": batch.size_bytes,
        "partitions": [plain_spec(partition.spec) for partition in batch.partitions],
    }


@command(
    "commit",
    notes="USER is a commit user, as list names it.",
    examples="lakewright pending commit nyc.flights loader --up-to 17",
)
@click.argument("user", metavar="USER")
@click.option(
    "--up-to", metavar="BATCH", type=FROM_0, help="The last one to publish (default: all)."
)
def _commit(call: Call, *, user: str, up_to: int | None) -> Answer:
    """Publish a writer's batches in order, each once."""
    table = call.table()
    results = table.commit_pending(user, up_to=up_to)
    lines = [_line(user, result) for result in results]
    return Answer(
        text=lambda: lines or [f"no batch of {user} waits to be committed to {table.name}"],
        value=lambda: [
            {
                "user": user,
                "batch": result.snapshot.commit_identifier,
                "snapshot_id": result.snapshot.id,
                "already_committed": result.already_committed,
            }
            for result in results
            if result.snapshot is not None
        ],
    )


def _line(user: str, result: CommitResult) -> str:
    if result.snapshot is None:
        return "a batch without rows: nothing to commit"
    batch = result.snapshot.commit_identifier
    verb = "was committed already as" if result.already_committed else "is committed as"
    return f"batch {batch} of {user} {verb} snapshot {result.snapshot.id}"


@command(
    "abort",
    notes="USER and BATCH are a commit user and its identifier, as list names them.",
    examples="lakewright pending abort nyc.flights loader 18",
)
@click.argument("user", metavar="USER")
@click.argument("batch", metavar="BATCH", type=FROM_0)
def _abort(call: Call, *, user: str, batch: int) -> Answer:
    """Delete a batch with its files."""
    from lakewright.storage.errors import NotFoundError

    table = call.table()
    batches = table.pending_batches(user)
    chosen = [each for each in batches if each.commit_identifier == batch]
    if not chosen:
        there = ", ".join(str(each.commit_identifier) for each in batches) or "none"
        raise NotFoundError(
            f"no batch {batch} of {user} waits to be committed to {table.name}; "
            f"of that user there are {there}"
        )
    deleted = table.abort(chosen[0])
    return said(
        f"batch {batch} of {user} aborted: {counted(deleted, 'file')} deleted",
        user=user,
        batch=batch,
        files_deleted=deleted,
    )


pending = group(
    "pending",
    "See, commit and abort batches that writers staged and keep.",
    [_list, _commit, _abort],
)
