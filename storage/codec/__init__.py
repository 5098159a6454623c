"""Bytes on disk ↔ nouns: rows, manifests, schemas, snapshots, Arrow types."""
