"""`lakewright rewrite-manifests`: fewer and smaller manifests for a plan of a read to open."""

from lakewright.cli.upkeep.verbs import verb_command
from lakewright.platform.upkeep.rewrite_manifests import REWRITE_MANIFESTS

rewrite_manifests = verb_command(
    REWRITE_MANIFESTS,
    examples="""
lakewright rewrite-manifests nyc.flights --dry-run
lakewright rewrite-manifests nyc.flights --min-count 100
""",
)
