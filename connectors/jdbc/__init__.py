"""`jdbc`: tables of relational databases, read in parts, looked up, and upserted."""
