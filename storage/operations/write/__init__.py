"""From rows to staged files, which no snapshot names yet, and the proof that they hold the rows."""
