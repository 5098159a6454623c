"""Columns and values of every type, and what damage or evolution makes of them."""
