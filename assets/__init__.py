"""The assets of the declarations, with their partitions and checks.

New asset check: an expectation is a line of YAML (`checks.py`); a check of the stored table is a
`TableCheck` in a file here, given to its step in `_declared_table` of `definitions.py`.
"""
