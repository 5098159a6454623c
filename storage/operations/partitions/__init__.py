"""Whole partitions are listed, dropped, taken over, repaired, expired, renamed and exchanged."""
