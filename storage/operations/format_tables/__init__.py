"""Folders of plain files are read, written and kept as tables: Paimon's format tables."""
