"""A module that cannot be imported: whatever imports it ahead of its work ends."""

raise RuntimeError("not to be imported")
