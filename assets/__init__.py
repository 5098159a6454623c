"""What exists: the assets that declarations stand for, their partitions and checks."""
