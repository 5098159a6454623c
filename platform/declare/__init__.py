"""What people declare of their tables: YAML, checked, as values."""
