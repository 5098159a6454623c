"""The form of every command: its table, its common options, its help, and the list of all."""
