"""What may be done to a table: one module a verb, with its sensor or schedule."""
