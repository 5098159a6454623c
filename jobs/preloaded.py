"""Imported ahead of runs: the run config of upkeep is then made before a run needs it."""

from lakewright.jobs.evolve_schema import all_verbs
from lakewright.jobs.upkeep import config_of
from lakewright.platform.orchestration.names import AssetKeys
from lakewright.platform.tables.workspace import Workspace

config_of(all_verbs(Workspace(), AssetKeys()))
