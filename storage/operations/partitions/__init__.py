"""Whole partitions are listed, dropped, expired, renamed, exchanged and marked as done."""
