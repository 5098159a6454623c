"""From a planned scan, or from a key, to rows."""
