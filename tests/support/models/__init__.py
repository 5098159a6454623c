"""What a table must hold, in plain Python: what the real code is compared with."""
