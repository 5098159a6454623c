"""Creates tables."""
