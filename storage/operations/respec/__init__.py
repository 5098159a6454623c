"""Changes the partition keys of a table."""
