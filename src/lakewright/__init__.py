"""Lakewright: upkeep of open lakehouse tables, on Dagster and PySpark."""

__version__ = "0.1.0"
