"""The environment variables that name a workspace, and what they are without a value."""

TABLES_VARIABLE = "LAKEWRIGHT_TABLES"
WAREHOUSE_VARIABLE = "LAKEWRIGHT_WAREHOUSE"
DEFAULT_WAREHOUSE = "./warehouse"
