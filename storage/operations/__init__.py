"""The verbs: a pure `plan_…` and a `run_…` each; one door commits, one door deletes."""
