"""The output of commands: text, tables and progress for people, JSON and CSV for programs."""
