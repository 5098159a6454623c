"""`lakewright revert`: what snapshots did goes, and what others committed since stays."""

from __future__ import annotations

from lakewright.cli.upkeep.verbs import verb_command
from lakewright.platform.upkeep.revert import REVERT

revert = verb_command(
    REVERT,
    notes="""
The snapshots that held the files to come back must exist, or tags of them. A revert is a commit of
its own: it can be taken back too. To undo all that a run did, in all
tables: lakewright restore RUN.
""",
    examples="lakewright revert nyc.flights --snapshot 41 --snapshot 42 --dry-run",
)
