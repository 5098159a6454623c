"""Leases: which process works on which part of a table, and until when."""
