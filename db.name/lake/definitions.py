"""What Dagster serves: the components below `defs`."""

from pathlib import Path

import dagster as dg


@dg.definitions
def defs() -> dg.Definitions:
    """All components of this project; a run works in one process."""
    loaded = dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
    return dg.Definitions.merge(loaded, dg.Definitions(executor=dg.in_process_executor))
