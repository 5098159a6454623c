"""Connectors: external tables, from a definition to what reads and writes them."""
