"""Creates tables, and alters their schemas.

New change: `spec/schema_change.py`, `schema_change_text.py`, `schema_evolution.py` and
`schema_difference.py`, the three lists of `storage/__init__.py`, `platform/upkeep/alter.py`,
`platform/tables/declared_changes.py`.
New refusal: `spec/column_uses.py` or `option_changes.py`.
New finding: a finder over `proposed_schema.py`, listed in `gate.py`, its rule in
`spec/schema_gate.py` and `docs/how-to/schema-gate.md`; gaps of clients: `spec/reader_support.py`.
"""
