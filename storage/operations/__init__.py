"""The verbs: a pure `plan_…` and a `run_…` each; one door commits, one door deletes.

An operation over live files begins with `state_at` or `latest_state`, and takes `ANY_KEYS` only if
it reads files of other partition keys right. What it commits is a function of a `TableState`.
New verb: a file with a class of options, `plan_…`, `run_…` and a `Plan` that names its result, in
its room; its change of a snapshot in `commit/commit.py`; a `Verb` in `storage/upkeep.py`
(`history.py` for verbs of `references/`); the rest in `platform/upkeep/`.
New kind of option: a `Kind` in `running/verb_options.py`.
"""
