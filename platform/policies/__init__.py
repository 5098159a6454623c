"""Policies of upkeep: files by warehouse, database, pattern and table, and what decides.

New user of a column: `column_dependents.py`; users that only Dagster knows:
`orchestration/asset_lineage.py`; columns used in SQL: `storage/sql/used_columns.py`.
"""
