"""Files are merged, sorted or given other buckets; the rows stay equal."""
