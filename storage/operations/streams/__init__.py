"""Streams: their batches are committed once each, and partitions that are over are marked."""
