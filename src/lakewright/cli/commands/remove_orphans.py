"""`lakewright remove-orphans`: files that dead processes left behind."""

from lakewright.cli.upkeep.verbs import verb_command
from lakewright.platform.upkeep.clean import REMOVE_ORPHANS

remove_orphans = verb_command(
    REMOVE_ORPHANS,
    notes="They go to a quarantine beside the table: see lakewright quarantine --help.",
    examples="lakewright remove-orphans nyc.flights --older-than 3d --dry-run",
    flags={"at_once": "--delete"},
)
