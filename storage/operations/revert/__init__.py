"""Takes back what snapshots did, by a new snapshot on top."""
