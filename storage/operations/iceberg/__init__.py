"""Iceberg metadata beside a table's own: derived from it, and made again whenever it is behind."""
