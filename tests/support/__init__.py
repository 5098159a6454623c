"""Shared parts of tests: builders, doubles, a model, strategies, invariants."""
