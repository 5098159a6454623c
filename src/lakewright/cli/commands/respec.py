"""`lakewright respec`: the partition keys of a live table."""

from lakewright.cli.upkeep.verbs import verb_command
from lakewright.platform.upkeep.respec import RESPEC, respec_verb

respec = verb_command(
    RESPEC,
    notes="""
Files whose rows share one value of the new keys stay where they lie: new metadata names them.
Other files are split first, with --split-only as many partitions at a time as are named. Clients
that open the table read it at every moment; those that have it open must open it again
(docs/changing-partition-keys.md). When the command ends, the table has the new keys.
All files of a table with a primary key are written anew: they are sorted by its other columns.
A run that is stopped meanwhile is continued by the same command; with the present keys as --keys it
is given up, and what it had staged is deleted.
Partition keys must be in the primary key, which --primary-key lets them join.
""",
    examples="""
lakewright respec nyc.flights --keys dt,origin --dry-run
lakewright respec nyc.flights --keys dt,origin --dry-run --tables tables --format json
lakewright respec nyc.flights --keys dt,origin --split-only --partition dt=2013-12-01
lakewright respec nyc.flights --keys dt,origin --max-partitions 50000
lakewright respec nyc.flights --add origin
lakewright respec nyc.flights --keys ""
lakewright respec nyc.orders --keys dt,origin --primary-key id,dt,origin
lakewright respec nyc.flights --moved-from s3://old-bucket/warehouse/nyc.db/flights
""",
    of_declared=lambda declaration: respec_verb(declaration.scheme),
)
