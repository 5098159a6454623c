"""Tables as they are declared: columns, partitions, sources, checks, and their upkeep.

New kind of source: a key of `SourceDeclaration`, its check in `declaration_checks.py`, its files in
`platform/ingest/source_files.py`.
New key of a policy: a described field in `upkeep_policies.py`, `setting_text.py` for what holds
without it, `maintenance_checks.py`, then `make reference`.
New key of a table's life: `refresh.py`, `refresh_checks.py`, `orchestration/refresh.py`. What a
wrong declaration still shows: `declaration_watch.py`.
"""
