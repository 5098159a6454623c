"""Folders of plain files are read, written and kept as tables: Paimon's format tables.

New format: here, under the face `storage/format_table.py`.
"""
