"""One module for each command: its arguments, its help, and what it does.

At its top a module imports Click and what needs no more, so that help, wrong options and
completion answer at once; what a command works with it imports when it runs.
"""
