"""The nouns of the format: frozen values and total functions, standard library only.

New data type: `data_types.py`, then each use of `TypeRoot` (grep; mypy does not see all), outside
of `storage/` too.
New table option: one row, in `options.py` or `merge_option_rows.py` if it is obeyed, else in
`ignored_options.py` or `refused_options.py`; its kind is in `option_values.py`.
New distribution of rows: `table_distribution.py`, its meaning in `bucketing.py`, its change in
`operations/schema/distribute.py`, its words in `sql/grammar/distribution.py`.
"""
