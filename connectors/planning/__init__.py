"""Planning: a table, what is asked of it, and the abilities of its connector make what runs."""
