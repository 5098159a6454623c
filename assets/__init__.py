"""The assets of the declarations, with their partitions and checks."""
