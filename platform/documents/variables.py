"""The environment variables that name a workspace, and what they are without a value."""

TABLES_VARIABLE = "LAKEWRIGHT_TABLES"
POLICY_VARIABLE = "LAKEWRIGHT_POLICY"
WAREHOUSE_VARIABLE = "LAKEWRIGHT_WAREHOUSE"
DEFAULT_WAREHOUSE = "./warehouse"
# With a value, definitions are loaded only if all declarations and policies are right.
STRICT_VARIABLE = "LAKEWRIGHT_STRICT"
# Where the folder of reports below DAGSTER_HOME is served; `lakewright up` sets it.
REPORTS_URL_VARIABLE = "LAKEWRIGHT_REPORTS_URL"
REPORTS_FOLDER = "reports"
