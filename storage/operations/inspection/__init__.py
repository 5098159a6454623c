"""Metadata as rows, and statistics of columns."""
