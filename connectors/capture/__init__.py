"""What the captures of databases share: chunks, options, new columns, what positions rest on.

New capture of a database's log: a package beside this one, over these modules and `rests.py`; its
suite in `tests/stores`.
"""
