"""What Dagster is told and asked: names, resources, runs, metadata."""
