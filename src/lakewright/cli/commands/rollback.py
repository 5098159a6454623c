"""`lakewright rollback`: a table as it was; what came later goes."""

from __future__ import annotations

from lakewright.cli.grammar.call import Call, check_one_of
from lakewright.cli.grammar.command import command
from lakewright.cli.grammar.options import as_of_option, snapshot_option, tag_option
from lakewright.cli.output.answers import Answer
from lakewright.cli.upkeep.verbs import run_verb
from lakewright.platform.upkeep.history import ROLLBACK, RollbackOptions


@command(
    "rollback",
    plans=True,
    examples="lakewright rollback nyc.flights --tag before-the-import --dry-run",
)
@snapshot_option
@tag_option
@as_of_option
def rollback(
    call: Call, *, snapshot: int | None, tag: str | None, as_of: int | None
) -> Answer | None:
    """Let a table become what it was; later snapshots and tags go, and their files."""
    check_one_of(needed=call.plan is None, snapshot=snapshot, tag=tag, as_of=as_of)
    options = RollbackOptions(snapshot=snapshot, tag=tag, as_of=as_of)
    return run_verb(ROLLBACK, call, call.table(), options)
