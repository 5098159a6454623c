"""What the tests of commits and deletions notice: the code with one small fault in it at a time."""
