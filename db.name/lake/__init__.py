"""The Dagster project of the lake."""
