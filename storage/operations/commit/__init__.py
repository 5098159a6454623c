"""The one way to make a snapshot, and batches that wait for it."""
