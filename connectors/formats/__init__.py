"""Formats: bytes of one record, or of a file of records, as rows and back; a module each.

New format: a module with its factory, over `json_columns.py` or `csv_values.py` where it can be,
and `file_form` if its files are read as those of a source; a line in `built_in.py`; cases in
`test_round_trips.py`, `test_damaged_messages.py` and `tests/flink`.
"""
