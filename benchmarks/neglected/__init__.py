"""A neglected warehouse of other clients' tables, adopted and brought to health; what it cost.

`python -m benchmarks.neglected FOLDER` does all of it and prints what it cost and saved
(`benchmarks/results/neglected.md`).
"""
