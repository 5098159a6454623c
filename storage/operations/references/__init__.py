"""The roots that keep files: snapshots, tags, branches, changelogs; and rollback to a root."""
