"""`lakewright expire-snapshots`: old snapshots go, and the files that they alone need."""

from lakewright.cli.upkeep.verbs import verb_command
from lakewright.platform.upkeep.expire import EXPIRE_SNAPSHOTS

expire_snapshots = verb_command(
    EXPIRE_SNAPSHOTS,
    flags={"time_retained_ms": "--older-than", "max_duration_ms": "--max-time"},
    notes="A plan is one step; without --plan there are as many steps as it takes.",
    examples="""
lakewright expire-snapshots nyc.flights --retain-min 5 --older-than 7d --dry-run
lakewright expire-snapshots nyc.flights --retain-max 100 --max-time 30min
""",
)
