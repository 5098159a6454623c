"""What a table holds at a snapshot: live files, partitions, buckets, lineage, statistics."""
