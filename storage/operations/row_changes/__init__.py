"""Deletes, updates and merges single rows; each statement is one snapshot.

New statement: a file with `plan_…` and `run_…`: what it stages, and what leaves files
(`remove_rows.py`), inside of `carried_out`; what engines refuse in `accepted.py`; cases in
`tests/property/test_row_changes.py`, `tests/faults/verbs.py` and `tests/races/verbs.py`.
"""
