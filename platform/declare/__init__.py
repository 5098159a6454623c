"""Declarations of tables: YAML files, checked and read as values."""
