"""Tables as they are declared: columns, partitions, sources, checks, and their upkeep."""
