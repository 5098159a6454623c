"""Which process works on a table, and until when."""
