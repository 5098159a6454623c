"""Policies of upkeep: files by warehouse, database, pattern and table, and what decides."""
