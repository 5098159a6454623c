"""`lakewright add-partitions`: folders of other systems become partitions of a table."""

from lakewright.cli.upkeep.verbs import verb_command
from lakewright.platform.upkeep.external_partitions import ADD_PARTITIONS

add_partitions = verb_command(
    ADD_PARTITIONS,
    arguments={"folder": "FOLDER"},
    flags={"copy_files": "--copy"},
    notes="""
The files are Parquet, ORC or Avro. They stay where they lie, and stay yours: no verb of the table
deletes them, also not when their partition is dropped or expires. Other Paimon clients of version
1.0 or later read them too, and may delete them when they expire snapshots.
""",
    examples="""
lakewright add-partitions shop.orders /landing/orders --dry-run
lakewright add-partitions shop.orders /landing/2024-01-31 --partition dt=2024-01-31
lakewright add-partitions shop.views /landing/views --keys dt,country
""",
)
