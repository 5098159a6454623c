"""Deletes, updates and merges single rows; each statement is one snapshot."""
