"""Rows on their way into a table: sources, validation, publishing."""
