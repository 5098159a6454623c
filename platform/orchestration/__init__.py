"""The platform's side of Dagster: names, resources, runs, metadata.

Checks of declarations that only Dagster can make: `dagster_checks.py`.
"""
