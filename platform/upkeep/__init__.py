"""What keeps a table in shape: its health, what is due, and the doing of it.

New verb: a `Procedure` in a file here (report, measures, command) over the `Verb` of storage, a
line in `procedures.py`, then `tools/write_verb_index.py` and `make reference`; cases in
`tests/unit/platform/upkeep/test_procedure.py` and `tests/faults/verbs.py`. Command, job, run
config, MCP and notes of undo follow.
New option of a verb: a field of its class of options in storage; of its runs alone, a field of the
procedure's class.
"""
