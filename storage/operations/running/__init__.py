"""The runtime of operations: engines, task memory, local clock, plans, file deletion."""
