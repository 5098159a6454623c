"""What keeps a table in shape: its health, what is due, and the doing of it.

New verb: a `Verb` value in a file here (options with their kinds, command, effect, why it is not
undone, measures), a line in `verbs.py`, then `tools/write_verb_index.py` and `make reference`;
cases in `tests/unit/platform/upkeep/test_verb.py` and `tests/faults/verbs.py`. Command, job, run
config, MCP and notes of undo follow.
New kind of option: a `Kind` in `options.py`.
"""
