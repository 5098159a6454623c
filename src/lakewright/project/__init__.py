"""A project of one's own: makes its files, and serves it in the Dagster UI.

New file of a new project: `template/`.
"""
