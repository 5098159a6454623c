"""Files of other systems: where they are, how they are read, and which of their rows are bad.

`location` finds files and the values that their paths say, `reader` makes rows of one file, and
`codec/conform.py` judges their values. Declared sources, streams of files, the connector
`filesystem`, format tables, `merge --from` and replays read their files here.

New format: a reading in `pieces.py`, options in `file_form.py`, cases in
`tests/unit/session/test_doors.py`.
Texts of rejected rows: `row_texts.py`; exact values of Avro: `codec/avro_values.py`.
"""
