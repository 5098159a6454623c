"""Whole partitions are listed, dropped, taken over, repaired, expired, renamed and exchanged.

New verb: a file with `plan_…` and `run_…` here, then as each verb of upkeep.
"""
