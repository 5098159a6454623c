"""The grammar of all commands: table, common options, help, and the list of commands."""
