"""The commit of a change as the next snapshot, and pending batches that wait for it."""
