"""Formats: bytes of one record, or of a file of records, as rows and back; a module each."""
