"""Verbs on whole partitions."""
