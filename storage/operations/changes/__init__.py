"""The rows that changed between two snapshots."""
