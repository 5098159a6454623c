"""What is due: surveys of tables, decisions under a budget, and upkeep by them.

New verb of policies: its `Keeping` in the `Procedure`, a section in `tables/upkeep_policies.py`, a
method in `decide.py`; `python -m tests.pipelines.describe` writes what Dagster shows.
New figure: `survey.py` and `take_survey.py` (of buckets, `operations/state/bucket_columns.py`); to
follow it, a field of `HealthFigures`.
New alert: a value of `AlertEvent`, found in `alerts.py` or by a sensor, and
`docs/how-to/alerts.md`. Report: `report.py`, `report_plots.py`, `report.html`, `report.js`.
"""
