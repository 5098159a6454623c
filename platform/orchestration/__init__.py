"""The platform's side of Dagster: names, resources, runs, metadata."""
