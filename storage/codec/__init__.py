"""Bytes on disk ↔ nouns: rows, manifests, schemas, snapshots, Arrow types.

New rule for values: `conform.py` and `value_limits.py`, for UPDATE and MERGE too; literals in
`spec/literals.py`; a case in `tests/unit/session/test_doors.py`, where each way in is a door.
New cast: a mark in `spec/cast_rules.py` and a function in `evolved_values.py`.
"""
