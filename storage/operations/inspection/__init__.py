"""Metadata as rows, and statistics of columns.

New system table: columns in `system_tables.py`, rows in `system_table_files.py` or
`system_table_history.py`, a method in `storage/inspection.py`, the help of `inspect`. Its name is
one of Paimon's.
"""
