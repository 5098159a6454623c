"""The write path: sources, validation, publication."""
