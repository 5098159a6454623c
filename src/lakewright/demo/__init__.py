"""The demo: a year of real flights through Dagster and Spark into Paimon tables."""

from pathlib import Path

DEMO_TABLES = Path(__file__).parent / "tables"
